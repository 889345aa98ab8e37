"""Tasks of reasoning-gym."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from functools import cached_property
from typing import Any

from podium.core.errors import PodiumError, nearest
from podium.protocols.answer_text import ANSWER_MARK, final_answer, stated_answer
from podium.protocols.world import Task
from podium.sandbox import unconfinable
from podium.sandbox.graders import GYM, pickled
from podium.worlds.graded import FORMAT, Graded, Verdict, hashed_uniform, verdict_of
from podium.worlds.puzzle import HELD_OUT, task_key

__all__ = ["Gym"]

POSITIONS = 20_000  # number of distinct tasks; limited, because some data sets generate all of them at once
ATTEMPTS = 500
NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"


class Gym(Graded):
    """A procedural task of reasoning-gym, graded by its own scorer, in a sandbox: some scorers evaluate answers.

    A score of 1 is correct. With `partial`, scores between 0 and 1, which some tasks give for nearly correct or merely
    well-formed answers, become the reward.
    """

    name = "gym"
    summary = "any task of reasoning-gym"
    provides = (*Graded.provides, "task.solution")
    uses_sandbox = True
    max_tokens = 128
    act_limit_s = 60.0  # the first verdict waits for the sandbox to start; each has a limit of its own
    instructions: bool = True
    task_name: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)  # settings of the task itself: min_terms, …
    partial: bool = False  # whether scores between 0 and 1 are passed on as the reward
    marked: bool = False  # whether only the text after `answer:` counts; else other common formats are read too

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.task_name:
            raise PodiumError("gym needs the name of a task: gym:chain_sum.")

    @cached_property
    def dataset(self) -> Any:
        """The data set of reasoning-gym."""
        factory = _factory()
        if reason := unconfinable():
            raise PodiumError(
                f"gym: cannot score answers on this system: scorers of reasoning-gym evaluate what a model writes, and "
                f"it could not be confined: {reason}. Use Linux on x86-64 or 64-bit ARM."
            )
        if self.task_name not in factory.DATASETS:
            raise PodiumError(
                f"reasoning-gym has no task {self.task_name!r}. {nearest(self.task_name, factory.DATASETS)}"
            )
        settings = {f.name for f in dataclasses.fields(factory.DATASETS[self.task_name][1])} - {"seed", "size"}
        for name in self.config:
            if name not in settings:
                raise PodiumError(f"gym:{self.task_name} has no setting {name!r}. {nearest(name, settings)}")
        try:
            return factory.create_dataset(self.task_name, seed=0, size=POSITIONS, **self.config)
        except Exception as error:  # it checks its settings by assertions
            raise PodiumError(f"gym:{self.task_name} refuses {dict(self.config)}: {error}.") from error

    def task(self, index: int, split: str = "train") -> Task:
        dials = "".join(f"-{k}-{v}" for k, v in sorted(self.config.items()))
        key = task_key(f"gym-{self.task_name}{dials}", split, index)
        for attempt in range(ATTEMPTS):
            entry = self.dataset[int(hashed_uniform(key, attempt) * POSITIONS)]
            if (hashed_uniform("gym", entry["question"]) < HELD_OUT) == (split == "test"):
                prompt = f"{entry['question']}\n{FORMAT}" if self.instructions else entry["question"]
                return Task(key, prompt, domain=self.task_name, data={"entry": entry})
        raise PodiumError(f"gym:{self.task_name} has too few different questions to hold some out for {split}.")

    def close(self) -> None:
        super().close()
        GYM.close()

    def read(self, text: str) -> str | None:
        return final_answer(text, lines=True) if self.marked else stated_answer(text, lines=True)

    @cached_property
    def scorer(self) -> str:
        """The settings under which the sandbox knows the data set; it makes the data set for its scorer."""
        settings = pickled((self.task_name, dict(self.config), POSITIONS))
        GYM.prepare("podium.sandbox.graders:prepare_gym", settings)
        return settings

    def verdict(self, task: Task, answer: str) -> Verdict:
        score = float(verdict_of(GYM.call(self.scorer, answer, pickled(task.data["entry"]))))
        score = min(max(score, 0.0), 1.0) if score == score else 0.0
        return Verdict(score >= 1, " ".join(answer.split())[:200], score if self.partial else None)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """The answer; for a chain of additions and subtractions, preceded by its equations one by one."""
        entry = task.data["entry"]
        answer = entry.get("answer")
        if answer is None:
            raise PodiumError(f"gym:{self.task_name} does not provide its answers.")
        equations = _equations(str(entry.get("metadata", {}).get("expression", "")))
        return "\n".join([*equations, f"{ANSWER_MARK} {answer}"])


def _equations(expression: str) -> list[str]:
    """`9 - 5 + 2` as `9 - 5 = 4`, `4 + 2 = 6`; empty if the expression is not such a chain."""
    if re.fullmatch(rf"{NUMBER}(?: [+-] {NUMBER})+", expression) is None:
        return []
    total, *rest = expression.split(" ")
    lines = []
    for sign, number in zip(rest[::2], rest[1::2], strict=True):
        result = Decimal(total) + Decimal(number) if sign == "+" else Decimal(total) - Decimal(number)
        lines.append(f"{total} {sign} {number} = {result:f}")
        total = f"{result:f}"
    return lines


def _factory() -> Any:
    try:
        return importlib.import_module("reasoning_gym").factory
    except ImportError as error:
        raise PodiumError("gym: needs reasoning-gym: pip install 'podium-rl[gym]'.") from error
