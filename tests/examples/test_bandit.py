"""`make demo`: the toy learns, by the real path."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from podium import methods

DEMO = Path(__file__).parents[2] / "examples" / "bandit.py"


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return runpy.run_path(str(DEMO))


@pytest.mark.parametrize("name", ["reinforce", "grpo", "rloo", "dapo", "gspo", "real", "clip-cov-kl-cov"])
def test_toy_learns_from_chance_to_nearly_always_right(demo: dict[str, Any], name: str) -> None:
    rewards = demo["train"](methods.get(name))
    assert rewards[0] < 0.1
    assert sum(rewards[-5:]) / 5 > 0.9


def test_two_runs_agree_exactly(demo: dict[str, Any]) -> None:
    assert demo["train"](methods.grpo(), iterations=5) == demo["train"](methods.grpo(), iterations=5)


def test_toy_refuses_what_it_cannot_run(demo: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert demo["main"](["ppo"]) == 2
    assert "signal 'value'" in capsys.readouterr().err
