"""Which completion is in which row, and the clock that counts decode steps."""

from __future__ import annotations

from collections import Counter

import numpy as np

from podium.sampler.jobs import Burst, Job

__all__ = ["Rows"]

Ids = tuple[int, ...]
END, REACH, PROMPT, LIMIT, FRESH = range(5)  # indices of a row's numbers
NOBODY = [[0], [-(1 << 62)], [0], [0], [0]]
UNKNOWN = 1 << 61


class Rows:
    """The completions under way, by row."""

    def __init__(self) -> None:
        self.jobs: list[Job | None] = []  # by row; None: its completion has ended
        self.running = 0  # how many rows have a completion
        self.clock = 0  # tokens drawn in each row so far
        self.marks: Counter[str] = Counter()  # features that a step needs, and how many rows need each
        self.texts: Counter[Ids] = Counter()  # contexts, and how many requests continue each
        # [quantity, row]: the clock at which it reaches its limit; the length of its text minus the clock (an upper
        # bound if it has waited); the length of its context; its limit; whether it started from a prompt.
        self._numbers = np.zeros((5, 0), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def active(self) -> list[Job]:
        return [job for job in self.jobs if job is not None]

    @property
    def left(self) -> int:
        """The most tokens that any row may still draw."""
        return int(self._numbers[END].max(initial=0)) - self.clock

    @property
    def soonest(self) -> int:
        """The clock before which no row reaches its limit."""
        _, reach, prompt, limit, _ = self._numbers
        return int((limit + prompt - 1 - reach).min(initial=UNKNOWN))

    @property
    def reach(self) -> int:
        """An upper bound on the length of the longest row minus the clock."""
        return int(self._numbers[REACH].max(initial=NOBODY[REACH][0]))

    def longest(self, fresh: bool = False) -> tuple[int, int]:
        """The longest context and the highest limit; with `fresh`, without resumed rows."""
        prompt, limit = self._numbers[PROMPT:FRESH] * (self._numbers[FRESH] if fresh else 1)
        return int(prompt.max(initial=0)), int(limit.max(initial=0))

    def free(self, count: int) -> list[int]:
        """Numbers of `count` free rows: those whose completions have ended, then new ones."""
        holes = [row for row, job in enumerate(self.jobs) if job is None][:count]
        return [*holes, *range(len(self.jobs), len(self.jobs) + count - len(holes))]

    def join(self, job: Job) -> None:
        """Put a completion into its row."""
        pending, length = job.pending, len(job.pending.text)
        for mark in pending.marks:
            self.marks[mark] += 1
        pending.running += 1
        if pending.running == 1:
            self.texts[pending.text] += 1
        end = UNKNOWN if job.waits else self.clock + pending.limit
        self.jobs.extend([None] * (job.row + 1 - len(self.jobs)))
        self.jobs[job.row] = job
        self.running += 1
        if job.row >= self._numbers.shape[1]:
            more = np.repeat(NOBODY, job.row + 1, axis=1)
            self._numbers = np.concatenate([self._numbers, more], axis=1)
        self._numbers[:, job.row] = end, length - 1 - job.begun, length, pending.limit, not job.resumed

    def leave(self, job: Job) -> None:
        """Free the row of a completion that has ended."""
        self._numbers[:, job.row : job.row + 1] = NOBODY
        self.jobs[job.row], job.row = None, -1
        self.running -= 1
        pending = job.pending
        for mark in pending.marks:
            self.marks[mark] -= 1
        pending.running -= 1
        if not pending.running:
            self.texts[pending.text] -= 1
            if not self.texts[pending.text]:
                del self.texts[pending.text]

    def close_up(self, left: int) -> tuple[list[int], list[int]]:
        """Move the last rows into the places of those that have ended, so that `left` remain: from where, to where."""
        target = [row for row in range(left) if self.jobs[row] is None]
        moved = [job for job in self.jobs[left:] if job is not None]
        source = [job.row for job in moved]
        for job, row in zip(moved, target, strict=True):
            job.row, self.jobs[row] = row, job
        del self.jobs[left:]
        self._numbers[:, target] = self._numbers[:, source]
        self._numbers[:, left:] = NOBODY
        return source, target

    def ending(self, burst: Burst) -> list[tuple[Job, int]]:
        """The completions that may have ended in a burst, and how many tokens they have written."""
        reported = [(burst.jobs[row], left) for row, left in burst.report().items()]
        return [(job, job.pending.limit - left) for job, left in reported if job is not None and job.row >= 0]
