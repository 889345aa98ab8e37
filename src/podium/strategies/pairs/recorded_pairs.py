"""Pairs of answers from a file. Nothing is sampled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from podium.core.part import Strategy
from podium.core.streams import key
from podium.protocols.world import Episode, Feedback, Task
from podium.store.pair_rows import PairRow, read_pairs
from podium.strategies.requests import Plan, Recite, Request, TaskRequest, rollouts_of

__all__ = ["RecordedPairs"]


class RecordedPairs(Strategy):
    """The pairs of a file, one in place of each task, in a new random order in every epoch.

    `source` is a file of JSON lines or parquet whose rows have `chosen` and `rejected` (texts, or lists of chat
    messages) and maybe a `prompt`; or `prompt`, `completion` and a `label`, true or false, for methods that need no
    pairs. The chosen answer has the reward 1, the rejected one 0. Of a conversation the last answer is trained. The
    world's own tasks are used for evaluation only.
    """

    source: str
    skip: bool = False  # leave out rows with an empty answer or two equal ones, instead of refusing the file
    # A field with the probability that `chosen` is better, which becomes `rollout.label`; empty: none is read.
    label_field: str = ""

    @property
    def provides(self) -> tuple[str, ...]:
        marks = ("rollout.purpose", "rollout.demonstration", "rollout.sampled")
        return (*marks, "rollout.label") if self.label_field else marks

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        rows, left_out = self._read
        if not left_out:
            return ()
        return (f"{self.source}: {left_out} of {len(rows) + left_out} rows with empty or equal answers are left out.",)

    @cached_property
    def _read(self) -> tuple[list[PairRow], int]:
        return read_pairs(self.source, label_field=self.label_field, skip=self.skip)

    @property
    def n(self) -> int:
        return 2 if any(row.chosen is not None and row.rejected is not None for row in self._read[0]) else 1

    def plan(self, task: TaskRequest) -> Plan:
        rows = self._read[0]
        epoch, position = divmod(task.number, len(rows))
        row = rows[np.random.default_rng(key(task.stream[0], (epoch,))).permutation(len(rows))[position]]
        answers = [(text, reward) for text, reward in ((row.chosen, 1.0), (row.rejected, 0.0)) if text is not None]
        return rollouts_of(
            (yield [self._request(task, row, text, reward, i) for i, (text, reward) in enumerate(answers)])
        )

    def _request(self, request: TaskRequest, row: PairRow, text: str, reward: float, index: int) -> Request:
        columns: dict[str, Any] = {"demonstration": True, "sampled": False}
        if self.label_field:
            columns["label"] = row.label
        return Recite(
            dataclasses.replace(request, task=Task(row.where, row.asked[0])),
            texts=(*row.replies, text),
            shown=len(row.replies),
            index=index,
            columns=columns,
            episode=_Judged(row.asked, reward),
        )


class _Judged(Episode):
    """A recorded conversation, whose last answer has a reward."""

    def __init__(self, asked: tuple[str, ...], reward: float) -> None:
        super().__init__(asked[0], state=asked[0])
        self.asked, self.reward, self.turn = asked, reward, 0

    def act(self, text: str) -> Feedback:
        self.turn += 1
        done = self.turn == len(self.asked)
        info: Mapping[str, Any] = {"correct": done and self.reward > 0, "answer": text}
        follows = "" if done else self.asked[self.turn]
        return Feedback(self.reward * done, done, follows, state=f"{self.state}/{self.turn}", info=info)
