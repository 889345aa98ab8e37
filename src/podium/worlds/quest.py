"""Procedural tasks of several turns: the model acts by one line per turn, and its last one is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK, LONGEST, plain
from podium.protocols.pieces import joined
from podium.protocols.world import Episode, Feedback, Task, World
from podium.worlds.puzzle import Draft, Procedural, Slip

__all__ = ["Quest", "QuestStep", "action", "measure_progress"]


def action(text: str, verbs: Sequence[str]) -> tuple[str, str] | None:
    """The verb and the rest of the last line that begins with one of the verbs and a colon; None if there is none."""
    for line in reversed(text.splitlines()):
        verb, colon, rest = line.lstrip(" \t*#>`").partition(":")
        if colon and verb.casefold() in verbs:
            return verb.casefold(), rest.strip("*` \t")[:LONGEST]
    return None


def measure_progress(world: World, measured: bool) -> None:
    """Let a world say that it writes `turn.progress`, if it does."""
    if measured:
        object.__setattr__(world, "provides", (*type(world).provides, "turn.progress"))


class Quest(Procedural):
    """A question that is answered after some turns of investigation; the answer ends the episode.

    The reply to an unknown action says how to act, and `turn.valid` is False there. With `progress`, `turn.progress` is
    the share of the steps of a solution that a turn has done, the right answer among them; over a solved episode it
    sums to 1.
    """

    provides: ClassVar[tuple[str, ...]] = (
        *("rollout.correct", "rollout.answer", "rollout.reference_answer", "task.solution"),
        *("turn.state", "turn.next_state", "turn.action", "turn.reward", "turn.valid"),
    )
    blank: ClassVar[Mapping[str, Any]] = {"valid": False, "progress": 0.0}
    max_turns = 12
    cost: float = 0.0  # subtracted from the reward for each turn before the answer
    progress: bool = False  # whether `turn.progress` is measured
    turn_rewards: float = (
        0.0  # the reward of a turn for its progress: this times `turn.progress`, which is measured then
    )
    invalid_penalty: float = 0.0  # subtracted from the reward of a turn whose action is not understood
    instructions: bool = False  # whether the prompt explains how to act, for a general-purpose model or a person

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "cost", 0, 1)
        within(self, "turn_rewards", 0)
        measure_progress(self, self.progress or self.turn_rewards > 0)
        within(self, "invalid_penalty", 0)

    def explain(self) -> str:
        """How to act, in a few sentences."""
        raise NotImplementedError

    def prompt(self, draft: Draft) -> str:
        return joined("\n", [draft.question, self.explain()]) if self.instructions else draft.question

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        """The texts of the turns. Each step calls `slip()` once; if it returns True, the step goes wrong, and the rest
        follows from it to a wrong answer."""
        raise NotImplementedError

    def attempt(self, task: Task, style: str = "short", seed: int = 0, right: float = 1.0) -> tuple[str, ...]:
        """Turns that lead to a right answer with probability `right`; every step is equally likely to fail."""
        return self._attempt(self.write, task, style, seed, right)

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        return self.attempt(task, style, seed)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return "\n".join(self.demonstrate(task, style, seed))

    def conversation(self, task: Task, turns: Sequence[str], seed: int = 0) -> list[dict[str, str]]:
        """The messages of an episode with these turns."""
        episode = self.reset(task, seed)
        messages = [{"role": "user", "content": episode.observation}]
        for text in turns:
            feedback = episode.act(text)
            messages.append({"role": "assistant", "content": text})
            if feedback.done:
                break
            messages.append({"role": "user", "content": feedback.observation})
        return messages


class QuestStep(Episode):
    """An episode of a quest; subclasses carry out actions and name the state that has been reached."""

    verbs: tuple[str, ...] = ()  # besides the answer
    ended = False

    def __init__(self, world: Quest, task: Task) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.task = world, task
        self.steps = 0  # of a solution, the answer among them; 0: not counted yet
        self.left = 0  # of these

    def act(self, text: str) -> Feedback:
        parsed = action(text, (*self.verbs, ANSWER_MARK[:-1]))
        if not self.steps:
            self.steps = self.left = self.missing() + 1
        if self.ended:
            return self.say("over", done=True, valid=False)
        if parsed is None:
            verbs = " or ".join(f"{verb}:" for verb in (*self.verbs, ANSWER_MARK[:-1]))
            return self.say(f"error: say {verbs}", valid=False)
        verb, rest = parsed
        return self.answer(plain(rest), text) if verb == ANSWER_MARK[:-1] else self.do(verb, rest, text)

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        """Carry out an action other than the answer."""
        raise NotImplementedError

    def reached(self) -> str:
        """The state reached so far, as a string that is equal for equal states."""
        raise NotImplementedError

    def missing(self) -> int:
        """How many steps of a solution are still to be done before the answer."""
        raise NotImplementedError

    def right(self, answer: str) -> bool:
        return answer == self.task.data["answer"]

    def columns(self) -> dict[str, Any]:
        """Further columns of the rollout, as far as they are known yet."""
        return {}

    def answer(self, answer: str, text: str) -> Feedback:
        correct, self.ended = self.right(answer), True
        return self.say("", done=True, reward=float(correct), correct=correct, answer=answer)

    def say(self, observation: str, *, reward: float = 0.0, done: bool = False, **info: Any) -> Feedback:
        """The world's feedback, with the columns of the turn."""
        reached = "over" if self.ended else self.reached()
        self.state = f"{self.task.key}/{reached}" if reached else self.task.key
        columns = {"correct": False, "answer": "", **self.world.blank, "valid": True, **self.columns(), **info}
        columns["progress"] = progress = self._progress(columns["correct"])
        cost = 0.0 if done else self.world.cost
        cost += self.world.invalid_penalty * (not columns["valid"]) - self.world.turn_rewards * progress
        return Feedback(reward - cost, done, observation, self.state, columns)

    def _progress(self, solved: bool) -> float:
        """The share of the steps that the last turn has done; a right answer makes up for those that were left out."""
        before = self.left
        self.left = 0 if solved or not before else self.missing() + 1
        return (before - self.left) / self.steps
