"""What a judge is worth, on verdicts written down by hand."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from podium.cli.app import app
from podium.collect.driver import Driver
from podium.core.errors import PodiumError
from podium.evaluation.judge_quality import JudgedPair, ask_both_orders, judge_quality, known_pairs
from podium.sampler.local import LocalSampler
from podium.sessions.try_judge import try_judge
from podium.strategies.requests import JudgeScores, PairJudge, TaskRequest
from podium.worlds import Sums, Trips, Verdicts
from tests.policy import tiny


def pair(first: float, last: float, longer: int = 0, failed: int = 0) -> JudgedPair:
    """The better text gets these scores where it stands first and where it stands last."""
    return JudgedPair(JudgeScores((first, 1 - first), 1, failed), JudgeScores((1 - last, last), 1), longer)


def test_measures_by_hand() -> None:
    found = judge_quality(
        [
            pair(0.9, 0.9, longer=1),  # right in both orders
            pair(0.8, 0.4, longer=-1),  # takes the first
            pair(0.1, 0.3, longer=-1),  # wrong in both
            pair(0.5, 0.7, longer=1, failed=1),  # nothing in the first order
        ],
        probabilities=True,
    )
    assert found["accuracy"].mean == pytest.approx((2 + 1 + 0 + 1.5) / 8)
    assert found["agreement"].mean == pytest.approx(2 / 3)
    # For the first place: 1 of 2, 2 of 2, 1 of 2, 0 of 1.
    assert found["first"].mean == pytest.approx(4 / 7)
    assert found["longer"].mean == pytest.approx(3.5 / 4 - 1 / 4)
    assert found["nonsense"].mean == pytest.approx(1 / 8)
    squares = 0.01 + 0.01 + 0.04 + 0.36 + 0.81 + 0.49 + 0.25 + 0.09
    assert found["brier"].mean == pytest.approx(squares / 8)
    # Confidences 0.9, 0.9, 0.9 in one bin with two right of three; 0.8 and 0.6 and 0.7, 0.7 and 0.5.
    errors = abs(2.7 - 2) + abs(0.8 - 1) + abs(0.6 - 0) + abs(1.4 - 1) + abs(0.5 - 0.5)
    assert found["ece"].mean == pytest.approx(errors / 8)
    assert all(m.low <= m.mean <= m.high for m in found.values())


def test_without_a_longer_text_there_is_no_bias_to_measure() -> None:
    assert str(judge_quality([pair(0.9, 0.9), pair(0.1, 0.2)])["longer"].mean) == "nan"


class Longest(PairJudge):
    """Takes the longer text."""

    def compare(self, request: TaskRequest, left: str, right: str, seed: int) -> tuple[float, float]:
        return (1.0, 0.0) if len(left) > len(right) else (0.0, 1.0)


def test_a_judge_of_length_is_found_out() -> None:
    policy, world = tiny.policy(), Verdicts(lengths="misleading")
    driver = Driver(LocalSampler(policy), world, written=policy.written, score=policy.score)
    found = judge_quality(ask_both_orders(driver, known_pairs(world, 20), Longest()))
    assert (found["accuracy"].mean, found["agreement"].mean, found["first"].mean) == (0, 1, 0.5)
    crossed = judge_quality(ask_both_orders(driver, known_pairs(Sums(level=2), 60), Longest()))
    assert crossed["longer"].mean == 1
    assert 0.3 < crossed["accuracy"].mean < 0.7


def test_a_world_without_wrong_attempts_is_refused() -> None:
    with pytest.raises(PodiumError, match="'trips' cannot write right and wrong attempts"):
        known_pairs(Trips(), 2)


@pytest.mark.parametrize("way", ["options", "written"])
def test_the_command_tries_a_model(way: str) -> None:
    found = try_judge("podium/tiny2", way=way, tasks=6)
    assert {"accuracy", "agreement", "first", "longer", "nonsense", "calls"} <= set(found)
    assert ("ece" in found) == (way == "options")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--judge", "shouted"], "'written' or 'options'"), (["--judge", "--tasks", "1"], "at least 2")],
)
def test_bad_commands(arguments: list[str], said: str) -> None:
    from podium.cli.evaluate import expand_options

    result: Any = CliRunner().invoke(app, ["eval", "podium/tiny2", *expand_options(arguments)])
    assert result.exit_code
    assert said in str(result.exception) + result.output
