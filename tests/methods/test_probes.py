"""SPAE: step potentials from probes along the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.collect.step_probe import step_ends
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.annotate import StepPotential
from tests.methods.support import short_run

POTENTIALS = [[0.1, 0.95, 0.96], [0.0, -0.6]]


def credited(potentials: list[list[float]], rewards: list[float], **settings: Any) -> tuple[Batch, Batch]:
    """Rollouts of one group with one token a step: before and after whitening."""
    method = methods.spae(imitate=0, **settings)
    rows = [
        Rollout(
            0,
            [Turn([0] * len(p), tokens={"segment": list(range(len(p)))})],
            columns={"reward": float(r)},
            segments={"potential": p},
        )
        for p, r in zip(potentials, rewards, strict=True)
    ]
    raw = Batch.from_rollouts(rows, dtype=torch.float64)
    raw = raw.with_columns(method.advantage(raw))
    return raw, raw.with_columns(method.shape[0](raw))


def test_worked_example() -> None:
    raw, final = credited(POTENTIALS, [1, 0])
    expected = [0.429634, 1.032503, 0.276837, -0.570366, -0.826638]
    assert raw["token.advantage"].tolist() == pytest.approx(expected, abs=1e-6)
    expected = [0.475095, 1.267976, 0.274140, -0.840084, -1.177127]
    assert final["token.advantage"].tolist() == pytest.approx(expected, abs=1e-6)


def test_without_decay_and_rise_it_is_a_batch_normalised_mean_baseline() -> None:
    raw, _ = credited(POTENTIALS, [1, 0], alpha=0.0, xi=0.0)
    assert raw["token.advantage"].tolist() == [0.5] * 3 + [-0.5] * 2


def test_credit_is_whole_until_the_task_is_solved_and_then_falls_towards_its_floor() -> None:
    raw, _ = credited([[0.0, 0.95] + [0.95] * 20, [0.0]], [1, 0], xi=0.0)
    f = raw["token.advantage"][:22] / 0.5
    assert f[:2].tolist() == [1, 1]
    assert (f[2:].diff() <= 0).all()
    assert float(f[-1]) == pytest.approx(0.5, abs=1e-6)


def test_the_rises_of_all_steps_sum_to_nothing() -> None:
    raw, _ = credited(POTENTIALS, [1, 1], alpha=0.0)
    assert float(raw["segment.advantage"].sum()) == pytest.approx(0, abs=1e-12)


def test_potential_tells_exploring_from_right_and_from_wrong() -> None:
    batch = Batch.from_rewards(torch.zeros(4), [0] * 4, {})
    batch = batch.with_level("segment", torch.arange(4), of="rollout", parent="group")
    right, sure = torch.tensor([0.9, 0.1, 1.0, 0.0]), torch.tensor([0.8, 0.9, 1.0, 0.0])
    part = StepPotential()
    found = part(batch.with_columns({part.needs[0]: right, "segment.confidence": sure}))["segment.potential"]
    assert_close(found, torch.tensor([0.73, -0.715, 1.0, 0.0]))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["1+1=2", "\n", "2+1=3", "\n", "answer", ": 3", ""], [2, 4]),  # the answer belongs to the last step
        (["1+1=2", "\n", "2+1", ""], [2, 3]),  # what has no marker at its end is a step of its own
        (["no marker", ""], [1]),
        (["answer", ": 3", ""], [0]),
        (["a\nb", "c"], [1, 2]),  # a step ends with the token that completes its marker
    ],
)
def test_steps_end_with_their_marker(pieces: list[str], expected: list[int]) -> None:
    ends = [sum(map(len, pieces[: i + 1])) for i in range(len(pieces))]
    assert step_ends("".join(pieces), ends, "\n") == expected


def test_it_trains_on_steps_of_lines_and_counts_what_the_probes_cost(tmp_path: Path) -> None:
    method = methods.get("spae@lines", n=4, probes=2)
    line = short_run(method, tmp_path / "run", level=2, tasks=2).metrics[-1]
    assert line["grad_norm.policy"] > 0
    assert {"checking_tokens", "right_to_wrong"} <= set(line)
    assert line["tokens"] > line["length"] * line["rollouts"]
