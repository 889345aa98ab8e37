"""Who proposes new instructions: a mutation of lines of advice, or a model that reads failures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podium.core.errors import PodiumError, within
from podium.core.streams import key
from podium.core.value import Value
from podium.memories.instructions import Instruction
from podium.protocols.sampling import Sampling
from podium.strategies.ask import Ask, ChatServer
from podium.strategies.requests import SubPlan

__all__ = ["AdviceMutator", "InstructionWriter", "ModelProposer"]


class InstructionWriter(Value):
    """Writes candidates from an instruction and answers that failed under it; a plan that may ask."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it asks."""
        return ()

    def propose(
        self, instruction: Instruction, failures: Sequence[str], count: int, stream: tuple[int, ...]
    ) -> SubPlan:
        """Returns at most `count` candidates, each a tuple of lines."""
        raise NotImplementedError


class AdviceMutator(InstructionWriter):
    """Candidates by chance: one line of the instruction is replaced, dropped or added, from a list of known lines.

    It reads no failures: which of its candidates are good is left to their verification.
    """

    lines: tuple[str, ...] = ("search when you do not know", "cite the source", "search each step before you answer")
    longest: int = 1  # lines of an instruction at most, ≥ 1

    def __post_init__(self) -> None:
        within(self, "longest", 1)
        if not self.lines or not all(line.strip() for line in self.lines):
            raise PodiumError(f"AdviceMutator.lines = {self.lines!r}: give lines of advice, none of them empty.")

    def propose(
        self, instruction: Instruction, failures: Sequence[str], count: int, stream: tuple[int, ...]
    ) -> SubPlan:
        yield from ()
        own, new = instruction.lines, [line for line in self.lines if line not in instruction.lines]
        changed = [(*own[:i], line, *own[i + 1 :]) for i in range(len(own)) for line in new]
        dropped = [(*own[:i], *own[i + 1 :]) for i in range(len(own)) if len(own) > 1]
        added = [(*own, line) for line in new if len(own) < self.longest]
        options = [*changed, *dropped, *added]
        order = np.random.default_rng(key(0, stream)).permutation(len(options))
        return [options[i] for i in order[:count]]


PROPOSE = (
    "An instruction for answering questions:\n{instruction}\nAnswers that failed under it:\n{failures}\n"
    "Reflect on why they failed, then write one better instruction on the last line, after 'instruction:'."
)


class ModelProposer(InstructionWriter):
    """A role of the method, or a server on this machine, that reflects on failures and writes an instruction."""

    of: str | ChatServer = "proposer"
    ask: str = PROPOSE  # with {instruction} and {failures}
    failures: int = 4  # that it reads
    tokens: int = 512
    temperature: float = 1.0

    def __post_init__(self) -> None:
        within(self, "failures", 1)
        within(self, "tokens", 1)
        for name in ("{instruction}", "{failures}"):
            if name not in self.ask:
                raise PodiumError(f"ModelProposer.ask = {self.ask!r} does not say where {name} is to stand.")

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.of,) if isinstance(self.of, str) else ()

    def propose(
        self, instruction: Instruction, failures: Sequence[str], count: int, stream: tuple[int, ...]
    ) -> SubPlan:
        shown = "\n\n".join(failures[: self.failures])
        prompt = self.ask.replace("{instruction}", "\n".join(instruction.lines)).replace("{failures}", shown)
        sampling = Sampling(max_tokens=self.tokens, temperature=self.temperature)
        answers = yield [Ask(prompt, self.of, sampling, (*stream, number)) for number in range(count)]
        written = [reply.text.rpartition("instruction:") for (reply,) in answers]
        return [(text,) for _, mark, said in written if mark and (text := " ".join(said.split()))]
