"""What counts as acting: changed elements, dropped elements, things recalled that a blank memory would not recall."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from podium.core.activity import activity, changed_elements, label, recalled_elements
from podium.core.batch import Batch
from podium.memories import PassRates
from podium.methods import get
from podium.parts.keep import KeepMixed
from podium.parts.objective import Clip, PolicyGradient
from podium.sessions.train import train


def batch() -> Batch:
    return Batch.from_rewards([1.0, 0.0, 0.5, 0.0], group=["a", "a", "b", "b"])


def test_changed_elements_are_those_that_differ_from_before() -> None:
    rewards = torch.tensor([1.0, 0.25, 0.5, 0.25])
    assert changed_elements(batch(), {"rollout.reward": rewards}) == 2
    assert changed_elements(batch(), {"rollout.bonus": rewards}) == 4
    assert changed_elements(batch(), {"rollout.bonus": torch.zeros(4)}) == 0
    assert changed_elements(batch(), {"group.keep": torch.tensor([True, False])}) == 1
    assert changed_elements(batch(), {"group.keep": torch.tensor([True, True])}) == 0
    assert changed_elements(batch(), {"rollout.text": ["", "x", "", "y"]}) == 2
    undefined = batch().with_columns({"rollout.note": torch.tensor([float("nan")] * 4)})
    assert changed_elements(undefined, {"rollout.note": torch.tensor([float("nan")] * 4)}) == 0


def test_a_memory_acts_on_what_a_blank_one_would_not_recall() -> None:
    memory = PassRates()
    assert recalled_elements(memory, memory.initial(), ["a", "b"]) == 0
    known = batch().with_columns({"rollout.correct": torch.tensor([1.0, 0.0, 0.0, 0.0])})
    state = memory.observe(memory.initial(), known)
    assert recalled_elements(memory, state, ["a", "never seen"]) > 0
    assert recalled_elements(memory, state, ["never seen"]) == 0


def test_names_say_the_stage() -> None:
    assert label(KeepMixed()) == "keep.KeepMixed"
    assert label(PassRates()) == "memories.PassRates"


def test_iterations_are_counted_by_part() -> None:
    lines = [{"acted": {"keep.A": 0, "shape.B": 3}}, {}, {"acted": {"keep.A": 0, "shape.B": 0}}]
    assert activity(lines) == {"keep.A": (0, 2), "shape.B": (1, 2)}


@pytest.mark.parametrize(("mini_batches", "clipped"), [(1, False), (4, True)])
def test_a_clip_acts_only_with_several_updates(tmp_path: Path, mini_batches: int, clipped: bool) -> None:
    method = get("grpo", kl=0.0, n=4).set("updates.mini_batches", mini_batches)
    method = method.with_(objective=PolicyGradient(clip=Clip(0.01, 0.01)))
    small = {"eval_tasks": 2, "eval_samples": 1, "checkpoint_every": 0, "eval_every": 0}
    told: list[str] = []
    result = train(
        method, out=tmp_path / "run", world="sums", level=2, tasks=4, iterations=2, lr=1e-3, tell=told.append, **small
    )
    counts = activity(result.metrics)
    assert counts["objective.PolicyGradient"] == (2, 2)
    assert (counts["objective.clip"][0] > 0) == clipped
    assert any("has nothing to clip" in note for note in told) != clipped
