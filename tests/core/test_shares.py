"""Shares of a run become numbers before it starts, at any depth, and nothing else changes."""

from __future__ import annotations

import pytest

from podium.core.errors import PodiumError
from podium.core.schedule import Linear, Steps
from podium.core.shares import ShareOfRun, ShareOfTokens, scaled
from podium.core.value import Clock
from podium.method import Method, Phases
from podium.methods import get
from podium.parts.objective import KL
from podium.strategies import Sample

TOTALS = {"iterations": 40, "max_tokens": 64}


def test_shares_are_rounded_and_at_least_one() -> None:
    assert scaled(ShareOfTokens(0.25), TOTALS) == 16
    assert scaled(ShareOfRun(0.33), TOTALS) == 13
    assert scaled(ShareOfRun(0.001), TOTALS) == 1
    assert scaled((ShareOfRun(0.5), 7, "x"), TOTALS) == (20, 7, "x")


def test_shares_are_found_inside_schedules_parts_and_phases() -> None:
    method = get("grpo") | KL("k3", coefficient=Linear(0.1, 0.0, over=ShareOfRun(1.0)))
    (kl,) = (term for term in scaled(method, TOTALS).objective if isinstance(term, KL))
    assert kl.coefficient == Linear(0.1, 0.0, over=40)
    several = Phases(method.until(ShareOfRun(0.25)), Method(name="rest", rollout=Sample()))
    assert repr(scaled(several, TOTALS).phases[0].until[0]) == "Iterations(count=10)"


def test_a_method_without_shares_is_itself() -> None:
    method = get("grpo")
    assert scaled(method, TOTALS) is method


def test_starts_of_steps_may_be_shares() -> None:
    steps = Steps((1.0, 0.5, 0.1), (0, ShareOfRun(0.5), ShareOfRun(0.75)))
    assert scaled(steps, TOTALS) == Steps((1.0, 0.5, 0.1), (0, 20, 30))
    short = scaled(steps, {"iterations": 2, "max_tokens": 8})
    assert short.starts == (0, 1, 2)
    with pytest.raises(PodiumError, match="must not decrease"):
        Steps((1.0, 0.5, 0.1), (0, 30, 20))


def test_a_share_that_no_run_has_resolved_is_an_error() -> None:
    with pytest.raises(PodiumError, match=r"ShareOfRun\(0.5\) is a share of iterations, which only a run knows"):
        Linear(0.1, 0.0, over=1).replace(start=ShareOfRun(0.5)).at(Clock()).start.number(Clock())
    with pytest.raises(PodiumError, match="out of range"):
        ShareOfTokens(0.0)


def test_shares_of_what_is_not_known_yet_stay() -> None:
    method = Method(objective=(KL("k3", coefficient=Linear(0.1, 0.0, over=ShareOfRun(0.5))),), rollout=Sample())
    assert scaled(method, {"max_tokens": 8}) == method
    assert scaled(method, {"iterations": 8}).objective[0].coefficient == Linear(0.1, 0.0, over=4)
