"""Clips: coarse frames of a short film, finer ones around those that are picked, and a question about an event."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.pieces import Pieces, joined
from podium.protocols.world import Feedback, Task
from podium.worlds.codebooks import COLOURS, EMPTY, SCENERY, THINGS, code_of
from podium.worlds.picture import Codes, as_tokens
from podium.worlds.puzzle import Draft, Slip
from podium.worlds.quest import Quest, QuestStep
from podium.worlds.shifted import ShiftedPictures

__all__ = ["Clips", "Event", "frame_codes", "refined"]

STEPS = 4  # moments from one coarse frame to the next
WIDTH = 4  # cells of a frame, which is a strip
PICKS = 2  # turns in which frames may be picked


class Size(NamedTuple):
    frames: int  # coarse ones
    asked: int  # events of the colour that is asked for
    things: int  # in each of these events, one after the other
    others: int  # events of other colours, at most


SIZES = {1: Size(6, 1, 1, 1), 2: Size(10, 1, 2, 2), 3: Size(16, 2, 1, 2), 4: Size(32, 2, 1, 4)}


class Event(NamedTuple):
    """Something passes: the coarse frame shows a smear of its colour, and a moment later one sees what it is."""

    frame: int  # the number of the coarse frame, from 1
    cell: int
    colour: str
    things: tuple[str, ...]  # one or two


class Clips(ShiftedPictures, Quest):
    """`which red things`: pick frames with the colour, look at the finer ones around them, name what passed, in order.

    `pick: 3 7` replaces the view by up to `finer` frames, shared among the picked ones: who picks less sees more. Their
    numbers begin at 1 again; picking among them counts as picking the nearest coarse frame.
    """

    name = "clips"
    summary = "pick frames of a short film, look closer, say what passed"
    levels = tuple(SIZES)
    styles = ("short", "long", "plain")
    provides = (*Quest.provides, "rollout.picked", "rollout.evidence")
    blank = {**Quest.blank, "picked": (), "evidence": ()}
    max_tokens = 40
    max_turns = 6
    codebook = SCENERY
    finer: int = 8  # new frames that a pick shows, at most

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "finer", 1, 64)

    def explain(self) -> str:
        return (
            f"In some frames something of a colour passes. `pick: 3 7` shows at most {self.finer} finer frames around "
            f"these; you may pick in {PICKS} turns. Then write `{ANSWER_MARK}` and the names of the things of this "
            f"colour in the order in which they passed: {', '.join(THINGS)}."
        )

    def draft(self, rng: Random) -> Draft:
        size = SIZES[self.level]
        asked, *colours = rng.sample(list(COLOURS), len(COLOURS))
        count = size.asked + rng.randint(0, size.others)
        # Not next to each other, so that a closer look at one does not show another.
        gaps = sorted(rng.sample(range(size.frames - count), count))
        frames = [gap + number + 1 for number, gap in enumerate(gaps)]
        chosen = set(rng.sample(frames, size.asked))
        scenery = rng.randrange(WIDTH), rng.choice(colours), rng.choice(list(THINGS))
        events = []
        for frame in frames:
            things = tuple(rng.sample(list(THINGS), size.things))
            cell = rng.choice([cell for cell in range(WIDTH) if cell != scenery[0]])
            events.append(Event(frame, cell, asked if frame in chosen else rng.choice(colours), things))
        names = [thing for event in events if event.frame in chosen for thing in event.things]
        answer = " ".join(names)
        data = {
            "events": tuple(map(tuple, events)),
            "scenery": scenery,
            "colour": asked,
            "evidence": tuple(sorted(chosen)),
            "answer": answer,
            "reference_answer": answer,
        }
        moments = [frame * STEPS for frame in range(1, size.frames + 1)]
        question = joined("\n", ["clip:", self.view(data, moments), f"which {asked} things"])
        return Draft(question, f"{events} {scenery} {asked}", data)

    def view(self, data: Any, moments: Sequence[int]) -> str:
        """The frames of these moments, numbered from 1."""
        lines = []
        for number, moment in enumerate(moments, 1):
            codes = self.seen_codes(frame_codes(data, moment), seed=(data["events"], moment))
            lines.append(Pieces(f"{number} ", as_tokens(codes)))
        return joined("\n", lines)

    def reset(self, task: Task, seed: int = 0) -> _Watching:
        return _Watching(self, task)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        """A pick of the frames that show the colour, then what is seen and the answer. A slip picks another frame,
        after which one guesses, or takes a thing for another."""
        colour, evidence, answer = task.data["colour"], list(task.data["evidence"]), task.data["answer"].split()
        picked, slipped = list(evidence), False
        for place in range(len(picked)):
            if slip():
                free = [f for f in range(1, SIZES[self.level].frames + 1) if f not in (*picked, *evidence)]
                picked[place], slipped = rng.choice(free), True
        seen = list(answer)
        for place in range(len(seen)):
            if slip() or (slipped and seen == answer):
                seen[place] = rng.choice([thing for thing in THINGS if thing != answer[place]])
        numbers = " ".join(map(str, sorted(picked)))
        first = f"{colour} in {numbers}\npick: {numbers}" if style == "long" else f"pick: {numbers}"
        said = [] if style == "plain" else [f"see {', '.join(f'{colour} {thing}' for thing in seen)}"]
        return first, "\n".join([*said, f"{ANSWER_MARK} {' '.join(seen)}"])


class _Watching(QuestStep):
    verbs = ("pick",)

    def __init__(self, world: Clips, task: Task) -> None:
        super().__init__(world, task)
        self.clips = world
        self.moments = tuple(frame * STEPS for frame in range(1, SIZES[task.level].frames + 1))
        self.picked: frozenset[int] = frozenset()  # coarse frames
        self.seen: frozenset[int] = frozenset(self.moments)
        self.picks = 0

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        numbers = sorted({int(number) for number in re.findall(r"[0-9]{1,3}", rest)})
        if self.picks == PICKS:
            return self.say(f"error: no more picks, say {ANSWER_MARK}", valid=False)
        if not numbers or numbers[0] < 1 or numbers[-1] > len(self.moments) or len(numbers) > self.clips.finer:
            most = min(self.clips.finer, len(self.moments))
            return self.say(f"error: pick 1 to {most} of the numbers 1 to {len(self.moments)}", valid=False)
        self.picks += 1
        chosen = [self.moments[number - 1] for number in numbers]
        last = SIZES[self.task.level].frames
        self.picked |= {
            min(max((moment + 1) // STEPS, 1), last) for moment in chosen
        }  # the nearest, or the earlier one
        self.moments = refined(self.moments, chosen, self.clips.finer)
        self.seen |= set(self.moments)
        self.recap = f"picked {' '.join(map(str, sorted(self.picked)))}"
        return self.say(self.clips.view(self.task.data, self.moments))

    def reached(self) -> str:
        return f"{self.picks}/{','.join(map(str, self.moments))}" if self.picks else ""

    def missing(self) -> int:
        """One pick, until everything that was asked for has been seen clearly."""
        events = [Event(*event) for event in self.task.data["events"]]
        asked = [event for event in events if event.frame in self.task.data["evidence"]]
        return int(not all(_clear(event, self.seen) for event in asked))

    def columns(self) -> dict[str, Any]:
        return {"picked": tuple(sorted(self.picked)), "evidence": self.task.data["evidence"]}


def frame_codes(data: Any, moment: int) -> Codes:
    """What is to be seen at a moment: the scenery, and events: a smear, its things, a smear again."""
    codes = np.full((1, WIDTH), EMPTY)
    cell, colour, thing = data["scenery"]
    codes[0, cell] = code_of(colour, thing)
    for event in (Event(*event) for event in data["events"]):
        since = moment - event.frame * STEPS
        if 0 <= since < STEPS:
            shown = event.things[min(since - 1, len(event.things) - 1)] if since in (1, 2) else ""
            codes[0, event.cell] = code_of(event.colour, shown)
    return codes


def refined(moments: Sequence[int], chosen: Sequence[int], most: int) -> tuple[int, ...]:
    """Finer moments around the chosen ones: of each, as many, evenly between its neighbours in this view."""
    each, found = max(most // len(chosen), 1), set[int]()
    for moment in chosen:
        place = list(moments).index(moment)
        before = moments[place - 1] if place else moment - STEPS
        after = moments[place + 1] if place + 1 < len(moments) else moment + STEPS
        between = np.arange(before + 1, after)
        places = np.linspace(0, len(between) - 1, min(each, len(between))).round().astype(int)
        found |= {int(between[i]) for i in places}
    return tuple(sorted(found))


def _clear(event: Event, seen: frozenset[int]) -> bool:
    """Whether the moments seen show every thing of the event."""
    moments = [event.frame * STEPS + since for since in (1, 2)]
    return all(m in seen for m in moments) if len(event.things) > 1 else any(m in seen for m in moments)
