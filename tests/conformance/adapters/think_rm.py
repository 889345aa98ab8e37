"""Advantages from a pairwise judge."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core import Relation
from podium.core.batch import Batch
from tests.conformance.case import Case
from tests.conformance.helpers import in_blocks
from tests.conformance.registry import adapter


@adapter("think-rm")
def think_rm(case: Case) -> dict[str, Any]:
    left, right, difference = case.tensor("pairs").reshape(-1, 3).unbind(1)
    pairs = Relation("rollout", left.long(), right.long(), {"difference": difference})
    group = torch.tensor(in_blocks(case["n"], case["group_size"]))
    batch = Batch({("rollout", "group"): group}, relations={"pair": pairs})
    method = methods.think_rm(**case.given(epsilon="epsilon"))
    return {"advantages": method.advantage(batch)["rollout.advantage"]}
