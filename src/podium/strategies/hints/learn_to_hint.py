"""Hints by a model that learns to write them, beside the one that learns to solve."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Generator, Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.part import Need
from podium.protocols.scaffold import Scaffold
from podium.strategies.hints.help import ask_for_help, reasoning, solution, wording
from podium.strategies.hints.hint_reward import HintWorth
from podium.strategies.hints.repair import Repair, counted, marked
from podium.strategies.requests import Plan, Score, TaskRequest, Wave
from podium.strategies.sample.sample import Sample

__all__ = ["LearnToHint", "leaks"]

BLOCK = re.compile(r"<hint>(.*?)</hint>", re.DOTALL)
INSTRUCTION = (
    "{question}\nA wrong answer:\n{attempt}\nA solution:\n{solution}\nWrite a hint of one to three sentences that "
    "helps without giving the answer away, between <hint> and </hint>."
)


def leaks(hint: str, answer: str) -> bool:
    """Whether a hint gives the answer away; short answers only where it is said that they are the answer."""
    hint, answer = hint.casefold(), answer.strip().casefold()
    if not answer:
        return False
    if f"\\boxed{{{answer}}}" in hint:
        return True
    if len(answer) > 2:
        return answer in hint
    return re.search(rf"(=|\bis|\bequals|\banswer:)\s*{re.escape(answer)}(?!\w)", hint) is not None


class LearnToHint(Repair):
    """Where no rollout succeeds, `writer` writes `hints` hints, and `n` rollouts are sampled under each.

    `worth` says how good each hint was; the best one's rollouts stand for the group if they are more mixed than the
    failed ones, trained with the hint in the prompt. The hints of a task are a group of their own, with these worths
    as rewards: `rollout.hinting` marks them, `rollout.solving` the others. A hint that cannot be read, that leaks the
    answer or leaves no room to answer breaks the rules. Without `ask` the hinter sees the solution in place of a hint,
    and the first half of its lines, the answer aside, is the hint.
    """

    reference = "HiLL: Learning to Hint for Reinforcement Learning, https://github.com/Andree-9/HiLL"
    hints: int = 4
    worth: HintWorth = HintWorth()
    writer: str = "hinter"  # a role
    ask: str = INSTRUCTION  # with {question}, {attempt} and {solution}
    tokens: int | None = None  # of a hint at most; None: as for an answer
    style: str = "short"
    success: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "hints", 1)
        within(self, "tokens", 1, optional=True)
        ask_for_help(self.ask, "", "")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",)

    @property
    def provides(self) -> tuple[str, ...]:
        return (*super().provides, "rollout.hinting", "rollout.solving", "rollout.writer", "rollout.hint.worth")

    def plan(self, task: TaskRequest) -> Plan:
        group = [marked(r) for r in (yield from Sample.plan(self, task))]
        before = [self.value(task, r) for r in counted(group)]
        text = (yield from solution(task, self.style)) if self.active and self.asks(before) else ""
        if not text:
            return [_told(marked(r, missing=bool(self.active) and self.asks(before))) for r in group]
        prompt = ask_for_help(self.ask, task.task.prompt, text, str(group[0].columns["text"]))
        (written,) = yield [wording(task, prompt, self.tokens, 0, self.hints, self.writer)]
        read = [self.read(str(r.columns["text"])) for r in written]  # type: ignore[union-attr]
        gold = "" if task.world is None else task.world.reference(task.task)
        read = ["" if leaks(hint, gold) else hint for hint in read]
        allowed = [place for place, hint in enumerate(read) if hint]
        tried = yield from self._tried(task, [Scaffold(read[place]) for place in allowed], len(group))
        made = dict(zip(allowed, tried, strict=True))
        worths = []
        for place in range(len(read)):
            rollouts = made.get(place, [])
            scores = [self.value(task, r) for r in rollouts]
            reliance = yield from self._reliance(group[0], rollouts, scores)
            worths.append(self.worth(scores, reliance, bool(rollouts), before))
        best = max(range(len(worths)), key=lambda i: worths[i], default=0)
        chosen = made.get(best, []) if worths and worths[best] > 0 else []
        others = [r for r in (*group, *(r for rs in tried for r in rs)) if not any(r is new for new in chosen)]
        kept = chosen or group
        rest = [marked(r, purpose=Purpose.replaced) for r in others if not any(r is own for own in kept)]
        hints = [_hint(r, worth) for r, worth in zip(written, worths, strict=True)]  # type: ignore[arg-type]
        return [*(_told(r) for r in (*kept, *rest)), *hints]

    def read(self, text: str) -> str:
        """The hint in what was written; empty where there is none."""
        if self.ask:
            found = BLOCK.search(text)
            return found[1].strip() if found else ""
        lines = reasoning(text).splitlines()
        return "\n".join(lines[: (len(lines) + 1) // 2])

    def _reliance(
        self, bare: Rollout, rollouts: Sequence[Rollout], scores: Sequence[float]
    ) -> Generator[Wave, list[Any], float | None]:
        """How much likelier its successes are without the hint than with it, in log-probability per token."""
        right = [r for r, score in zip(rollouts, scores, strict=True) if score > self.worth.success and r.turns[0].ids]
        if not right or self.worth.temperature is None:
            return None
        turns = [r.turns[0] for r in right]
        without = [Score(tuple(bare.turns[0].context), tuple(t.ids)) for t in turns]
        with_ = [Score(tuple(t.context), tuple(t.ids)) for t in turns]
        numbers = yield [*without, *with_]
        means = [sum(x) / max(len(x), 1) for x in numbers]
        return self.worth.reliance([1.0] * len(turns), means[: len(turns)], means[len(turns) :])


def _told(rollout: Rollout) -> Rollout:
    """A rollout of the one who solves."""
    own = {"hinting": False, "solving": True, "writer": "policy", "hint.worth": float("nan")}
    return dataclasses.replace(rollout, columns={**rollout.columns, **own})


def _hint(rollout: Rollout, worth: float) -> Rollout:
    """A hint as a rollout of its own group, with what it was worth as its reward."""
    own = {"hinting": True, "solving": False, "writer": "hinter", "hint.worth": worth, "reward": worth}
    made = marked(rollout, purpose=Purpose.train)
    return dataclasses.replace(made, group=f"{rollout.group}, hints", columns={**made.columns, **own})
