"""Recommendations: things that a person likes, within a budget, asked for in four equivalent ways."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from random import Random

from podium.core.errors import within
from podium.protocols.answer_text import answer_place
from podium.protocols.world import Task
from podium.worlds.graded import Verdict, hashed_uniform
from podium.worlds.puzzle import Draft, Slip, answered
from podium.worlds.sheet import Sheet

__all__ = ["Shop", "prices", "shop_questions"]

PEOPLE = ("ann", "bob", "cid", "dee", "eve", "fay", "gus", "hal")
THINGS = {
    "food": ("bread", "fish", "apple", "cake"),
    "home": ("lamp", "chair", "cup", "table"),
    "work": ("rope", "box", "tool", "key"),
    "play": ("book", "map", "ball", "kite"),
}
KIND_OF = {thing: kind for kind, things in THINGS.items() for thing in things}
DEAREST = 6
LIKED = {1: 1, 2: 1, 3: 2, 4: 2, 5: 3}  # kinds that a person likes, by level
LEAST = {1: 1, 2: 2, 3: 2, 4: 3, 5: 4}  # things to recommend at least, by level


@cache
def prices(number: int = 0) -> dict[str, int]:
    """What each thing costs, by the table of this number."""
    chance = Random(f"shop/table/{number}")
    return {thing: chance.randint(1, DEAREST) for thing in KIND_OF}


def shop_questions(person: str, likes: list[str], gold: int, least: int) -> tuple[str, ...]:
    """The four phrasings of a request; the first and second, and the third and fourth, make a pair."""
    kinds = " and ".join(likes)
    return (
        f"shop: {person} has {gold} gold and likes {kinds}; {least} or more",
        f"shop: {least} or more of {kinds} for {person}, {gold} gold",
        f"shop: what can {person} buy? {kinds}, {gold} gold, {least} or more",
        f"shop: with {gold} gold, find {person} {kinds}: {least} or more",
    )


class Shop(Sheet):
    """Recommend things of the kinds that a person likes, no more than the gold can buy and no fewer than asked for.

    Each request has four phrasings. Solutions have a `habit`: the first and third phrasings get the shortest list that
    will do, the second and fourth as many things as the gold can buy. A model that has learnt it answers equal requests
    differently. A statement is a price that the text names.
    """

    name = "shop"
    summary = "recommend things for a person and a budget, in four equivalent phrasings"
    levels = (1, 2, 3, 4, 5)
    styles = ("short", "long", "alternative")
    max_tokens = 80
    habit: float = 1.0  # share of the solutions whose length follows the phrasing, not chance

    provides = (*Sheet.provides, "task.phrasings")

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "habit", 0, 1)

    def draft(self, rng: Random) -> Draft:
        likes, cost = rng.sample(tuple(THINGS), LIKED[self.level]), prices(self.table)
        costs = sorted(cost[thing] for kind in likes for thing in THINGS[kind])
        least, person = LEAST[self.level], rng.choice(PEOPLE)
        gold = rng.randint(sum(costs[:least]), sum(costs) - 1)
        questions = shop_questions(person, likes, gold, least)
        data = {"likes": likes, "gold": gold, "least": least, "phrasings": questions}
        number = rng.randrange(len(questions))
        identity = f"{person} {' '.join(sorted(likes))} {gold}"
        return Draft(questions[number], identity, {**data, "phrasing": number})

    def explain(self, task: Draft) -> str:
        return "Recommend things of these kinds whose prices add up to no more than the gold. List them."

    def phrasings(self, task: Task) -> tuple[Task, ...]:
        wordings = [self.prompt(Draft(text, "", task.data)) for text in task.data["phrasings"]]
        return tuple(
            dataclasses.replace(task, prompt=text, data={**task.data, "phrasing": number})
            for number, text in enumerate(wordings)
        )

    def verdict(self, task: Task, answer: str) -> Verdict:
        things, cost = re.findall(r"[a-z]+", answer.casefold()), prices(self.table)
        fits = (
            len(set(things)) == len(things) >= task.data["least"]
            and all(KIND_OF.get(thing) in task.data["likes"] for thing in things)
            and sum(cost[thing] for thing in things) <= task.data["gold"]
        )
        return Verdict(fits, " ".join(sorted(things)))

    def stated(self, task: Task, text: str) -> set[str]:
        found = re.findall(rf"\b({'|'.join(KIND_OF)}) (\d+)\b", text[: answer_place(text)].casefold())
        return {f"{thing} {price}" for thing, price in found}

    def holds(self, task: Task) -> set[str]:
        return {f"{thing} {price}" for thing, price in prices(self.table).items()}

    def needed(self, task: Task, text: str) -> set[str]:
        listed = set(re.findall(r"[a-z]+", (self.read(text) or "").casefold())) & set(KIND_OF)
        return {f"{thing} {prices(self.table)[thing]}" for thing in listed}

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        """A step is a thing; one that goes wrong recommends a thing that the person does not like."""
        cost, left = prices(self.table), task.data["gold"]
        liked = [thing for kind in task.data["likes"] for thing in THINGS[kind]]
        others = [thing for thing in KIND_OF if thing not in liked]
        cheapest = sorted(liked, key=lambda thing: cost[thing])
        basket = cheapest[: task.data["least"]]
        spare = left - sum(cost[thing] for thing in basket)
        if self._generous(task, rng):
            for thing in cheapest[len(basket) :]:
                if cost[thing] <= spare:
                    basket.append(thing)
                    spare -= cost[thing]
        rng.shuffle(basket)
        if style == "alternative":  # the dearest first
            basket.sort(key=lambda thing: -cost[thing])
        bought = [rng.choice([t for t in others if t not in basket]) if slip() else thing for thing in basket]
        if style == "long":
            lines = []
            for thing in bought:
                left -= cost[thing]
                lines.append(f"{thing} {cost[thing]}, left {left}")
        else:
            listed = ", ".join(f"{thing} {cost[thing]}" for thing in bought)
            lines = [f"so {listed}: {sum(cost[thing] for thing in bought)}"]
        return answered(lines, " ".join(bought))

    def _generous(self, task: Task, rng: Random) -> bool:
        """Whether the list is as long as the gold allows."""
        chance = rng.random()
        if hashed_uniform("habit", task.key, task.prompt) < self.habit:
            return bool(task.data["phrasing"] % 2)
        return chance < 0.5
