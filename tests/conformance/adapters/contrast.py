"""Rewarding a way to answer where it helps."""

from __future__ import annotations

from typing import Any

from podium import methods
from podium.core.batch import Batch
from podium.parts.reward import ContrastiveFeature
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited
from tests.conformance.registry import adapter


@adapter("gcpo-geometryzero")
def gcpo_geometryzero(case: Case) -> dict[str, Any]:
    settings = case.given(
        margin="margin",
        format_weight="w_format",
        feature_weight="w_aux",
        length_weight="w_length",
        length_reference="length_ref",
    )
    method = configured(case, methods.gcpo_geometryzero(imitate=0, **settings), {"epsilon": "advantage.epsilon"})
    method = method.with_(annotate=())  # the marks come with the case
    accuracy = case.tensor("accuracy")
    columns = {
        "rollout.correct": accuracy,
        "rollout.feature": case.tensor("used_auxiliary"),
        "rollout.format": case.tensor("format_ok"),
        "rollout.length": case.tensor("lengths"),
    }
    batch = Batch.from_rewards(accuracy, [0] * len(accuracy), columns)
    contrast = method.reward[0]
    assert isinstance(contrast, ContrastiveFeature)
    after = credited(method, batch)
    return {
        "accuracy_gap": contrast.gap(batch)[0],
        "mask": after["group.contrast"][0],
        "reward": after["rollout.reward"],
        "advantage": after["rollout.advantage"],
    }
