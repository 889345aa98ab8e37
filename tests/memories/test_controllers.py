"""Memories that control a number: entropies, KLs, thresholds, averages, by numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.memories import (
    AsymmetricKL,
    DifficultyControl,
    EntropyAnchor,
    EntropyScales,
    EntropySetpoint,
    GateState,
    Monitor,
    QuantileTracker,
    RankBaselines,
    RewardShift,
    ScoreBins,
    TurnCounts,
    TurnEntropies,
)
from podium.parts.shape.rank import rank_dynamics_of
from tests.batches import ONLY_PROBES, sampled, spoken


def nats(*values: float) -> dict[str, list[list[float]]]:
    return {"old_logp": [list(values)], "ref_logp": [[0.0] * len(values)]}


def test_difficulty_control_by_hand() -> None:
    memory = DifficultyControl(target_kl=0.1, interval=1, decay=0.5, log_step=0.1, error_clip=10.0, alpha_step=0.1)
    # Four rollouts: easy, easy, hard, and a probe. d = ln 2 at one of two tokens: k3 = 2 − ln 2 − 1, its mean half.
    step = 1 - math.log(2)
    batch = spoken(
        [[0.0, 0.0]] * 4,
        [1.0, 0.0, 1.0, 1.0],
        probes=(3,),
        old_logp=[[0.0, 0.0], [-math.log(2), 0.0], [-math.log(2), -math.log(2)], [-9.0, -9.0]],
        ref_logp=[[0.0, 0.0]] * 4,
    )
    columns = {
        "rollout.difficulty": torch.tensor([0, 0, 2, 1]),
        "rollout.moments": torch.tensor([4.0, 2.0, 7.0, 99.0]),
        "rollout.moments.target": torch.tensor([2.0, 2.0, 4.0, 1.0]),
        "rollout.moments.quantile": torch.tensor([1.0, 2.0, 6.0, 50.0]),
    }
    first = memory.observe(memory.initial(), batch.with_columns(columns))
    # alpha: ½ + 0.1·(mean of 2 and 0) on easy tasks, ½ − 0.1·3 on hard ones; the median of 1, 2 and 6.
    assert first["alpha"] == pytest.approx((0.6, 0.5, 0.2))
    assert first["threshold"] == pytest.approx(2.0)
    # KL: easy (0 + step/2) / 2, hard step. e = KL / 0.1 − 1, and half of that is the running error.
    easy, hard = step / 4 / 0.1 - 1, step / 0.1 - 1
    assert first["log_beta"] == pytest.approx((0.1 * easy / 2, 0.0, 0.1 * hard / 2))
    assert first["kl"][0] == pytest.approx(step / 4)
    assert math.isnan(first["kl"][1])
    second = memory.observe(first, batch.with_columns(columns))
    assert second["threshold"] == pytest.approx(0.99 * 2.0 + 0.01 * 2.0)
    moved = memory.observe({**first, "threshold": 1.0}, batch.with_columns(columns))
    assert moved["threshold"] == pytest.approx(0.99 + 0.02)
    known = memory.recall(first, [])
    assert known["batch.moments.threshold"].tolist() == pytest.approx([2.0])
    assert known["batch.difficulty.alpha"][0].tolist() == pytest.approx([0.6, 0.5, 0.2])
    assert known["batch.difficulty.beta"][0].tolist() == pytest.approx(
        [math.exp(0.1 * easy / 2), 1.0, math.exp(0.1 * hard / 2)]
    )
    # alpha stays within 0 and 2, and d within ± 20.
    far = columns | {"rollout.moments": torch.tensor([104.0, 102.0, 107.0, 99.0])}
    assert memory.observe(first, batch.with_columns(far))["alpha"] == pytest.approx((2.0, 0.5, 0.0))
    assert memory.observe({**first, "alpha": (0.5,) * 3}, batch.with_columns(columns))["alpha"][1] == 0.5
    extreme = spoken([[0.0]] * 2, [1.0, 1.0], old_logp=[[-50.0], [50.0]], ref_logp=[[0.0]] * 2)
    levels = {name: x[:2] for name, x in columns.items()} | {"rollout.difficulty": torch.tensor([0, 2])}
    bounded = memory.observe(memory.initial(), extreme.with_columns(levels))
    assert bounded["kl"][0] == pytest.approx(math.exp(20) - 21)
    assert bounded["kl"][2] == pytest.approx(math.exp(-20) + 19)
    probes = spoken([[0.0]] * 4, [1.0] * 4, (0, 1, 2, 3), old_logp=[[0.0]] * 4, ref_logp=[[0.0]] * 4)
    assert memory.observe(first, probes.with_columns(columns)) is first


def test_a_controller_observes_means_of_tokens_and_rollouts() -> None:
    memory = AsymmetricKL(threshold=0.1, weight=1.0, momentum=0.0, times=2)
    batch = spoken(
        [[1.0, 3.0], [2.0], [9.0]],
        [1.0, 0.0, 5.0],
        probes=(2,),
        old_logp=[[-1.0, -1.0], [-2.0], [0.0]],
        ref_logp=[[-1.5, -1.3], [-2.4], [-9.0]],
        old_entropy=[[1.0, 3.0], [2.0], [9.0]],
    )
    # KL: (0.5 + 0.3 + 0.4) / 3 = 0.4; the penalty is (0.4 − 0.1)², observed twice.
    state = memory.observe(memory.initial(), batch)
    assert state["kls"] == pytest.approx([0.4, 0.4])
    assert state["penalty"] == pytest.approx(0.09)
    assert memory.recall(state, [])["batch.kl.penalty"].tolist() == pytest.approx([0.09])
    assert memory.recall(state, [])["batch.kl.threshold"].tolist() == pytest.approx([0.1])
    seen: list[tuple[float, ...]] = []

    class Noted(AsymmetricKL):
        def step(self, state: dict[str, object], kl: float, entropy: float, reward: float) -> dict[str, object]:
            seen.append((kl, entropy, reward))
            return state

    Noted().observe({}, batch)
    assert seen == [pytest.approx((0.4, 2.0, 0.5))]
    empty = batch.with_columns({"rollout.purpose": torch.full((3,), 3)})
    assert memory.observe(state, empty) is state


def test_the_shift_of_rewards_is_a_moving_average() -> None:
    memory = RewardShift(temperature=4.0, decay=0.75)
    batch = spoken(
        [[0.0, 0.0], [0.0], [0.0]],
        [1.0, 0.0, 0.0],
        probes=(2,),
        old_logp=[[-1.0, -1.0], [-1.0], [-9.0]],
        ref_logp=[[-2.0, -4.0], [-1.0], [0.0]],
    )
    # Sums of log-ratios 4 and 0, over the temperature 1 and 0, whose mean is ½: 0.75·2 + 0.25·½.
    state = memory.observe({"shift": 2.0}, batch)
    assert state["shift"] == pytest.approx(1.625)
    assert memory.recall(state, [])["batch.reward_shift"].tolist() == pytest.approx([1.625])
    empty = batch.with_columns({"rollout.purpose": torch.full((3,), 3)})
    assert memory.observe({"shift": 2.0}, empty) == {"shift": 2.0}


def test_entropies_of_turns_are_means_of_tokens_over_iterations() -> None:
    memory = TurnEntropies(turns=2)
    assert memory.recall(memory.initial(), [])["batch.turn_entropy"].isnan().all()
    turns = [Turn([1, 1], tokens={"sampler.entropy": [1.0, 2.0]}), Turn([1], tokens={"sampler.entropy": [5.0]})]
    other = [Turn([1], tokens={"sampler.entropy": [6.0]})]
    batch = Batch.from_rollouts([Rollout(0, turns), Rollout(0, other)], dtype=torch.float64)
    state = memory.observe(memory.initial(), batch)
    assert memory.recall(state, [])["batch.turn_entropy"].tolist() == [pytest.approx([3.0, 5.0])]
    # An iteration with a single turn is padded with leading zeros, as released: (3 + 0) / 2, (5 + 6) / 2.
    state = memory.observe(state, Batch.from_rollouts([Rollout(0, other)], dtype=torch.float64))
    assert memory.recall(state, [])["batch.turn_entropy"].tolist() == [pytest.approx([1.5, 5.5])]
    # A second turn of a probe is none: the first is the last that counts.
    probe = Rollout(0, turns, columns={"purpose": int(Purpose.probe)})
    counted = Rollout(0, other, columns={"purpose": int(Purpose.train)})
    state = memory.observe(memory.initial(), Batch.from_rollouts([probe, counted], dtype=torch.float64))
    assert memory.recall(state, [])["batch.turn_entropy"].tolist() == [[0.0, 6.0]]


def test_the_rank_moves_towards_the_mean_of_the_batch() -> None:
    memory = RankBaselines(stride=2, window=4, rate=0.25)
    dynamics = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 9.0], [99.0, 99.0, 99.0]], dtype=torch.float64)
    batch = sampled([1.0, 0.0, 1.0], [0, 0, 0], ["a"], (2,), **{rank_dynamics_of(2, 4).column: dynamics})
    state = {"mean": (4.0, 8.0, 2.0), "reward": 0.1, "seen": 3}
    after = memory.observe(state, batch)
    # ¾·(4, 8, 2) + ¼·(2, 2, 6), and of the reward ¾·0.1 + ¼·½.
    assert after["mean"] == pytest.approx((3.5, 6.5, 3.0))
    assert after["reward"] == pytest.approx(0.2)
    assert after["seen"] == 4
    assert memory.recall(after, [])["batch.rank.averages"].tolist() == [pytest.approx([3.5, 6.5, 3.0])]
    probes = batch.with_columns({"rollout.purpose": torch.full((3,), 3)})
    assert memory.observe(state, probes) is state


def test_a_score_falls_into_its_bin() -> None:
    memory = ScoreBins(bins=4)
    columns = {
        "quality": torch.tensor([0.1, 0.3, 1.0, 0.9, 0.9, 0.9], dtype=torch.float64),
        "detected": torch.tensor([True, True, True, False, True, True]),
        "pruned": torch.tensor([False, False, False, False, True, False]),
    }
    batch = sampled([1.0, 0.0, 1.0, 1.0, 1.0, 1.0], [0] * 6, ["a"], (5,), **columns)
    state = memory.observe(memory.initial(), batch)
    assert state["count"].tolist() == [1.0, 1.0, 0.0, 1.0]
    assert state["right"].tolist() == [1.0, 0.0, 0.0, 1.0]
    known = memory.recall(state, ["a", "b"])
    assert known["group.bins.count"].tolist() == [[1.0, 1.0, 0.0, 1.0]] * 2
    assert known["group.bins.right"].tolist() == [[1.0, 0.0, 0.0, 1.0]] * 2


def test_quantiles_start_from_the_first_batch_and_take_steps() -> None:
    memory = QuantileTracker(levels=(0.5, 0.75), lr=0.5)
    columns = {"index": torch.tensor([0, 0, 0, 0, 0]), "group.bundle": torch.arange(5)}
    batch = sampled([0.0, 1.0, 2.0, 3.0, 4.0], [0, 1, 2, 3, 4], list("abcde"), **columns)
    state = memory.observe(memory.initial(), batch)
    assert state["quantiles"].tolist() == pytest.approx([2.0, 3.0])
    # Two and three of five scores lie strictly below: 2 + ½·(0.5 − 0.4), 3 + ½·(0.75 − 0.6).
    state = memory.observe(state, batch)
    assert state["quantiles"].tolist() == pytest.approx([2.05, 3.075])
    known = memory.recall(state, [])
    assert known["batch.risk.levels"].tolist() == [[0.5, 0.75]]
    assert known["batch.risk.quantiles"].tolist() == [pytest.approx([2.05, 3.075])]


def test_the_anchor_is_set_once() -> None:
    memory = EntropyAnchor(share=0.5, top_p=1.0)
    name = next(iter(memory.needs)).column  # type: ignore[union-attr]
    rows = spoken([[0.0] * 4, [0.0] * 2], [1.0, 1.0])
    batch = rows.with_columns({name: torch.tensor([1.0, 5.0, 3.0, 2.0, 7.0, 6.0], dtype=torch.float64)})
    # The upper half of each rollout: 5 and 3, and 7; the mean of their means 4 and 7.
    state = memory.observe(memory.initial(), batch)
    assert state["anchor"] == pytest.approx(5.5)
    assert memory.observe({"anchor": 0.0}, batch) == {"anchor": 0.0}
    assert memory.recall({"anchor": 0.5}, [])["batch.anchor.level"].tolist() == [0.5]


def test_the_set_point_sees_the_mean_surprise_of_trained_tokens() -> None:
    memory = EntropySetpoint(target=0.5)
    batch = spoken([[0.0, 0.0], [0.0]], [1.0, 1.0], (1,), old_logp=[[-1.0, -2.0], [-9.0]])
    state = memory.observe({"entropy": 3.0}, batch)
    assert state == {"entropy": 1.5}
    values = memory.scalars(state)
    assert {name: x.tolist() for name, x in memory.recall(state, []).items()} == {
        f"batch.{name}": [pytest.approx(x)] for name, x in values.items()
    }
    assert memory.observe(state, batch.with_columns({"rollout.purpose": torch.full((2,), 3)})) is state


def test_the_scales_of_entropy_are_remembered() -> None:
    memory = EntropyScales(pivot=0.5, sign="intended")
    batch = spoken([[0.0] * 3], [1.0], old_entropy=[[1.0, 2.0, 4.0]])
    state = memory.observe(memory.initial(), batch)
    # Log-entropies 0, ln 2 and 2 ln 2 about their median: each side is divided by its extreme, ln 2.
    assert state["pivot"] == pytest.approx(math.log(2))
    assert state["above"] == pytest.approx(1 / math.log(2))
    assert state["below"] == pytest.approx(1 / math.log(2))
    known = memory.recall(state, [])
    assert {name: float(x[0]) for name, x in known.items()} == pytest.approx(
        {f"batch.{name}": x for name, x in memory.scalars(state).items()}
    )
    nothing = batch.with_columns({"rollout.purpose": torch.tensor([3])})
    assert memory.observe(state, nothing) is state


def test_a_gate_a_monitor_and_turn_counts() -> None:
    gate = GateState()
    batch = ONLY_PROBES.with_columns({"batch.gate.negatives": torch.tensor([1.0])})
    assert gate.observe({"negatives": 0.0}, batch) == {"negatives": 1.0}
    assert gate.recall({"negatives": 1.0}, [])["batch.gate.before"].tolist() == [1.0]
    monitor = Monitor("loss", start=0.25)
    state = monitor.initial()
    assert monitor.observe(state, batch) == monitor.initial()
    assert monitor.recall(state, [])["batch.monitor.level"].tolist() == [0.25]
    counts = TurnCounts(window=2)
    rollouts = [Rollout(0, [Turn([1])] * n, columns={"purpose": p}) for n, p in ((2, 0), (4, 0), (9, 3))]
    state = counts.observe(counts.initial(), Batch.from_rollouts(rollouts, dtype=torch.float64))
    assert counts.scalars(state)["turns.p50"] == pytest.approx(3.0)
    assert counts.recall(state, ["a"]) == {}
