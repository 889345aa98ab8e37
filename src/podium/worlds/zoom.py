"""Zoom: a small picture shows where colours are, a closer look at some regions shows what the things are."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.pieces import joined
from podium.protocols.world import Feedback, Task
from podium.worlds.codebooks import COLOURS, EMPTY, GROUND, SCENERY, THINGS, code_of
from podium.worlds.picture import Codes, Pixels, as_tokens, thumbnail
from podium.worlds.puzzle import Draft, Slip
from podium.worlds.quest import Quest, QuestStep
from podium.worlds.shifted import ShiftedPictures

__all__ = ["Zoom", "region_codes"]

REGION = 2  # cells of a region's side; a region is one token of the small picture
SIZES = {1: (2, 1), 2: (3, 1), 3: (3, 2), 4: (4, 2)}  # by level: regions of a side, things that are asked for
OTHERS = {1: 1, 2: 3, 3: 3, 4: 6}  # by level: other things, at most


class Zoom(ShiftedPictures, Quest):
    """`which things are red, blue`: look at the regions where the colours are, then name the things.

    The task shows a thumbnail of the picture, whose regions are numbered row by row. `look: 6 11` shows up to `most` of
    them in full, once, and the question again, so that this observation is enough to answer from; with `whole` it shows
    the whole picture instead. An answer without a look is wrong, whatever it says.
    """

    name = "zoom"
    summary = "look closer at regions of a picture, then say what is there"
    levels = tuple(SIZES)
    styles = ("short", "long", "plain")
    provides = (*Quest.provides, "rollout.picked", "rollout.evidence")
    blank = {**Quest.blank, "picked": (), "evidence": ()}
    max_tokens = 40
    max_turns = 6
    codebook = SCENERY
    most: int = 2  # regions of one look
    whole: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "most", 1, 16)

    def explain(self) -> str:
        return (
            f"The small picture shows colours only; its regions are numbered from 1, row by row. `look: 1 2` shows up "
            f"to {self.most} regions in full, once. Then write `{ANSWER_MARK}` and the names of the things of these "
            f"colours, in this order: {', '.join(THINGS)}."
        )

    def draft(self, rng: Random) -> Draft:
        side, asked = SIZES[self.level]
        colours = rng.sample(list(COLOURS), len(COLOURS))
        wanted, others = colours[:asked], colours[asked:]
        regions = rng.sample(range(side * side), asked + rng.randint(1, OTHERS[self.level]))
        codes = np.full((side * REGION, side * REGION), EMPTY)
        things = [rng.choice(list(THINGS)) for _ in regions]
        for number, (region, thing) in enumerate(zip(regions, things, strict=True)):
            row, column = (REGION * part + rng.randrange(REGION) for part in divmod(region, side))
            codes[row, column] = code_of(wanted[number] if number < asked else rng.choice(others), thing)
        words = f"which {'thing is' if asked == 1 else 'things are'} {', '.join(wanted)}"
        answer = " ".join(things[:asked])
        data = {
            "picture": tuple(map(tuple, codes.tolist())),
            "colours": tuple(wanted),
            "regions": tuple(region + 1 for region in regions[:asked]),  # in the order of the colours
            "evidence": tuple(sorted(region + 1 for region in regions[:asked])),
            "words": words,
            "answer": answer,
            "reference_answer": answer,
        }
        small = SCENERY.read(thumbnail(self._pixels(codes), REGION, GROUND))
        return Draft(joined("\n", ["small:", as_tokens(small), words]), f"{codes.tolist()} {wanted}", data)

    def _pixels(self, codes: Codes) -> Pixels:
        """The picture as the shift shows it."""
        return self.seen_pixels(SCENERY.drawn(codes), seed=codes.tolist())

    def looked(self, task: Task, regions: list[int]) -> str:
        """What a look at these regions shows, and the question."""
        codes = SCENERY.read(self._pixels(np.array(task.data["picture"])))
        shown = ["whole:", as_tokens(codes)] if self.whole else []
        for region in () if self.whole else regions:
            shown += [f"{region}:", as_tokens(region_codes(codes, region))]
        return joined("\n", [*shown, task.data["words"]])

    def reset(self, task: Task, seed: int = 0) -> _Looking:
        return _Looking(self, task)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        """A look at the regions of the colours, then what is seen and the answer. A slip looks at another region, after
        which one guesses, or takes a thing for another."""
        side, truth = SIZES[self.level][0], task.data["answer"].split()
        regions, slipped = list(task.data["regions"]), False
        for place in range(len(regions)):
            if slip():
                free = [r for r in range(1, side * side + 1) if r not in (*regions, *task.data["regions"])]
                regions[place], slipped = rng.choice(free), True
        seen = list(truth)
        for place in range(len(seen)):
            if slip() or (slipped and seen == truth):
                seen[place] = rng.choice([thing for thing in THINGS if thing != truth[place]])
        numbers = " ".join(map(str, sorted(regions)[: self.most]))
        found = ", ".join(f"{colour} in {r}" for colour, r in zip(task.data["colours"], regions, strict=True))
        first = f"{found}\nlook: {numbers}" if style == "long" else f"look: {numbers}"
        named = ", ".join(f"{colour} {thing}" for colour, thing in zip(task.data["colours"], seen, strict=True))
        said = [] if style == "plain" else [f"see {named}"]
        return first, "\n".join([*said, f"{ANSWER_MARK} {' '.join(seen)}"])


class _Looking(QuestStep):
    verbs = ("look",)

    def __init__(self, world: Zoom, task: Task) -> None:
        super().__init__(world, task)
        self.zoom = world
        self.picked: tuple[int, ...] = ()

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        count = SIZES[self.task.level][0] ** 2
        numbers = sorted({int(number) for number in re.findall(r"[0-9]{1,3}", rest)})
        if self.picked:
            return self.say(f"error: you have looked, say {ANSWER_MARK}", valid=False)
        if not numbers or numbers[0] < 1 or numbers[-1] > count or len(numbers) > self.zoom.most:
            return self.say(f"error: look at 1 to {self.zoom.most} of the regions 1 to {count}", valid=False)
        self.picked = tuple(numbers)
        self.recap = f"looked at {' '.join(map(str, numbers))}"
        return self.say(self.zoom.looked(self.task, numbers))

    def reached(self) -> str:
        return ",".join(map(str, self.picked))

    def missing(self) -> int:
        return int(not self.picked)

    def right(self, answer: str) -> bool:
        return bool(self.picked) and super().right(answer)

    def columns(self) -> dict[str, Any]:
        return {"picked": self.picked, "evidence": self.task.data["evidence"]}


def region_codes(codes: Codes, region: int) -> Codes:
    """The codes of a region, numbered from 1 row by row."""
    row, column = (REGION * part for part in divmod(region - 1, codes.shape[1] // REGION))
    return codes[row : row + REGION, column : column + REGION]
