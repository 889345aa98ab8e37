"""MARS: does self-play make a policy stronger against opponents that it has never met? In games of OpenSpiel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import ArrayLike

from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.methods import get
from podium.protocols.context import Latest
from podium.protocols.grammar import Pattern
from podium.sessions.play_against import play_against
from podium.sessions.train import train
from podium.strategies import Draw, Sample

__all__ = ["STUDY"]

MODEL, FORM = "podium/tiny2", 0.05
OPPONENTS = ("random", "first", "last")  # a random one of the legal moves, always the first, always the last
# A move has the form of the game's moves, because the model has never seen them; which of them are legal it must learn.
GAMES = {"tic_tac_toe": Pattern(r"move: [xo]\([0-2],[0-2]\)"), "kuhn_poker": Pattern("move: (pass|bet)")}
TIC_TAC_TOE = Quantity("tic_tac_toe", "points at tic-tac-toe", (-1.0, 1.0))
KUHN = Quantity("kuhn_poker", "points at Kuhn poker", (-2.0, 2.0))
FORMER = Quantity("former", "points at tic-tac-toe against the start", (-1.0, 1.0))


class Tournament(StudySize):
    """How long a policy plays itself in each game, and how many games it plays against each opponent."""

    seeds: int = 5
    iterations: int = 40
    tasks: int = 16
    held_out: int = 64
    games: int = 4


def matched(trained: bool, seed: int, size: Tournament) -> Mapping[str, ArrayLike]:
    """What a policy earns against each of three fixed opponents, as either player: the model before training, or after
    self-play by MARS. Both write moves of the game's form and see the latest state."""
    found: dict[str, ArrayLike] = {}
    for game, moves in GAMES.items():
        draw = Draw(grammar=moves, context=Latest())
        with TemporaryDirectory() as folder:
            own = Path(folder) / "run"
            if trained:
                train(
                    get("mars").with_(rollout=Sample(n=8, draw=draw)),
                    world=f"spiel:{game}",
                    world_settings={"form": FORM},
                    model=MODEL,
                    seed=seed,
                    iterations=size.iterations,
                    tasks=size.tasks,
                    eval_every=0,
                    eval_tasks=1,
                    eval_samples=1,
                    out=own,
                )
            opponents = (*OPPONENTS, MODEL)
            matches = play_against(
                own if trained else MODEL,
                opponents,
                world=f"spiel:{game}",
                tasks=size.held_out,
                samples=size.games,
                seed=seed,
                draw=draw,
            )
        earned = [matches[name]["reward"].mean for name in opponents]
        found |= {game: np.array(earned[:-1]), **({"former": earned[-1]} if game == "tic_tac_toe" else {})}
    return found


STUDY = Trial(
    "mars",
    "Does self-play make a policy stronger against fixed opponents in games of OpenSpiel?",
    arms={"start": partial(matched, False), "self-play": partial(matched, True)},
    claims=(
        Claim("self-play earns more against fixed opponents at tic-tac-toe", TIC_TAC_TOE, "self-play", "start"),
        Claim("self-play earns more against fixed opponents at Kuhn poker", KUHN, "self-play", "start"),
        Claim("self-play beats the model that it started from", FORMER, "self-play", "start"),
    ),
    readings=(TIC_TAC_TOE, KUHN, FORMER),
    size=Tournament(),
    quick=Tournament(seeds=2, iterations=10, tasks=8, held_out=16, games=2),
)
