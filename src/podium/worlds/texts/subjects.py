"""All exercises by name, with their levels."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from podium.worlds.texts.advice import ability, advised, advised_search, directed, planned, task_wanted
from podium.worlds.texts.captions import caption_verdict
from podium.worlds.texts.carry import carried
from podium.worlds.texts.devices import calculated, sorted_out
from podium.worlds.texts.dilemmas import prisoners, split_coins, trust_and_split
from podium.worlds.texts.exercise import Exercise
from podium.worlds.texts.inquiries import accepted, chained, compound_asked, cut_named, judged_search
from podium.worlds.texts.people import approved
from podium.worlds.texts.vault import attacked, defended
from podium.worlds.texts.verdicts import criterion_verdict, pair_verdict, point_verdict, scaled_verdict, step_verdict

__all__ = ["SUBJECTS", "Subject"]


class Subject(NamedTuple):
    """A kind of exercise: a function of a random stream, a level and a split."""

    draw: Callable[[Random, int, str], Exercise]
    levels: tuple[int, ...] = (1, 2, 3)
    max_tokens: int = 48  # of a turn


SUBJECTS: dict[str, Subject] = {
    "pair verdict": Subject(pair_verdict, max_tokens=240),
    "scaled verdict": Subject(scaled_verdict, max_tokens=240),
    "point verdict": Subject(point_verdict),
    "step verdict": Subject(step_verdict),
    "criterion verdict": Subject(criterion_verdict),
    "caption verdict": Subject(caption_verdict, (1, 2)),
    "advice": Subject(advised, max_tokens=96),
    "search advice": Subject(advised_search),
    "direction": Subject(directed, max_tokens=96),
    "plan": Subject(planned, max_tokens=96),
    "can you": Subject(ability, (1,)),
    "task wanted": Subject(task_wanted, (1,), 64),
    "prisoners": Subject(prisoners, (1,)),
    "split": Subject(split_coins, (1,)),
    "trust and split": Subject(trust_and_split, (1,)),
    "vault attack": Subject(attacked, (1,)),
    "vault defence": Subject(defended, (1, 2)),
    "carry": Subject(carried),
    "sorting": Subject(sorted_out),
    "calculator": Subject(calculated),
    "judged search": Subject(judged_search),
    "sources": Subject(chained, max_tokens=96),
    "compound questions": Subject(compound_asked),
    "refiner verdict": Subject(accepted),
    "refiner cut": Subject(cut_named, (2, 3)),
    "table rows": Subject(approved, (1, 2)),
}
