"""Measuring a run or a model against opponents, in a world of several agents."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.errors import PodiumError, nearest
from podium.evaluation.measure import failure_note, held_out_requests
from podium.evaluation.passk import bootstrap_interval
from podium.evaluation.resample import Measure
from podium.method import Method
from podium.policy.model.load import EMBEDDED
from podium.protocols.context import Context
from podium.protocols.grammar import Grammar
from podium.protocols.sampling import Sampling
from podium.protocols.seats import Player, Seat
from podium.protocols.world import World
from podium.sessions.evaluate import BASE_MODEL, EvaluationSetting, run_config
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Play, Request, TaskRequest, rollouts_of

__all__ = ["play_against"]

OPPONENT = "opponent"  # the role of a model that plays against the target


def play_against(
    target: str | Path,
    opponents: Sequence[str | Player],
    *,
    world: str | World | None = None,
    tasks: int = 128,
    samples: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    device: str = "cpu",
    trust: bool = False,
    draw: Draw | None = None,
    **world_settings: Any,
) -> dict[str, dict[str, Measure]]:
    """By opponent, what a run or a model earns and how often it wins, on held-out tasks.

    An opponent is a player of the world by name (`random`), a run or a model, `base` for the one that the run started
    from, or a `Player`. The target plays each agent of each task `samples` times, and the opponent all others. Both see
    and write what `draw` says, without one what the strategy of the run lets its policy see and write: its context, and
    its grammar.
    """
    if min(tasks, samples) < 1:
        raise PodiumError("tasks and samples must be at least 1.")
    found = {}
    for opponent in opponents:
        setting = EvaluationSetting.of(target, world, world_settings, max_tokens, trust)
        with closing(setting.world):
            by = _opponent(opponent, setting.world, target, trust)
            driver = setting.driver(target, device, {} if isinstance(by, Player) else {OPPONENT: by})
            context, grammar = _drawn(setting.method, draw)
            limit = setting.world.max_tokens if setting.max_tokens is None else setting.max_tokens
            sampling = Sampling(max_tokens=limit, temperature=temperature, grammar=grammar)
            requests = held_out_requests(setting.world, tasks, sampling, seed)
            seat = by if isinstance(by, Player) else OPPONENT
            agents = setting.world.agents
            groups = driver.collect([_matches(request, agents, seat, samples, context) for request in requests])
            if all(r.columns["failure"] for g in groups for r in g):
                raise PodiumError(f"Nothing can be measured: the world failed in every game: {failure_note(groups)}.")
            found[str(opponent)] = _measures(groups, agents)
    return found


def _opponent(named: str | Player, world: World, target: str | Path, trust: bool) -> str | Player:
    """A player, or the path or name of a model or run."""
    if len(world.agents) < 2:
        raise PodiumError(f"The world {world.name!r} has one agent alone: there is nobody to play against.")
    if isinstance(named, Player):
        return named
    if named == BASE_MODEL:
        config = run_config(target, None, trust)
        if config is None:
            raise PodiumError(f"{target} is a model, which did not start from another: name the opponent.")
        return config.model
    if named in world.players:
        return world.players[named]
    if Path(named).exists() or named.startswith(EMBEDDED) or "/" in named:
        return named
    known = [BASE_MODEL, *world.players]
    raise PodiumError(
        f"{named!r} is no player of the world {world.name!r}, and no run or model. {nearest(named, known)}"
    )


def _drawn(method: Method | None, draw: Draw | None) -> tuple[Context | None, Grammar | None]:
    """What the policy of a run sees, and what it may write."""
    strategy = None if method is None else method.main().rollout
    drawn = draw or (None if strategy is None else strategy.draw)
    return getattr(drawn, "context", None), getattr(drawn, "grammar", None)


def _matches(
    request: TaskRequest, agents: Sequence[str], by: str | Player, samples: int, context: Context | None
) -> Plan:
    """The games of a task: for each agent, those in which the target plays it."""
    games: list[Request] = [
        Play(
            request,
            samples,
            wave=number,
            first=number * samples,
            context=context,
            seats=tuple(Seat(other, by) for other in agents if other != agent),
        )
        for number, agent in enumerate(agents)
    ]
    return rollouts_of((yield games))


def _measures(groups: Sequence[Sequence[Rollout]], agents: Sequence[str]) -> dict[str, Measure]:
    """What the target has earned, in all and as each agent, and how often it earned more than the others did."""
    shape = (len(groups), len(agents), -1)

    def earned(rollout: Rollout, agent: str) -> float:
        return float(rollout.columns[f"reward.{agent}"])

    def of(group: Sequence[Rollout]) -> list[tuple[float, bool]]:
        found = []
        for place, rollout in enumerate(group):
            agent = agents[place * len(agents) // len(group)]
            others = [earned(rollout, other) for other in agents if other != agent]
            found.append((earned(rollout, agent), earned(rollout, agent) > float(np.mean(others))))
        return found

    reward, won = np.moveaxis(np.array([of(group) for group in groups], dtype=float), 2, 0)
    by_agent = reward.reshape(shape).mean(2)
    columns = {"reward": by_agent.mean(1), "won": won.mean(1)}
    columns |= {f"reward.{agent}": by_agent[:, place] for place, agent in enumerate(agents)}
    return {name: Measure(float(x.mean()), *bootstrap_interval(x.tolist())) for name, x in columns.items()}
