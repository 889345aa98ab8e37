"""Demonstrations of the old worlds in the formats that recipes ask for."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from podium import worlds
from podium.protocols.blueprint import Blueprint
from podium.protocols.context import Context, Exchange, History, Rebuild, Wrote
from podium.protocols.format import Demonstrated, Format
from podium.protocols.scaffold import Scaffold
from podium.protocols.tagged import Construction, MetaTags, PlanTags, ReportTags, ThinkTags, ToolTags
from podium.protocols.worded_steps import WordedSteps
from podium.protocols.world import Task, World
from podium.worlds import KeyDoor
from podium.worlds.house import House, Place
from podium.worlds.rules import DOMAINS
from podium.worlds.texts.puzzles import UNSEEN_DOMAIN
from tools.pretrain.examples import FIRST_TASK, Example, Message, stray

# As `gcpo-geometryzero` asks.
ASKS = ("Use an auxiliary construction, between <aux> and </aux>.", "Do not use auxiliary constructions.")


class Taught(NamedTuple):
    """A format on a world, as a recipe asks for it."""

    world: str
    levels: tuple[int, ...]
    format: Format
    context: Context | None = None  # None: the world's own


TAUGHT = {
    "worded steps": Taught("sums", (1, 2), WordedSteps()),
    "construction": Taught("sums", (1, 2), Construction(), Scaffold(below=ASKS[0])),
    "no construction": Taught("sums", (1, 2), Construction(shown=False), Scaffold(below=ASKS[1])),
    "thinking": Taught("sums", (1, 2), ThinkTags()),
    "thinking in rules": Taught("rules", (1, 2), ThinkTags()),
    "kinds of reasoning": Taught("keydoor", (1, 2), MetaTags()),
    "subgoals": Taught("keydoor", (1, 2), PlanTags()),
    "blueprint": Taught("keydoor", (1, 2), Blueprint(done="<sub_done>")),
    "tool tags": Taught("tools", (1, 2), ToolTags()),
    "search tags": Taught("lookup", (1, 2), ToolTags()),
    "reports": Taught("lookup", (1, 2), ReportTags(), Rebuild(notes="report", action=True)),
}


def formatted(taught: Taught, level: int, right: float, index: int, rng: Random) -> list[Example]:
    """What one task gives to read in a format: the last of its contexts that holds the others, or some of several."""
    world = world_of(taught, level, rng)
    task = world.task(FIRST_TASK + index)
    actions = _actions(world, task, right, rng)
    contexts, won = _contexts(taught, world, task, actions, rng.randrange(2))
    grown = [now for now, after in zip(contexts, [*contexts[1:], ()], strict=True) if after[: len(now)] != now]
    return [Example(messages, won) for messages in rng.sample(grown, min(2, len(grown)))]


def world_of(taught: Taught, level: int, rng: Random) -> World:
    """The world of a format; of rules, one of the domains that new texts may speak of."""
    if taught.world == "rules":
        return worlds.get("rules", level=level, domain=rng.choice([d for d in DOMAINS if d != UNSEEN_DOMAIN]))
    return worlds.get(taught.world, level=level)


def _actions(world: World, task: Task, right: float, rng: Random) -> tuple[str, ...]:
    if isinstance(world, KeyDoor):
        return _walk(world, task, right, rng)
    made: Any = world
    written = made.attempt(task, seed=rng.randrange(FIRST_TASK), right=right)
    return (written,) if isinstance(written, str) else tuple(written)


def _walk(world: KeyDoor, task: Task, right: float, rng: Random) -> tuple[str, ...]:
    """A shortest walk in which this share of the turns is not idle."""
    house: House = task.data["house"]
    place, turns = Place(house.start), list[str]()
    for action in world.demonstrate(task):
        while rng.random() >= right:
            turns.append(stray(house, place, 1.0, rng))
        turns.append(action)
        place = house.after(place, action)
    return tuple(turns[: world.dials.horizon])


def _contexts(
    taught: Taught, world: World, task: Task, actions: Sequence[str], number: int
) -> tuple[list[tuple[Message, ...]], bool]:
    """The messages up to each turn, and whether the episode went well."""
    format, context = taught.format, taught.context or world.context
    script, only_shown = format.script(tuple(actions), number)
    episode = format.wrap(world.reset(task))
    history = History(episode.observation, (), episode.recap)
    texts: list[str] = []
    found: list[tuple[Message, ...]] = []
    for turn in range(len(script)):
        texts.append(format.write(Demonstrated(script, turn, history, only_shown)))
        shown = [
            Message(texts[m.ids[0]], True, m.ids[0] >= only_shown) if isinstance(m, Wrote) else Message(m, False)
            for m in context(format.asked(history))
        ]
        found.append((*shown, Message(texts[turn], True, turn >= only_shown)))
        reading = format.read(texts[turn])
        feedback = episode.act(reading.action)
        exchange = Exchange(Wrote((turn,)), texts[turn], feedback.observation, reading.action)
        history = History(history.prompt, (*history.exchanges, exchange), episode.recap)
        if feedback.done:
            break
    return found, bool(feedback.info.get("correct", False))
