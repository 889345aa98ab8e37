"""The smallest cases of parts and memories, by numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.signal import Signal
from podium.memories import ToolGains
from podium.parts.advantage import NestedHistories
from podium.parts.annotate import TurnCritic
from podium.parts.objective.turn_critic import OLD, TARGET
from podium.parts.reward import BeliefGain, JudgedSearch, MetaReasoning, StepRewards, WithinLength
from podium.parts.select import HardFocus, HardMix, NotMastered
from podium.parts.shape import AlignExpert
from podium.parts.updates import FixedSize
from tests.batches import sampled


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def turns(rows: list[dict[str, object]], **columns: object) -> Rollout:
    return Rollout("a", [Turn([0], columns=row) for row in rows], columns={"reward": 0.0, **columns})


def test_the_gain_of_a_tool_is_what_its_rollouts_have_gained() -> None:
    memory = ToolGains(tools=2, start=0.0, decay=0.75)
    columns = {
        "rewritten": torch.tensor([True, True, False, True]),
        "reward_before": numbers(0.25, 0.0, 0.0, 0.0),
        "tool": torch.tensor([0, 0, 0, 1]),
    }
    state = memory.observe(memory.initial(), sampled([1.0, 0.25, 1.0, 1.0], [0] * 4, ["a"], probes=(3,), **columns))
    assert state["gains"] == pytest.approx([0.25 * (0.75 + 0.25) / 2, 0.0])
    assert state["iteration"] == 1


def test_what_is_left_to_ask_is_the_entropy_in_the_end() -> None:
    prior = ((0.5, 0.5), (0.25,) * 4)
    said = [{"allowed": {0: (0,)}, "asked": "a"}, {"allowed": {1: (0, 1)}, "asked": ""}]
    batch = Batch.from_rollouts([turns(said, belief=prior)], dtype=torch.float64)
    found = BeliefGain("bits")(batch)
    assert found["turn.reward.gain"].tolist() == pytest.approx([1.0, 1.0])
    assert found["rollout.uncertainty"].tolist() == pytest.approx([1.0])
    assert found["turn.asking"].tolist() == [True, False]


def test_the_mean_over_a_single_judgement_is_the_judgement() -> None:
    batch = Batch.from_rollouts(
        [turns([{"judged": "yes", "useful": 1.0, "searched": True}, {"judged": "", "useful": 0.0, "searched": False}])],
        dtype=torch.float64,
    )
    part = JudgedSearch(match=0.5, mean=True, gamma=1.0, obey=False)
    assert part(batch)["rollout.reward.judged"].tolist() == [0.5]


def test_an_answer_of_the_allowed_length_is_short() -> None:
    batch = sampled([1.0, 1.0, 0.0], [0] * 3, ["a"], length=numbers(4, 5, 4))
    assert WithinLength(max_length=4)(batch)["rollout.reward.short"].tolist() == [1.0, 0.0, 1.0]
    assert WithinLength(max_length=4, when_right=True)(batch)["rollout.reward.short"].tolist() == [1.0, 0.0, 0.0]


def test_the_outcome_of_steps_is_scaled_and_malformed_ones_pay() -> None:
    rows = [{"tag": "planning", "action": x, "valid": True, "formed": x != "b"} for x in "ab"]
    rollouts = [Rollout("a", [Turn([0], columns=row) for row in rows], columns={"reward": r}) for r in (1.0, 0.5)]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    found = MetaReasoning(valid="step.formed", scale=4.0, malformed=0.25)(batch)["step.reward.outcome"]
    assert found.tolist() == [4.0, 3.75, 2.0, 1.75]


def test_rewards_at_tokens_of_the_world_do_not_enter_a_step() -> None:
    turn = Turn([1, 2, 3], origin=[Origin.given, Origin.policy, Origin.policy])
    batch = Batch.from_rollouts([Rollout("a", [turn], columns={"reward": 0.0})], dtype=torch.float64)
    batch = batch.with_columns({"token.reward.process": numbers(8.0, 1.0, 2.0)})
    assert StepRewards()(batch)["token.reward.process"].tolist() == [0.0, 0.0, 3.0]


def test_a_share_of_a_small_pool_is_at_least_one_task() -> None:
    columns = {
        "group.sweep.rates": numbers(0.5, 0.25, 0.75)[:, None],
        "batch.sweep.phase": torch.zeros(1),
        "group.number": torch.arange(3),
    }
    assert HardFocus(keep=(0.1,), pool=None)(columns).tolist() == [0.0, 1.0, 0.0]
    assert HardFocus(keep=(1,), pool=None)(columns).tolist() == [0.0, 1.0, 0.0]  # a number of tasks, not a share


def test_a_task_that_has_reached_the_rate_is_not_drawn_again() -> None:
    found = NotMastered(at_least=0.5)({"group.pass_rate.highest": numbers(0.25, 0.5, 0.75)})
    assert found.tolist() == [1.0, 0.0, 0.0]
    assert NotMastered(at_least=0.5)({"group.pass_rate.highest": numbers(0.5, 0.75)}).tolist() == [1.0, 1.0]


def test_a_single_hard_task_has_the_whole_share() -> None:
    columns = {"group.sweep.rates": numbers(0.0, 1.0, 1.0)[:, None], "batch.sweep.phase": torch.zeros(1)}
    assert HardMix(share=0.5)(columns).tolist() == pytest.approx([0.5, 0.25, 0.25])
    columns["group.sweep.rates"] = numbers(0.0, 0.0)[:, None]
    assert HardMix(share=0.5)(columns).tolist() == pytest.approx([0.5, 0.5])


def test_mini_batches_may_have_a_single_rollout() -> None:
    batch = sampled([0.0] * 2, [0, 0], ["a"], sampled=torch.tensor([True, True]))
    assert [len(update) for update in FixedSize(mini_batches=2)(batch)] == [1, 1]


def test_comparisons_that_are_0_are_left_out_of_the_weights() -> None:
    """Two steps from the same state with the returns 0 and 1: mean 1/2, population std 1/2."""
    batch = Batch.from_rollouts([turns([{"state": "s", "reward": r}]) for r in (0.0, 1.0)], dtype=torch.float64)
    found = NestedHistories(history=0, epsilon=0.0)(batch)["step.advantage"]
    assert found.tolist() == pytest.approx([-1.0, 1.0])
    equal = Batch.from_rollouts([turns([{"state": "s", "reward": 1.0}]) for _ in range(2)], dtype=torch.float64)
    assert NestedHistories(history=0, epsilon=0.0)(equal)["step.advantage"].tolist() == [0.0, 0.0]


def test_the_first_rollout_of_a_batch_may_be_the_expert() -> None:
    rollouts = [
        Rollout("a", [Turn([1, 2])], columns={"reward": 0.0, "purpose": int(Purpose.baseline)}),
        Rollout("a", [Turn([1, 2, 3])], columns={"reward": 0.0, "purpose": int(Purpose.train)}),
        Rollout("b", [Turn([1])], columns={"reward": 0.0, "purpose": int(Purpose.train)}),
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    logp = numbers(-1.0, -2.0, -9.0, -9.0, -9.0, -7.0)
    batch = batch.with_columns({Signal("logp", of="old"): logp})
    found = AlignExpert()(batch)
    assert found["token.expert.logp"].tolist() == [-1.0, -2.0, -1.0, -2.0, 0.0, 0.0]
    skipped = AlignExpert(past_end="skip")(batch)["token.guided"].tolist()
    assert skipped == [True, True, True, True, False, False]


def test_the_values_of_a_turn_and_what_they_are_drawn_to() -> None:
    """Two turns of two tokens: Q at the last, V at the first; y = r + gamma · V̄ of the next turn."""
    rows = [{"reward": 1.0, "done": False}, {"reward": 2.0, "done": True}]
    rollout = Rollout("a", [Turn([1, 2], columns=row) for row in rows], columns={"reward": 3.0})
    batch = Batch.from_rollouts([rollout], dtype=torch.float64)
    old = {"q1": (0, 1, 0, 2), "q2": (0, 3, 0, 4), "v1": (5, 0, 6, 0), "v2": (7, 0, 8, 0)}
    slow = {"q1": (0, 10, 0, 20), "q2": (0, 30, 0, 40), "v1": (50, 0, 60, 0), "v2": (70, 0, 80, 0)}
    columns = {OLD[n]: numbers(*x) for n, x in old.items()} | {TARGET[n]: numbers(*x) for n, x in slow.items()}
    found = {name: x.tolist() for name, x in TurnCritic(gamma=0.5)(batch.with_columns(columns)).items()}
    assert found["turn.q1"] == [1.0, 2.0]
    assert found["turn.v2"] == [7.0, 8.0]
    assert found["turn.q1.target"] == [1.0 + 0.5 * 60, 2.0]
    assert found["turn.q2.target"] == [1.0 + 0.5 * 80, 2.0]
    assert found["turn.v1.target"] == [10.0, 20.0]
    assert found["turn.v2.target"] == [30.0, 40.0]
