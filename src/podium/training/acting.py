"""Acting in a world that may be slow, raise, hang, or return nonsense.

A failed action earns nothing and ends its episode with a stated reason; the run goes on.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from podium.worlds.world import Episode, Feedback, Task, World

__all__ = ["Actor"]

Outcome = tuple[Feedback, str]  # what the world says, and why it could not
THREADS = 64  # waits at once: a world that waits for something else costs its thread alone


@dataclass(eq=False)
class _Job:
    work: Callable[[], Any]
    then: Callable[[Any], None]
    late: Any  # what it comes to when its time is up
    started: float = 0.0  # when a thread took it; 0: still waiting
    answered: bool = False


class Actor:
    """Opens episodes and acts in them, inline or in threads with a time limit, and hands on what comes of it."""

    def __init__(self, limit_s: float = 10.0, *, inline: bool = False) -> None:
        self.limit_s, self.inline = limit_s, inline
        self._todo: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[_Job, Any]] = queue.SimpleQueue()
        self._open: dict[_Job, None] = {}
        self._threads = 0

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def open(self, world: World, task: Task, seed: int, then: Callable[[Episode], None]) -> None:
        """Hand on an episode of a task, now or from a later `deliver`; where the world cannot open it, one in which
        everything fails for that reason."""
        late = TimeoutError(f"the episode did not open within {self.limit_s:g} s")
        self._do(_Job(partial(_opened, world, task, seed), then, _Unopened(task.prompt, late)))

    def act(self, episode: Episode, text: str, then: Callable[[Feedback, str], None]) -> None:
        """Act, and call `then(feedback, failure)` now or from a later `deliver`."""
        late = Feedback(), f"the world did not answer within {self.limit_s:g} s"
        self._do(_Job(partial(_attempt, episode, text), lambda outcome: then(*outcome), late))

    def _do(self, job: _Job) -> None:
        if self.inline:
            job.then(job.work())
            return
        self._open[job] = None
        self._todo.put(job)
        if self._threads < min(THREADS, len(self._open)):
            self._start_thread()

    def deliver(self, block: bool = False) -> None:
        """Hand on what the world has answered; with `block`, wait until something has, or its time is up."""
        wait = block and bool(self._open)
        while True:
            try:
                job, outcome = self._done.get(timeout=0.05) if wait else self._done.get_nowait()
            except queue.Empty:
                if not self._expire() and wait:
                    continue
                return
            if job.answered:  # too late: it was given up
                continue
            wait = False
            self._answer(job, outcome)

    def close(self) -> None:
        """Let the threads end, each when its world has answered; whoever acts next starts others."""
        if self._threads:
            self._todo.put(None)
            self._todo, self._threads = queue.SimpleQueue(), 0

    def _answer(self, job: _Job, outcome: Any) -> None:
        job.answered = True
        del self._open[job]
        job.then(outcome)

    def _expire(self) -> bool:
        """Give up on jobs past their limit; the hung thread is replaced and left to end by itself."""
        now = time.monotonic()
        late = [j for j in self._open if j.started and now - j.started > self.limit_s]
        for job in late:
            self._threads -= 1
            self._start_thread()
            self._answer(job, job.late)
        return bool(late)

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=_work, args=(self._todo, self._done), daemon=True, name="podium-world").start()


def _work(todo: queue.SimpleQueue[_Job | None], done: queue.SimpleQueue[tuple[_Job, Any]]) -> None:
    """What a thread does: one job after another, until there are to be no more or it was given up on."""
    while (job := todo.get()) is not None:
        job.started = time.monotonic()
        done.put((job, job.work()))
        if job.answered:  # it has a successor
            return
    todo.put(None)  # for the other threads


class _Unopened(Episode):
    """Stands for an episode that its world could not open."""

    def __init__(self, observation: str, reason: Exception) -> None:
        super().__init__(observation)
        self.reason = reason

    def act(self, text: str) -> Feedback:
        raise self.reason


def _opened(world: World, task: Task, seed: int) -> Episode:
    try:
        episode = world.reset(task, seed=seed)
    except Exception as error:
        return _Unopened(task.prompt, error)
    if not isinstance(episode, Episode) or not isinstance(episode.observation, str):
        return _Unopened(task.prompt, TypeError(f"reset() gave {episode!r}, not an Episode that says something"))
    return episode


def _attempt(episode: Episode, text: str) -> Outcome:
    try:
        feedback = episode.act(text)
    except Exception as error:
        return Feedback(), f"the world raised {type(error).__name__}: {error}"
    if not isinstance(feedback, Feedback):
        return Feedback(), f"the world answered {feedback!r}, not a Feedback"
    reward = feedback.reward
    if isinstance(reward, bool) or not isinstance(reward, (int, float)):
        return Feedback(), f"the world's reward is {reward!r}, not a number"
    if not math.isfinite(reward):
        return Feedback(), f"the world's reward is {reward!r}"
    if not isinstance(feedback.info, Mapping) or not isinstance(feedback.observation, str):
        return Feedback(), "the world's observation is not text, or its info no mapping"
    return feedback, ""
