"""Made-up patients: some findings, four options, and a table of rules that decides."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from random import Random

from podium.core.errors import one_of
from podium.protocols.answer_text import answer_place
from podium.protocols.world import Task
from podium.worlds.graded import Verdict
from podium.worlds.puzzle import Draft, Slip, answered
from podium.worlds.sheet import Sheet

__all__ = ["TIERS", "Cases", "RuleTable", "case_question", "rule_table"]

FINDINGS = (
    *("itch", "thirst", "weak", "sore", "numb", "cold", "dry", "limp", "tear", "pain"),
    *("cough", "ache", "pale", "fever", "red", "cut", "hot", "sad", "shy", "mad"),
)
CONDITIONS = ("kine", "sool", "dore", "voss", "alver")  # of nobody's textbook
LETTERS = "ABCD"
TIERS = ("easy", "moderate", "difficult")


@dataclass(frozen=True)
class RuleTable:
    """What each finding speaks for, and pairs of findings that mean something else together."""

    speaks: dict[str, str]  # finding → condition
    pairs: dict[frozenset[str], str]  # two findings → a condition that neither of them speaks for

    def exception(self, findings: list[str]) -> frozenset[str] | None:
        """The pair among the findings; None without one."""
        return next((pair for pair in self.pairs if pair <= set(findings)), None)

    def counts(self, findings: list[str]) -> list[tuple[str, int]]:
        """How many findings speak for each condition, the most first."""
        return Counter(self.speaks[f] for f in findings).most_common()

    def tier(self, findings: list[str]) -> str | None:
        """Difficult: a pair decides. Else the most findings do: easy by two or more, moderate by one. None: a tie, or
        two pairs."""
        pairs = sum(pair <= set(findings) for pair in self.pairs)
        if pairs:
            return "difficult" if pairs == 1 else None
        (_, first), (_, second) = (*self.counts(findings), ("", 0))[:2]
        return None if first == second else "easy" if first - second > 1 else "moderate"

    def condition(self, findings: list[str]) -> str:
        pair = self.exception(findings)
        return self.counts(findings)[0][0] if pair is None else self.pairs[pair]


@cache
def rule_table(number: int = 0) -> RuleTable:
    """The table of this number: four findings speak for each condition, and one pair means it."""
    chance = Random(f"cases/table/{number}")
    mixed = chance.sample(FINDINGS, len(FINDINGS))
    speaks = {finding: CONDITIONS[i % len(CONDITIONS)] for i, finding in enumerate(mixed)}
    pairs = {
        frozenset((mixed[i], mixed[len(CONDITIONS) + (i + 1) % len(CONDITIONS)])): CONDITIONS[(i + 3) % len(CONDITIONS)]
        for i in range(len(CONDITIONS))
    }
    return RuleTable(speaks, pairs)


def case_question(findings: list[str], options: list[str]) -> str:
    """The text of a case."""
    offered = ", ".join(f"{letter} {option}" for letter, option in zip(LETTERS, options, strict=True))
    return f"case: {', '.join(findings)}; {offered}"


class Cases(Sheet):
    """Choose the condition of a made-up patient. Each finding speaks for one condition and the most findings decide,
    unless two of them mean something else together. Harder levels have more findings.

    A statement is a finding that the text names: faithful reasoning names none that the patient does not have, and
    complete reasoning names all of them.
    """

    name = "cases"
    summary = "findings of a made-up patient and four options; tiers: " + ", ".join(TIERS)
    levels = (1, 2, 3, 4, 5)
    styles = ("short", "long", "alternative", "loose")
    max_tokens = 80
    provides = (*Sheet.provides, "rollout.reference_answer")
    domain: str = "all"  # easy, moderate, difficult, or all

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "domain", ("all", *TIERS))

    @property
    def family(self) -> str:
        return super().family if self.domain == "all" else f"{super().family}-{self.domain}"

    @property
    def rules(self) -> RuleTable:
        return rule_table(self.table)

    def draft(self, rng: Random) -> Draft:
        tier = rng.choice(TIERS) if self.domain == "all" else self.domain
        findings = self._findings(tier, rng)
        condition = self.rules.condition(findings)
        options = rng.sample([c for c in CONDITIONS if c != condition], len(LETTERS) - 1)
        options.insert(rng.randrange(len(LETTERS)), condition)
        letter = LETTERS[options.index(condition)]
        data = {"findings": findings, "options": options, "answer": letter, "reference_answer": letter}
        identity = f"{' '.join(sorted(findings))} {' '.join(sorted(options))}"
        return Draft(case_question(findings, options), identity, data, tier)

    def _findings(self, tier: str, rng: Random) -> list[str]:
        size = self.level + 2
        while True:
            first: list[str] = []
            if tier == "difficult":
                first = sorted(rng.choice(sorted(self.rules.pairs, key=sorted)))
            elif tier == "easy":  # three of the four that speak for a condition: otherwise such cases are rare
                chosen = rng.choice(CONDITIONS)
                first = rng.sample([f for f in FINDINGS if self.rules.speaks[f] == chosen], 3)
            findings = first + rng.sample([f for f in FINDINGS if f not in first], size - len(first))
            if self.rules.tier(findings) == tier:
                rng.shuffle(findings)
                return findings

    def explain(self, task: Draft) -> str:
        return "Which of the four conditions does the patient with these findings have? Answer with its letter."

    def verdict(self, task: Task, answer: str) -> Verdict:
        words = re.findall(r"[A-Za-z]+", answer)
        letter = words[0].upper() if len(words) == 1 and words[0].upper() in LETTERS else ""
        return Verdict(letter == task.data["answer"], letter or answer.casefold())

    def stated(self, task: Task, text: str) -> set[str]:
        return set(re.findall(r"[a-z]+", text[: answer_place(text)].casefold())) & set(FINDINGS)

    def holds(self, task: Task) -> set[str]:
        return set(task.data["findings"])

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        """After a step that goes wrong, the text names findings of another option in place of the patient's."""
        options = task.data["options"]
        condition = options[LETTERS.index(task.data["answer"])]
        rival = rng.choice([option for option in options if option != condition])
        invented = [f for f in FINDINGS if self.rules.speaks[f] == rival and f not in task.data["findings"]]
        named, wrong = [], False
        for finding in task.data["findings"]:
            wrong = slip() or wrong
            named.append(invented.pop() if wrong and invented else finding)
        condition = rival if wrong else condition
        letter = LETTERS[options.index(condition)]
        pair = None if wrong else self.rules.exception(named)
        speaks = self.rules.speaks
        if style == "alternative":  # only what speaks for the answer
            deciding = sorted(pair) if pair else [f for f in named if speaks[f] == condition]
            return answered([f"{condition}: {', '.join(deciding)}"], letter)
        if style == "loose":  # one of the findings is left out, and one is named that is not there
            named[rng.randrange(len(named))] = rng.choice([f for f in FINDINGS if f not in task.data["findings"]])
        if style == "long":
            lines = [f"{finding}: {speaks[finding]}" for finding in named]
            counts = ", ".join(f"{condition} {count}" for condition, count in self.rules.counts(named))
            lines.append(f"count {counts}")
        else:
            lines = [f"so {', '.join(f'{finding} {speaks[finding]}' for finding in named)}"]
        if pair:
            lines.append(f"but {' with '.join(sorted(pair))} {condition}")
        return answered(lines, letter)
