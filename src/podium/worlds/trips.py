"""Open-ended plans: choose and order stops on a small map. No plan is the right one; each has a hidden quality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Any

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK, final_answer
from podium.protocols.world import Answer, Episode, Feedback, Task
from podium.worlds.puzzle import Draft, Procedural, Slip

__all__ = ["Trips", "plan_quality", "plan_text", "trip_question"]

NAMES = ("rome", "paris", "cairo", "lima", "tokyo", "madrid", "athens", "havana")
KINDS = ("fish", "bread", "apple", "gold", "book", "lamp")  # what there is to see
STOP = "go"  # begins the line of a stop
SIZES = {1: (2, 4), 2: (3, 5), 3: (4, 6), 4: (5, 8)}  # by level: stops, places on the map
ROAD = 9  # the places stand at different points 1 … ROAD of a road, which begins at 0
DEAREST = 5
LIKES = 2  # kinds that the traveller asks for
PATH, ANSWER = 0.6, 0.4  # how much the way to an answer and the answer count
GOOD = 0.8  # the quality from which on a plan counts as right
CENTRE = 0.7  # around which a judge of single answers squeezes its scores
GRAIN = 10  # a judge gives whole points out of so many


def trip_question(data: Mapping[str, Any]) -> str:
    """The task as a text: what the traveller wants, and the map, a line a place."""
    wish = f"trip: {data['stops']} stops, pay {data['pay']}, walk {data['walk']}, likes {' '.join(data['likes'])}"
    return "\n".join([wish, *(f"{at} {name} {kind} {price}" for name, (at, kind, price) in data["places"].items())])


def plan_text(data: Mapping[str, Any], rng: Random, care: float = 1.0) -> str:
    """A plan for a task, in which each decision is made with care with this probability: 1 gives a plan of quality 1.

    A careless stop is any place, a careless detail any kind and price, and a careless summary in any order.
    """
    return _written(data, rng, lambda: rng.random() >= care)


def plan_quality(data: Mapping[str, Any], text: str) -> tuple[float, float]:
    """The quality of the way and of the answer, each the mean of three items in [0, 1].

    The way: variety (kinds of stops, of as many as there are stops), relevance (what of the traveller's likes is
    visited), detail (stops told as the map has them). The answer: feasible (as many different places as wanted, within
    the walk), within budget, clear (it says what the way says).
    """
    places, stops = data["places"], data["stops"]
    told, answer = _read(text)
    visited = list(dict.fromkeys(name for name in answer if name in places))
    if not visited:
        return 0.0, 0.0
    kinds = {places[name][1] for name in visited}
    exact = {name for name, facts in told if name in places and facts == [places[name][1], str(places[name][2])]}
    path = (
        len(kinds) / max(stops, len(answer)),
        sum(kind in kinds for kind in data["likes"]) / len(data["likes"]),
        len(exact & set(visited)) / max(stops, len(told)),
    )
    walked = sum(abs(b - a) for a, b in pairwise([0, *(places[name][0] for name in visited)]))
    paid = sum(places[name][2] for name in visited)
    names = [name for name, _ in told]
    right_stops = min(len(visited), stops) / max(stops, len(answer))
    final = (
        right_stops * min(1.0, data["walk"] / walked),
        min(1.0, data["pay"] / paid) if paid else 1.0,
        1.0 if names == answer else 0.5 if set(names) == set(answer) else 0.0,
    )
    return sum(path) / len(path), sum(final) / len(final)


def _read(text: str) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The stops as they are told, each with its facts, and the stops of the answer."""
    lines = (line.split() for line in text.splitlines() if line.startswith(STOP))
    return [(words[1], words[2:]) for words in lines if len(words) > 1], (final_answer(text) or "").split()


def _parts(task: Task, text: str) -> tuple[float, float]:
    """`plan_quality` of a text, which a tournament asks for again and again."""
    known = _slot(str(task.prompt), text)  # the question says all that the quality depends on
    if not known:
        known.append(plan_quality(task.data, text))
    return known[0]


@lru_cache(4096)
def _slot(prompt: str, text: str) -> list[tuple[float, float]]:
    """Room for what a text is worth."""
    return []


def _written(data: Mapping[str, Any], rng: Random, careless: Callable[[], bool]) -> str:
    """A plan; `careless` says of each decision whether it is."""
    places, plan = data["places"], list(data["plan"])
    for number in range(len(plan)):
        if careless():
            plan[number] = rng.choice(list(places))
    lines = []
    for name in plan:
        _, kind, price = places[name]
        if careless():
            kind, price = rng.choice(KINDS), rng.randint(0, DEAREST)
        lines.append(f"{STOP} {name} {kind} {price}")
    if careless():
        rng.shuffle(plan)
    return "\n".join([*lines, f"{ANSWER_MARK} {' '.join(plan)}"])


class Trips(Procedural, Answer):
    """`trip: 2 stops, pay 5, walk 7, likes fish gold`, then the map: where on the road each place is, what it offers,
    and its price. A plan tells each stop as the map has it, `go rome fish 3`, and ends with `answer: rome lima`.

    The hidden quality, 0.6 · way + 0.4 · answer (`plan_quality`), is logged as `rollout.quality` and never rewarded.
    The reward is one judgement of the plan by itself. A judge scores the way and the answer, each with an error of its
    own, in whole points out of ten. Of single plans it sees little of the difference (`band`); of two plans beside each
    other it sees all of it. A plan counts as correct from a quality of 0.8 on.
    """

    name = "trips"
    summary = "plans of a trip with a hidden quality, judged by themselves or beside each other"
    levels = tuple(SIZES)
    styles = ("short",)
    provides = (*Answer.provides, "rollout.quality", "task.solution", "task.compare", "task.rate")
    blank = {"quality": 0.0}
    max_tokens = 64
    band: float = 0.1  # how much of a difference a judge of single plans sees: 1 all of it, 0 nothing
    noise: float = 0.1  # the standard deviation of its error, for the way and for the answer
    bias: float = 0.0  # by how much it prefers the plan that stands first
    instructions: bool = False  # whether the prompt explains the task, for a general-purpose model

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "band", 0, 1)
        within(self, "noise", 0, 1)
        within(self, "bias", 0, 1)

    def draft(self, rng: Random) -> Draft:
        stops, count = SIZES[self.level]
        names, points = rng.sample(NAMES, count), sorted(rng.sample(range(1, ROAD + 1), count))
        kinds = rng.sample(KINDS, stops) + [rng.choice(KINDS) for _ in range(count - stops)]
        rng.shuffle(kinds)
        places = {
            name: (at, kind, rng.randint(0, DEAREST)) for name, at, kind in zip(names, points, kinds, strict=True)
        }
        # A plan of different kinds along the road, which fits just about; other plans may be as good.
        plan: list[str] = []
        for kind in rng.sample(sorted(set(kinds)), stops):
            plan.append(rng.choice([name for name in names if places[name][1] == kind]))
        plan.sort(key=names.index)
        data = {
            "stops": stops,
            "pay": sum(places[name][2] for name in plan) + rng.randint(0, 1),
            "walk": places[plan[-1]][0] + rng.randint(0, 1),
            "likes": tuple(rng.sample([places[name][1] for name in plan], min(LIKES, stops))),
            "places": places,
            "plan": tuple(plan),
        }
        question = trip_question(data)
        return Draft(question, question, data)

    def prompt(self, draft: Draft) -> str:
        if not self.instructions:
            return draft.question
        return (
            f"{draft.question}\nPlan a trip for the traveller. A line of the map says where on the road a place is, "
            "its name, what it offers and its price; the road begins at 0. Visit as many places as wanted, of "
            "different kinds and with all that the traveller likes, within what they will pay and walk. Write each "
            f"stop on a line as `{STOP} name kind price`, then `{ANSWER_MARK}` and the names in order."
        )

    def quality(self, task: Task, text: str) -> float:
        """The hidden quality of a plan, in [0, 1]."""
        path, final = _parts(task, text)
        return PATH * path + ANSWER * final

    def compare(self, task: Task, left: str, right: str, seed: int = 0) -> tuple[float, float]:
        rng = Random(f"{task.key}/{seed}")
        first, second = (self._scored(_parts(task, text), rng) for text in (left, right))
        return min(first + self.bias, 1.0), second

    def rate(self, task: Task, text: str, seed: int = 0) -> float:
        parts = _parts(task, text)
        if not any(parts):  # no part of a plan: no judge is that lenient
            return 0.0
        squeezed = [CENTRE + self.band * (part - CENTRE) for part in parts]
        return self._scored(squeezed, Random(f"{task.key}/{seed}"))

    def _scored(self, parts: Sequence[float], rng: Random) -> float:
        """What a judge says of the way and the answer together, with an error in each, in whole points."""
        path, final = (round(GRAIN * min(max(rng.gauss(part, self.noise), 0.0), 1.0)) / GRAIN for part in parts)
        return PATH * path + ANSWER * final

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Planning(self, task, seed)

    def grade(self, task: Task, text: str, seed: int = 0) -> Feedback:
        quality = self.quality(task, text)
        info = {"correct": quality >= GOOD, "answer": final_answer(text) or "", "quality": quality}
        return Feedback(self.rate(task, text, seed), state=task.key, info=info)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return self.attempt(task, style, seed)

    def attempt(self, task: Task, style: str = "short", seed: int = 0, right: float = 1.0) -> str:
        """A plan of quality 1 with probability `right`; else one that is careless from some decision on."""
        return self._attempt(_attempted, task, style, seed, right)


def _attempted(task: Task, style: str, rng: Random, slip: Slip) -> str:
    slipped = False

    def careless() -> bool:
        nonlocal slipped
        slipped = slip() or slipped
        return slipped

    return _written(task.data, rng, careless)


class _Planning(Episode):
    def __init__(self, world: Trips, task: Task, seed: int) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.task, self.seed = world, task, seed

    def act(self, text: str) -> Feedback:
        return self.world.grade(self.task, text, self.seed)
