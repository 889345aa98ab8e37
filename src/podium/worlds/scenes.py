"""Coloured things on a grid, as tokens of a picture: their colour, what they are, how many, and what is beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from podium.core.errors import one_of
from podium.protocols.answer_text import plain
from podium.protocols.pieces import joined
from podium.protocols.world import Task
from podium.worlds.codebooks import COLOURS, EMPTY, SCENERY, THINGS, code_of
from podium.worlds.graded import Verdict
from podium.worlds.picture import Codes, as_tokens
from podium.worlds.puzzle import Draft, Puzzle, Slip, answered
from podium.worlds.shifted import ShiftedPictures

__all__ = ["QUESTIONS", "Scene", "Scenes", "scene_answer", "scene_codes"]

Thing = tuple[str, str]  # colour and name
Scene = tuple[tuple[Thing | None, ...], ...]  # rows of cells; None: nothing is there
QUESTIONS = ("colour", "thing", "count", "beside", "choice")
SIDES = {"left": (0, -1), "right": (0, 1), "above": (-1, 0), "below": (1, 0)}
NUMBERS = ("one", "two")  # of the pictures to choose from
GRIDS = {1: (2, 2), 2: (3, 4), 3: (4, 6), 4: (4, 7), 5: (8, 10)}  # by level: cells of a side, most things
COLOURFUL = {1: 3, 2: 4, 3: 6, 4: 6, 5: 6}  # by level: how many colours there are


class Scenes(ShiftedPictures, Puzzle):
    """`colour of the tree`: questions about a picture of coloured things, one in a cell of 3 x 3 pixels.

    With the question `choice`, two pictures are shown, one of which fits a wish. Under a `shift` the pixels change
    before they become tokens; the tasks remain the same.
    """

    name = "scenes"
    summary = "questions about coloured things in a picture: " + ", ".join(QUESTIONS)
    levels = tuple(GRIDS)
    styles = ("short", "long", "focus")
    provides = (*Puzzle.provides, "task.choices", "task.context")
    max_tokens = 128
    codebook = SCENERY
    ask: str = "all"  # colour, thing, count, beside, choice

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "ask", ("all", *QUESTIONS))

    @property
    def family(self) -> str:
        return super().family if self.ask == "all" else f"{super().family}-{self.ask}"

    @property
    def colours(self) -> tuple[str, ...]:
        """The colours of this level."""
        return tuple(COLOURS)[: COLOURFUL[self.level]]

    # -- questions -------------------------------------------------------------------------------------------------

    def draft(self, rng: Random) -> Draft:
        open_to = QUESTIONS if self.level < max(self.levels) else QUESTIONS[:-1]  # two of these pictures would be long
        asked = rng.choice(open_to) if self.ask == "all" else self.ask
        answer = None
        while answer is None:
            scenes = [self._scene(rng) for _ in range(len(NUMBERS) if asked == "choice" else 1)]
            query = self._query(asked, rng.choice(scenes), rng)
            answer = _concluded(scenes, query)
        data = {"scenes": tuple(scenes), "query": query, "answer": answer, "reference_answer": answer}
        data["choices"] = NUMBERS if asked == "choice" else ()
        return Draft(joined("\n", (self._shown(scenes), _wording(query))), f"{scenes} {query}", data, asked)

    def _scene(self, rng: Random) -> Scene:
        side, most = GRIDS[self.level]
        cells: list[Thing | None] = [None] * (side * side)
        for cell in rng.sample(range(len(cells)), rng.randint(2, most)):
            cells[cell] = rng.choice(self.colours), rng.choice(list(THINGS))
        return tuple(tuple(cells[row * side : (row + 1) * side]) for row in range(side))

    def _query(self, asked: str, scene: Scene, rng: Random) -> tuple[str, ...]:
        colour, thing = rng.choice(_seen(scene))
        if asked == "colour":
            return asked, thing
        if asked == "thing":
            return asked, colour
        if asked == "count":
            return asked, rng.choice(self.colours)
        if asked == "choice":
            return asked, str(_seen(scene).count((colour, thing))), colour, thing
        return asked, rng.choice(list(SIDES)), colour, thing

    def unasked(self, task: Task) -> str:
        return self._shown(task.data["scenes"])

    def describe(self, task: Task, style: str = "short") -> str:
        """What the pictures of a task show, whatever is asked: `short`, everything in a line; `long`, row by row."""
        return "\n".join(_lines(task.data["scenes"], ("all",), style))

    def _shown(self, scenes: Sequence[Scene]) -> str:
        names = ("scene:",) if len(scenes) == 1 else tuple(f"{number}:" for number in NUMBERS)
        lines = [
            line for name, scene in zip(names, scenes, strict=True) for line in (name, as_tokens(self.codes(scene)))
        ]
        return joined("\n", lines)

    def codes(self, scene: Scene) -> Codes:
        """What the model sees of a scene."""
        return self.seen_codes(scene_codes(scene), seed=scene)

    def explain(self, task: Draft) -> str:
        what = {
            "colour": "Which colour does the thing of this name have?",
            "thing": "What is the thing of this colour called: " + ", ".join(THINGS) + "?",
            "count": "How many things of this colour are there?",
            "beside": "Which thing is directly beside this one, on that side? Give its colour and its name.",
            "choice": "In which picture are there so many of these, one or two?",
        }
        return f"The picture shows things in some of its cells. {what[task.domain]}"

    def verdict(self, task: Task, answer: str) -> Verdict:
        said = plain(answer)
        return Verdict(said == task.data["answer"], said)

    # -- solutions -------------------------------------------------------------------------------------------------

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        """What is seen, then the answer. A slip misreads a thing on which the answer depends, or draws the wrong
        conclusion."""
        query, truth = task.data["query"], task.data["answer"]
        scenes: list[Scene] = list(task.data["scenes"])
        for number, scene in enumerate(scenes):
            for row, column in _places(scene):
                misread = [
                    [*scenes[:number], wrong, *scenes[number + 1 :]]
                    for wrong in _misread(scenes[number], row, column, self.colours)
                ]
                misread = [wrong for wrong in misread if _concluded(wrong, query) not in (truth, None)]
                if misread and slip():
                    scenes = rng.choice(misread)
        answer = _concluded(scenes, query)
        if slip() or answer is None:
            answer = rng.choice([other for other in _alternatives(query, self.colours) if other != truth])
        return answered(_lines(scenes, query, style), answer)


# Pure functions of a scene


def scene_codes(scene: Scene) -> Codes:
    """The codes of a scene's cells."""
    return np.array([[EMPTY if thing is None else code_of(*thing) for thing in row] for row in scene])


def scene_answer(scene: Scene, query: Sequence[str]) -> str | None:
    """The answer to a question about a scene; None if it has none, or several."""
    kind, *about = query
    things = _seen(scene)
    if kind == "count":
        return str(sum(all(word in thing for word in about) for thing in things))
    if kind == "colour":
        found = [colour for colour, thing in things if thing == about[0]]
    elif kind == "thing":
        found = [thing for colour, thing in things if colour == about[0]]
    else:
        down, right = SIDES[about[0]]
        places = [place for place in _places(scene) if scene[place[0]][place[1]] == (about[1], about[2])]
        beside = [(row + down, column + right) for row, column in places]
        shown = [_at(scene, row, column) for row, column in beside]
        found = [" ".join(thing) if thing else "" for thing in shown]
    return found[0] if len(found) == 1 and found[0] else None


def _concluded(scenes: Sequence[Scene], query: Sequence[str]) -> str | None:
    """The answer that follows from one scene, or from two to choose from."""
    if query[0] != "choice":
        return scene_answer(scenes[0], query)
    fits = [scene_answer(scene, ("count", *query[2:])) == query[1] for scene in scenes]
    return NUMBERS[fits.index(True)] if sum(fits) == 1 else None


def _alternatives(query: Sequence[str], colours: Sequence[str]) -> list[str]:
    """The answers that one may think of."""
    kinds: Mapping[str, list[str]] = {
        "colour": list(colours),
        "thing": list(THINGS),
        "count": [str(count) for count in range(5)],
        "beside": [f"{colour} {thing}" for colour in colours for thing in THINGS],
        "choice": list(NUMBERS),
    }
    return kinds[query[0]]


def _wording(query: Sequence[str]) -> str:
    kind, *about = query
    if kind == "beside":
        side = f"{about[0]} of" if about[0] in ("left", "right") else about[0]
        return f"what is {side} the {about[1]} {about[2]}"
    forms = {
        "colour": "colour of the {}",
        "thing": "which thing is {}",
        "count": "count {}",
        "choice": "which has {} {} {}",
    }
    return forms[kind].format(*about)


def _lines(scenes: Sequence[Scene], query: Sequence[str], style: str) -> list[str]:
    names = ("",) if len(scenes) == 1 else tuple(f"{number} " for number in NUMBERS)
    return [line for name, scene in zip(names, scenes, strict=True) for line in _described(scene, query, style, name)]


def _described(scene: Scene, query: Sequence[str], style: str, name: str) -> list[str]:
    """What is seen: everything in a line, row by row with the columns, or only what the question is about."""
    places = _places(scene)
    if style == "long":
        rows = dict.fromkeys(row for row, _ in places)
        shown = {row: [f"{c + 1} {_words(scene, r, c)}" for r, c in places if r == row] for row in rows}
        return [f"{name}row {row + 1}: {', '.join(things)}" for row, things in shown.items()]
    if style == "focus":
        words = [word for word in query[1:] if word in COLOURS or word in THINGS]
        places = [(row, column) for row, column in places if all(w in (scene[row][column] or ()) for w in words)]
        if query[0] == "beside":
            down, right = SIDES[query[1]]
            beside = [(row + down, column + right) for row, column in places]
            places += [(row, column) for row, column in beside if _at(scene, row, column)]
    return [f"{name}see {', '.join(_words(scene, row, column) for row, column in places) or 'none'}"]


def _words(scene: Scene, row: int, column: int) -> str:
    return " ".join(scene[row][column] or ())


def _misread(scene: Scene, row: int, column: int, colours: Sequence[str]) -> list[Scene]:
    """The scene with another colour or another name for one of its things."""
    colour, name = scene[row][column] or ("", "")
    others: list[Thing] = [(other, name) for other in colours if other != colour]
    others += [(colour, other) for other in THINGS if other != name]
    return [_with(scene, row, column, other) for other in others]


def _with(scene: Scene, row: int, column: int, thing: Any) -> Scene:
    line = (*scene[row][:column], thing, *scene[row][column + 1 :])
    return (*scene[:row], line, *scene[row + 1 :])


def _at(scene: Scene, row: int, column: int) -> Thing | None:
    inside = 0 <= row < len(scene) and 0 <= column < len(scene[0])
    return scene[row][column] if inside else None


def _places(scene: Scene) -> list[tuple[int, int]]:
    """Where things are, row by row."""
    return [(r, c) for r, row in enumerate(scene) for c, thing in enumerate(row) if thing is not None]


def _seen(scene: Scene) -> list[Thing]:
    return [thing for row in scene for thing in row if thing is not None]
