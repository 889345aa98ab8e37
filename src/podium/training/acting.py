"""Acting in a world that may be slow, raise, hang, or return nonsense.

A failed action ends its episode with reward 0 and a stated reason; the run goes on.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from podium.worlds.world import Episode, Feedback, Task, World

__all__ = ["Actor"]

Then = Callable[[Feedback, str], None]
THREADS = 8


@dataclass
class _Job:
    episode: Episode
    text: str
    then: Then
    started: float = 0.0  # when a thread took it; 0: still waiting
    answered: bool = False


class Actor:
    """Runs `episode.act(text)` inline, or in threads with a time limit, and hands the feedback on."""

    def __init__(self, limit_s: float = 10.0, *, inline: bool = False) -> None:
        self.limit_s, self.inline = limit_s, inline
        self._todo: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[_Job, Feedback, str]] = queue.SimpleQueue()
        self._open: list[_Job] = []
        self._threads = 0

    def open(self, world: World, task: Task, seed: int) -> Episode:
        """An episode of a task; where the world cannot open it, one in which everything fails for that reason."""
        opened: list[Episode] = []

        def reset() -> None:
            try:
                opened.append(world.reset(task, seed=seed))
            except Exception as error:
                opened.append(_Unopened(task.prompt, error))

        if self.inline:
            reset()
        else:
            thread = threading.Thread(target=reset, daemon=True, name="podium-world")
            thread.start()
            thread.join(self.limit_s)
        late = TimeoutError(f"the episode did not open within {self.limit_s:g} s")
        return opened[0] if opened else _Unopened(task.prompt, late)

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def act(self, episode: Episode, text: str, then: Then) -> None:
        """Act, and call `then(feedback, failure)` now or from a later `deliver`."""
        if self.inline:
            then(*_attempt(episode, text))
            return
        self._open.append(job := _Job(episode, text, then))
        self._todo.put(job)
        if self._threads < THREADS:
            self._start_thread()

    def deliver(self, block: bool = False) -> None:
        """Hand on what the world has answered; with `block`, wait until something has, or its time is up."""
        wait = block and bool(self._open)
        while True:
            try:
                job, feedback, failure = (
                    self._done.get(timeout=0.05 if wait else 0.0) if wait else self._done.get_nowait()
                )
            except queue.Empty:
                if not self._expire() and wait:
                    continue
                return
            if job.answered:  # too late: it was given up
                continue
            wait = False
            self._answer(job, feedback, failure)

    def _answer(self, job: _Job, feedback: Feedback, failure: str) -> None:
        job.answered = True
        self._open.remove(job)
        job.then(feedback, failure)

    def _expire(self) -> bool:
        """Give up on jobs past their limit; the hung thread is replaced and left to end by itself."""
        now = time.monotonic()
        late = [j for j in self._open if j.started and now - j.started > self.limit_s]
        for job in late:
            self._start_thread()
            self._answer(job, Feedback(), f"the world did not answer within {self.limit_s:g} s")
        return bool(late)

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, daemon=True, name="podium-world").start()

    def _work(self) -> None:
        while True:
            job = self._todo.get()
            job.started = time.monotonic()
            self._done.put((job, *_attempt(job.episode, job.text)))
            if job.answered:  # this thread was given up on and has a successor
                return


class _Unopened(Episode):
    """Stands for an episode that its world could not open."""

    def __init__(self, observation: str, reason: Exception) -> None:
        super().__init__(observation)
        self.reason = reason

    def act(self, text: str) -> Feedback:
        raise self.reason


def _attempt(episode: Episode, text: str) -> tuple[Feedback, str]:
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
