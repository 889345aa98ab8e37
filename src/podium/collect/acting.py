"""Acting in a world that may be slow, raise, hang, or return nonsense.

A failed action earns nothing and ends its episode with a stated reason; the run continues.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from podium.core.printable import one_line
from podium.protocols.world import Episode, FailedAction, Feedback, Later, Task, World
from podium.protocols.world_problems import (
    episode_problem,
    feedback_problem,
    opening_problem,
    raised,
    scores_problem,
)

__all__ = ["Actor", "busy_worlds"]

Outcome = tuple[Feedback, str]  # the world's answer, and why it failed if it did
GRACE_S = 5.0  # for jobs that are still running when an actor closes
THREADS = 64  # at most: a world that waits for something else blocks only its thread
THREAD_NAME = "podium-world"


@dataclass(eq=False)
class _Job:
    work: Callable[[], Any]
    then: Callable[[Any], None]
    late: Any  # the outcome if its time is up
    closes: bool = False  # it closes an episode, and is done even if nobody waits for it any more
    limit_s: float | None = None  # seconds that it may take; None: as all
    started: float = 0.0  # when a thread took it; 0: still queued
    answered: bool = False
    ended: bool = False


class _Begun(NamedTuple):
    """A feedback that waits for the others of its batch."""

    place: tuple[int, ...]
    feedback: Feedback
    then: Callable[[Feedback, str], None]


class Actor:
    """Opens episodes and acts in them, inline or in threads with a time limit, and passes the outcomes to callbacks.

    At most `live` episodes are open at once; the others wait until one of them is left.
    """

    def __init__(self, limit_s: float = 10.0, *, inline: bool = False, live: int | None = None) -> None:
        self.limit_s, self.inline, self.live = limit_s, inline, live
        self._waiting: deque[Callable[[], None]] = deque()  # episodes for which there is no room yet
        self._admitted = 0  # episodes that are open or about to be
        self._episodes: dict[int, Episode] = {}  # that are open, by identity
        self._todo: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[_Job, Any]] = queue.SimpleQueue()
        self._open: dict[_Job, None] = {}
        self._begun: list[_Begun] = []  # feedbacks that wait for the others of their batch
        self._threads = 0

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def open(self, world: World, task: Task, seed: int, then: Callable[[Episode], None]) -> None:
        """Call `then` with a new episode of a task, now or from a later `deliver`; if the world cannot open it, with an
        episode in which every action fails for that reason."""
        late = _Unopened(task.prompt, f"the world did not open the episode within {self.limit_s:g} s")
        job = _Job(partial(_opened, world, task, seed), partial(self._begin_new, then, task), late)
        self._waiting.append(partial(self._do, job))
        self._admit()

    def enter(self, episode: Episode, then: Callable[[Episode], None]) -> None:
        """Call `then` with an episode that is open already, when there is room for it."""
        self._waiting.append(partial(self._begin, then, episode))
        self._admit()

    def leave(self, episode: Episode) -> None:
        """Close an episode in which nobody acts any more."""
        if self._episodes.pop(id(episode), None) is None:
            return
        if type(episode).close is Episode.close:  # there is nothing to do
            self._left(None)
        else:
            self._do(_Job(partial(_discard, episode), self._left, None, closes=True))

    def _left(self, _: None) -> None:
        self._admitted -= 1
        self._admit()

    def _begin_new(self, then: Callable[[Episode], None], task: Task, episode: Episode) -> None:
        if id(episode) in self._episodes:
            episode = _Unopened(task.prompt, "the world's reset() gave an episode that is under way, not a new one")
        self._begin(then, episode)

    def _begin(self, then: Callable[[Episode], None], episode: Episode) -> None:
        self._episodes[id(episode)] = episode
        then(episode)

    def _admit(self) -> None:
        while self._waiting and (self.live is None or self._admitted < self.live):
            self._admitted += 1
            self._waiting.popleft()()

    def act(
        self, episode: Episode, text: str, then: Callable[[Feedback, str], None], place: tuple[int, ...] = ()
    ) -> None:
        """Act, and call `then(feedback, failure)` now or from a later `deliver`; from `complete`, if the feedback
        depends on other actions. `place` orders the actions of a batch."""
        late = Feedback(), f"the world did not answer within {self.limit_s:g} s"

        def acted(outcome: Outcome) -> None:
            feedback, failure = outcome
            if failure or feedback.later is None:
                then(feedback, failure)
            else:
                self._begun.append(_Begun(place, feedback, then))

        self._do(_Job(partial(_attempt, episode, text), acted, late))

    @property
    def incomplete(self) -> bool:
        """Whether feedbacks wait for `complete`."""
        return bool(self._begun)

    def complete(self) -> None:
        """Complete the feedbacks that depend on each other: nobody acts any more before they are."""
        begun, self._begun = sorted(self._begun, key=lambda each: each.place), []
        batches: dict[Hashable, list[_Begun]] = {}
        for each in begun:
            assert each.feedback.later is not None
            batches.setdefault(each.feedback.later.batch, []).append(each)
        for batch in batches.values():
            later = batch[0].feedback.later
            assert later is not None
            problem = f"the batch was not judged within {later.limit_s:g} s"
            work = partial(_completed, later, [each.feedback for each in batch])
            late = [(Feedback(), problem)] * len(batch)
            self._do(_Job(work, partial(_pass_on, batch), late, limit_s=later.limit_s))

    def judge(self, ask: Callable[[], Any], count: int, then: Callable[[Any, str], None]) -> None:
        """Ask for `count` scores, and call `then(scores, failure)` now or from a later `deliver`."""
        late = None, f"the judge did not answer within {self.limit_s:g} s"
        self._do(_Job(partial(_judged, ask, count), lambda outcome: then(*outcome), late))

    def _do(self, job: _Job) -> None:
        if self.inline:
            job.then(job.work())
            return
        self._open[job] = None
        self._todo.put(job)
        if self._threads < min(THREADS, len(self._open)):
            self._start_thread()

    def deliver(self, block: bool = False) -> None:
        """Pass on what worlds have answered; with `block`, wait until one has, or its time is up."""
        wait = block and bool(self._open)
        while True:
            try:
                job, outcome = self._done.get(timeout=0.05) if wait else self._done.get_nowait()
            except queue.Empty:
                if not self._expire() and wait:
                    continue
                return
            if job.answered:  # too late: its time was up
                _discard(outcome)
                continue
            wait = False
            self._answer(job, outcome)

    def close(self) -> None:
        """Leave all episodes, and let each thread end when its world has answered. Later actions start new threads."""
        self._waiting.clear()
        self._begun.clear()
        for episode in list(self._episodes.values()):
            self.leave(episode)
        jobs, self._admitted, self._open = list(self._open), 0, {}
        for job in jobs:
            job.then = lambda _: None
            job.answered = not job.closes
        # An episode must not open in a world that is closed meanwhile, and must be closed before its world is: wait for
        # these jobs, though not for one that hangs.
        until = time.monotonic() + min(self.limit_s, GRACE_S)
        while any((job.started or job.closes) and not job.ended for job in jobs) and time.monotonic() < until:
            time.sleep(0.01)
        if self._threads:
            self._todo.put(None)
            self._todo, self._threads = queue.SimpleQueue(), 0

    def _answer(self, job: _Job, outcome: Any) -> None:
        job.answered = True
        self._open.pop(job, None)  # it is not there if it was still closing when the actor closed
        job.then(outcome)

    def _expire(self) -> bool:
        """Give up jobs past their time limit; a thread that hangs is replaced, and ends when its world answers."""
        now = time.monotonic()
        late = [j for j in self._open if j.started and now - j.started > (j.limit_s or self.limit_s)]
        for job in late:
            self._threads -= 1
            self._start_thread()
            self._answer(job, job.late)
        return bool(late)

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=_work, args=(self._todo, self._done), daemon=True, name=THREAD_NAME).start()


def _work(todo: queue.SimpleQueue[_Job | None], done: queue.SimpleQueue[tuple[_Job, Any]]) -> None:
    """The work of a thread: one job after another, until there are no more or it has been replaced."""
    while (job := todo.get()) is not None:
        job.started = time.monotonic()
        outcome = None if job.answered else job.work()
        done.put((job, outcome))
        if job.answered:  # this thread has been replaced
            _discard(outcome)
        job.ended = True
        if job.answered:
            return
    todo.put(None)  # for the other threads


def _discard(outcome: Any) -> None:
    """Close an episode that nobody wants any more."""
    if isinstance(outcome, Episode):
        with suppress(Exception):  # a world that fails to close does not make the rollout fail
            outcome.close()


class _Unopened(Episode):
    """Stands for an episode that its world could not open."""

    def __init__(self, observation: str, reason: str) -> None:
        super().__init__(observation)
        self.reason = reason

    def act(self, text: str) -> Feedback:
        raise FailedAction(self.reason)


def _opened(world: World, task: Task, seed: int) -> Episode:
    try:
        episode = world.reset(task, seed=seed)
        problem = opening_problem(world, episode)
    except FailedAction as failure:
        problem = str(failure)
    except (Exception, SystemExit) as error:
        problem = raised(error)
    return _Unopened(task.prompt, problem) if problem else episode


def _attempt(episode: Episode, text: str) -> Outcome:
    try:
        feedback = episode.act(text)
        problem = feedback_problem(feedback) or episode_problem(episode)
    except FailedAction as failure:
        problem = str(failure)
    except (Exception, SystemExit) as error:  # a world that calls sys.exit ends only its episode
        problem = raised(error)
    return (Feedback(), one_line(problem)) if problem else (feedback, "")


def _completed(later: Later, begun: Sequence[Feedback]) -> list[Outcome]:
    try:
        results = list(later.complete(begun))
    except FailedAction as failure:
        return [(Feedback(), one_line(str(failure)))] * len(begun)
    except (Exception, SystemExit) as error:
        return [(Feedback(), one_line(raised(error)))] * len(begun)
    return [
        (Feedback(), one_line(str(result) if isinstance(result, FailedAction) else feedback_problem(result)))
        if isinstance(result, FailedAction) or feedback_problem(result)
        else (result, "")
        for result in results
    ]


def _pass_on(batch: Sequence[_Begun], outcomes: Sequence[Outcome]) -> None:
    for each, outcome in zip(batch, outcomes, strict=True):
        each.then(*outcome)


def _judged(ask: Callable[[], Any], count: int) -> tuple[Any, str]:
    try:
        scores = ask()
        problem = scores_problem(scores, count)
    except FailedAction as failure:
        problem = str(failure)
    except (Exception, SystemExit) as error:
        problem = raised(error)
    return (None, one_line(problem)) if problem else (scores, "")


def busy_worlds(patience_s: float = 0.5) -> int:
    """How many threads of worlds still run although nobody waits for them, after a moment in which they may end."""
    until = time.monotonic() + patience_s
    threads = [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
    return sum(thread.is_alive() for thread in threads)
