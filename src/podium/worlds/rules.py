"""Small deductions in several domains of different difficulty."""

from __future__ import annotations

import re
from itertools import pairwise
from random import Random
from typing import Any

from podium.core.errors import one_of
from podium.protocols.world import Task
from podium.worlds.graded import Verdict
from podium.worlds.puzzle import Draft, Puzzle, Slip, answered

__all__ = ["DOMAINS", "Rules"]

NAMES = ("ann", "bob", "cid", "dee", "eve", "fay", "gus", "hal")
COLOURS = ("red", "blue", "green", "pink", "grey", "black", "white", "brown")
LAMPS = ("a", "b", "c", "d", "e")


class Domain:
    """One kind of deduction: a question, its explanation, its answer as words, and written solutions."""

    steps = ""  # of a solution, in words, without their results
    ordered = True  # whether the order of the words in an answer matters
    guessable = False  # whether a guess is often correct

    def draft(self, size: int, rng: Random) -> tuple[str, str, dict[str, Any], list[str]]:
        """Question, identity, data, and the words of the answer."""
        raise NotImplementedError

    def explain(self, data: Any) -> str:
        raise NotImplementedError

    def write(self, data: Any, style: str, rng: Random, slip: Slip) -> tuple[list[str], list[str]]:
        """Lines of reasoning, and the words of the answer."""
        raise NotImplementedError

    def parts(self, data: Any) -> list[tuple[str, dict[str, Any], list[str]]]:
        """The steps of a solution as questions of this kind, each with its data and the words of its answer. What was
        answered before stands in the question."""
        raise NotImplementedError


class Order(Domain):
    """Order people in a line from comparisons of neighbours."""

    steps = "find who is first, then who is next, until all are in line"

    def draft(self, size: int, rng: Random) -> tuple[str, str, dict[str, Any], list[str]]:
        line = rng.sample(NAMES, size)
        pairs = [f"{a} > {b}" for a, b in pairwise(line)]
        rng.shuffle(pairs)
        return f"order: {', '.join(pairs)}", " ".join(line), {"line": line}, line

    def explain(self, data: Any) -> str:
        return "`x > y` means that x stands directly before y. List all names from the first to the last."

    def write(self, data: Any, style: str, rng: Random, slip: Slip) -> tuple[list[str], list[str]]:
        line = data["line"][::-1] if style == "alternative" else data["line"]
        order: list[str] = []
        left = list(line)
        for _ in line:
            name = _following(line, order[-1] if order else None, left)
            if len(left) > 1 and slip():
                name = rng.choice([other for other in left if other != name])
            left.remove(name)
            order.append(name)
        if style == "alternative":  # from last to first
            return [f"so {' < '.join(order)}"], order[::-1]
        if style == "long":
            pairs = [f"so {a} > {b}" for a, b in pairwise(order)]
            return [f"first {order[0]}", *pairs, f"last {order[-1]}"], order
        return [f"so {' > '.join(order)}"], order

    def parts(self, data: Any) -> list[tuple[str, dict[str, Any], list[str]]]:
        """One more person at a time; those in line already stand in order."""
        lines = [data["line"][:count] for count in range(2, len(data["line"]) + 1)]
        return [
            (f"order: {', '.join(f'{a} > {b}' for a, b in pairwise(line))}", {"line": line}, line) for line in lines
        ]


class Paint(Domain):
    """Repaint a wall several times by rules from colour to colour."""

    steps = "start with its colour, take the rule of the colour that it has, count each time"
    guessable = True

    def draft(self, size: int, rng: Random) -> tuple[str, str, dict[str, Any], list[str]]:
        round_ = rng.sample(COLOURS, min(size + 1, 7))  # a cycle: different starts never lead to the same colour
        rules = list(zip(round_, [*round_[1:], round_[0]], strict=True))
        rng.shuffle(rules)
        start, times = rng.randrange(len(round_)), size - 1
        question = self._question(rules, round_[start], times)
        identity = f"{sorted(rules)} {round_[start]} {times}"
        data = {"becomes": dict(rules), "start": round_[start], "times": times}
        return question, identity, data, [round_[(start + times) % len(round_)]]

    def explain(self, data: Any) -> str:
        return (
            f"`x to y` means that whoever repaints a wall of colour x makes it y. The wall is {data['start']} and is "
            f"repainted {data['times']} times. Which colour is it then?"
        )

    def write(self, data: Any, style: str, rng: Random, slip: Slip) -> tuple[list[str], list[str]]:
        becomes = data["becomes"]
        seen = [data["start"]]
        for _ in range(data["times"]):
            colour = becomes[seen[-1]]
            if slip():
                colour = rng.choice([c for c in becomes if c not in (colour, seen[-1])])
            seen.append(colour)
        if style == "alternative":  # two at a time
            return [f"so {' '.join(seen[::2])}"], seen[-1:]
        if style == "long":
            return [f"{i}: {a} to {b}" for i, (a, b) in enumerate(pairwise(seen), 1)], seen[-1:]
        return [f"so {' to '.join(seen)}"], seen[-1:]

    def parts(self, data: Any) -> list[tuple[str, dict[str, Any], list[str]]]:
        """Once more, from the colour that it has then."""
        becomes, colour = data["becomes"], data["start"]
        found = []
        for _ in range(data["times"]):
            question = self._question(list(becomes.items()), colour, 1)
            found.append((question, {**data, "start": colour, "times": 1}, [becomes[colour]]))
            colour = becomes[colour]
        return found

    @staticmethod
    def _question(rules: list[tuple[str, str]], start: str, times: int) -> str:
        return f"paint: {', '.join(f'{a} to {b}' for a, b in rules)}; {start} {times} times"


class Lamps(Domain):
    """Which lamps are on after some switches were pressed."""

    steps = "go through the presses one by one, say each time which lamps are on"
    guessable = True
    ordered = False

    def draft(self, size: int, rng: Random) -> tuple[str, str, dict[str, Any], list[str]]:
        presses = [rng.choice(LAMPS) for _ in range(size)]
        lit = [lamp for lamp in LAMPS if presses.count(lamp) % 2]
        return f"lamps: {' '.join(presses)}", " ".join(presses), {"presses": presses}, lit

    def explain(self, data: Any) -> str:
        return (
            "All lamps are off; each letter is a press of that lamp's switch, which turns it on or off. List the "
            "lamps that are on at the end, or `none`."
        )

    def write(self, data: Any, style: str, rng: Random, slip: Slip) -> tuple[list[str], list[str]]:
        if style == "alternative":  # count the presses of each lamp
            counts = {lamp: data["presses"].count(lamp) for lamp in sorted(set(data["presses"]))}
            for lamp, count in counts.items():
                if slip():
                    counts[lamp] = count + 1 if count == 1 else count + rng.choice((-1, 1))
            listed = ", ".join(f"{lamp} {count}" for lamp, count in counts.items())
            return [f"count {listed}"], [lamp for lamp, count in counts.items() if count % 2]
        lit: set[str] = set()
        states = []
        for lamp in data["presses"]:
            lit ^= {rng.choice([other for other in LAMPS if other != lamp]) if slip() else lamp}
            states.append(_words(sorted(lit)))
        if style == "long":
            lines = [f"press {lamp}: {state}" for lamp, state in zip(data["presses"], states, strict=True)]
            return lines, sorted(lit)
        return [f"on {'; '.join(states)}"], sorted(lit)

    def parts(self, data: Any) -> list[tuple[str, dict[str, Any], list[str]]]:
        """One more press, after those that turn on what is on."""
        lit: set[str] = set()
        found = []
        for lamp in data["presses"]:
            presses = [*sorted(lit), lamp]
            lit ^= {lamp}
            found.append((f"lamps: {' '.join(presses)}", {"presses": presses}, sorted(lit)))
        return found


class Liars(Domain):
    """Find the liars, where each person speaks about the next and liars' statements are false."""

    steps = "decide who lies one after another, from what the one before says"

    def draft(self, size: int, rng: Random) -> tuple[str, str, dict[str, Any], list[str]]:
        people = rng.sample(NAMES, size)
        lies = [rng.random() < 0.5 for _ in people]
        says = [a != b for a, b in pairwise(lies)]  # whether the next one is called a liar
        question = self._question(people, lies[0], says)
        data = {"people": people, "lies": lies[0], "says": says}
        return question, question, data, [p for p, liar in zip(people, lies, strict=True) if liar]

    def explain(self, data: Any) -> str:
        return (
            "Some people always lie and the others never do. The first statement is true; then each speaks about the "
            "next. List the liars in the order of the statements, or `none`."
        )

    def write(self, data: Any, style: str, rng: Random, slip: Slip) -> tuple[list[str], list[str]]:
        people = data["people"]
        lies = [data["lies"] != slip()]
        for called in data["says"]:
            lies.append((lies[-1] != called) != slip())
        liars = [p for p, liar in zip(people, lies, strict=True) if liar]
        if style == "alternative":  # only the people at whom it changes
            turns = [p for p, a, b in zip(people, [False, *lies], lies, strict=False) if a != b]
            return [f"change {_words(turns)}"], liars
        if style == "long":
            return [f"so {p} {_truth(liar)}" for p, liar in zip(people, lies, strict=True)], liars
        return [f"so {', '.join(f'{p} {_truth(liar)}' for p, liar in zip(people, lies, strict=True))}"], liars

    def parts(self, data: Any) -> list[tuple[str, dict[str, Any], list[str]]]:
        """Two people each time, of whom it is known about the first, and all of them at last."""
        people, lies = data["people"], [data["lies"]]
        found = []
        for (a, b), called in zip(pairwise(people), data["says"], strict=True):
            lies.append(lies[-1] != called)
            part = {"people": [a, b], "lies": lies[-2], "says": [called]}
            found.append((self._question(**part), part, [p for p, liar in zip((a, b), lies[-2:], strict=True) if liar]))
        known = ", ".join(f"{p} {_truth(liar)}" for p, liar in zip(people, lies, strict=True))
        return [*found, (f"liars: {known}", data, [p for p, liar in zip(people, lies, strict=True) if liar])]

    @staticmethod
    def _question(people: list[str], lies: bool, says: list[bool]) -> str:
        parts = [f"{people[0]} {_truth(lies)}"]
        parts += [f"{a} says {b} {_truth(s)}" for a, b, s in zip(people, people[1:], says, strict=False)]
        return f"liars: {', '.join(parts)}"


DOMAINS: dict[str, Domain] = {"order": Order(), "paint": Paint(), "lamps": Lamps(), "liars": Liars()}


class Rules(Puzzle):
    """Deductions in domains of different difficulty; the number of steps grows with the level."""

    name = "rules"
    summary = "small deductions: " + ", ".join(DOMAINS)
    levels = (1, 2, 3, 4, 5)
    styles = ("short", "long", "alternative")
    max_tokens = 80
    provides = (*Puzzle.provides, "task.plan", "task.knowledge", "task.subproblems")
    domain: str = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "domain", ("all", *DOMAINS))

    @property
    def family(self) -> str:
        return super().family if self.domain == "all" else f"{super().family}-{self.domain}"

    def draft(self, rng: Random) -> Draft:
        # At the hardest level guessing must not help.
        open_to = [name for name, d in DOMAINS.items() if self.level < max(self.levels) or not d.guessable]
        domain = rng.choice(open_to) if self.domain == "all" else self.domain
        question, identity, data, answer = DOMAINS[domain].draft(self.level + 2, rng)
        return Draft(question, f"{domain} {identity}", {**data, "answer": _words(answer)}, domain)

    def explain(self, task: Draft) -> str:
        return DOMAINS[task.domain].explain(task.data)

    def verdict(self, task: Task, answer: str) -> Verdict:
        words = re.findall(r"[a-z]+", answer.casefold())
        said = _words(words if DOMAINS[task.domain].ordered else sorted(words))
        return Verdict(said == task.data["answer"], said)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        lines, answer = DOMAINS[task.domain].write(task.data, style, rng, slip)
        return answered(lines, _words(answer))

    def plan(self, task: Task) -> str:
        return DOMAINS[task.domain].steps

    def knowledge(self, task: Task) -> str:
        return DOMAINS[task.domain].explain(task.data)

    def subproblems(self, task: Task) -> tuple[Task, ...]:
        parts = DOMAINS[task.domain].parts(task.data)
        drafts = [Draft(q, q, {**data, "answer": _words(answer)}, task.domain) for q, data, answer in parts]
        return tuple(self.part(task, number, draft) for number, draft in enumerate(drafts))


def _words(words: list[str]) -> str:
    return " ".join(words) or "none"


def _truth(lies: bool) -> str:
    return "lies" if lies else "honest"


def _following(line: list[str], name: str | None, left: list[str]) -> str:
    """Who stands after `name`; if that person has been listed already, the first of those left."""
    if name is None:
        return line[0]
    after = line.index(name) + 1
    return line[after] if after < len(line) and line[after] in left else left[0]
