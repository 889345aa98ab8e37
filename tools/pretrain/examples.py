"""What the model reads: questions with answers, and conversations, right as often as the dials say."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from podium.protocols.context import Context, Exchange, Full, History, Rebuild, Window, Wrote
from podium.protocols.scaffold import with_attempt, with_hint
from podium.worlds import Answer, KeyDoor, Puzzle, Task, World
from podium.worlds.house import DIRECTIONS, GOLD, TRINKETS, House, Place
from podium.worlds.puzzle import Slip
from podium.worlds.quest import Quest
from tools.pretrain.dials import (
    ADVERSE,
    ADVERSITY,
    AFTER_ATTEMPT,
    DOMAIN_RISK,
    HELPED,
    HINTED,
    IDLE,
    POINTLESS,
    REBUILT,
    STRAY,
    STYLES,
    TRIED,
    TRIED_RIGHT,
    Dial,
)

FIRST_TASK = 1_000_000  # the text uses other tasks of the training split than a training run, which begins at 0
GRADED = 0.1  # share of the answers of which we look whether they are right
UNKNOWN = "answer: unknown"
WINDOWS = 3  # examples from one walk through a house, which is slow to plan


class Message(NamedTuple):
    """What was said; the model learns to write what is its own."""

    text: str
    own: bool
    learned: bool = True  # whether the model learns it, if it is its own


class Example(NamedTuple):
    messages: tuple[Message, ...]
    right: bool | None = None  # None: nobody has looked


def examples(world: World, dial: Dial, index: int, rng: Random) -> list[Example]:
    """What one task gives to read."""
    task = world.task(FIRST_TASK + index)
    style, right = _manner(world, task, dial, rng)
    if isinstance(world, Puzzle):
        return [_single(world, task, style, right, dial.careless, rng)]
    if isinstance(world, Answer):  # programs and plans, of which one sees as much
        text = world.attempt(task, style, right=right)  # type: ignore[attr-defined]
        return [Example(_asked(task.prompt, text), text == world.solve(task, style))]
    if isinstance(world, KeyDoor):
        return _seen(world, _walked(world, task, style, rng), rng, WINDOWS)
    assert isinstance(world, Quest)
    return _seen(world, _talked(world, task, style, right, dial, rng), rng)


def _manner(world: World, task: Task, dial: Dial, rng: Random) -> tuple[str, float]:
    manners = STYLES[world.name]
    style = rng.choices(list(manners), [m.share for m in manners.values()])[0]
    return style, dial.right ** (manners[style].risk * DOMAIN_RISK.get(task.domain, 1.0))


class _Careless(Slip):
    """Each step goes wrong with this chance, whether another one has or not."""

    def __init__(self, chance: float, rng: Random) -> None:
        super().__init__()
        self.chance, self.rng = chance, rng

    def __call__(self) -> bool:
        self.steps += 1
        return self.rng.random() < self.chance


def _carelessly(world: Any, task: Task, style: str, right: float, rng: Random) -> Any:
    """An attempt that is right with this probability, in which any number of steps may go wrong."""
    key, slip = f"{task.key}/{style}/0", Slip()
    world.write(task, style, Random(key), slip)
    return world.write(task, style, Random(key), _Careless(1 - right ** (1 / slip.steps), rng))


# Questions with one answer


def _single(world: Puzzle, task: Task, style: str, right: float, careless: bool, rng: Random) -> Example:
    form = rng.random()
    if form < HINTED:
        return Example(_asked(*hinted(world, task, style, max(right, HELPED), rng)))
    if form < HINTED + TRIED:
        tried = world.attempt(task, style, seed=1, right=float(rng.random() < TRIED_RIGHT))
        better = world.attempt(task, style, right=right**AFTER_ATTEMPT)
        return Example(_asked(with_attempt(task.prompt, tried), better))
    solution = world.attempt(task, style, right=right)
    if careless:
        solution = _carelessly(world, task, style, right, rng)
    graded = bool(world.grade(task, solution).info["correct"]) if rng.random() < GRADED else None
    return Example(_asked(task.prompt, solution), graded)


def _asked(prompt: str, solution: str) -> tuple[Message, ...]:
    return Message(prompt, False), Message(solution, True)


def hinted(world: Puzzle, task: Task, style: str, right: float, rng: Random) -> tuple[str, str]:
    """A question with the first lines of a solution, and a solution that begins with them: what is given cannot go
    wrong, and the rest is right as often as its share of the lines says."""
    key, slip = f"{task.key}/{style}/hint", Slip()
    solution = world.write(task, style, Random(key), slip)
    lines = solution.splitlines()
    given = rng.randint(1, len(lines))
    prompt = with_hint(task.prompt, "\n".join(lines[:given]))
    if rng.random() >= right ** (1 - given / len(lines)):
        for at in rng.sample(range(slip.steps), slip.steps):
            wrong = world.write(task, style, Random(key), Slip(at))
            if wrong.splitlines()[:given] == lines[:given]:
                return prompt, wrong
    return prompt, solution


# Conversations


class Played(NamedTuple):
    """An episode: what was said, and the world's recap before each turn."""

    prompt: str
    turns: tuple[str, ...]
    observations: tuple[str, ...]
    recaps: tuple[str, ...]
    right: bool


def _seen(world: World, played: Played, rng: Random, most: int = 1) -> list[Example]:
    """An episode as its contexts show it, up to so many of its turns."""
    context: Context = Rebuild() if rng.random() < REBUILT else world.context
    first = 0
    if isinstance(context, Full):
        first = len(played.turns) - 1  # which holds all the others
    if isinstance(context, Window):
        first = min(context.most or context.turns, len(played.turns) - 1)  # the first to see as much as one may
    ends = rng.sample(range(first, len(played.turns)), min(most, len(played.turns) - first))
    return [Example(tuple(_messages(context, played, end)), played.right if end == ends[0] else None) for end in ends]


def _messages(context: Context, played: Played, end: int) -> Iterator[Message]:
    said = zip(played.turns[:end], played.observations, strict=False)
    exchanges = tuple(Exchange(Wrote((turn,)), text, observation) for turn, (text, observation) in enumerate(said))
    for message in context(History(played.prompt, exchanges, played.recaps[end])):
        own = isinstance(message, Wrote)
        yield Message(played.turns[message.ids[0]] if isinstance(message, Wrote) else message, own)
    yield Message(played.turns[end], True)


def _talked(world: Quest, task: Task, style: str, right: float, dial: Dial, rng: Random) -> Played:
    """A conversation that is right with this probability, with some turns that lead nowhere."""
    if rng.random() < ADVERSE:
        world = world.replace(**ADVERSITY[world.name])
    solution = world.demonstrate(task, style)
    attempt = world.attempt(task, style, right=right)
    if dial.careless:
        attempt = _carelessly(world, task, style, right, rng)
    if attempt != solution and rng.random() < dial.gives_up:
        attempt = (*solution[: rng.randrange(len(solution))], UNKNOWN)
    pointless = world.demonstrate(world.task(rng.randrange(FIRST_TASK)))[0]
    planned: list[str] = []
    for text in attempt:
        planned += [pointless, text] if rng.random() < POINTLESS and "answer:" not in pointless else [text]
    episode = world.reset(task, seed=rng.randrange(FIRST_TASK))
    turns, observations, recaps = [], [], [""]
    while True:
        turns.append(planned[0])
        feedback = episode.act(planned[0])
        observations.append(feedback.observation)
        recaps.append(episode.recap)
        if feedback.done:
            break
        if "try again" not in feedback.observation:
            planned.pop(0)
    return Played(task.prompt, tuple(turns), tuple(observations), tuple(recaps), bool(feedback.info["correct"]))


def _walked(world: KeyDoor, task: Task, style: str, rng: Random) -> Played:
    """A walk to the gold in which some turns stray."""
    house: House = task.data["house"]
    episode, place, done = world.reset(task), Place(house.start), False
    plan: list[str] = []
    turns, observations = [], []
    while not done:
        keys = sum(item.endswith(" key") for item in place.held)
        if rng.random() < STRAY[keys]:
            text = action = stray(house, place, IDLE[keys], rng)
        else:
            plan = plan or house.shortest(place, reverse=style == "alternative")
            aim = next(action for action in plan if not action.startswith("go "))
            text = f"to {aim}:\n{plan[0]}" if style == "long" and aim != plan[0] else plan[0]
            action = plan[0]
        feedback = episode.act(text)
        if action in house.actions(place):
            place = house.after(place, action)
            plan = plan[1:] if plan and action == plan[0] else []
        turns.append(text)
        observations.append(feedback.observation)
        done = feedback.done
    recaps = ("",) * (len(turns) + 1)
    return Played(task.prompt, tuple(turns), tuple(observations), recaps, bool(feedback.info["correct"]))


def stray(house: House, place: Place, idle: float, rng: Random) -> str:
    """Something that can be done here, or something that cannot."""
    possible = house.actions(place)
    if rng.random() >= idle and possible:
        return rng.choice(possible)
    things = [f"take {thing}" for thing in (GOLD, *TRINKETS)]
    others = [f"{verb} {direction}" for verb in ("go", "open") for direction in DIRECTIONS]
    return rng.choice([action for action in (*others, *rng.sample(things, 2)) if action not in possible])
