"""Learning to hint: a second model learns to write hints while the policy learns to solve with them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Generator, Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import one_of, within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.protocols.answer_text import enclosed
from podium.protocols.scaffold import Scaffold
from podium.protocols.world import World
from podium.strategies.draw import Draw
from podium.strategies.hints.help import hint_prompt, reasoning, solution, without_reasoning, write_text
from podium.strategies.hints.hint_reward import HintReward
from podium.strategies.hints.repair import MARKS, helped, marked, play_under, under_level
from podium.strategies.requests import Plan, Score, TaskRequest, Wave, rollouts_of

__all__ = ["LearnToHint", "leaks"]

INSTRUCTION = (
    "{question}\nA wrong answer:\n{attempt}\nA solution:\n{solution}\nWrite a hint of one to three sentences that "
    "helps without giving the answer away, between <hint> and </hint>."
)


def leaks(hint: str, answer: str) -> bool:
    """Whether a hint gives the answer away; of short answers, only if the hint presents it as the answer."""
    hint, answer = hint.casefold(), answer.strip().casefold()
    if not answer:
        return False
    if f"\\boxed{{{answer}}}" in hint:
        return True
    if len(answer) > 2:
        return answer in hint
    return re.search(rf"(=|\bis|\bequals|\banswer:)\s*{re.escape(answer)}(?!\w)", hint) is not None


class LearnToHint(Strategy):
    """Where none of `n` rollouts succeeds, `writer` writes `hints` hints, and `n` rollouts are sampled under each.

    `hint_reward` rates each hint. The rollouts under the best one replace the group if its reward is positive. The
    hints of a task form a group of their own: `rollout.hinting` marks them, `rollout.solving` the others;
    `rollout.hint.worth` is the reward of a hint. A hint breaks the rules if it cannot be parsed, leaks the answer or
    leaves no tokens for an answer. With an empty `ask` the hint writer sees the solution as a hint, and the first half
    of the lines it writes, without the final answer, is the hint.
    """

    reference = "HiLL: Learning to Hint for Reinforcement Learning, https://github.com/Andree-9/HiLL"
    n: int = 8
    hints: int = 4
    hint_reward: HintReward = HintReward()
    writer: str = "hinter"  # a role
    ask: str = INSTRUCTION  # may contain {question}, {attempt} and {solution}; empty: show the solution as a hint
    tokens: int | None = None  # token limit of a hint; None: that of an answer
    style: str = "short"  # of the world's solution
    scaffold: str = "kept"  # whether rollouts are trained with the hint in the prompt: kept or removed
    active: Number = 1.0  # 0: no hints
    success: float = 0.5  # a reward above it is a success
    draw: Draw = Draw()

    needs = ("task.solution",)
    provides = (*MARKS, "rollout.hinting", "rollout.solving", "rollout.writer", "rollout.hint.worth")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "hints", 1)
        within(self, "tokens", 1, optional=True)
        one_of(self, "scaffold", ("kept", "removed"))
        hint_prompt(self.ask, "", "")

    def prepare(self, world: World | None = None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (self.writer,)

    @property
    def writers(self) -> tuple[str, ...]:
        return (*self.seated, self.writer)

    @property
    def neutral(self) -> LearnToHint:
        return self.replace(active=0.0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        group = [marked(r) for r in rollouts_of((yield [self.draw.play(task, self.n)]))]
        before = _rewards(group)
        needs_hints = bool(self.active) and not any(reward > self.success for reward in before)
        text = (yield from solution(task, self.style)) if needs_hints else ""
        if not text:
            return [_solving(marked(r, missing=needs_hints)) for r in group]
        prompt = hint_prompt(self.ask, task.task.prompt, text, str(group[0].columns["text"]))
        written = rollouts_of((yield [write_text(task, prompt, self.tokens, 0, self.hints, self.writer)]))
        hints = self._allowed(task, written)
        tried = yield from self._try(task, [hint for hint in hints if hint], len(group))
        under = dict(zip((i for i, hint in enumerate(hints) if hint), tried, strict=True))
        rewards = []
        for i in range(len(hints)):
            rollouts = under.get(i, [])
            reliance = yield from self._reliance(group[0], rollouts)
            rewards.append(self.hint_reward(_rewards(rollouts), reliance, bool(rollouts), before))
        best = max(range(len(rewards)), key=lambda i: rewards[i], default=0)
        kept = (under.get(best, []) if rewards and rewards[best] > 0 else []) or group
        others = [r for r in (*group, *(r for rollouts in tried for r in rollouts)) if not any(r is k for k in kept)]
        replaced = [marked(r, purpose=Purpose.replaced) for r in others]
        return [
            *(_solving(r) for r in (*kept, *replaced)),
            *(_hinting(r, reward) for r, reward in zip(written, rewards, strict=True)),
        ]

    def read(self, text: str) -> str:
        """The hint in what was written; empty where it cannot be parsed."""
        if self.ask:
            place = enclosed(text, "<hint>", "</hint>")
            return text[slice(*place)].strip() if place else ""
        lines = reasoning(text).splitlines()
        return "\n".join(lines[: (len(lines) + 1) // 2])

    def _allowed(self, task: TaskRequest, written: Sequence[Rollout]) -> list[str]:
        """The hints that were written; empty where one cannot be parsed or leaks the answer."""
        answer = "" if task.world is None else task.world.reference(task.task)
        hints = [self.read(str(r.columns["text"])) for r in written]
        return ["" if leaks(hint, answer) else hint for hint in hints]

    def _try(
        self, task: TaskRequest, hints: Sequence[str], first: int
    ) -> Generator[Wave, list[Any], list[list[Rollout]]]:
        """`n` rollouts under each hint."""
        kept = self.scaffold == "kept"
        plays: Wave = [
            play_under(self.draw, task, Scaffold(hint), self.n, first=first + i * self.n, wave=i + 1, kept=kept)
            for i, hint in enumerate(hints)
        ]
        answers = (yield plays) if plays else []
        return [under_level(rollouts, level) for level, rollouts in enumerate(answers, 1)]

    def _reliance(self, bare: Rollout, rollouts: Sequence[Rollout]) -> Generator[Wave, list[Any], float | None]:
        """How much likelier the successes are without the hint than with it, in log-probability per token."""
        right = [r for r in rollouts if r.columns["reward"] > self.hint_reward.success and r.turns[0].ids]
        if not right or self.hint_reward.temperature is None:
            return None
        turns = [r.turns[0] for r in right]
        without = [Score(tuple(bare.turns[0].context), tuple(t.ids)) for t in turns]
        with_ = [Score(tuple(t.context), tuple(t.ids)) for t in turns]
        logp = yield [*without, *with_]
        means = [sum(x) / max(len(x), 1) for x in logp]
        return self.hint_reward.reliance([1.0] * len(turns), means[: len(turns)], means[len(turns) :])


def _rewards(rollouts: Sequence[Rollout]) -> list[float]:
    return [float(r.columns["reward"]) for r in rollouts]


def _solving(rollout: Rollout) -> Rollout:
    """A rollout of the solver."""
    columns = {"hinting": False, "solving": True, "writer": "policy", "hint.worth": float("nan")}
    return dataclasses.replace(rollout, columns={**rollout.columns, **columns})


def _hinting(rollout: Rollout, reward: float) -> Rollout:
    """A hint as a rollout, in the group of the task's hints."""
    columns = {"hinting": True, "solving": False, "writer": "hinter", "hint.worth": reward, "reward": reward}
    hint = marked(rollout, purpose=Purpose.train)
    return dataclasses.replace(hint, group=f"{rollout.group}, hints", columns={**hint.columns, **columns})
