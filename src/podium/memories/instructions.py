"""A population of instructions that compete for the tasks of each batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.schedule import Number

__all__ = ["Instruction", "Instructions", "Population", "credited", "selection_probabilities", "strongest"]


class Instruction(NamedTuple):
    """Lines of advice that stand above the question, and the mean reward that they are credited with."""

    lines: tuple[str, ...]
    weight: float = 0.0


class Population(NamedTuple):
    """What a strategy needs to know of the instructions."""

    members: tuple[Instruction, ...]
    probabilities: tuple[float, ...]
    evolves: bool = False  # whether new ones are to be written in this iteration
    kept: tuple[int, ...] = ()  # those that stay when it evolves
    failures: tuple[tuple[str, tuple[str, ...]], ...] = ()  # failed answers with their instructions, newest first

    @property
    def best(self) -> int:
        """The instruction of highest weight, the first among equals."""
        return max(range(len(self.members)), key=lambda j: self.members[j].weight)


def selection_probabilities(weights: Tensor, temperature: float) -> Tensor:
    """[instruction] p_j = exp(w_j / τ) / Σ_k exp(w_k / τ)."""
    return (weights / temperature).softmax(0)


def credited(weights: Tensor, instruction: Tensor, reward: Tensor, rate: float) -> Tensor:
    """[instruction] w_j ← (1 − η) w_j + η R̄_j, R̄_j the mean reward of the groups that used it; w_j where none did."""
    count = torch.zeros_like(weights).index_add(0, instruction, torch.ones_like(reward))
    mean = torch.zeros_like(weights).index_add(0, instruction, reward) / count.clamp(min=1)
    return torch.where(count > 0, (1 - rate) * weights + rate * mean, weights)


def strongest(weights: Sequence[float], keep: int) -> list[int]:
    """The `keep` instructions of highest weight, in their order; of equals the first."""
    return sorted(sorted(range(len(weights)), key=lambda j: (-weights[j], j))[:keep])


class Instructions(Memory):
    """A population of instructions with weights: drawn by a softmax, credited by rewards, halved and bred anew.

    p_j ∝ exp(w_j / `temperature`), w_j ← (1 − `rate`) w_j + `rate` · R̄_j for those used in the batch. Every `every`
    iterations the better half stays, and candidates that were verified in that iteration join with their mean reward
    as weight, best first, up to `most`; none below the lowest of those that stay. `group.instructions` is the
    population, `batch.instructions` its size and `batch.instructions.best` the probability of the best one.
    """

    reference = "INSPO: Agentic Policy Optimization via Instruction-Policy Co-Evolution, arXiv 2512.01945"
    start: tuple[tuple[str, ...], ...] = ((),)  # the lines of each instruction at first
    temperature: float = 0.2  # τ, above 0
    rate: float = 0.1  # η
    every: Number = 20.0  # iterations between evolutions, ≥ 1
    most: int = 8  # N_max
    failures: int = 256  # answers that the buffer holds at most; those of the lowest reward stay
    success: float = 0.5  # a reward below it is a failure

    needs = ("rollout.reward", "rollout.text", "rollout.instruction", "rollout.candidate")
    provides = ("group.instructions", "batch.instructions", "batch.instructions.best")

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "rate", 0, 1)
        within(self, "every", 1)
        within(self, "failures", 0)
        within(self, "most", max(len(self.start), 1))
        if not self.start or len(set(self.start)) < len(self.start):
            raise PodiumError(f"Instructions.start = {self.start!r}: give at least one instruction, and none twice.")

    @property
    def remembers_tasks(self) -> bool:
        return False  # its instructions are for all tasks

    def initial(self) -> State:
        return {"members": [[list(lines), 0.0] for lines in self.start], "buffer": [], "iterations": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        members = _members(state)
        weights = torch.tensor([m.weight for m in members], dtype=torch.float64)
        p = selection_probabilities(weights, self.temperature)
        evolves = state["iterations"] > 0 and state["iterations"] % int(self.every) == 0
        kept = strongest(weights.tolist(), (len(members) + 1) // 2) if evolves else range(len(members))
        failed = tuple((text, tuple(lines)) for text, lines, _ in state["buffer"])
        population = Population(members, tuple(p.tolist()), evolves, tuple(kept), failed)
        return {
            "group.instructions": (population,) * len(tasks),
            "batch.instructions": torch.tensor([float(len(members))]),
            "batch.instructions.best": torch.tensor([float(p.max())]),
        }

    def observe(self, state: State, batch: Batch) -> State:
        members = _members(state)
        evolves = state["iterations"] > 0 and state["iterations"] % int(self.every) == 0
        (population,) = self.recall(state, [None])["group.instructions"]
        weights = self._credited(members, batch)
        after = [Instruction(m.lines, w) for m, w in zip(members, weights, strict=True)]
        verified = _verified(batch)
        if evolves:
            after = self._evolved([after[j] for j in population.kept], verified)
        return {
            "members": [[list(m.lines), m.weight] for m in after],
            "buffer": self._buffered(state["buffer"], members, batch),
            "iterations": state["iterations"] + 1,
        }

    def _credited(self, members: Sequence[Instruction], batch: Batch) -> list[float]:
        counted = _counted(batch)
        groups = batch.partition("rollout", "group")
        reward = batch["rollout.reward"].double()
        count = groups.agg.sum(counted.double())
        mean = groups.agg.sum(reward.where(counted, 0)) / count.clamp(min=1)
        used = groups.agg.max(batch["rollout.instruction"].where(counted, -1)).long()
        there = (count > 0) & (used >= 0)
        weights = torch.tensor([m.weight for m in members], dtype=torch.float64, device=batch.device)
        used, mean = used[there], mean[there]
        order = mean.argsort(stable=True)  # rounding must not depend on how groups are numbered
        return list(credited(weights, used[order], mean[order], self.rate).tolist())

    def _evolved(self, kept: list[Instruction], verified: Mapping[tuple[str, ...], float]) -> list[Instruction]:
        lowest = min(member.weight for member in kept)
        known = {member.lines for member in kept}
        order = sorted((lines for lines in verified if lines not in known), key=lambda x: (-verified[x], x))
        good = [Instruction(lines, verified[lines]) for lines in order if verified[lines] >= lowest]
        return [*kept, *good][: self.most]

    def _buffered(self, buffer: list[Any], members: Sequence[Instruction], batch: Batch) -> list[Any]:
        """The last answers with those of low reward first in line to stay."""
        counted = _counted(batch).tolist()
        rewards, used = batch["rollout.reward"].tolist(), batch["rollout.instruction"].tolist()
        new = [
            [str(batch["rollout.text"][i]), list(members[int(used[i])].lines), rewards[i]]
            for i in range(len(batch))
            if counted[i] and rewards[i] < self.success
        ]
        new.sort(key=lambda row: (row[2], row[0], row[1]))
        return [*new, *buffer][: self.failures]


def _counted(batch: Batch) -> Tensor:
    """[rollout] whether it is an answer of the batch, and not the trial of a candidate."""
    counted = batch.counted("rollout")
    return torch.ones(len(batch), dtype=torch.bool, device=batch.device) if counted is None else counted


def _members(state: State) -> tuple[Instruction, ...]:
    return tuple(Instruction(tuple(lines), weight) for lines, weight in state["members"])


def _verified(batch: Batch) -> dict[tuple[str, ...], float]:
    """The mean reward of each candidate over the questions that it was tried on."""
    found: dict[tuple[str, ...], list[float]] = {}
    for candidate, reward in zip(batch["rollout.candidate"], batch["rollout.reward"].tolist(), strict=True):
        if candidate:
            found.setdefault(tuple(candidate.split("\n")), []).append(reward)
    return {lines: sum(sorted(rewards)) / len(rewards) for lines, rewards in found.items()}
