"""A budget of rollouts that goes, round by round, to the tasks of a batch where it tells most."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from podium.core.build import Rollout
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.memories.solved_tasks import neighbours, prompt_similarity, show_examples
from podium.protocols.context import Full
from podium.protocols.scaffold import Scaffold
from podium.strategies.budgets.allocation import allocate, exploration_bonus, half_width
from podium.strategies.requests import Embed, Plan, Play, TaskRequest, Wave
from podium.strategies.sample.sample import Sample

__all__ = ["Allocated", "Rounds"]


class _Shared(Strategy):
    """`n` rollouts of a task on average: how many each gets is decided for all tasks of a batch together."""

    n: int = 8  # rollouts of a task on average
    temperature: Number = 1.0
    top_p: Number = 1.0

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.budget",)

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)

    def plans(self, tasks: Sequence[TaskRequest]) -> list[Plan]:
        return [self.together(tasks)]

    def plan(self, task: TaskRequest) -> Plan:
        return self.together([task])

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        """One plan for all tasks."""
        raise NotImplementedError

    def play(self, task: TaskRequest, n: int, **settings: Any) -> Play:
        sampling = Sample(temperature=self.temperature, top_p=self.top_p).sampling(task.sampling)
        return Play(task, n, sampling, **settings)


class Rounds(_Shared):
    """`first` rollouts of each task, then rounds in which one after another goes to the task of the highest priority.

    Priority is D + phi: D = h(m) − h(m + 1) is how much one more rollout narrows the confidence interval of the task's
    mean reward after m of them, phi = bonus · √(log(1 + T) / m), T the rollouts of all tasks. A task none of whose
    first rollouts succeeds leaves the rounds: the rest of its n are sampled after `examples` solved tasks that resemble
    it; after none where there are none, or no room for them. Questions resemble each other by the cosine of what the
    role `embedder` makes of them, or without one by the sequences of characters that they share.
    """

    reference = "XRPO, https://github.com/UIUC-MLSys/XRPO"
    first: int = 4  # rollouts of every task before the first round, at least 2
    rounds: int = 2
    alpha: float = 0.05  # the interval holds the mean with probability 1 − alpha
    bonus: Number = 1.0
    examples: int = 2  # solved tasks shown where nothing succeeds; 0: none
    trained: str = "sampled"  # rollouts after examples are trained after what they were sampled after, or `plain`
    embedder: str = ""  # a role, or policy; empty: none
    pool: str = "mean"  # how it reads a question: the mean of its tokens' hidden states, or the last one

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.budget", "rollout.seeded")

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (self.embedder,) if self.embedder and self.examples else ()

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "n", 2)  # rewards of one rollout have no spread
        within(self, "first", 2, self.n)
        within(self, "rounds", 1)
        within(self, "alpha", 0, 1, open_low=True)
        within(self, "bonus", 0)
        within(self, "examples", 0)
        one_of(self, "trained", ("sampled", "plain"))
        one_of(self, "pool", ("mean", "last"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("batch.solved",) if self.examples else ()

    def reduction(self, std: Tensor, n: Tensor) -> Tensor:
        """[task] D, the std being held."""
        return half_width(std, n, self.alpha) - half_width(std, n + 1, self.alpha)

    def priority(self, std: Tensor, n: Tensor, spent: float) -> Tensor:
        """[task] D + phi."""
        return self.reduction(std, n) + exploration_bonus(n, spent, float(self.bonus))

    def shares(self, rewards: Sequence[Sequence[float]], budget: int) -> list[int]:
        """How many of `budget` rollouts each task gets, from the rewards so far; of equal priorities the first."""
        std = torch.tensor([float(torch.tensor(r).double().std()) for r in rewards], dtype=torch.float64)
        n = torch.tensor([float(len(r)) for r in rewards], dtype=torch.float64)
        given = torch.zeros_like(n)
        for _ in range(budget):
            given[self.priority(std, n + given, float((n + given).sum())).argmax()] += 1
        return [int(x) for x in given]

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        marks = {"budget": 0.0, "seeded": 0.0}
        answers: list[Any] = yield [self.play(task, self.first, columns=marks) for task in tasks]
        rollouts: list[list[Rollout]] = list(answers)
        failed = [all(r.columns["reward"] <= 0 for r in group) for group in rollouts]
        live = [place for place, lost in enumerate(failed) if not lost]
        left = (self.n - self.first) * len(live)
        seeded = [place for place, lost in enumerate(failed) if lost] if self.n > self.first else []
        alike = yield from self._compared([tasks[place] for place in seeded])
        for number in range(self.rounds):
            budget = -(-left // (self.rounds - number))
            rewards = [[float(r.columns["reward"]) for r in rollouts[place]] for place in live]
            given = dict(zip(live, self.shares(rewards, budget) if live else [], strict=True))
            if number == 0:
                given |= dict.fromkeys(seeded, self.n - self.first)
            seeds = {place: self._seed(tasks[place], alike) if failed[place] else {"columns": marks} for place in given}
            plays = {
                place: self.play(tasks[place], n, first=len(rollouts[place]), wave=number + 1, **seeds[place])
                for place, n in given.items()
                if n
            }
            if not plays:
                break
            answers = yield list(plays.values())
            found = dict(zip(plays, answers, strict=True))
            cramped = [place for place in plays if not found[place]]  # examples left no room to answer
            if cramped:
                plain = {"context": None, "train_context": None, "columns": marks}
                answers = yield [replace(plays[place], **plain) for place in cramped]  # type: ignore[arg-type]
                found |= zip(cramped, answers, strict=True)
            rollouts = [[*group, *found.get(place, ())] for place, group in enumerate(rollouts)]
            left -= budget
        return [replace(r, columns={**r.columns, "budget": float(len(g))}) for g in rollouts for r in g]

    def _compared(self, tasks: Sequence[TaskRequest]) -> Generator[Wave, list[Any], Callable[[str, str], float]]:
        """How alike two questions are, of these tasks and of the solved ones."""
        solved = [question for question, _ in (tasks[0].known.get("batch.solved", ()) if tasks else ())]
        if not (self.roles_asked and solved):
            return prompt_similarity
        questions = list(dict.fromkeys([*(task.task.prompt for task in tasks), *solved]))
        vectors = torch.tensor((yield [Embed(question, self.embedder, self.pool) for question in questions]))
        place = dict(zip(questions, vectors, strict=True))
        return lambda first, second: float(place[first] @ place[second])

    def _seed(self, task: TaskRequest, alike: Callable[[str, str], float]) -> dict[str, Any]:
        """How a task is sampled where nothing has succeeded: after examples, if there are any."""
        corpus = task.known.get("batch.solved", ())
        found = neighbours(task.task.prompt, corpus, self.examples, alike)
        if not found:
            return {"columns": {"budget": 0.0, "seeded": 0.0}}
        plain = Full() if task.world is None else task.world.context
        settings = {
            "context": Scaffold(above=show_examples(found), base=plain),
            "columns": {"budget": 0.0, "seeded": 1.0},
        }
        return settings if self.trained == "sampled" else {**settings, "train_context": plain}


class Allocated(_Shared):
    """As many rollouts of each task as its expected rate of success deserves: see `podium.strategies.budgets.allocation.allocate`."""

    reference = "V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0"
    least: int = 2  # rollouts of a task
    most: int = 16
    utility: str = "mixed"  # mixed: the chance of both outcomes; failures: those in a group with a success
    rate: str = "group.value"  # a column of tasks: the rate of success that is expected, in [0, 1]

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "least", 1, self.n)
        within(self, "most", self.n)
        one_of(self, "utility", ("mixed", "failures"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.rate,)

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        if any(self.rate not in task.known for task in tasks):
            raise PodiumError(f"Allocated reads {self.rate} before it samples: add a memory that recalls it.")
        rates = torch.tensor([float(task.known[self.rate]) for task in tasks], dtype=torch.float64)
        budget = allocate(rates, self.n * len(tasks), self.least, self.most, self.utility).tolist()
        plays: Wave = [self.play(task, n, columns={"budget": float(n)}) for task, n in zip(tasks, budget, strict=True)]
        answers: list[Any] = yield plays
        return [rollout for answer in answers for rollout in answer]
