"""Instructions that compete: each group follows one of a population, and now and then new ones are tried."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.streams import key, uniforms
from podium.memories.instructions import Population
from podium.protocols.context import Context
from podium.protocols.scaffold import Scaffold
from podium.strategies.advice.proposers import AdviceMutator, InstructionWriter
from podium.strategies.draw import Draw
from podium.strategies.joint import JointStrategy
from podium.strategies.requests import Plan, Play, SubPlan, TaskRequest, rollouts_of
from podium.strategies.sample.sample import Sample

__all__ = ["Instructed"]


class Instructed(JointStrategy):
    """`n` rollouts of each task under one instruction, drawn by the group's stream from the population's softmax.

    All rollouts of a group share the instruction, so that its quality cancels in the group's baseline, and are trained
    under it. When the population evolves, `proposer` writes `candidates` for each of the `parents` best that stay; each
    candidate and the best instruction answer the first `verify` questions of the batch once, as probes.
    `rollout.instruction` is the number of the instruction, `rollout.candidate` the text of a candidate that was tried.
    """

    reference = "INSPO: Agentic Policy Optimization via Instruction-Policy Co-Evolution, arXiv 2512.01945"
    n: int = 8
    proposer: InstructionWriter = AdviceMutator()
    candidates: int = 4  # C, of each parent
    parents: int = 1
    verify: int = 32  # questions
    mark: str = "advice: "  # stands before each line of an instruction
    draw: Draw = Draw()

    needs = ("group.instructions",)
    provides = ("rollout.instruction", "rollout.candidate", "rollout.purpose")

    def __post_init__(self) -> None:
        for name in ("n", "candidates", "parents", "verify"):
            within(self, name, 1)

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    @property
    def writers(self) -> tuple[str, ...]:
        return (*self.seated, *self.proposer.roles)

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return self.proposer.roles

    def taught(self, recalled: Mapping[str, Any]) -> tuple[str, str]:
        population: Population = recalled["group.instructions"][0]
        return self.worded(population.members[population.best].lines), ""

    def worded(self, lines: Sequence[str]) -> str:
        """An instruction as it stands above the question."""
        return "\n".join(f"{self.mark}{line}" for line in lines)

    def chosen(self, task: TaskRequest) -> int:
        """The number of the instruction that a group follows."""
        seed, *name = task.stream
        ((u,),) = uniforms([key(seed, (*name, 1))], [0], 1).tolist()
        population: Population = task.recalled["group.instructions"]
        edges = accumulate(population.probabilities)
        return next((j for j, edge in enumerate(edges) if u < edge), len(population.members) - 1)

    def together(self, tasks: Sequence[TaskRequest]) -> Plan:
        population: Population = tasks[0].recalled["group.instructions"]
        wave = []
        for task in tasks:
            j = self.chosen(task)
            wave.append(
                self._play(task, population.members[j].lines, {"instruction": float(j), "candidate": ""}, self.n)
            )
        if population.evolves:
            best = population.members[population.best].lines
            tried = yield from self._proposed(population, tasks[0].stream)
            for number, lines in enumerate([best, *tried]):
                columns = {"instruction": -1.0, "candidate": "\n".join(lines)}
                for task in tasks[: self.verify]:
                    play = self._play(task, lines, columns, 1, first=self.n + number, wave=number + 1)
                    wave.append(dataclasses.replace(play, purpose=Purpose.probe))
        return rollouts_of((yield list(wave)))

    def _proposed(self, population: Population, stream: tuple[int, ...]) -> SubPlan:
        """New instructions, none of which is in the population or there twice."""
        parents = sorted(population.kept, key=lambda j: (-population.members[j].weight, j))[: self.parents]
        found: dict[tuple[str, ...], None] = {}
        for j in parents:
            member = population.members[j]
            failed = [text for text, lines in population.failures if lines == member.lines]
            written = yield from self.proposer.propose(member, failed, self.candidates, (*stream, 2, j))
            found |= dict.fromkeys(lines for lines in written if any(lines))
        known = {member.lines for member in population.members}
        return [lines for lines in found if lines not in known]

    def _play(self, task: TaskRequest, lines: Sequence[str], columns: dict[str, Any], n: int, **settings: Any) -> Play:
        context: Context | None = self.draw.context
        if any(lines):
            context = Scaffold(above=self.worded(lines), base=self.draw.context_of(task))
        return self.draw.play(task, n, columns=columns, context=context, **settings)
