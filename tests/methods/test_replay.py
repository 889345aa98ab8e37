"""Rollouts of earlier iterations that are trained again, and what stands beside them."""

from __future__ import annotations

import dataclasses
import math
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.memory import decode_state, encode_state
from podium.core.updates import Updates
from podium.core.value import Clock
from podium.memories import Monitor, PassRates, PriorityReplay, SuccessReplay
from podium.memories.replay import is_recent, reward_to_beat, subset_size
from podium.parts.annotate.degenerate import garbled, repetitive
from podium.parts.keep import DropVoidTurns, KeepVaried
from podium.parts.objective.preference import preference_loss
from podium.parts.shape import CentredKL, DropCovariant
from podium.parts.updates import SeparateUpdates
from podium.sessions.train import configure, resume
from podium.store.run_directory import RunDirectory
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.training.resolve import phase_rate
from podium.worlds import Feedback, Sums, Task
from tests.conformance.helpers import credited, differentiate
from tests.methods.catalogue import Laps, Wrong, lines, small
from tests.methods.support import short_run


def batch(rewards: list[float], advantages: list[float], name: str = "a", seed: int = 0) -> Batch:
    """A group of rollouts of one token each."""
    n = len(rewards)
    columns = {
        "rollout.reward": torch.tensor(rewards, dtype=torch.float64),
        "rollout.advantage": torch.tensor(advantages, dtype=torch.float64),
        "rollout.purpose": torch.zeros(n, dtype=torch.long),
        "token.old.logp": torch.full((n, 1), -1.0 - seed, dtype=torch.float64),
        "group.task": (name,),
    }
    return Batch.from_padded(torch.ones(n, 1), [name] * n, columns, seed=seed)


# -- what any buffer does ----------------------------------------------------------------------------------------------


def test_an_empty_buffer_replays_nothing_and_the_metrics_say_so() -> None:
    memory = PriorityReplay()
    assert memory.replay(memory.initial(), batch([1.0], [0.0])) is None
    found = lines(small("skywork-r1v2@stage-2"), Wrong(), iterations=2, max_tokens=1)
    assert [line["replayed"] for line in found] == [0, 0]
    assert [line["replay.stored"] for line in found] == [0.0, 0.0]


def test_replayed_rollouts_keep_the_log_probabilities_of_their_time_and_stay_out_of_statistics() -> None:
    memory = PriorityReplay(weight=0.5)
    state = memory.observe(memory.initial(), batch([1.0, 0.0], [1.0, -1.0], seed=1))
    again = memory.replay(state, batch([0.0, 0.0], [0.0, 0.0], seed=2))
    assert again is not None
    assert again["token.old.logp"].tolist() == [-2.0, -2.0]
    assert again["rollout.weight.replay"].tolist() == [0.5, 0.5]
    assert not bool(again["group.fresh"].any())
    assert not bool(again.counted("rollout").any())  # type: ignore[union-attr]
    assert bool(again.trained("rollout").all())


def test_a_buffer_forgets_what_is_too_old_and_what_does_not_fit() -> None:
    memory = PriorityReplay(size=3, max_age=2)
    state = memory.initial()
    for step in range(1, 5):
        state = memory.observe(state, batch([1.0, 0.0], [1.0, -1.0], f"task {step}", seed=step))
    assert state["rows"]["rollout.stored"].tolist() == [3, 4, 4]
    for step in range(5, 8):
        state = memory.observe(state, batch([1.0, 1.0], [0.0, 0.0], f"task {step}", seed=step))
    assert state["rows"] is None
    assert is_recent(torch.tensor([0, 1, 2]), 12, 30).tolist() == [False, False, True]  # never more than 10


def test_a_buffer_comes_back_from_a_checkpoint_as_it_was() -> None:
    memory = PriorityReplay()
    state = memory.observe(memory.initial(), batch([1.0, 0.0, 0.5], [1.0, -1.0, 0.2]))
    tensors: dict[str, torch.Tensor] = {}
    copy = decode_state(encode_state(state, tensors), tensors)
    today = batch([0.0, 0.0], [0.0, 0.0], seed=9)
    one, two = memory.replay(state, today), memory.replay(copy, today)
    assert one is not None
    assert two is not None
    assert all(torch.equal(one[c], two[c]) for c in one.columns if isinstance(one[c], torch.Tensor))


def test_the_chance_of_a_draw_is_that_of_the_iteration_not_of_the_order() -> None:
    memory = PriorityReplay(count=2)
    state = memory.observe(memory.initial(), batch([1.0] * 6, [1.0, -2.0, 0.5, 1.5, -1.0, 0.1]))
    draws = []
    for seed in (1, 1, 2, 3, 4):
        again = memory.replay(state, batch([0.0], [0.0], seed=seed))
        assert again is not None
        draws.append(again["rollout.advantage"].tolist())
    assert draws[0] == draws[1]
    assert len({tuple(d) for d in draws}) > 1


# -- skywork-r1v2 ------------------------------------------------------------------------------------------------------


def test_skywork_the_buffer_never_returns_a_sample_without_an_advantage() -> None:
    memory = PriorityReplay(count=10)
    state = memory.observe(memory.initial(), batch([1.0] * 4, [0.0, 1.0, 0.0, -1.0]))
    again = memory.replay(state, batch([0.0], [0.0]))
    assert again is not None
    assert sorted(again["rollout.advantage"].tolist()) == [-1.0, 1.0]


def test_skywork_large_advantages_come_back_more_often() -> None:
    memory = PriorityReplay(count=1)
    state = memory.observe(memory.initial(), batch([1.0] * 2, [3.0, 1.0]))
    drawn = []
    for seed in range(400):
        again = memory.replay(state, batch([0.0], [0.0], seed=seed))
        assert again is not None
        drawn.append(float(again["rollout.advantage"][0]))
    assert sum(a == 3.0 for a in drawn) / 400 == pytest.approx(0.75, abs=0.06)


def test_skywork_the_share_of_effective_samples_does_not_fall_when_groups_become_uniform(tmp_path: Path) -> None:
    world = worlds.get("sums", level=2)
    run = build_run(configure(methods.skywork_r1v2(stage=2, n=4), world=world, tasks=4, iterations=3, seed=3))
    first, _ = iterate(run)
    some = int((first["rollout.advantage"] != 0).sum())
    assert 0 < some < len(first)
    second, line = iterate(run)
    idle = int((second["rollout.advantage"] == 0).sum())
    assert line["replayed"] == min(idle, some)


def test_skywork_weights_of_one_loss_alone_are_dpo_and_imitation() -> None:
    dpo = methods.skywork_r1v2(stage=1, weights=(1.0, 0.0, 0.0))
    assert [type(t).__name__ for t in dpo.objective] == ["Preference"]
    now = torch.tensor([[-1.0, -2.0], [-3.0, -1.0]], dtype=torch.float64)
    ref = torch.tensor([[-1.5, -2.0], [-2.0, -1.0]], dtype=torch.float64)
    columns = {
        "token.now.logp": now,
        "token.ref.logp": ref,
        "rollout.reward": torch.tensor([1.0, 0.0], dtype=torch.float64),
        "rollout.correct": torch.tensor([True, False]),
    }
    pair = Batch.from_padded(torch.ones(2, 2), [0, 0], columns)
    better, worse = 0.1 * (now - ref).sum(1)
    assert differentiate(dpo.objective, pair).step.loss == pytest.approx(float(preference_loss(better, worse)))
    sft = methods.skywork_r1v2(stage=1, weights=(0.0, 0.0, 1.0))
    assert differentiate(sft.objective, pair).step.loss == pytest.approx(1.5)


def test_skywork_groups_without_a_pair_are_in_no_mean() -> None:
    (term,) = methods.skywork_r1v2(stage=1, weights=(1.0, 0.0, 0.0)).objective
    zero = torch.zeros(4, 1, dtype=torch.float64)
    columns = {"token.now.logp": zero, "token.ref.logp": zero, "rollout.reward": torch.tensor([1.0, 0, 1, 1]).double()}
    both = Batch.from_padded(torch.ones(4, 1), [0, 0, 1, 1], columns)
    assert term.members(both).tolist() == [True, False]
    assert float(term(both)) == pytest.approx(math.log(2))


class Scored(Sums):
    """A reward model that likes long answers."""

    provides = (*Sums.provides, "rollout.score")

    def grade(self, task: Task, text: str, seed: int = 0) -> Feedback:
        found = super().grade(task, text, seed)
        return dataclasses.replace(found, info={**found.info, "score": float(len(text) % 5) - 2})


def test_skywork_the_threshold_rises_when_what_is_watched_gets_worse() -> None:
    monitor = Monitor("eval.hallucination", step=0.5, high=1.0, by=0.1)
    state, levels = monitor.initial(), []
    for value in (0.2, 0.25, 0.5, 0.4, 0.9, 1.5):
        state = monitor.measured(state, {"iteration": 1, "eval.hallucination": value})
        state = monitor.measured(state, {"iteration": 2, "reward": 0.0})  # not evaluated
        levels.append(state["level"])
    assert levels == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    falling = monitor.replace(metric="eval.pass@1", worse="falls")
    state = falling.measured(falling.initial(), {"eval.pass@1": 0.5})
    assert falling.measured(state, {"eval.pass@1": 0.9})["level"] == 0.0
    assert falling.measured(state, {"eval.pass@1": 0.1})["level"] == 0.5


def test_skywork_accepts_fewer_scores_above_a_higher_threshold() -> None:
    method = methods.skywork_r1v2(stage=2, score="rollout.score", monitor="eval.hallucination", rule=0.0, format=0.0)
    columns = {"rollout.score": torch.tensor([-1.0, 0.05, 0.3]), "rollout.answered": torch.ones(3)}
    batch_ = Batch.from_rewards(torch.zeros(3), [0] * 3, columns)
    accepted = [method.at(Clock(0, {"monitor.level": x})).reward[-1](batch_)["rollout.reward"] for x in (0.0, 0.1, 1.0)]
    assert [x.tolist() for x in accepted] == [[0.0, 0.5, 0.5], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]
    with pytest.raises(PodiumError, match="name its column in score"):
        methods.skywork_r1v2(monitor="eval.hallucination")


def test_skywork_watches_its_evaluations_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    method = methods.skywork_r1v2(stage=2, n=4, score="rollout.score", monitor="eval.entropy", step=0.25)
    kept = {"checkpoint_every": 1, "keep_checkpoints": 9, "eval_every": 1, "lr": 1e-3, "iterations": 6}
    found = short_run(method, tmp_path / "whole", world=Scored(level=2), **kept).metrics
    rose = [b["eval.entropy"] > a["eval.entropy"] for a, b in pairwise(found)]
    levels = [line["monitor.level"] for line in found[1:]]
    assert levels == [0.25 * sum(rose[:number]) for number in range(6)]
    assert any(rose[:-1])
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[3:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    assert _numbers(tmp_path / "cut") == _numbers(tmp_path / "whole")


@pytest.mark.parametrize("name", ["eval.hallucination", "hallucination"])
def test_a_number_that_no_run_measures_cannot_be_watched(name: str, tmp_path: Path) -> None:
    method = methods.skywork_r1v2(stage=2, n=2, score="rollout.score", monitor=name)
    with pytest.raises(PodiumError, match=f"watches '{name}', which the run does not measure"):
        short_run(method, tmp_path / "run", world=Scored(level=2), iterations=2, eval_every=1)


def test_skywork_samples_the_tasks_that_had_an_advantage_in_an_earlier_run(tmp_path: Path) -> None:
    world = worlds.get("sums", level=2)
    short_run(methods.skywork_r1v2(stage=2, n=4), tmp_path / "first", world=world, iterations=3, tasks=6)
    rates = PassRates(source=str(tmp_path / "first")).initial()["rates"]
    mixed = {task for task, visits in rates.items() if any(0 < x < 1 for x in visits)}
    assert 0 < len(mixed) < len(rates)
    method = methods.skywork_r1v2(stage=2, n=2, source=str(tmp_path / "first"))
    run = build_run(configure(method, world=world, tasks=3, iterations=1))
    assert {r.task.key for r in run.requests(run.begin(), 3)} <= mixed
    nothing_known = {"group.pass_rate.mixed": torch.zeros(3)}
    assert method.select(nothing_known).tolist() == [1.0, 1.0, 1.0]


def test_skywork_the_stages_train_one_after_the_other(tmp_path: Path) -> None:
    from podium.method import Phases

    stages = methods.get("skywork-r1v2@stage-1", n=4), methods.get("skywork-r1v2@stage-2", n=4)
    method = Phases(stages[0].until(3), stages[1])
    found = short_run(method, tmp_path / "run", world=worlds.get("sums", level=2), iterations=4).metrics[1:]
    assert "loss.Preference" in found[0]
    assert found[2]["reward_shift"] != 0  # δ has moved away from 0
    assert "replayed" in found[3]


def weights(method: Any, iteration: int) -> tuple[float, float]:
    """Of the bonus for calls and of what is replayed."""
    now = method.at(Clock(iteration))
    return now.reward[0].weight, now.memories[0].weight


# -- spear -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0, 13, 50, 99, 100, 300])
def test_spear_both_weights_add_up_to_one_where_their_horizons_are_equal(t: int) -> None:
    bonus, replay = weights(methods.spear(tool_over=100, replay_over=100), t)
    assert bonus + replay == pytest.approx(1.0)


def test_spear_a_stored_win_below_the_median_of_today_never_contributes() -> None:
    memory = SuccessReplay(count=2)
    state = memory.observe(memory.initial(), batch([0.4, 0.5, 0.9, 1.0], [0.1, 0.1, 0.3, 0.4]))
    for step in range(3):  # groups have become better: the median rises to 0.7
        state = memory.observe(state, batch([0.7, 0.7], [0.0, 0.0], f"task {step}", seed=step))
    again = memory.replace(above=0.5).replay(state, batch([0.0], [0.0]))
    assert again is not None
    assert again["rollout.advantage"].tolist() == pytest.approx([0.2, 0.3])


def test_spear_replays_once_there_are_enough_and_then_forgets_all() -> None:
    memory = SuccessReplay(count=2, above=1.5)
    state = memory.observe(memory.initial(), batch([1.0, 1.0, 1.0, 0.0], [0.25, 0.25, 0.25, -0.75]))
    today = batch([0.0, 0.0], [0.0, 0.0], "b")
    assert memory.replay(state, today) is None  # three are not more than 1.5 · 2
    state = memory.observe(state, batch([1.0, 0.0], [0.5, -0.5], "c"))
    again = memory.replay(state, today)
    assert again is not None
    assert len(again) == 2  # 2^2, but at most `count`
    state = memory.observe(state, today)
    assert state["rows"] is None


@pytest.mark.parametrize(("kept", "wanted"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (7, 4), (1000, 32)])
def test_spear_subsets_are_powers_of_two(kept: int, wanted: int) -> None:
    assert subset_size(kept, 32) == wanted


def test_spear_without_any_history_rewards_are_compared_with_their_own_mean() -> None:
    rewards = torch.tensor([1.0, 0.0, 0.5])
    assert float(reward_to_beat(torch.zeros(0), rewards)) == 0.5
    assert float(reward_to_beat(torch.tensor([0.1, 0.2, 0.9, 0.4]), rewards)) == pytest.approx(0.3)  # the median


def test_spear_a_reward_equal_to_the_median_is_no_win_in_double_precision_either() -> None:
    (memory,) = methods.spear().memories
    assert isinstance(memory, SuccessReplay)
    state = {**memory.initial(), "means": [[0.1, 0.3], [0.7]]}
    rows = Batch.from_rewards(torch.tensor([0.3, 0.30000001], dtype=torch.float64), [0, 0])
    assert (memory.advantages(state, rows) > 0).tolist() == [False, True]


def test_spear_old_baselines_are_popped_by_whole_steps() -> None:
    memory = SuccessReplay(baselines=3)
    state = memory.initial()
    for step in range(5):
        state = memory.observe(state, batch([float(step)], [0.0], f"task {step}"))
    assert state["means"] == [[2.0], [3.0], [4.0]]


def test_spear_keeps_what_called_a_tool() -> None:
    memory = SuccessReplay(where="rollout.called")
    called = {"rollout.called": torch.tensor([True, False])}
    rows = memory.observe(memory.initial(), batch([1.0, 1.0], [1.0, 1.0]).with_columns(called))["rows"]
    assert len(rows) == 1


def test_spear_replayed_mini_batches_follow_those_of_today() -> None:
    fresh = torch.tensor([True, False, True])
    columns = {"group.fresh": fresh, "token.id": torch.ones(3, 1, dtype=torch.long)}
    batch_ = Batch.from_padded(torch.ones(3, 1), [0, 1, 2], columns)
    steps = [step["group.fresh"].tolist() for step in SeparateUpdates(by="group.fresh")(batch_)]
    assert steps == [[True, True], [False]]


def test_spear_keeps_the_groups_whose_rewards_vary_most() -> None:
    rewards = torch.tensor([0.0, 1.0, 0.4, 0.6, 0.5, 0.5, 0.2, 0.9])
    groups = Batch.from_rewards(rewards, [0, 0, 1, 1, 2, 2, 3, 3])
    assert KeepVaried(0.75)(groups)["group.keep"].tolist() == [True, True, False, True]
    assert KeepVaried(0.5)(groups)["group.keep"].tolist() == [True, False, False, True]
    assert bool(KeepVaried(0.01)(groups)["group.keep"].any())


def test_spear_without_bonus_and_replay_is_dr_grpo_with_clip_cov() -> None:
    method = methods.spear(replay=0.0, tool=0.0, tool_over=100, replay_over=100)
    assert weights(method, 0) == weights(method, 500) == (0, 0)
    assert method.advantage == methods.dr_grpo().advantage
    assert type(method.shape[0]).__name__ == "DropCovariant"


def test_spear_leaves_turns_with_neither_call_nor_answer_out_of_the_loss() -> None:
    calls: list[list[tuple[Any, ...]]] = [[("look",), (), ()], [(), ("add",)]]
    rollouts = [
        Rollout(0, [Turn((1,), columns={"calls": c}) for c in own], columns={"reward": 1.0, "answer": answer})
        for own, answer in zip(calls, ("7", ""), strict=True)
    ]
    found = DropVoidTurns()(Batch.from_rollouts(rollouts))["turn.keep.void"]
    # The second turn of the first says nothing; its third answers. Of the second rollout only the call counts.
    assert found.tolist() == [True, False, True, False, True]
    assert DropVoidTurns("turn.calls") in methods.spear().keep


def test_spear_drops_covariant_tokens_of_replayed_rollouts_by_settings_of_their_own() -> None:
    size = 100
    generator = torch.Generator().manual_seed(0)
    columns = {
        "token.id": torch.ones(2, size, dtype=torch.long),
        "token.advantage": torch.randn(2, size, generator=generator),
        "token.now.logp": torch.randn(2, size, generator=generator),
        "group.fresh": torch.tensor([True, False]),
    }
    columns["token.old.logp"] = columns["token.now.logp"]
    batch_ = Batch.from_padded(torch.ones(2, size), [0, 1], columns)
    part = DropCovariant(0.01, low=-9.0, high=9.0, replay=(0.05, -9.0, 9.0))
    fresh, replayed = part.dropped(batch_).reshape(2, size).sum(1).tolist()
    assert (fresh, replayed) == (1, 5)  # 1 % and 5 % of 100 tokens each


def spear_run(path: Path, **settings: Any) -> list[dict[str, Any]]:
    method = methods.spear(n=4, count=2, calls="turn.valid", replay_over=2, groups=1.0, mini_batches=1)
    small_ = {"world": Laps(level=2), "tasks": 3, "iterations": 5, "lr": 3e-4, **settings}
    return short_run(method, path, **small_).metrics[1:]


def test_spear_successes_are_replayed_in_training_in_steps_of_their_own(tmp_path: Path) -> None:
    found = spear_run(tmp_path / "run")
    again = [line for line in found if line["replayed"]]
    assert again
    assert all(line["updates"] == 2 for line in again)
    assert all(line["replayed.age"] >= 1 for line in again)
    assert all(line["replayed.tokens"] > 0 for line in again)


@pytest.mark.parametrize("slug", ["spear", "skywork-r1v2", "spo"])
def test_a_run_with_a_buffer_that_was_killed_resumes_to_the_bit(slug: str, tmp_path: Path) -> None:
    kept = {"checkpoint_every": 1, "keep_checkpoints": 9}
    if slug == "spear":
        spear_run(tmp_path / "whole", **kept)
    else:
        tree = methods.spo(n=4, branches=(2,), window=6, temperature=1.0, segments=3, per_task=False, mini_batches=1)
        method = tree if slug == "spo" else methods.skywork_r1v2(stage=2, n=4)
        short_run(method, tmp_path / "whole", world=worlds.get("sums", level=2), iterations=5, **kept)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[2:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    found = _numbers(tmp_path / "cut")
    assert found == _numbers(tmp_path / "whole")
    assert any(line.get("replayed") for line in found[3:])  # from what was stored before the cut


def _numbers(path: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in RunDirectory(path).metrics()]


# -- t1 ----------------------------------------------------------------------------------------------------------------


def test_t1_leave_one_out_adds_up_to_zero_and_is_the_centred_reward_times_k_over_k_minus_one() -> None:
    reward = torch.tensor([1.0, 0, 0, 1, 1], dtype=torch.float64)
    method = methods.t1(kl=0.0, warm=0).with_(annotate=(), reward=())
    a = credited(method, Batch.from_rewards(reward, [0] * 5))["rollout.advantage"]
    assert float(a.sum()) == pytest.approx(0.0)
    assert a.tolist() == pytest.approx((5 / 4 * (reward - reward.mean())).tolist())


def test_t1_adding_a_constant_to_every_distance_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    old, ref = (torch.rand(3, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    columns = {
        "token.old.logp": old,
        "token.anchor.logp": ref,
        "rollout.advantage": torch.tensor([1.0, 0, -1]).double(),
    }
    one = Batch.from_padded(mask, [0, 0, 0], columns)
    two = Batch.from_padded(mask, [0, 0, 0], columns | {"token.anchor.logp": ref + 0.7})
    assert torch.allclose(CentredKL(0.1)(one)["token.advantage"], CentredKL(0.1)(two)["token.advantage"])


def test_t1_without_kl_and_entropy_is_rloo_with_the_penalty() -> None:
    method = methods.t1(kl=0.0, entropy=0.0, warm=0)
    assert method.advantage == methods.rloo().advantage
    assert not method.shape
    assert not method.roles
    assert len(method.objective) == 1


def test_t1_an_anchor_with_decay_zero_is_the_policy_itself() -> None:
    found = lines(methods.t1(n=4, decay=0.0, kl=0.1, warm=0), worlds.get("sums", level=2), iterations=2)
    assert found[1]["anchor.distance"] == pytest.approx(0.0, abs=1e-5)
    fixed = lines(methods.t1(n=4, decay=1.0, kl=0.1, warm=0), worlds.get("sums", level=2), iterations=3, lr=1e-3)
    assert fixed[2]["anchor.distance"] != pytest.approx(0.0, abs=1e-5)


def test_t1_imitates_first_at_a_higher_rate_and_then_explores() -> None:
    method = methods.t1(n=2, warm=1)
    found = lines(method, worlds.get("sums", level=2), iterations=2)
    assert [line["phase"] for line in found] == [0, 1]
    assert ["loss.Likelihood" in line for line in found] == [True, False]
    imitate, explore = method.leaves()
    assert phase_rate(method, imitate) == pytest.approx(1e-5 / 1.5e-6)
    assert phase_rate(method, explore) == 1.0


def test_t1_what_is_degenerate_as_text() -> None:
    assert repetitive([1, 2, 3] * 8, length=3, times=4)
    assert not repetitive(list(range(30)), length=3, times=2)
    assert garbled("so \ufffd far")
    assert garbled("abc где 漢字 αβγ")
    assert not garbled("sum: 3 + 4 = 7\nanswer: 7\t(ünïcode)")


def test_t1_an_answer_that_is_cut_off_gets_the_penalty_even_if_right() -> None:
    (line,) = lines(methods.t1(n=2, warm=0), worlds.get("sums", level=2), max_tokens=2)
    assert line["truncated"] == 1.0
    assert line["reward.override"] == -1.0


def test_updates_without_a_buffer_are_as_they_were() -> None:
    assert Updates() != SeparateUpdates(by="group.fresh")
    (line,) = lines(methods.get("grpo", n=2), worlds.get("sums", level=2))
    assert "replayed" not in line
