"""Memories of tasks: what a batch adds to them, and what they recall, by numbers worked out by hand.

Groups of one task are one visit of it; rollouts that do not count (probes) leave no trace.
"""

from __future__ import annotations

import math

import pytest
import torch

from podium.core import Table
from podium.core.errors import PodiumError
from podium.memories import (
    BetaBeliefs,
    DomainRewards,
    HintLevels,
    HintRates,
    LastHints,
    PassRates,
    ScoreHistory,
    SuccessPrior,
    SuccessTracker,
    Sweeps,
    TaskDifficulty,
    Trajectories,
)
from tests.batches import ONLY_PROBES, sampled

# Task a: two groups with the rewards 1, 0 and 1 (and a probe that succeeds); task b: one group, 0 and a probe.
REWARDS, GROUPS, TASKS, PROBES = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0, 0, 1, 1, 2, 2], ["a", "a", "b"], (3, 5)


def test_beliefs_count_what_counts_and_fade() -> None:
    memory = BetaBeliefs(decay=0.5, decay_rest=0.9, prior_successes=1.0, prior_failures=1.0)
    state = {"counts": Table({"a": (3.0, 5.0), "c": (11.0, 1.0)}, default=(1.0, 1.0))}
    after = memory.observe(state, sampled(REWARDS, GROUPS, TASKS, PROBES))["counts"].rows
    # a: 1 + ½·(3 − 1) + 2 successes, 1 + ½·(5 − 1) + 1 failure; b: 1 + 0, 1 + 1; c: 1 + 0.9·(11 − 1), 1.
    assert after["a"] == pytest.approx((4.0, 4.0))
    assert after["b"] == pytest.approx((1.0, 2.0))
    assert after["c"] == pytest.approx((10.0, 1.0))
    # A share of a success is a share of a failure, too.
    half = memory.observe(memory.initial(), sampled([0.0], [0], ["a"], correct=torch.tensor([0.25])))["counts"].rows
    assert half["a"] == pytest.approx((1.25, 1.75))
    assert memory.observe(memory.initial(), ONLY_PROBES)["counts"].rows == {}


def test_the_prior_of_a_task_is_its_rate_shrunk_to_that_of_all() -> None:
    memory = SuccessPrior(weight=2.0)
    state = memory.observe(memory.initial(), sampled(REWARDS, GROUPS, TASKS, PROBES))
    # All: 2 right of 4, so (2 + 1) / (4 + 2) = ½. a: 2·(2 + 2·½) / (3 + 2) − 1; b: 2·(0 + 1) / (1 + 2) − 1; new: 0.
    assert state["all"].tolist() == [2.0, 4.0]
    assert memory.recall(state, ["a", "b", "c"])["group.prior"].tolist() == pytest.approx([0.2, -1 / 3, 0.0])
    state = memory.observe(state, sampled([1.0, 1.0], [0, 0], ["a"]))
    # All: 4 of 6, so 5 / 8. a: 2·(4 + 1.25) / (5 + 2) − 1 = ½.
    assert state["counts"].rows["a"] == (4.0, 5.0)
    assert memory.recall(state, ["a"])["group.prior"].tolist() == pytest.approx([0.5])


def test_the_tracker_forgets_by_the_shift_of_the_policy() -> None:
    memory = SuccessTracker(half_life=1.0, rho_min=0.25, rho_max=1.0)
    state = {"counts": Table({"a": (2.0, 4.0), "b": (1.0, 1.0)}, default=(0.5, 0.5))}
    shift = torch.tensor([0.5, 1.5, 5.0], dtype=torch.float64)  # of groups; the mean of a's is 1: a half-life
    batch = sampled(REWARDS, GROUPS, TASKS, PROBES, **{"group.policy_shift": shift})
    after = memory.observe(state, batch)["counts"].rows
    # a: ½·(2, 4) + (⅔, ⅓); b: the smallest factor, ¼·(1, 1) + (0, 1).
    assert after["a"] == pytest.approx((1 + 2 / 3, 2 + 1 / 3))
    assert after["b"] == pytest.approx((0.25, 1.25))
    nothing = sampled([1.0], [0], ["a"], (0,), **{"group.policy_shift": torch.tensor([1.0])})
    assert memory.observe(state, nothing)["counts"].rows["a"] == (2.0, 4.0)
    for reward in (-0.5, 1.5):
        with pytest.raises(PodiumError, match="must lie in"):
            memory.observe(state, sampled([reward], [0], ["a"], **{"group.policy_shift": torch.tensor([1.0])}))


def test_hint_levels_rise_after_failures_and_fall_after_successes() -> None:
    memory = HintLevels(low=0.1, high=0.5, most=3)
    level = torch.tensor([1.0, 1.0, 2.0, 3.0, 0.0, 0.0])
    state = memory.observe(memory.initial(), sampled(REWARDS, GROUPS, TASKS, PROBES, **{"rollout.help.level": level}))
    # a: 2 of 3 right at level 2 (the probe's 3 does not count); b: none right at level 0.
    assert state["visits"].rows["a"] == pytest.approx((2.0, 2 / 3))
    assert state["visits"].rows["b"] == (0.0, 0.0)
    assert memory.recall(state, ["a", "b", "c"])["group.hint.level"].tolist() == [1.0, 1.0, 0.0]
    unseen = sampled([1.0], [0], ["a"], (0,), **{"rollout.help.level": torch.tensor([3.0])})
    assert memory.observe(state, unseen) == state


def test_the_last_hints_are_those_that_were_shown() -> None:
    memory = LastHints()
    hints = [("weak", "strong"), (), (), ("other",), (), ()]
    state = memory.observe({"hints": {"b": ("old",), "c": ("kept",)}}, sampled(REWARDS, GROUPS, TASKS, hints=hints))
    assert state == {"hints": {"a": ("weak", "strong"), "b": ("old",), "c": ("kept",)}}
    assert memory.recall(state, ["c", "a", "d"])["group.hints"] == (("kept",), ("weak", "strong"), ())


def test_the_next_hint_rate_is_the_largest_that_counts() -> None:
    memory = HintRates()
    rate = torch.tensor([0.2, 0.2, 0.6, 0.9, 0.4, 1.0], dtype=torch.float64)
    state = memory.observe(memory.initial(), sampled(REWARDS, GROUPS, TASKS, PROBES, **{"rollout.help.next": rate}))
    assert memory.recall(state, ["a", "b"])["group.hint.rate"].tolist() == pytest.approx([0.6, 0.4])
    assert memory.recall(state, ["c"])["group.hint.rate"].tolist() == [-1.0]


def test_pass_rates_keep_the_last_visits() -> None:
    memory = PassRates(keep=2)
    state = memory.initial()
    for rewards in ([0.0, 0.0], [1.0, 0.0], [1.0, 1.0]):
        state = memory.observe(state, sampled(rewards, [0, 0], ["a"]))
    assert state["rates"] == {"a": (0.5, 1.0)}
    known = memory.recall(state, ["a", "b"])
    assert known["group.visits"].tolist() == [2.0, 0.0]
    assert known["group.pass_rate.last"].tolist() == [1.0, 0.5]
    assert known["group.pass_rate.spread"].tolist() == pytest.approx([0.25, 0.0])
    assert known["group.pass_rate.mixed"].tolist() == [0.5, 0.0]  # one of two visits had both outcomes
    assert memory.recall({"rates": {"a": (0.0, 1.0)}}, ["a"])["group.pass_rate.mixed"].tolist() == [0.0]


def test_a_phase_ends_after_its_iterations_and_the_last_does_not() -> None:
    memory = Sweeps(iterations=(2, 1))
    measuring = sampled([1.0, 0.0], [0, 0], ["a"])
    state = memory.observe(memory.initial(), measuring)
    assert (state["rates"].rows["a"], state["phase"], state["done"]) == ((0.5, -1.0), 0, 0)
    state = memory.observe(state, sampled([1.0], [0], ["a"]))
    assert (state["phase"], state["done"]) == (0, 1)
    state = memory.observe(state, sampled([1.0], [0], ["a"]))
    assert (state["phase"], state["done"]) == (1, 0)
    state = memory.observe(state, sampled([1.0], [0], ["a"]))
    assert state["rates"].rows["a"] == (0.5, 1.0)
    for done in (1, 2, 3):
        state = memory.observe(state, measuring)
        assert (state["phase"], state["done"]) == (1, done)
    assert memory.recall(state, ["a"])["batch.sweep.phase"].tolist() == [1.0]
    assert memory.observe(state, ONLY_PROBES) == state


def test_difficulty_is_the_last_mean_reward() -> None:
    memory = TaskDifficulty(window=2)
    state = memory.observe(memory.initial(), sampled(REWARDS, GROUPS, TASKS, PROBES))
    # a: ⅔ over both groups; b: 0; all that count: 2 of 4.
    assert state["tasks"].rows["a"] == pytest.approx((2 / 3,))
    assert state["tasks"].rows["b"] == (0.0,)
    assert state["means"] == [0.5]
    state = memory.observe(memory.observe(state, sampled([1.0], [0], ["b"])), sampled([0.0], [0], ["b"]))
    assert state["means"] == [1.0, 0.0]
    unseen = memory.observe(state, sampled([1.0], [0], ["b"], (0,)))
    assert unseen["tasks"].rows["b"] == (0.0,)
    assert unseen["means"] == [1.0, 0.0]
    solved = memory.observe(state, sampled([1.0], [0], ["b"]))
    assert memory.observe(solved, sampled([0.0], [0], ["b"], (0,)))["tasks"].rows["b"] == (1.0,)


def test_trajectories_grow_by_the_pass_rate_of_each_visit() -> None:
    memory = Trajectories()
    marks = {"group.labelled": torch.tensor([True, True, False]), "group.top": torch.tensor([False, False, True])}
    state = memory.observe(memory.initial(), sampled(REWARDS, GROUPS, TASKS, PROBES, **marks))
    assert state["curves"] == {"a": pytest.approx((2 / 3,)), "b": (0.0,)}
    assert state["labelled"] == {"a": pytest.approx((2 / 3,))}
    assert state["top"] == {"b": (0.0,)}
    again = {"group.labelled": torch.tensor([True]), "group.top": torch.tensor([False])}
    state = memory.observe(state, sampled([1.0], [0], ["a"], **again))
    known = memory.recall(state, ["a", "c"])
    assert known["group.curve"] == (pytest.approx((2 / 3, 1.0)), ())
    (references,) = known["batch.references"]
    assert references == (pytest.approx((2 / 3, 1.0)), (0.0,))


def test_scores_of_the_last_tasks_shrink_to_a_half() -> None:
    memory = ScoreHistory(support=2)
    state = memory.initial()
    for task, rewards in (("a", [1.0, 1.0]), ("b", [1.0, 0.0]), ("c", [1.0, 1.0, 1.0, 0.0])):
        batch = sampled(rewards, [0] * len(rewards), [task], prompt=[f"what is {task}"] * len(rewards))
        state = memory.observe(state, batch)
    assert state["scores"] == (("what is b", 0.5), ("what is c", 0.75))
    # (0.5 + 0.75 + 1) / (2 + 2) = 0.5625, and as a prior 2·0.5625 − 1.
    known = memory.recall(state, ["x", "y"])
    assert known["group.value"].tolist() == pytest.approx([0.5625, 0.5625])
    assert known["group.prior"].tolist() == pytest.approx([0.125, 0.125])
    assert memory.recall(memory.initial(), ["x"])["group.value"].tolist() == pytest.approx([0.5])


def test_deficits_are_taken_every_few_iterations() -> None:
    memory = DomainRewards(size=2, decay="none", every=2)
    batch = sampled([1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], ["a", "b"], (3,), domain=["x", "x", "y", "y"])
    first = memory.observe(memory.initial(), batch)
    assert (first["iteration"], first["deficit"]) == (1, {})
    assert first["buffer"] == [{"x": (1.0, 2.0), "y": (1.0, 1.0)}]
    second = memory.observe(first, batch)
    # Means ½ and 1 against a target of 1 (two batches of two).
    assert second["deficit"] == pytest.approx({"x": 0.5, "y": 0.0})
    known = memory.recall(second, ["x", "y", "new"])
    assert known["group.domain.deficit"].tolist() == pytest.approx([0.5, 0.0, 1.0])
    assert known["group.domain.seen"].tolist() == [True, True, False]
    # With a single batch in the buffer the target is half of that.
    assert memory.recall(first, ["new"])["group.domain.deficit"].tolist() == pytest.approx([0.5])
    assert memory.recall(memory.initial(), ["new"])["group.domain.deficit"].tolist() == pytest.approx([0.5])
    assert memory.observe(second, sampled([1.0], [0], ["a"], (0,), domain=["x"])) == second
    assert not math.isnan(second["history"]["x"])
