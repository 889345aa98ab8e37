"""Trying a judge on pairs of which it is known which one is better."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from podium import worlds
from podium.core.errors import PodiumError
from podium.evaluation.judge_quality import ask_both_orders, judge_quality, known_pairs
from podium.evaluation.resample import Measure
from podium.sessions.evaluate import driver_for, load_target
from podium.strategies import OptionJudge, judge_named
from podium.strategies.requests import PairJudge
from podium.worlds import World

__all__ = ["try_judge"]

SERVER = ("http://", "https://")
STAND_IN = "podium/tiny"  # a server judges without a model of ours


def try_judge(
    target: str | Path,
    *,
    way: str = "options",
    world: str | World | None = None,
    tasks: int = 128,
    seed: int = 0,
    retries: int = 2,
    temperature: float = 0.6,
    device: str = "cpu",
    **world_settings: Any,
) -> dict[str, Measure]:
    """How good a model, a run's last checkpoint or a server on this machine is as a judge of pairs.

    `way`: options (the probabilities of A and B) or written (a verdict that is read, with so many `retries`).
    """
    if tasks < 2:
        raise PodiumError(f"tasks = {tasks} must be at least 2.")
    name = str(target)
    server = name.startswith(SERVER)
    opened = worlds.get(world or "verdicts", **world_settings)
    scaled = bool(getattr(opened, "scaled", False))
    settings: dict[str, Any] = {"scaled": scaled}
    if way == "written" or server:
        settings |= {"retries": retries, "temperature": temperature}
    judge, _ = judge_named(name if server else "policy", way, **settings)
    assert isinstance(judge, PairJudge)
    policy = load_target(STAND_IN if server else target, device)
    with closing(opened):
        pairs = known_pairs(opened, tasks, seed)
        judged = ask_both_orders(driver_for(policy, opened), pairs, judge, seed=seed)
    return judge_quality(judged, probabilities=isinstance(judge, OptionJudge) and not scaled)
