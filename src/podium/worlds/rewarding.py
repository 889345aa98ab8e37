"""A user's reward functions: plain functions by name, called in processes of their own with a time limit.

Three forms are recognised by their parameters: TRL's `reward(prompts, completions, **columns)`, verl's
`compute_score(data_source, solution_str, ground_truth, extra_info)`, and `reward(prompt, completion)`, which may name
columns of the row as further parameters. A function may be `async`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from podium.core.errors import PodiumError
from podium.protocols.pieces import Dialogue
from podium.protocols.world import FailedAction
from podium.sandbox import Limits, Sandbox, SandboxedCall
from podium.sandbox.workers import Workers
from podium.worlds.wire import Unsendable, to_wire

__all__ = ["Earned", "RewardSpec", "Rewards", "reward_names", "reward_specs", "rewards_of"]

HOST = "podium.worlds.reward_host"
MEMORY_MB, ANSWER_MB = 8192, 1
MOST = 64  # processes at once


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


class Rewards:
    """Reward functions in a pool of processes, which grows while they are slow."""

    def __init__(self, codes: tuple[str, ...], limit_s: float, folder: str) -> None:
        load = SandboxedCall(f"{HOST}:load_functions", (codes, folder, [os.path.abspath(entry) for entry in sys.path]))
        limits = Limits(wall_s=limit_s, cpu_s=limit_s + 1, memory_mb=MEMORY_MB, answer_mb=ANSWER_MB)
        self.sandbox = Sandbox((HOST,), prepare=(load,), limits=limits, max_processes=MOST, confined=False)
        self.workers, self.limit_s = Workers(self.sandbox, f"{HOST}:score_completion"), limit_s

    def check(self, columns: Sequence[str]) -> None:
        """Refuse functions that cannot be loaded, or that ask for columns that rows do not have."""
        outcome = self.sandbox.call(f"{HOST}:describe_functions", list(columns), limits=Limits(wall_s=60, cpu_s=60))
        problem = outcome.detail if outcome.failure else str(outcome.value)
        if problem:
            raise PodiumError(problem)

    def __call__(self, specs: Sequence[RewardSpec], prompt: str, completion: str, columns: Mapping[str, Any]) -> Earned:
        """The weighted sum of the functions' rewards; a FailedAction says which of them failed, and how."""
        asked = [{"role": r, "content": str(t)} for r, t in prompt.messages] if isinstance(prompt, Dialogue) else prompt
        outcome = self.workers.call(to_wire(asked), completion, _sendable(columns))
        if outcome.failure:
            late = f"the reward functions did not answer within {self.limit_s:g} s"
            raise FailedAction(
                late if outcome.failure == "timeout" else f"the reward functions failed: {outcome.detail}"
            )
        if "failure" in outcome.value:
            raise FailedAction(str(outcome.value["failure"]))
        scores = outcome.value["scores"]
        if all(score is None for score in scores):
            raise FailedAction("no reward function applies to this completion: all of them returned None")
        pairs = list(zip(specs, scores, strict=True))
        parts = {spec.column: 0.0 if score is None else float(score) for spec, score in pairs}
        return Earned(sum(spec.weight * score for spec, score in pairs if score is not None), parts)

    def close(self) -> None:
        """End the processes; the next call starts them again."""
        self.sandbox.close()


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
