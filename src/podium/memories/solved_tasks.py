"""Solved tasks as in-context examples for similar ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns

__all__ = ["Example", "SolvedTasks", "neighbours", "show_examples", "prompt_similarity"]

Example = tuple[str, str]  # a question and its solution


def prompt_similarity(first: str, second: str, length: int = 3) -> float:
    """The cosine similarity of two texts' counts of character n-grams of this length."""
    a, b = (Counter(t[i : i + length] for i in range(max(len(t) - length + 1, 1))) for t in (first, second))
    norm = (sum(x * x for x in a.values()) * sum(x * x for x in b.values())) ** 0.5
    return sum(count * b[gram] for gram, count in a.items()) / norm if norm else 0.0


def neighbours(
    question: str, corpus: Sequence[Example], count: int, similarity: Callable[[str, str], float] = prompt_similarity
) -> tuple[Example, ...]:
    """The `count` examples with the most similar questions, the question itself excepted."""
    others = [example for example in corpus if example[0] != question]
    ranked = sorted(others, key=lambda example: (-similarity(question, example[0]), example))
    return tuple(ranked[:count])


def show_examples(examples: Sequence[Example]) -> str:
    """The text of solved examples, as it is put in front of a question."""
    return "\n".join(f"{question}\n{solution}\n" for question, solution in examples)


class SolvedTasks(Memory):
    """A corpus of solved questions, each with one right solution by the policy itself (`batch.solved`)."""

    reference = "XRPO, https://github.com/UIUC-MLSys/XRPO"
    sees_dropped = True
    size: int = 512  # examples, the newest are kept, ≥ 1
    longest: int = 2000  # characters; longer solutions are cut, ≥ 1

    needs = ("rollout.correct", "rollout.text", "rollout.prompt")
    provides = ("batch.solved",)

    def __post_init__(self) -> None:
        within(self, "size", 1)
        within(self, "longest", 1)

    def initial(self) -> State:
        return {"solved": ()}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.solved": (state["solved"],)}

    def observe(self, state: State, batch: Batch) -> State:
        counted = batch.by("rollout").enters()
        right = batch["rollout.correct"] if counted is None else batch["rollout.correct"] & counted
        rows = right.nonzero().reshape(-1).tolist()
        examples = sorted((batch["rollout.prompt"][i], batch["rollout.text"][i][: self.longest]) for i in rows)
        new = dict(reversed(examples))  # of several solutions to a question the first in order
        kept = {question: solution for question, solution in state["solved"] if question not in new}
        solved = [*kept.items(), *sorted(new.items())][-self.size :]
        return {"solved": tuple(solved)}
