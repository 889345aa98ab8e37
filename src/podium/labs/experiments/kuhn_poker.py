"""Kuhn poker in self-play: does the averaged policy come near an equilibrium? OpenSpiel's own functions measure it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from podium.core.errors import PodiumError
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.methods import get
from podium.policy import Policy
from podium.protocols.context import Latest
from podium.protocols.grammar import Pattern
from podium.protocols.sampling import Generate, Sampling
from podium.sampler.local import LocalSampler
from podium.sessions.train import train
from podium.strategies import Draw, Sample
from podium.worlds.spiel import Spiel

__all__ = ["STUDY", "KuhnSize", "averaged", "equilibrium_gap", "known_value", "sampled_policy"]

GAME, MODEL = "kuhn_poker", "podium/tiny2"
SPOKEN = Pattern("move: (pass|bet)")  # both moves are legal in every state
NASH_CONV = Quantity("nash_conv", "NashConv", (0.0, float("inf")))
OFF_VALUE = Quantity("off_value", "distance from the value −1/18", (0.0, float("inf")))

Table = dict[str, list[float]]  # the probability of each move by information state


class KuhnSize(StudySize):
    """How long the policy plays itself, and how many moves in each information state tell what it does there."""

    seeds: int = 5
    iterations: int = 80
    tasks: int = 32
    moves: int = 256


def known_value() -> float:
    """What the first player earns in every equilibrium."""
    return -1 / 18


def _states(world: Spiel) -> dict[str, str]:
    """By information state, what its player reads there."""
    found: dict[str, str] = {}
    waiting = [world.game().new_initial_state()]
    while waiting:
        state = waiting.pop()
        if not state.is_terminal() and not state.is_chance_node():
            player = state.current_player()
            found[state.information_state_string(player)] = world.view(state, player)
        waiting += [] if state.is_terminal() else [state.child(move) for move in state.legal_actions()]
    return dict(sorted(found.items()))


def sampled_policy(policy: Policy, world: Spiel, moves: int, stream: int) -> Table:
    """How often a model makes each move, out of so many that it writes in each information state."""
    sampling = Sampling(max_tokens=world.max_tokens, grammar=SPOKEN)
    states, sampler = _states(world), LocalSampler(policy)
    requests = [
        Generate(policy.encode([{"role": "user", "content": text}]), moves, sampling, (stream, place), keep=False)
        for place, text in enumerate(states.values())
    ]
    table: Table = {}
    for key, written in zip(states, sampler.generate(requests), strict=True):
        bets = sum(sampler.text(each.ids).strip().endswith("bet") for each in written) / moves
        table[key] = [1 - bets, bets]
    return table


def _tabular(world: Spiel, table: Table) -> Any:
    from open_spiel.python.policy import TabularPolicy

    policy = TabularPolicy(world.game())
    for key, row in table.items():
        policy.policy_for_key(key)[:] = row
    return policy


def averaged(world: Spiel, tables: Sequence[Table]) -> Any:
    """The policy that plays like one of these, drawn before the game: averages weighted by how likely each player is to
    come to a state itself."""
    from open_spiel.python.algorithms.policy_aggregator import PolicyAggregator

    players = list(range(world.game().num_players()))
    policies = [_tabular(world, table) for table in tables]
    weights = [1 / len(tables)] * len(tables)
    return PolicyAggregator(world.game()).aggregate(players, [policies] * 2, [weights] * 2)


def equilibrium_gap(world: Spiel, policy: Any) -> dict[str, float]:
    """NashConv of a policy for both players, and how far it is from the known value of the game."""
    from open_spiel.python.algorithms import expected_game_score, exploitability

    value = expected_game_score.policy_value(world.game().new_initial_state(), [policy] * 2)[0]
    found = exploitability.nash_conv(world.game(), policy, use_cpp_br=False)
    return {"nash_conv": float(found), "off_value": abs(float(value) - known_value())}


@lru_cache(maxsize=1)
def _self_play(seed: int, size: KuhnSize) -> list[Table]:
    """The policy before the first iteration and after each."""
    try:
        world = Spiel(task_name=GAME)
    except PodiumError as error:
        raise PodiumError(f"The trial kuhn-poker plays a game of OpenSpiel. {error}") from error
    tables: list[Table] = []

    def watch(run: Any, metrics: Mapping[str, Any]) -> None:
        model = run.trainer.learners["policy"].policy
        tables.append(sampled_policy(model, world, size.moves, seed + 1000 * len(tables)))

    strategy = Sample(n=8, draw=Draw(grammar=SPOKEN, context=Latest()))
    with TemporaryDirectory() as folder:
        train(
            get("mars", kl=0.0).with_(rollout=strategy),
            world=f"spiel:{GAME}",
            model=MODEL,
            seed=seed,
            iterations=size.iterations,
            tasks=size.tasks,
            eval_every=0,
            eval_tasks=1,
            eval_samples=1,
            out=Path(folder) / "run",
            progress=watch,
        )
    return tables


def start_policy(seed: int, size: KuhnSize) -> Mapping[str, ArrayLike]:
    """The model before training, which writes a legal move because it must."""
    world = Spiel(task_name=GAME)
    return equilibrium_gap(world, averaged(world, _self_play(seed, size)[:1]))


def halfway_policy(seed: int, size: KuhnSize) -> Mapping[str, ArrayLike]:
    """The average over the first half of the iterations."""
    world = Spiel(task_name=GAME)
    return equilibrium_gap(world, averaged(world, _self_play(seed, size)[1 : 1 + size.iterations // 2]))


def last_policy(seed: int, size: KuhnSize) -> Mapping[str, ArrayLike]:
    """The policy of the last iteration alone."""
    world = Spiel(task_name=GAME)
    tables = _self_play(seed, size)
    each = [equilibrium_gap(world, averaged(world, [table]))["nash_conv"] for table in tables[1:]]
    return {**equilibrium_gap(world, averaged(world, tables[-1:])), "along": each, "iteration": _iterations(size)}


def average_policy(seed: int, size: KuhnSize) -> Mapping[str, ArrayLike]:
    """The average over all iterations."""
    world = Spiel(task_name=GAME)
    tables = _self_play(seed, size)[1:]
    each = [equilibrium_gap(world, averaged(world, tables[: count + 1]))["nash_conv"] for count in range(len(tables))]
    return {**equilibrium_gap(world, averaged(world, tables)), "along": each, "iteration": _iterations(size)}


def _iterations(size: KuhnSize) -> ArrayLike:
    return np.arange(1, size.iterations + 1)


STUDY = Trial(
    "kuhn-poker",
    "Kuhn poker in self-play: does the averaged policy come near an equilibrium?",
    arms={
        "start": start_policy,
        "averaged, first half": halfway_policy,
        "last": last_policy,
        "averaged": average_policy,
    },
    claims=(
        Claim("self-play lowers NashConv of the averaged policy", NASH_CONV, "start", "averaged"),
        Claim("it goes on to fall", NASH_CONV, "averaged, first half", "averaged"),
        Claim("the last policy is further from an equilibrium than the average", NASH_CONV, "last", "averaged"),
        Claim("the value comes nearer to −1/18", OFF_VALUE, "start", "averaged"),
    ),
    readings=(NASH_CONV, OFF_VALUE),
    charts=(traced("along", over="iteration", title="NashConv", x_label="iteration"),),
    size=KuhnSize(),
    quick=KuhnSize(seeds=2, iterations=16, moves=128),
)
