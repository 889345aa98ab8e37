"""A user's reward functions: plain functions by name, called in processes of their own with a time limit.

Three forms are recognised by their parameters: TRL's `reward(prompts, completions, **columns)`, verl's
`compute_score(data_source, solution_str, ground_truth, extra_info)`, and `reward(prompt, completion)`, which may name
columns of the row as further parameters. A function may be `async`. Those in TRL's form get a whole batch at once, when
all of it has been written; the others grade each completion as soon as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from podium.core.errors import PodiumError
from podium.protocols.pieces import Dialogue
from podium.protocols.world import FailedAction, Feedback
from podium.sandbox import CallOutcome, Limits, Sandbox, SandboxedCall
from podium.sandbox.workers import Workers
from podium.worlds.wire import Unsendable, to_wire

__all__ = ["Answered", "Earned", "RewardSpec", "Rewards", "reward_names", "reward_specs", "rewards_of"]

HOST = "podium.worlds.reward_host"
MEMORY_MB, ANSWER_MB, BATCH_ANSWER_MB = 8192, 1, 16
START_S = 60.0  # seconds for the process of the functions that judge batches to start
MOST = 64  # processes at once
PATIENCE = 10  # times the seconds of a completion: those of a batch
Scores = list[float | None]  # of a completion, by function; None where one does not apply


class RewardSpec(NamedTuple):
    """A reward function by the name of its code, how much it counts, and the column that it fills."""

    code: str  # my_rewards.py:brevity
    weight: float
    column: str  # reward.brevity


class Earned(NamedTuple):
    """What the functions gave for a completion."""

    total: float
    columns: dict[str, float]  # by function; 0 where one does not apply


def reward_specs(names: str | Sequence[str]) -> tuple[RewardSpec, ...]:
    """The functions that are named: `my_rewards.py:brevity`, or `my_rewards.py:brevity=0.2` with a weight."""
    specs: list[RewardSpec] = []
    for text in (names,) if isinstance(names, str) else names:
        code, equals, number = text.partition("=")
        source, colon, function = code.rpartition(":")
        if not (colon and source and function.isidentifier()):
            raise PodiumError(f"reward_functions: {text!r} names no function: write my_rewards.py:my_function.")
        try:
            weight = float(number) if equals else 1.0
        except ValueError as error:
            raise PodiumError(f"reward_functions: {text!r}: the weight {number!r} is no number.") from error
        if not abs(weight) < float("inf"):
            raise PodiumError(f"reward_functions: {text!r}: the weight must be finite.")
        taken = [spec.column for spec in specs if spec.column.partition("-")[0] == f"reward.{function}"]
        specs.append(RewardSpec(code, weight, f"reward.{function}" + (f"-{len(taken) + 1}" if taken else "")))
    return tuple(specs)


def reward_names(reward: Any) -> tuple[str, ...]:
    """Reward functions as names: given as functions, as names, or as pairs of either with a weight."""
    given = reward if isinstance(reward, list) or _is_several(reward) else [reward]
    names = []
    for each in given:
        function, weight = each if isinstance(each, tuple) else (each, None)
        name = function if isinstance(function, str) else _function_name(function)
        names.append(name if weight is None else f"{name}={weight!r}")
    return tuple(names)


def _is_several(reward: Any) -> bool:
    """Whether a tuple holds several functions, rather than one with its weight."""
    return isinstance(reward, tuple) and not (len(reward) == 2 and isinstance(reward[1], (int, float)))


def _function_name(function: Any) -> str:
    """The name under which another process finds a function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not callable(function) or not module or not name.isidentifier():
        raise PodiumError(
            f"{function!r} cannot be a reward: other processes must find it by name. Define it with `def` at the top "
            "level of a file, and name it: reward='my_rewards.py:my_function'."
        )
    source = getattr(sys.modules[module], "__podium_file__", module)
    return f"{source}:{name}"


class Answered(NamedTuple):
    """A completion that is to be rewarded."""

    prompt: str
    completion: str
    columns: Mapping[str, Any]
    paid: Callable[[Feedback, Earned], Feedback]  # the feedback with what the functions gave

    def sent(self) -> tuple[Any, str, Any]:
        """What the processes of the functions get of it."""
        prompt = self.prompt
        asked = [{"role": r, "content": str(t)} for r, t in prompt.messages] if isinstance(prompt, Dialogue) else prompt
        return to_wire(asked), self.completion, _sendable(self.columns)


class Rewards:
    """Reward functions in a pool of processes, which grows while they are slow; those that judge whole batches in one
    process of their own."""

    def __init__(self, codes: tuple[str, ...], limit_s: float, folder: str) -> None:
        load = SandboxedCall(f"{HOST}:load_functions", (codes, folder, [os.path.abspath(entry) for entry in sys.path]))
        limits = Limits(wall_s=limit_s, cpu_s=limit_s + 1, memory_mb=MEMORY_MB, answer_mb=ANSWER_MB)
        self.sandbox = Sandbox((HOST,), prepare=(load,), limits=limits, max_processes=MOST, confined=False)
        self.workers, self.limit_s = Workers(self.sandbox, f"{HOST}:score_completion"), limit_s
        batch = Limits(wall_s=self.batch_s, cpu_s=self.batch_s + 1, memory_mb=MEMORY_MB, answer_mb=BATCH_ANSWER_MB)
        self.batch_sandbox = Sandbox((HOST,), prepare=(load,), limits=batch, max_processes=1, confined=False)
        self.batch_worker = Workers(self.batch_sandbox, f"{HOST}:score_batch")

    @property
    def batch_s(self) -> float:
        """Seconds for a batch."""
        return PATIENCE * self.limit_s

    def check(self, columns: Sequence[str]) -> None:
        """Refuse functions that cannot be loaded, or that ask for columns that rows do not have."""
        outcome = self.sandbox.call(f"{HOST}:describe_functions", list(columns), limits=Limits(wall_s=60, cpu_s=60))
        problem = outcome.detail if outcome.failure else str(outcome.value)
        if problem:
            raise PodiumError(problem)

    @cached_property
    def together(self) -> tuple[bool, ...]:
        """Which functions judge a whole batch."""
        outcome = self.sandbox.call(f"{HOST}:judging_batches", limits=Limits(wall_s=60, cpu_s=60))
        return tuple(outcome.value or ())

    def begin(self, specs: Sequence[RewardSpec], answered: Answered, feedback: Feedback) -> Feedback:
        """The feedback with the weighted sum of the functions' rewards; if some of them judge a batch, they complete it
        later. A FailedAction says which function failed, and how."""
        alone = self.together.count(False)
        scores: Scores = [None] * len(specs)
        if alone or not self.together:
            scores = _answer(self.workers.call(*answered.sent()), self.limit_s)["scores"]
        if any(self.together):
            return replace(feedback, later=_Unjudged(self, tuple(specs), answered, scores))
        return answered.paid(feedback, _earned(specs, scores))

    def judge(self, answered: Sequence[Answered]) -> list[Scores | str]:
        """What the functions that judge batches give for each completion, or which of them failed there, and how."""
        prompts, completions, columns = zip(*(each.sent() for each in answered), strict=True)
        outcome = self.batch_worker.call(prompts, completions, columns)
        found: list[Scores | str] = _answer(outcome, self.batch_s)["batch"]
        return found

    def close(self) -> None:
        """End the processes; the next call starts them again."""
        self.sandbox.close()
        self.batch_sandbox.close()


@dataclass(frozen=True)
class _Unjudged:
    """A completion that functions are to judge with the others of its batch."""

    rewards: Rewards
    specs: tuple[RewardSpec, ...]
    answered: Answered
    scores: Scores  # of the other functions

    @property
    def batch(self) -> Hashable:
        return self.rewards, self.specs

    @property
    def limit_s(self) -> float:
        return self.rewards.batch_s + START_S

    def complete(self, begun: Sequence[Feedback]) -> list[Feedback | FailedAction]:
        waiting = [each.later for each in begun if isinstance(each.later, _Unjudged)]
        found = self.rewards.judge([each.answered for each in waiting])
        return [each.finish(feedback, scores) for each, feedback, scores in zip(waiting, begun, found, strict=True)]

    def finish(self, feedback: Feedback, judged: Scores | str) -> Feedback | FailedAction:
        """The feedback with the scores of all functions."""
        if isinstance(judged, str):
            return FailedAction(judged)
        pairs = zip(self.rewards.together, self.scores, judged, strict=True)
        try:
            earned = _earned(self.specs, [late if together else score for together, score, late in pairs])
        except FailedAction as failure:
            return failure
        return self.answered.paid(feedback, earned)


def _answer(outcome: CallOutcome, limit_s: float) -> dict[str, Any]:
    """What the functions answered; a FailedAction says why they did not."""
    if outcome.failure:
        late = f"the reward functions did not answer within {limit_s:g} s"
        raise FailedAction(late if outcome.failure == "timeout" else f"the reward functions failed: {outcome.detail}")
    if "failure" in outcome.value:
        raise FailedAction(str(outcome.value["failure"]))
    value: dict[str, Any] = outcome.value
    return value


def _earned(specs: Sequence[RewardSpec], scores: Scores) -> Earned:
    """The weighted sum of the functions' rewards, and each of them."""
    if all(score is None for score in scores):
        raise FailedAction("no reward function applies to this completion: all of them returned None")
    pairs = list(zip(specs, scores, strict=True))
    parts = {spec.column: 0.0 if score is None else float(score) for spec, score in pairs}
    return Earned(sum(spec.weight * score for spec, score in pairs if score is not None), parts)


@lru_cache(maxsize=32)
def rewards_of(codes: tuple[str, ...], limit_s: float, folder: str) -> Rewards:
    """The processes for these functions, shared by all worlds that name them. None starts before the first call."""
    return Rewards(codes, limit_s, folder)


def _sendable(columns: Mapping[str, Any]) -> Any:
    """The columns of a row as plain data; what has no such form, such as a date, as text."""
    sent = []
    for name, value in columns.items():
        try:
            sent.append([name, to_wire(value)])
        except Unsendable:
            sent.append([name, str(value)])
    return {"mapping": sent}
