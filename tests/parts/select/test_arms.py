"""Domains as arms: inverse gaps with exact propensities, predicted learning curves, and what their memories recall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

import podium
from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.memories import ArmRewards, GroupExperts, LearningCurves, PassRates
from podium.parts.select import InverseGap, MarginalGain
from podium.tables.inverse_gap import inverse_gap_probabilities
from podium.tables.sleeping_experts import SleepingExperts


def tasks_of(domains: list[int], **columns: list[float]) -> dict[str, torch.Tensor]:
    """The columns of tasks in these domains, with values per domain."""
    domain = torch.tensor(domains)
    made = {
        f"group.{name.replace('_', '.')}": torch.tensor(x, dtype=torch.float64)[domain] for name, x in columns.items()
    }
    return {
        "group.domain.code": domain,
        "group.number": torch.arange(len(domain)),
        "group.random": torch.rand(len(domain), dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
        "group.visits": torch.zeros(len(domain)),
        **made,
    }


def seen(domain: str, *rates: tuple[int, int], prompt: str = "p", task: str = "t") -> list[Rollout]:
    """A group per pair of successes and rollouts."""
    turn = Turn(ids=(1,), tokens={})
    return [
        Rollout(
            f"{task} {number}",
            (turn,),
            columns={"domain": domain, "prompt": prompt, "correct": n < right, "reward": float(n < right), "index": n},
        )
        for number, (right, count) in enumerate(rates)
        for n in range(count)
    ]


def test_the_weight_of_a_task_is_its_propensity() -> None:
    columns = tasks_of([0, 0, 0, 1, 2, 2], arm_value=[0.9, 0.5, 0.1], arm_samples=[3.0, 3.0, 6.0])
    p = inverse_gap_probabilities([0.9, 0.5, 0.1], (3 * 12) ** 0.5)
    expected = [p[0] / 3] * 3 + [p[1]] + [p[2] / 2] * 2
    assert InverseGap()(columns).tolist() == pytest.approx(expected)
    assert float(InverseGap()(columns).sum()) == pytest.approx(1.0)
    assert InverseGap(scale=0.0)(columns).tolist() == pytest.approx([1 / 9] * 3 + [1 / 3] + [1 / 6] * 2)
    assert InverseGap(uniform=1.0)(columns).tolist() == pytest.approx([1 / 9] * 3 + [1 / 3] + [1 / 6] * 2)


def test_tasks_are_drawn_as_often_as_their_propensities_say() -> None:
    columns = tasks_of([0] * 5 + [1] * 3 + [2] * 12, arm_value=[0.9, 0.5, 0.1], arm_samples=[3.0, 3.0, 6.0])
    generator, counts, rounds = torch.Generator().manual_seed(1), torch.zeros(20), 2000
    for _ in range(rounds):
        columns["group.random"] = torch.rand(20, dtype=torch.float64, generator=generator)
        counts += torch.bincount(InverseGap().choose(columns, 8), minlength=20)
    chance = InverseGap().propensities(columns)
    error = (chance * (1 - chance) / (8 * rounds)).sqrt()
    assert ((counts / (8 * rounds) - chance).abs() < 4.5 * error).all()


def test_arms_are_worth_what_their_groups_can_teach() -> None:
    batch = Batch.from_rollouts([*seen("a", (1, 2), (2, 2)), *seen("b", (0, 4), task="u")])
    memory = ArmRewards(decay=0.5)
    state = memory.observe(memory.observe(memory.initial(), batch), batch)
    recalled = memory.recall(state, ["a", "b", "c"])
    assert recalled["group.arm.value"].tolist() == pytest.approx([0.5, 0.0, 1.0])  # an unseen one is tried
    assert recalled["group.arm.samples"].tolist() == pytest.approx([3.0, 1.5, 0.0])


def test_an_arm_that_is_almost_forgotten_keeps_its_mean() -> None:
    memory = ArmRewards(of="success", decay=0.5)
    state = memory.observe(memory.initial(), Batch.from_rollouts(seen("a", (1, 4))))
    later = memory.observe(state, Batch.from_rollouts(seen("b", (4, 4), task="u")))
    recalled = memory.recall(later, ["a", "b"])
    assert recalled["group.arm.value"].tolist() == pytest.approx([0.25, 1.0])
    assert recalled["group.arm.samples"].tolist() == pytest.approx([0.5, 1.0])


def test_a_batch_goes_where_the_predicted_curve_falls_most() -> None:
    flat, steep = (0.5, 0.0, 0.5, 40.0), (0.1, 1.0, 0.5, 4.0)
    names = ("curve_floor", "curve_scale", "curve_exponent", "curve_groups")
    columns = tasks_of(
        [0] * 10 + [1] * 10, **{name: list(x) for name, x in zip(names, zip(flat, steep, strict=True), strict=True)}
    )
    chosen = columns["group.domain.code"][MarginalGain(least=1).choose(columns, 8)]
    assert torch.bincount(chosen, minlength=2).tolist() == [1, 7]
    # Of 20 tasks one is of the flat domain: 1/20 and 19/20, divided among ten tasks that were never visited.
    weight = MarginalGain(least=1)(columns | {"group.visits": torch.zeros(20, dtype=torch.float64)})
    assert weight.tolist() == pytest.approx([0.005] * 10 + [0.095] * 10)
    alike = tasks_of([0] * 10 + [1] * 10, **{name: [x, x] for name, x in zip(names, steep, strict=True)})
    shares = torch.bincount(alike["group.domain.code"][MarginalGain().choose(alike, 8)])
    assert shares.tolist() == [4, 4]


def test_learning_curves_are_fitted_to_failures_over_groups() -> None:
    memory = LearningCurves()
    state: dict[str, Any] = {"curves": {"a": [(float(n), 0.1 + n**-0.5) for n in (1, 4, 16, 64)]}}
    law = memory.recall(state, ["a", "b"])
    assert law["group.curve.floor"][0] == pytest.approx(0.1, abs=0.02)
    assert law["group.curve.exponent"][0] == pytest.approx(0.5, abs=0.05)
    assert law["group.curve.groups"].tolist() == [64.0, 0.0]
    unseen = [float(law[f"group.curve.{name}"][1]) for name in ("floor", "scale", "exponent")]
    assert unseen == [0.0, 1.0, 0.5]  # 1/√n
    after = memory.observe(state, Batch.from_rollouts(seen("a", (1, 2), (0, 2))))
    assert after["curves"]["a"][-1] == (66.0, 0.75)


def test_a_new_task_is_predicted_by_tasks_like_it_and_an_old_one_by_itself() -> None:
    memory = GroupExperts(decay=1.0)
    state = memory.initial()
    for _ in range(30):
        easy, hard = seen("easy", (8, 8), task="e"), seen("hard", (0, 8), task="h")
        odd = seen("hard", (8, 8), task="odd")
        state = memory.observe(state, Batch.from_rollouts([*easy, *hard, *odd]))
    cards = [("new", "easy", "p"), ("odd 0", "hard", "p"), ("h 0", "hard", "p")]
    new, odd_one, hard_one = memory.recall(state, cards)["group.experts.value"].tolist()
    assert new > 0.6
    assert odd_one > 0.85
    assert hard_one < 0.15
    assert memory.recall(memory.initial(), cards)["group.experts.value"].tolist() == [0.5] * 3


def test_counts_of_groups_decay_and_regrets_are_booked_task_by_task() -> None:
    """Two iterations of a, 4 of 4 right, and b, 1 of 4; then one of another task."""
    memory, state = GroupExperts(decay=0.5), GroupExperts(decay=0.5).initial()
    batch = Batch.from_rollouts([*seen("y", (1, 4), task="b"), *seen("x", (4, 4), task="a")])
    for _ in range(2):
        state = memory.observe(state, batch)
    rows = state["groups"].rows
    assert rows["everybody"][:2] == pytest.approx((5 / 2 + 5, 8 / 2 + 8))
    assert rows["task a 0"][:2] == pytest.approx((4 / 2 + 4, 4 / 2 + 4))
    # Before the second iteration everybody (and all of this length) is at 3/5, a at 5/6 and b at 1/3; without regrets
    # all weigh the same.
    everybody, own = 0.4**2, (1 / 6) ** 2
    gap = (everybody + own) / 2 - own
    assert rows["task a 0"][2:] == pytest.approx((gap, gap))
    # b follows a, when everybody has the regret −gap already.
    book = SleepingExperts(4, np.array([-gap, 0, -gap, 0]), np.array([gap, 0, gap, 0]))
    book.update(np.ones(4, dtype=bool), np.array([0.35**2, (1 / 12) ** 2] * 2))
    assert rows["everybody"][2:] == pytest.approx((book.regret[0], book.scale[0]))
    assert rows["task b 0"][2:] == pytest.approx((book.regret[3], book.scale[3]))
    other = memory.observe(state, Batch.from_rollouts(seen("z", (1, 1), prompt="longer", task="c")))["groups"].rows
    assert other["task a 0"] == pytest.approx((3.0, 3.0, gap, gap))  # counts decay, regrets do not


def test_draws_beyond_the_tasks_there_are_repeat_their_numbers() -> None:
    columns = tasks_of([0, 1], arm_value=[0.5, 0.5], arm_samples=[1.0, 1.0])
    once, twice = (InverseGap().choose(columns, count).tolist() for count in (2, 5))
    assert twice == [*once, *once, once[0]]


@pytest.mark.parametrize(
    ("select", "memories"),
    [(InverseGap(), (ArmRewards(),)), (MarginalGain(), (PassRates(), LearningCurves()))],
)
def test_a_run_selects_by_arms_and_logs_propensities(select: Any, memories: tuple[Any, ...], tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "world": "rules",
        "level": 1,
        "tasks": 4,
        "iterations": 2,
        "eval_every": 0,
        "eval_tasks": 1,
    }
    plain = methods.get("grpo", n=2)
    chosen = plain.with_(select=select, memories=memories)
    drawn = []
    for name, method in (("plain", plain), ("chosen", chosen)):
        podium.train(method, out=tmp_path / name, **settings)
        drawn.append(parquet.read_table(tmp_path / name / "rollouts" / "iteration-000002.parquet").to_pydict())
    assert drawn[0]["prompt"] != drawn[1]["prompt"]
    assert "propensity" not in drawn[0]
    if isinstance(select, InverseGap):
        assert all(0 < p < 1 for p in drawn[1]["propensity"])
