"""Pairs of extremes and turns without effect, by hand."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.keep import DropVoidTurns, KeepExtremes
from podium.parts.shape import MarkWinners
from tests.batches import sampled


def test_the_best_and_the_worst_of_a_group_are_a_pair() -> None:
    batch = sampled([0.5, 1.0, 0.0, 1.0, 2.0, 2.0, 9.0], [0, 0, 0, 0, 1, 1, 0], ["a", "b"], probes=(6,))
    kept = KeepExtremes()(batch)["rollout.keep.extreme"].tolist()
    assert kept == [False, True, True, False, False, False, False]


def test_the_winner_of_a_group_is_better_than_another() -> None:
    batch = sampled([0.5, 1.0, 1.0, 2.0, 2.0, 9.0], [0, 0, 0, 1, 1, 0], ["a", "b"], probes=(5,))
    assert MarkWinners()(batch)["rollout.winner"].tolist() == [False, True, True, False, False, False]


def test_turns_without_a_call_are_left_out_unless_the_last_one_answers() -> None:
    rollouts = [
        Rollout("a", [Turn([0], columns={"calls": c}) for c in calls], columns={"answer": answer, "reward": 0.0})
        for calls, answer in ((("f()", "", "g()", ""), "7"), (("", "h()", ""), ""), (("",), "8"))
    ]
    kept = DropVoidTurns()(Batch.from_rollouts(rollouts, dtype=torch.float64))["turn.keep.void"]
    assert kept.tolist() == [True, False, True, True, False, True, False, True]
