"""What the text of a stage is made of: sources by name, each with its share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from podium import worlds
from podium.worlds.texts.subjects import SUBJECTS, Subject
from tools.pretrain.dials import SECOND, Dial, worlds_of_text
from tools.pretrain.examples import FIRST_TASK, Example, Message, examples
from tools.pretrain.formats import TAUGHT, formatted
from tools.pretrain.new_dials import CLEAN, FORMATS, KEPT, KEPT_SHARE, NEW_WORLDS, PICTURE_SHARE, SUBJECT_DIALS
from tools.pretrain.pictures import picture_examples, picture_worlds

THIRD = 3  # the stage that makes podium/tiny2


class Source(NamedTuple):
    """A part of the text: what one index gives to read. What is `kept` is read for what the model before it would say
    there, not for what it says."""

    name: str
    share: float
    write: Callable[[int, Random], list[Example]]
    kept: bool = False


def sources(only: list[str] | None = None, stage: int = 1, clean: bool = False) -> list[Source]:
    """The sources of a stage; `only` names some of them, `sums-1` or `carry-2`. With `clean` nearly everything new is
    right."""
    if stage != THIRD:
        return [_of_world(world, dial, dial.share) for world, dial in worlds_of_text(only, stage)]

    def right(dial: Dial) -> float:
        return max(dial.right, CLEAN) if clean else dial.right

    old = [_kept(name, level, dial) for name, levels in SECOND.items() for level, dial in levels.items()]
    new = [
        _of_world(worlds.get(name, level=level), dial._replace(right=right(dial)), dial.share)
        for name, levels in NEW_WORLDS.items()
        for level, dial in levels.items()
    ]
    for name, subject in SUBJECTS.items():
        dials = SUBJECT_DIALS[name]
        new += [
            Source(f"{name} {level}", dial.share, partial(exercised, subject, level, right(dial)))
            for level, dial in zip(subject.levels, dials, strict=True)
        ]
    for name, dial in FORMATS.items():
        levels = TAUGHT[name].levels
        new += [
            Source(f"{name} {level}", dial.share / len(levels), partial(formatted, TAUGHT[name], level, right(dial)))
            for level in levels
        ]
    seen = [
        Source(f"{world.name} {world.level}", dial.share, partial(picture_examples, world, dial))
        for world, dial in picture_worlds(1 if clean else 2)
    ]
    rest = 1 - KEPT_SHARE - PICTURE_SHARE
    chosen = [*_scaled(old, KEPT_SHARE), *_scaled(seen, PICTURE_SHARE), *_scaled(new, rest)]
    return [source for source in chosen if not only or source.name.replace(" ", "-") in only]


def _kept(name: str, level: int, dial: Dial) -> Source:
    return _of_world(worlds.get(name, level=level), dial, KEPT[name], kept=True)


def _of_world(world: worlds.World, dial: Dial, share: float, kept: bool = False) -> Source:
    return Source(f"{world.name} {world.level}", share, partial(examples, world, dial), kept)


def _scaled(found: list[Source], total: float) -> list[Source]:
    whole = sum(source.share for source in found)
    return [source._replace(share=source.share * total / whole) for source in found]


def exercised(subject: Subject, level: int, right: float, index: int, rng: Random) -> list[Example]:
    """An exercise with a demonstration."""
    exercise = subject.draw(Random(f"{FIRST_TASK + index}/{rng.random()}"), level, "train")
    turns = exercise.demonstrate(rng, right)
    messages, response = [Message(exercise.prompt, False)], None
    for number, text in enumerate(turns, 1):
        response = exercise.respond(turns[:number])
        messages.append(Message(text, True))
        if number < len(turns):
            messages.append(Message(response.text, False))
    assert response is not None
    return [Example(tuple(messages), response.right)]
