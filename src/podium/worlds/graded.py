"""Answers that are right or wrong, with optional noise or spurious rewards, or with rewards of a user's functions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from podium.core.errors import one_of, within
from podium.protocols.answer_text import ANSWER_MARK, final_answer
from podium.protocols.world import Answer, Episode, FailedAction, Feedback, Task
from podium.sandbox import CallOutcome
from podium.worlds.rewarding import Answered, Earned, Rewards, RewardSpec, reward_specs, rewards_of

__all__ = ["Graded", "Verdict", "hashed_uniform", "verdict_of"]

STARTING_S = 60.0  # seconds for the processes of reward functions to start
UNREAD = f"no line begins with `{ANSWER_MARK}`"
FORMAT = f"Reason step by step. Write the answer alone on the last line, after `{ANSWER_MARK}`."


@dataclass(frozen=True)
class Verdict:
    """A world's judgement of an answer."""

    correct: bool
    answer: str = ""  # canonical: equal for equivalent answers; empty if there is none
    score: float | None = None  # partial credit between 0 and 1; None: 1 if correct, else 0
    why: str = ""  # the reason, where it is not correct


class Graded(Answer):
    """One answer, read from the last line `answer: …`, right or wrong; the reward can be corrupted on purpose, or be
    that of functions of your own."""

    noise: float = 0.0  # the probability that the reward is inverted; fixed for each task and answer
    spurious: str = "none"  # a reward that ignores the answer: random, format (any answer), wrong (a wrong answer)
    instructions: bool = False  # whether the prompt explains the task and the format, for a general-purpose model
    # Functions in place of the verdict: my_rewards.py:brevity, or my_rewards.py:brevity=0.2 with a weight; they add up.
    reward_functions: str | tuple[str, ...] = ()
    reward_s: float = 30.0  # seconds for the functions to grade a completion

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "noise", 0, 1)
        one_of(self, "spurious", ("none", "random", "format", "wrong"))
        within(self, "reward_s", 0, open_low=True)
        if self.reward_functions:
            columns = tuple(f"rollout.{spec.column}" for spec in self.reward_specs)
            object.__setattr__(self, "provides", (*type(self).provides, *columns))
            unknown = dict.fromkeys((spec.column for spec in self.reward_specs), 0.0)
            object.__setattr__(self, "blank", {**type(self).blank, **unknown})
            object.__setattr__(self, "isolation", "thread")  # so that they answer while others write
            limit = max(type(self).act_limit_s, self.reward_s) + STARTING_S
            object.__setattr__(self, "act_limit_s", limit)

    def verdict(self, task: Task, answer: str) -> Verdict:
        """Whether the text after `answer:` is right."""
        raise NotImplementedError

    def read(self, text: str) -> str | None:
        """The answer that the text gives."""
        return final_answer(text)

    def grade(self, task: Task, text: str, seed: int = 0) -> Feedback:
        verdict, answered = self.decide(task, text)
        info: dict[str, Any] = {"correct": verdict.correct, "answer": verdict.answer}
        reward = 0.0 if self.reward_functions else self._reward(task, verdict, answered, text, seed)
        return self.rewarded(task, text, Feedback(reward, state=task.key, info=info))

    def decide(self, task: Task, text: str) -> tuple[Verdict, bool]:
        """The verdict on a text, and whether it states an answer."""
        answer = self.read(text)
        if answer is None:
            return Verdict(False, why=UNREAD), False
        verdict = self.verdict(task, answer)
        if verdict.correct or verdict.why:
            return verdict, True
        return replace(verdict, why=f"read {answer[:80]!r}, which is not right"), True

    def why(self, task: Task, text: str) -> str:
        """Why a text is not right; empty if it is."""
        return self.decide(task, text)[0].why

    # -- rewards of a user's functions -----------------------------------------------------------------------------

    @cached_property
    def reward_specs(self) -> tuple[RewardSpec, ...]:
        return reward_specs(self.reward_functions)

    @property
    def rewards(self) -> Rewards:
        """The processes of the reward functions."""
        return rewards_of(tuple(spec.code for spec in self.reward_specs), self.reward_s, os.getcwd())

    def columns(self, task: Task) -> Mapping[str, Any]:
        """What reward functions may know of a task, by name."""
        return {**task.data, "task": task.key, "level": task.level, "domain": task.domain}

    def rewarded(self, task: Task, text: str, feedback: Feedback) -> Feedback:
        """A feedback with the rewards of the reward functions, if there are any, in place of the world's own."""
        if not self.reward_functions:
            return feedback
        answered = Answered(task.prompt, text, self.columns(task), partial(self.paid, task))
        return self.rewards.begin(self.reward_specs, answered, replace(feedback, reward=0.0))

    def paid(self, task: Task, feedback: Feedback, earned: Earned) -> Feedback:
        """A feedback with what the reward functions have given."""
        return replace(feedback, reward=earned.total, info={**feedback.info, **earned.columns}, later=None)

    def close(self) -> None:
        if self.reward_functions:
            self.rewards.close()

    def check_rewards(self) -> None:
        """Refuse reward functions that cannot be loaded or called."""
        if self.reward_functions:
            self.rewards.check(list(self.columns(self.task(0))))

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Question(self, task, seed)

    def _reward(self, task: Task, verdict: Verdict, answered: bool, text: str, seed: int) -> float:
        if self.spurious == "random":
            reward = float(hashed_uniform("random", task.key, seed, text) < 0.5)
        elif self.spurious == "format":
            reward = float(answered)
        elif self.spurious == "wrong":
            reward = float(answered and not verdict.correct)
        else:
            reward = float(verdict.correct) if verdict.score is None else verdict.score
        if self.noise and hashed_uniform("noise", task.key, verdict.answer) < self.noise:
            return 1.0 - reward
        return reward


class _Question(Episode):
    def __init__(self, world: Graded, task: Task, seed: int) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.task, self.seed = world, task, seed

    def act(self, text: str) -> Feedback:
        return self.world.grade(self.task, text, self.seed)


def verdict_of(outcome: CallOutcome) -> Any:
    """The result of a scorer in a sandbox. If that has failed, the action fails: the answer counts as wrong, and the
    rollout is counted and shown as failed."""
    if outcome.failure:
        raise FailedAction(f"the answer could not be judged ({outcome.failure}): {outcome.detail}")
    return outcome.value


def hashed_uniform(*key: object) -> float:
    """A number in [0, 1) that is a hash of the key."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
