"""A memory agent: a long text is read piece by piece, and the answer is given from notes alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from podium.core.build import Rollout
from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.protocols.context import Latest
from podium.protocols.world import Episode, Feedback
from podium.strategies.draw import Draw, refuse_settings
from podium.strategies.requests import Plan, TaskRequest, rollouts_of
from podium.strategies.sample.sample import Sample

__all__ = ["ReadInChunks", "in_chunks", "split_question"]


def split_question(prompt: str, pattern: str) -> tuple[str, str]:
    """The text of a prompt, and the question in it; all of it is the question where the pattern does not match."""
    found = re.search(pattern, prompt)
    if found is None or not found[0].strip():
        return "", prompt
    return (prompt[: found.start()] + prompt[found.end() :]).strip(), found[0].strip()


def in_chunks(text: str, chunks: int) -> list[str]:
    """The words of a text in at most `chunks` pieces of nearly equal length."""
    words = text.split()
    edges = [round(i * len(words) / chunks) for i in range(chunks + 1)]
    return [" ".join(words[a:b]) for a, b in pairwise(edges) if a < b]


class ReadInChunks(Strategy):
    """`n` rollouts of a memory agent: the prompt's text is read in `chunks` pieces, with notes as all that remains.

    Each reading turn sees the question, the notes so far and one piece; what it writes are the new notes. The last turn
    sees the question and the notes, and its answer goes to the world. All turns are trained with the rollout's
    advantage. A prompt without a text beside the question is answered at once.
    """

    reference = "QwenLong-L1.5, https://github.com/Tongyi-Zhiwen/Qwen-Doc"
    n: int = 8
    chunks: int = 3  # pieces at most
    question: str = r"[^;,.\n]*$"  # a regular expression: what of the prompt is the question, shown at every turn
    show: str = "{question}\nnotes: {notes}\n{piece}"  # what a reading turn sees
    ask: str = "{question}\nnotes: {notes}"  # what the last turn sees
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "chunks", 1)
        refuse_settings(self, self.draw, "max_turns", "context")
        for name, fields in (("show", ("question", "notes", "piece")), ("ask", ("question", "notes"))):
            try:
                getattr(self, name).format(**dict.fromkeys(fields, ""))
            except (KeyError, IndexError, ValueError) as error:
                known = " and ".join(f"{{{field}}}" for field in fields)
                text = getattr(self, name)
                raise PodiumError(f"ReadInChunks.{name} = {text!r} may contain only {known}: {error}.") from error
        try:
            re.compile(self.question)
        except re.error as error:
            raise PodiumError(f"ReadInChunks.question = {self.question!r} cannot be read: {error}.") from error

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Rollout]) -> int:
        return sum(len(rollout.turns) > 1 for rollout in rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        play = self.draw.play(task, self.n, max_turns=self.chunks + 1, context=Latest())
        return rollouts_of((yield [replace(play, wrap=partial(_Reading, strategy=self))]))


class _Reading(Episode):
    """Reading turns, then the episode of the world."""

    def __init__(self, episode: Episode, strategy: ReadInChunks) -> None:
        text, self.question = split_question(str(episode.observation), strategy.question)
        self.inner, self.strategy, self.notes = episode, strategy, ""
        self.pieces = in_chunks(text, strategy.chunks)
        self.reading = bool(self.pieces)
        super().__init__(self._next() if self.reading else episode.observation, episode.state)
        self.agent, self.recap = episode.agent, episode.recap

    def _next(self) -> str:
        """What the next turn sees."""
        if self.pieces:
            return self.strategy.show.format(question=self.question, notes=self.notes, piece=self.pieces.pop(0))
        self.reading = False
        return self.strategy.ask.format(question=self.question, notes=self.notes)

    def act(self, text: str) -> Feedback:
        if not self.reading:
            return self.inner.act(text)
        self.notes = " ".join(text.split())
        return Feedback(done=False, observation=self._next(), state=self.state)
