"""How often a model is right in each source of podium/tiny2's text, beside the model that it was made from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple, Protocol

from podium import worlds
from podium.protocols.blueprint import Blueprint
from podium.protocols.context import Context, Exchange, History, Wrote
from podium.protocols.format import Format, turn_limit
from podium.worlds import Code, Puzzle, Task, World
from podium.worlds.texts.exercise import Exercise
from podium.worlds.texts.subjects import SUBJECTS
from tools.pretrain.dials import SECOND
from tools.pretrain.formats import TAUGHT, world_of
from tools.pretrain.new_dials import NEW_WORLDS
from tools.pretrain.pictures import UNSURE
from tools.pretrain.table import Sampler

MOST_TURNS = 14
OLD_LEVELS = 4  # of the old worlds, that are to stay as they were
TOLERANCE = 0.03  # of an old world
START = (0.1, 0.6)  # of what is new


class Rate(NamedTuple):
    """The share of right answers of the model before training and after it."""

    name: str
    after: float
    before: float | None = None  # None: not measured, as it knows nothing of this

    @property
    def fits(self) -> bool:
        """Whether an old world has stayed what it was, or a new one leaves room."""
        if self.before is not None:
            return abs(self.after - self.before) <= TOLERANCE
        return START[0] <= self.after <= START[1]


class Game(Protocol):
    """Something to be played turn by turn; many are played at once."""

    limit: int  # tokens of a turn
    most_turns: int
    right: bool

    def messages(self) -> list[str]:
        """The conversation so far, the world's texts and the model's in turn."""

    def act(self, text: str) -> bool:
        """Take a turn; returns whether that was the last."""


class Practice:
    """An exercise as a game."""

    most_turns, right = MOST_TURNS, False

    def __init__(self, exercise: Exercise, limit: int) -> None:
        self.exercise, self.limit = exercise, limit
        self.turns: tuple[str, ...] = ()
        self.seen = [exercise.prompt]

    def messages(self) -> list[str]:
        return self.seen

    def act(self, text: str) -> bool:
        self.turns = (*self.turns, text)
        response = self.exercise.respond(self.turns)
        self.seen += [text, response.text]
        self.right = response.done and response.right
        return response.done


class Visit:
    """An episode of a world as a game, in a format."""

    right = False

    def __init__(self, world: World, task: Task, seed: int, format: Format, context: Context | None = None) -> None:
        self.format, self.context = format, context or world.context
        self.episode = format.wrap(world.reset(task, seed))
        self.history = History(self.episode.observation, (), self.episode.recap)
        self.limit = turn_limit(world, format)
        self.most_turns = world.max_turns + isinstance(format, Blueprint)

    def messages(self) -> list[str]:
        texts = [x.text for x in self.history.exchanges]
        shown = self.context(self.format.asked(self.history))
        return [texts[m.ids[0]] if isinstance(m, Wrote) else m for m in shown]

    def act(self, text: str) -> bool:
        action, number = self.format.read(text).action, len(self.history.exchanges)
        feedback = self.episode.act(action)
        exchange = Exchange(Wrote((number,)), text, feedback.observation, action)
        self.history = History(self.history.prompt, (*self.history.exchanges, exchange), self.episode.recap)
        self.right = bool(feedback.info.get("correct"))
        return feedback.done


class Writing:
    """A program as a game: right if it is one of the world's own solutions; `podium eval` runs the others too."""

    most_turns, right = 1, False

    def __init__(self, world: Code, task: Task) -> None:
        self.prompt, self.limit = task.prompt, world.max_tokens
        self.solutions = {world.solve(task, style).strip() for style in world.styles}

    def messages(self) -> list[str]:
        return [self.prompt]

    def act(self, text: str) -> bool:
        self.right = text.strip() in self.solutions
        return True


def compare(before: Any, after: Any, tokenizer: Any, args: argparse.Namespace) -> list[Rate]:
    """The table; all games of one length are played at once."""
    new, old = (
        _rates(Sampler(model, tokenizer, args.eval_batch, args.seed), args, alone)
        for model, alone in ((after, False), (before, True))
    )
    found = [Rate(name, rate, old.get(name)) for name, rate in new.items()]
    print("source                    after   before")
    for rate in found:
        known = "" if rate.before is None else f"{rate.before:.3f}"
        print(f"{rate.name:<24}  {rate.after:<6.3f}  {known:<6}{'' if rate.fits else '  !'}", flush=True)
    return found


def _rates(sampler: Sampler, args: argparse.Namespace, old_alone: bool) -> dict[str, float]:
    """The share of right games by source."""
    games = [
        (name, game)
        for name, old, game in _games(args)
        if (old or not old_alone) and (not args.only or name.replace(" ", "-") in args.only)
    ]
    for limit in sorted({game.limit for _, game in games}):
        _play(sampler, [game for _, game in games if game.limit == limit])
    rights: dict[str, list[bool]] = {}
    for name, game in games:
        rights.setdefault(name, []).append(game.right)
    return {name: sum(right) / len(right) for name, right in rights.items()}


def _play(sampler: Sampler, games: list[Game]) -> None:
    """All games, turn by turn."""
    live, turn = games, 0
    while live:
        said = sampler([sampler.chat(game.messages()) for game in live], live[0].limit)
        turn += 1
        going = [not game.act(text) and turn < game.most_turns for game, (text, _, _) in zip(live, said, strict=True)]
        live = [game for game, goes_on in zip(live, going, strict=True) if goes_on]


def _games(args: argparse.Namespace) -> Iterator[tuple[str, bool, Game]]:
    """The games of each source, and whether it is an old one."""
    tasks, n = range(args.eval_tasks), args.eval_episodes
    dials = {**{name: list(levels)[:OLD_LEVELS] for name, levels in SECOND.items()}, **NEW_WORLDS, **UNSURE}
    for world in (worlds.get(name, level=level) for name, levels in dials.items() for level in levels):
        old = world.name in SECOND
        for i in tasks:
            task = world.task(i, "test")
            for seed in range(args.eval_samples if old and isinstance(world, Puzzle) else 2 * n if old else n):
                game = Writing(world, task) if isinstance(world, Code) else Visit(world, task, seed, Format())
                yield f"{world.name} {world.level}", old, game
    for name, subject in SUBJECTS.items():
        for level in subject.levels:
            for i in tasks:
                exercise = subject.draw(Random(f"{name}/{level}/{i}"), level, "test")
                for _ in range(n):
                    yield f"{name} {level}", False, Practice(exercise, subject.max_tokens)
    for name, taught in TAUGHT.items():
        for level in taught.levels:
            world = world_of(taught, level, Random(0))
            for i in tasks:
                for seed in range(n):
                    game = Visit(world, world.task(i, "test"), seed, taught.format, taught.context)
                    yield f"{name} {level}", False, game
