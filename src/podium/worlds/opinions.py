"""Questions whose answer depends on who is asked: a table says what each role cares about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random

from podium.core.errors import one_of
from podium.protocols.answer_text import answer_place
from podium.protocols.world import Task
from podium.worlds.graded import Verdict
from podium.worlds.puzzle import Draft, Slip, answered
from podium.worlds.sheet import Sheet

__all__ = [
    "Opinions",
    "agreed_answer",
    "convergent_score",
    "divergent_score",
    "opinion",
    "opinion_question",
    "role_answers",
    "wishes",
]

ROLES = ("doctor", "boss", "friend", "user", "judge", "cook", "actor", "king")
WISHES = ("time", "gold", "home", "space", "food", "order")
PLANS = ("garden", "wall", "hall", "door", "boat", "road", "train", "table")
ANSWERS = ("yes", "no", "none")
ASKED = {"divergent": "poll", "convergent": "vote"}  # the first word of a question
SEATS = 3  # roles a question


@cache
def wishes(number: int = 0) -> dict[str, tuple[str, str]]:
    """What each role wants first, and what it wants next, by the table of this number."""
    chance = Random(f"opinions/table/{number}")
    first = chance.sample(WISHES, len(WISHES))
    firsts = [first[i % len(first)] for i in range(len(ROLES))]
    return {role: (a, chance.choice([b for b in WISHES if b != a])) for role, a in zip(ROLES, firsts, strict=True)}


def opinion(role: str, effects: Sequence[tuple[str, str]], number: int = 0) -> tuple[str, str]:
    """What a role says of a plan with these effects, and the wish that decides: the first one that the plan touches.

    `none` where it touches neither.
    """
    touched = dict(effects)
    wish = next((w for w in wishes(number)[role] if w in touched), "")
    return ("yes" if touched[wish] == "up" else "no", wish) if wish else ("none", "")


def agreed_answer(answers: Sequence[str]) -> str:
    """What most of the roles say; empty if no answer is ahead of the others."""
    (first, count), (_, second) = (*Counter(answers).most_common(2), ("", 0), ("", 0))[:2]
    return first if count > second else ""


def divergent_score(said: Sequence[str], right: Sequence[str]) -> float:
    """The share of the roles whose answer is right; 0 if there is not one answer for each."""
    return sum(a == b for a, b in zip(said, right, strict=True)) / len(right) if len(said) == len(right) else 0.0


def convergent_score(said: Sequence[str], right: str) -> float:
    """1 if most of the answers are the right one, else 0."""
    return float(agreed_answer(said) == right)


def opinion_question(kind: str, plan: str, effects: Sequence[tuple[str, str]], roles: Sequence[str]) -> str:
    """The text of a question."""
    listed = ", ".join(f"{wish} {way}" for wish, way in effects)
    return f"{ASKED[kind]}: {plan}: {listed}; {', '.join(roles)}"


def role_answers(answer: str) -> list[str]:
    """The answers that a final answer lists, in the order of the roles."""
    return re.findall(r"[a-z]+", answer.casefold())


# A role's part of a chain: with a wish that decides, and without one.
DECIDED = (
    "the {role} wants {wish}. {wish} is {way}, so {answer}.",
    "what of the {role}? {wish} is {way}: {answer}!",
    "{role}: {wish} {way}. {answer}.",
)
OPEN = ("the {role} wants other things, so none.", "what of the {role}? no change: none!", "{role}: none.")


class Opinions(Sheet):
    """What three roles say of a plan. A role says yes if the plan brings more of what it wants most, no if less, none
    if the plan touches nothing that it wants. Harder levels have plans with more effects.

    Divergent questions (`poll:`) score the share of the roles whose answer is right, convergent ones (`vote:`) whether
    most of the answers are what most of the roles say. A statement is an effect that the text names.
    """

    name = "opinions"
    summary = "what three roles say of a plan: each its own view, or what most of them say"
    levels = (1, 2, 3, 4, 5)
    styles = ("short", "long", "alternative", "varied")
    max_tokens = 96
    domain: str = "all"  # divergent, convergent, or all

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "domain", ("all", *ASKED))

    @property
    def family(self) -> str:
        return super().family if self.domain == "all" else f"{super().family}-{self.domain}"

    def draft(self, rng: Random) -> Draft:
        kind = rng.choice(tuple(ASKED)) if self.domain == "all" else self.domain
        while True:
            effects = [(wish, rng.choice(("up", "down"))) for wish in rng.sample(WISHES, self.level + 1)]
            roles = rng.sample(ROLES, SEATS)
            answers = [opinion(role, effects, self.table)[0] for role in roles]
            if kind == "divergent" or agreed_answer(answers) in ("yes", "no"):
                break
        plan = rng.choice(PLANS)
        identity = f"{kind} {sorted(effects)} {' '.join(roles)} {plan}"
        data = {"effects": effects, "roles": roles, "answers": answers, "answer": " ".join(answers)}
        return Draft(opinion_question(kind, plan, effects, roles), identity, data, kind)

    def explain(self, task: Draft) -> str:
        return (
            "A plan has effects; three people judge it by what they want most. List what each says, in this order: "
            "yes, no, or none."
        )

    def verdict(self, task: Task, answer: str) -> Verdict:
        said, right = role_answers(answer), task.data["answers"]
        if len(said) != len(right) or not set(said) <= set(ANSWERS):
            return Verdict(False, " ".join(said), 0.0)
        if task.domain == "convergent":
            score = convergent_score(said, agreed_answer(right))
            return Verdict(score == 1, agreed_answer(said) or " ".join(said))
        score = divergent_score(said, right)
        return Verdict(score == 1, " ".join(said), score)

    def stated(self, task: Task, text: str) -> set[str]:
        found = re.findall(rf"\b({'|'.join(WISHES)}) (?:is )?(up|down)\b", text[: answer_place(text)].casefold())
        return {f"{wish} {way}" for wish, way in found}

    def holds(self, task: Task) -> set[str]:
        return {f"{wish} {way}" for wish, way in task.data["effects"]}

    def needed(self, task: Task, text: str) -> set[str]:
        touched = dict(task.data["effects"])
        views = [opinion(role, task.data["effects"], self.table) for role in task.data["roles"]]
        return {f"{wish} {touched[wish]}" for _, wish in views if wish}

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        """A step is a role. Where most of them decide, one wrong step takes others with it until it matters."""
        effects, roles = task.data["effects"], list(task.data["roles"])
        wrong = [slip() for _ in roles]
        if task.domain == "convergent" and any(wrong):
            wrong = [True] * len(roles)
        views = {role: self._view(role, effects, bad, rng) for role, bad in zip(roles, wrong, strict=True)}
        said = " ".join(views[role][0] for role in roles)
        if style in ("short", "alternative"):
            order = roles if style == "short" else sorted(roles, key=lambda role: views[role][0])
            parts = [" ".join((role, *views[role][1:], views[role][0])) for role in order]
            return answered([f"so {', '.join(parts)}"], said)
        lines, order = [], roles
        if style == "varied":  # in any order, each role in other words
            order = rng.sample(roles, len(roles))
        for role in order:
            answer, *reason = views[role]
            choices = DECIDED if reason else OPEN
            words = rng.choice(choices) if style == "varied" else choices[0]
            wish, way = reason or ("", "")
            lines.append(words.format(role=role, wish=wish, way=way, answer=answer))
        return answered(lines, said)

    def _view(self, role: str, effects: Sequence[tuple[str, str]], wrong: bool, rng: Random) -> tuple[str, ...]:
        """A role's answer, and the effect that decides it; a wrong one turns the effect round or misses it."""
        answer, wish = opinion(role, effects, self.table)
        if not wrong:
            return (answer, wish, dict(effects)[wish]) if wish else (answer,)
        if not wish:
            other, way = rng.choice(effects)
            return "yes" if way == "up" else "no", other, way
        way = "down" if answer == "yes" else "up"
        return "yes" if way == "up" else "no", wish, way
