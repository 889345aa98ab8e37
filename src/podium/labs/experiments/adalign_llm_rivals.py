"""AdAlign-LLM against rivals: is a policy that cooperates with itself exploited by those that do not?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.sessions.evaluate import evaluate
from podium.sessions.play_against import play_against
from podium.sessions.train import train

__all__ = ["STUDY"]

MODEL, LEVEL = "podium/tiny2", 1
DEFECT = Quantity("defect", "points against always-defect")
MIRROR = Quantity("tit_for_tat", "points against tit for tat")
NAIVE = Quantity("naive", "points against naive training")
ANOTHER = 1000  # what the seed of a trained opponent is moved by


class RivalsSize(StudySize):
    """How long policies are trained, and how many games they are measured in."""

    seeds: int = 5
    iterations: int = 40
    tasks: int = 8
    held_out: int = 32
    games: int = 8


def _trained(method: str, seed: int, size: RivalsSize, out: Path) -> Path:
    settings: dict[str, Any] = {"iterations": size.iterations, "tasks": size.tasks, "eval_every": 0, "eval_tasks": 1}
    train(method, out=out, seed=seed, world="dilemma", level=LEVEL, model=MODEL, eval_samples=1, **settings)
    return out


def faced(method: str, seed: int, size: RivalsSize) -> Mapping[str, float]:
    """What a policy earns in the iterated prisoner's dilemma against three rivals: two by rule, and one that was
    trained naively in self-play of its own; no method: the model that they start from."""
    with TemporaryDirectory() as folder:
        own: str | Path = _trained(method, seed, size, Path(folder) / "own") if method else MODEL
        rival = _trained("adalign-llm@naive", seed + ANOTHER, size, Path(folder) / "rival")
        where: dict[str, Any] = {"world": "dilemma", "level": LEVEL, "tasks": size.held_out, "samples": size.games}
        by_rule = {name: evaluate(own, ks=(1,), rival=name, **where) for name in ("defect", "tit_for_tat")}
        found = {name: measures["reward"].mean for name, measures in by_rule.items()}
        return {**found, "naive": play_against(own, [str(rival)], **where)[str(rival)]["reward"].mean}


STUDY = Trial(
    "adalign-llm-rivals",
    "Iterated prisoner's dilemma: is a policy trained by advantage alignment exploited by rivals that defect?",
    arms={
        "base": partial(faced, ""),
        "aligned": partial(faced, "adalign-llm"),
        "naive": partial(faced, "adalign-llm@naive"),
    },
    claims=(
        Claim("alignment is exploited less by always-defect than the model it starts from", DEFECT, "aligned", "base"),
        Claim("alignment earns more against tit for tat than naive training", MIRROR, "aligned", "naive"),
        Claim("alignment is exploited less by naive training than the model it starts from", NAIVE, "aligned", "base"),
    ),
    readings=(DEFECT, MIRROR, NAIVE),
    size=RivalsSize(),
    quick=RivalsSize(seeds=2, iterations=8, tasks=4, held_out=8, games=4),
)
