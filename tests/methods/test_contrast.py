"""GCPO of GeometryZero: a feature of the answer is rewarded where it helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.parts.annotate import MatchPatterns
from podium.parts.reward import ColumnBonus, ContrastiveFeature
from tests.conformance.helpers import credited
from tests.methods.support import credit, rewards, short_run

WITH, WITHOUT = [1, 1, 0, 1], [0, 0, 1, 0]


def question(accuracy: list[float], length: int = 512) -> Batch:
    """Four rollouts that use the tool and four that do not, all in the right format."""
    return rewards(
        accuracy,
        rollout__correct=[float(a) for a in accuracy],
        rollout__feature=[1.0] * 4 + [0.0] * 4,
        rollout__format=[1.0] * 8,
        rollout__length=[float(length)] * 8,
    )


def gcpo(**settings: Any) -> Any:
    method = methods.gcpo_geometryzero(imitate=0, length_reference=1024, **settings)
    return method.with_(annotate=())  # the marks are given here


def test_gcpo_worked_example() -> None:
    after = credited(gcpo(), question(WITH + WITHOUT))
    assert after["rollout.reward"].tolist() == pytest.approx([2.05, 2.05, 1.05, 2.05, 0.55, 0.55, 1.55, 0.55])
    expected = [1.06066, 1.06066, -0.35355, 1.06066, -1.06066, -1.06066, 0.35355, -1.06066]
    assert after["rollout.advantage"].tolist() == pytest.approx(expected, abs=1e-5)


def test_gcpo_swapping_the_accuracies_flips_the_reward_of_the_tool_and_equal_ones_remove_it() -> None:
    for accuracy, sign in ((WITH + WITHOUT, 1), (WITHOUT + WITH, -1), (WITH + WITH, 0)):
        bonus = credited(gcpo(), question(accuracy))["rollout.reward.contrast"]
        assert bonus.tolist() == [0.5 * sign] * 4 + [0] * 4


def test_gcpo_a_group_without_both_kinds_has_no_contrast() -> None:
    batch = question(WITH + WITHOUT).with_columns({"rollout.feature": torch.ones(8).double()})
    assert credited(gcpo(), batch)["group.contrast"].tolist() == [0]


def test_gcpo_with_a_margin_of_one_is_grpo_with_format_and_length_rewards() -> None:
    batch = question(WITH + WITHOUT)
    assert_close(credit(gcpo(margin=1.0), batch), credit(methods.grpo(kl=0), batch))  # both are equal for all here


def test_gcpo_rewards_the_tool_as_an_unconditional_bonus_does_only_where_it_helps() -> None:
    always = gcpo()
    always = always.with_(reward=(ColumnBonus("rollout.feature", 0.5), *always.reward[1:]))
    for accuracy, same in ((WITH + WITHOUT, True), (WITHOUT + WITH, False), (WITH + WITH, False)):
        found, bonus = (credited(method, question(accuracy))["rollout.reward"] for method in (gcpo(), always))
        assert torch.allclose(found, bonus) == same


def test_gcpo_one_rollout_has_nothing_to_be_compared_with() -> None:
    assert credit(gcpo(), question(WITH + WITHOUT).take("rollout", torch.tensor([0]))).tolist() == [0]


def test_marks_are_patterns_in_the_text() -> None:
    batch = rewards([0, 0], rollout__text=("a <aux>", "answer: 3"))
    found = MatchPatterns((("tool", "<aux>"), ("format", "(?m)^answer:")))(batch)
    assert {name: x.tolist() for name, x in found.items()} == {"rollout.tool": [1, 0], "rollout.format": [0, 1]}
    with pytest.raises(PodiumError, match="cannot be read"):
        MatchPatterns((("bad", "("),))


def test_gcpo_needs_to_know_who_is_right() -> None:
    assert "rollout.correct" in str(methods.gcpo_geometryzero(imitate=0).check())
    assert ContrastiveFeature("rollout.feature").needs == ("rollout.reward", "rollout.feature", "rollout.correct")


def test_gcpo_trains_on_a_feature_that_some_answers_have(tmp_path: Path) -> None:
    method = methods.gcpo_geometryzero(n=12, imitate=0, asks=None, feature=r"\n.*\n.*\n", margin=0.0)
    lines = short_run(method, tmp_path / "run", level=2).metrics[1:]
    assert any(0 < line["feature"] < 1 for line in lines)
    assert any(line["reward.contrast"] != 0 for line in lines)
    assert {"reward.format", "reward.length", "contrast"} <= set(lines[-1])
