"""Which tasks are drawn, by numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from podium.core.errors import PodiumError
from podium.parts.select import (
    Balanced,
    ByDomain,
    HardFocus,
    MixedOutcomes,
    Ranked,
    ResumeFirst,
    StillHard,
    Thompson,
    Uncertain,
)
from podium.parts.select.scored import HighestScore

NUMBER = {"group.number": torch.arange(4)}


def test_ranked_takes_the_shots_after_the_start() -> None:
    columns = {"group.pass_rate.spread": torch.tensor([0.1, 0.4, 0.3, 0.4]), **NUMBER}
    assert Ranked(shots=2)(columns).tolist() == [0.0, 1.0, 0.0, 1.0]
    assert Ranked(shots=2, start=1)(columns).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert Ranked(shots=1, start=1)(columns).tolist() == [0.0, 0.0, 0.0, 1.0]
    assert Ranked(shots=2, start=1).choose(columns, 3).tolist() == [3, 2, 3]


def test_tasks_with_both_outcomes_are_drawn_alike_and_all_where_there_is_none() -> None:
    assert MixedOutcomes()({"group.pass_rate.mixed": torch.tensor([0.0, 0.5, 1.0])}).tolist() == [0.0, 1.0, 1.0]
    assert MixedOutcomes()({"group.pass_rate.mixed": torch.zeros(3)}).tolist() == [1.0, 1.0, 1.0]


def test_unfinished_rollouts_come_first() -> None:
    weight = ResumeFirst()({"group.in_flight.count": torch.tensor([0.0, 2.0, 0.0])})
    assert weight.tolist() == pytest.approx([1e-15, 1.0, 1e-15], rel=1e-6, abs=0)
    assert ResumeFirst()({"group.in_flight.count": torch.zeros(4)}).tolist() == pytest.approx([0.25] * 4)


def test_thompson_scores_the_mean_or_a_draw() -> None:
    columns = {
        "group.belief.successes": torch.tensor([1.0, 3.0], dtype=torch.float64),
        "group.belief.failures": torch.tensor([1.0, 1.0], dtype=torch.float64),
        "group.random": torch.tensor([0.25, 0.125], dtype=torch.float64),
    }
    # The means ½ and ¾; the quantiles 0.25 of a uniform, and θ with θ³ = 0.125. The score is θ (1 − θ)².
    part = Thompson(success=1.0, failure=2.0)
    assert part.replace(draw="mean")(columns).tolist() == pytest.approx([0.5 * 0.25, 0.75 * 0.0625])
    assert part(columns).tolist() == pytest.approx([0.25 * 0.5625, 0.5 * 0.25])


def test_tasks_of_a_domain_are_chosen_by_visits_and_then_at_random() -> None:
    columns = {
        "group.domain.code": torch.tensor([0, 0, 0, 1]),
        "group.domain.deficit": torch.zeros(4, dtype=torch.float64),
        "group.domain.seen": torch.tensor([True] * 4),
        "group.visits": torch.tensor([0, 1, 0, 0]),
        "group.random": torch.tensor([0.9, 0.1, 0.5, 0.2]),
    }
    # Two of four tasks for each domain: the unvisited ones of the first, and the only one of the second again.
    assert ByDomain().choose(columns, 4).tolist() == [2, 0, 3, 3]


def test_a_domain_is_drawn_by_its_deficit_and_its_least_visited_task() -> None:
    columns = {
        "group.domain.code": torch.tensor([0, 0, 0, 1]),
        "group.domain.deficit": torch.tensor([0.5, 0.5, 0.5, 0.5], dtype=torch.float64),
        "group.domain.seen": torch.tensor([True] * 4),
        "group.visits": torch.tensor([1.0, 1.0, 2.0, 0.0]),
    }
    # Equal deficits: half for each domain; in the first, two tasks share it.
    assert ByDomain()(columns).tolist() == pytest.approx([0.25, 0.25, 0.0, 0.5])


def test_the_focus_measures_first_and_then_narrows() -> None:
    part = HardFocus(keep=(2, 1), pool=3)
    rates = torch.tensor([[0.9, -1.0], [-1.0, -1.0], [0.1, -1.0], [0.0, -1.0]], dtype=torch.float64)
    columns = {"group.sweep.rates": rates, "batch.sweep.phase": torch.tensor([0.0]), **NUMBER}
    assert part(columns).tolist() == [0.0, 1.0, 0.0, 0.0]  # the one of the pool that is not measured yet
    rates[1, 0] = 0.4
    assert part(columns).tolist() == [0.0, 1.0, 1.0, 0.0]
    columns["batch.sweep.phase"] = torch.tensor([1.0])
    assert part(columns).tolist() == [0.0, 1.0, 1.0, 0.0]  # both are measured anew
    rates[:, 1] = torch.tensor([0.0, 0.7, 0.8, 0.0])
    assert part(columns).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_what_is_still_hard_stays() -> None:
    rates = torch.tensor([[0.5, -1.0], [0.25, -1.0], [0.0, -1.0], [0.1, -1.0]], dtype=torch.float64)
    columns = {"group.sweep.rates": rates, "batch.sweep.phase": torch.tensor([0.0]), **NUMBER}
    assert StillHard(at_most=0.25, pool=3)(columns).tolist() == [0.0, 1.0, 1.0, 0.0]
    columns["batch.sweep.phase"] = torch.tensor([1.0])
    assert StillHard(at_most=0.25, pool=3)(columns).tolist() == [0.0, 1.0, 1.0, 0.0]
    rates[:, 1] = torch.tensor([-1.0, 0.2, 0.9, -1.0])
    assert StillHard(at_most=0.25, pool=3)(columns).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_weights_of_uncertain_and_of_balanced() -> None:
    v = torch.tensor([0.5, 0.9, 0.0], dtype=torch.float64)
    # √¼ + 0.1, √0.09 + 0.1, 0.1, over their sum 1.1.
    found = Uncertain(explore=0.1)({"group.tracker.value": v})
    assert found.tolist() == pytest.approx([0.6 / 1.1, 0.4 / 1.1, 0.1 / 1.1])
    for wrong in (-0.1, 1.1):
        with pytest.raises(PodiumError, match="must lie in"):
            Uncertain()({"group.tracker.value": torch.tensor([wrong, 0.5])})
    found = Balanced(by="group.kind")({"group.kind": torch.tensor([7, 7, 7, 9])})
    assert found.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])


def test_a_share_of_the_highest_is_drawn_at_random() -> None:
    class Shown(HighestScore):
        def __call__(self, columns: dict[str, torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
            return columns["group.score"]

    columns = {
        "group.score": torch.tensor([4.0, 3.0, 2.0, 1.0]),
        "group.random": torch.tensor([0.9, 0.8, 0.7, 0.1]),
    }
    assert Shown().choose(columns, 3).tolist() == [0, 1, 2]
    assert Shown(uniform=0.5).choose(columns, 2).tolist() == [0, 3]
    assert Shown(uniform=1.0).choose(columns, 3).tolist() == [3, 2, 1]
