"""Who is in which row, and the clock that counts the tokens drawn in each."""

from __future__ import annotations

from collections import Counter

from podium.sampler.jobs import Burst, Job
from podium.sampler.request import Generate

__all__ = ["Rows"]


class Rows:
    """The completions under way, by row."""

    def __init__(self) -> None:
        self.jobs: list[Job | None] = []  # by row; None: its completion has ended
        self.clock = 0
        self.marks: Counter[str] = Counter()  # what a step must do, and for how many of them
        self.reach = 0  # the longest row has this many tokens more than the clock
        self._due: dict[int, list[Job]] = {}  # by the clock at which they reach their limit

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def active(self) -> list[Job]:
        return [job for job in self.jobs if job is not None]

    @property
    def running(self) -> int:
        """How many they are."""
        return len(self.jobs) - self.jobs.count(None)

    @property
    def left(self) -> int:
        """How many tokens may still be drawn in some row."""
        return max((job.begun + job.ticket.limit for job in self.active), default=0) - self.clock

    def free(self, count: int) -> list[int]:
        """Rows for so many more: those whose completions have ended, then new ones."""
        holes = [row for row, job in enumerate(self.jobs) if job is None][:count]
        return [*holes, *range(len(self.jobs), len(self.jobs) + count - len(holes))]

    def join(self, job: Job) -> None:
        """Give a completion its row."""
        self.marks.update(_marks(job.ticket.request))
        self._due.setdefault(self.clock + job.ticket.limit, []).append(job)
        self.jobs.extend([None] * (job.row + 1 - len(self.jobs)))
        self.jobs[job.row] = job

    def leave(self, job: Job) -> None:
        """Free the row of a completion that has ended."""
        self.jobs[job.row], job.row = None, -1
        self.marks.subtract(_marks(job.ticket.request))

    def close_up(self, left: int) -> tuple[list[int], list[int]]:
        """Move the last rows into the places of those that have ended, so that `left` remain: from where, to where."""
        target = [row for row in range(left) if self.jobs[row] is None]
        moved = [job for job in self.jobs[left:] if job is not None]
        source = [job.row for job in moved]
        for job, row in zip(moved, target, strict=True):
            job.row, self.jobs[row] = row, job
        del self.jobs[left:]
        self.measure()
        return source, target

    def measure(self) -> None:
        """Find the longest row again, after some have come, gone or moved."""
        self.reach = max((len(job.ticket.text) - 1 - job.begun for job in self.active), default=0)

    def ending(self, burst: Burst) -> list[Job]:
        """The completions that may have come to an end in a burst: by what they wrote, or at their limit."""
        found = {job: None for row in burst.report() if (job := burst.jobs[row]) is not None}
        for clock in range(burst.clock - burst.count + 1, burst.clock + 1):
            found |= dict.fromkeys(self._due.pop(clock, ()))
        return [job for job in found if job.row >= 0]


def _marks(request: Generate) -> list[str]:
    """What a step must do for a request's sake."""
    s = request.sampling
    marks = [f"capture {name}" for name in request.capture]
    if s.temperature not in (0.0, 1.0):
        marks.append("temperature")
    if s.temperature == 0.0:
        marks.append("greedy")
    elif s.top_p < 1.0 or s.top_k > 0 or s.min_p > 0.0:
        marks.append("filter")
    if s.warmth is not None:
        marks.append("warmth")
    return marks
