"""A shared budget of rollouts: how many each task gets is decided for all tasks of a batch together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from podium.core.build import Rollout
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.memories.solved_tasks import neighbours, prompt_similarity, show_examples
from podium.protocols.scaffold import Scaffold
from podium.strategies.budgets.allocation import allocate, exploration_bonus, half_width
from podium.strategies.draw import Draw
from podium.strategies.joint import JointStrategy
from podium.strategies.requests import Embed, Plan, TaskRequest, Wave, rollouts_of

__all__ = ["Allocated", "Rounds"]


class _SharedBudget(JointStrategy):
    """The tasks of a batch share a budget of rollouts."""

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["budget"] != self.n for rollout in rollouts)

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.budget",)


class Rounds(_SharedBudget):
    """`first` rollouts of each task, then `rounds` in which each rollout goes to the task with the highest priority.

    The priority of a task with m rollouts is D + phi: D = h(m) − h(m + 1) is how much one more rollout narrows the
    confidence interval of its mean reward, phi = bonus · √(log(1 + T) / m) with T the rollouts of all tasks. A task
    none of whose first rollouts succeeds leaves the rounds: the rest of its n rollouts are sampled with `examples`
    similar solved tasks in the prompt, if there are any and they fit into the context. The similarity of two questions
    is the cosine of their embeddings by the role `embedder`, or without one the share of character sequences in common.
    """

    reference = "XRPO, https://github.com/UIUC-MLSys/XRPO"
    n: int = 8  # rollouts of a task on average, at least 2
    first: int = 4  # rollouts of every task before the first round, at least 2
    rounds: int = 2
    alpha: float = 0.05  # the confidence level is 1 − alpha
    bonus: Number = 1.0  # strength of the exploration bonus phi
    examples: int = 2  # solved tasks shown where nothing succeeds; 0: none
    trained: str = "sampled"  # context that seeded rollouts are trained under: sampled (with examples) or plain
    embedder: str = ""  # a role, or policy; empty: none
    pool: str = "mean"  # how embeddings pool a question's hidden states: mean or last
    draw: Draw = Draw()

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("batch.solved",) if self.examples else ()

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.budget", "rollout.seeded")

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (self.embedder,) if self.embedder and self.examples else ()

    def __post_init__(self) -> None:
        within(self, "n", 2)  # rewards of one rollout have no spread
        within(self, "first", 2, self.n)
        within(self, "rounds", 1)
        within(self, "alpha", 0, 1, open_low=True)
        within(self, "bonus", 0)
        within(self, "examples", 0)
        one_of(self, "trained", ("sampled", "plain"))
        one_of(self, "pool", ("mean", "last"))

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["budget"] != self.n or rollout.columns["seeded"] > 0 for rollout in rollouts)

    def reduction(self, std: Tensor, n: Tensor) -> Tensor:
        """[task] D, with the standard deviation held fixed."""
        return half_width(std, n, self.alpha) - half_width(std, n + 1, self.alpha)

    def priority(self, std: Tensor, n: Tensor, spent: float) -> Tensor:
        """[task] D + phi."""
        return self.reduction(std, n) + exploration_bonus(n, spent, float(self.bonus))

    def seen(self, rewards: Sequence[Sequence[float]]) -> tuple[Tensor, Tensor]:
        """[task] The standard deviation of the rewards so far, and their number."""
        std = torch.tensor([float(torch.tensor(r).double().std()) for r in rewards], dtype=torch.float64)
        return std, torch.tensor([float(len(r)) for r in rewards], dtype=torch.float64)

    def shares(self, rewards: Sequence[Sequence[float]], budget: int) -> list[int]:
        """How many of `budget` rollouts each task gets, from its rewards so far; ties go to the first task."""
        std, n = self.seen(rewards)
        share = torch.zeros_like(n)
        for _ in range(budget):
            share[self.priority(std, n + share, float((n + share).sum())).argmax()] += 1
        return [int(x) for x in share]

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        unseeded = {"budget": 0.0, "seeded": 0.0}
        answers: list[Any] = yield [self.draw.play(task, self.first, columns=unseeded) for task in tasks]
        rollouts: list[list[Rollout]] = list(answers)
        failed = [all(r.columns["reward"] <= 0 for r in group) for group in rollouts]
        live = [i for i, all_failed in enumerate(failed) if not all_failed]
        seeded = [i for i, all_failed in enumerate(failed) if all_failed] if self.n > self.first else []
        left = (self.n - self.first) * len(live)
        similarity = yield from self._similarity([tasks[i] for i in seeded])
        for number in range(self.rounds):
            budget = -(-left // (self.rounds - number))
            rewards = [[float(r.columns["reward"]) for r in rollouts[i]] for i in live]
            counts = dict(zip(live, self.shares(rewards, budget) if live else [], strict=True))
            if number == 0:
                counts |= dict.fromkeys(seeded, self.n - self.first)
            settings = {i: self._seed(tasks[i], similarity) if failed[i] else {"columns": unseeded} for i in counts}
            plays = {
                i: self.draw.play(tasks[i], n, first=len(rollouts[i]), wave=number + 1, **settings[i])
                for i, n in counts.items()
                if n
            }
            if not plays:
                break
            answers = yield list(plays.values())
            sampled = dict(zip(plays, answers, strict=True))
            crowded = [i for i in plays if not sampled[i]]  # the examples left no tokens for an answer
            if crowded:
                plain = {"context": self.draw.context, "train_context": self.draw.train_context, "columns": unseeded}
                answers = yield [replace(plays[i], **plain) for i in crowded]  # type: ignore[arg-type]
                sampled |= zip(crowded, answers, strict=True)
            rollouts = [[*group, *sampled.get(i, ())] for i, group in enumerate(rollouts)]
            left -= budget
        return [replace(r, columns={**r.columns, "budget": float(len(g))}) for g in rollouts for r in g]

    def _similarity(self, tasks: Sequence[TaskRequest]) -> Generator[Wave, list[Any], Callable[[str, str], float]]:
        """A function that compares two questions of these tasks and of the solved ones."""
        solved = [question for question, _ in (tasks[0].recalled.get("batch.solved", ()) if tasks else ())]
        if not (self.roles_asked and solved):
            return prompt_similarity
        questions = list(dict.fromkeys([*(str(task.task.prompt) for task in tasks), *solved]))
        vectors = torch.tensor((yield [Embed(question, self.embedder, self.pool) for question in questions]))
        embedding = dict(zip(questions, vectors, strict=True))
        return lambda first, second: float(embedding[first] @ embedding[second])

    def _seed(self, task: TaskRequest, similarity: Callable[[str, str], float]) -> dict[str, Any]:
        """How a task without a success is sampled: with examples in the prompt, if there are any."""
        corpus = task.recalled.get("batch.solved", ())
        examples = neighbours(str(task.task.prompt), corpus, self.examples, similarity)
        if not examples:
            return {"columns": {"budget": 0.0, "seeded": 0.0}}
        plain = self.draw.context_of(task)
        settings = {
            "context": Scaffold(above=show_examples(examples), base=plain),
            "columns": {"budget": 0.0, "seeded": 1.0},
        }
        return {**settings, "train_context": None if self.trained == "sampled" else plain}


class Allocated(_SharedBudget):
    """As many rollouts of each task as its expected success rate calls for: see `podium.strategies.budgets.allocation`.

    With `least` = `most` = `n` it is `Sample`.
    """

    reference = "V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0"
    n: int = 8  # rollouts of a task on average
    least: int = 2  # rollouts of a task
    most: int = 16  # rollouts of a task
    utility: str = "mixed"  # mixed: the chance of both outcomes; failures: those in a group with a success
    rate: str = "group.value"  # a column of tasks: the expected success rate, in [0, 1]
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "least", 1, self.n)
        within(self, "most", self.n)
        one_of(self, "utility", ("mixed", "failures"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.rate,)

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        if any(self.rate not in task.recalled for task in tasks):
            raise PodiumError(f"Allocated reads {self.rate} before it samples: add a memory that recalls it.")
        rates = torch.tensor([float(task.recalled[self.rate]) for task in tasks], dtype=torch.float64)
        budget = allocate(rates, self.n * len(tasks), self.least, self.most, self.utility).tolist()
        wave: Wave = [
            self.draw.play(task, n, columns={"budget": float(n)}) for task, n in zip(tasks, budget, strict=True)
        ]
        return rollouts_of((yield wave))
