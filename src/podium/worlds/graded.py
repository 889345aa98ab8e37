"""Answers that are right or wrong, with optional noise or spurious rewards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from podium.core.errors import one_of, within
from podium.protocols.answer_text import ANSWER_MARK, final_answer
from podium.protocols.world import Answer, Episode, FailedAction, Feedback, Task
from podium.sandbox import CallOutcome

__all__ = ["Graded", "Verdict", "hashed_uniform", "verdict_of"]

FORMAT = f"Reason step by step. Write the answer alone on the last line, after `{ANSWER_MARK}`."


@dataclass(frozen=True)
class Verdict:
    """A world's judgement of an answer."""

    correct: bool
    answer: str = ""  # canonical: equal for equivalent answers; empty if there is none
    score: float | None = None  # partial credit between 0 and 1; None: 1 if correct, else 0


class Graded(Answer):
    """One answer, read from the last line `answer: …`, right or wrong; the reward can be corrupted on purpose."""

    noise: float = 0.0  # the probability that the reward is inverted; fixed for each task and answer
    spurious: str = "none"  # a reward that ignores the answer: random, format (any answer), wrong (a wrong answer)
    instructions: bool = False  # whether the prompt explains the task and the format, for a general-purpose model

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "noise", 0, 1)
        one_of(self, "spurious", ("none", "random", "format", "wrong"))

    def verdict(self, task: Task, answer: str) -> Verdict:
        """Whether the text after `answer:` is right."""
        raise NotImplementedError

    def read(self, text: str) -> str | None:
        """The answer that the text gives."""
        return final_answer(text)

    def grade(self, task: Task, text: str, seed: int = 0) -> Feedback:
        answer = self.read(text)
        verdict = Verdict(False) if answer is None else self.verdict(task, answer)
        reward = self._reward(task, verdict, answer is not None, text, seed)
        return Feedback(reward, state=task.key, info={"correct": verdict.correct, "answer": verdict.answer})

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
