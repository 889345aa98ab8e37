"""The side of an isolated world that runs in other processes; `podium.worlds.isolated` is the side of the run.

If the world's code is trusted, the server makes the world once (`prepare`), so that all processes share what it has
read. Each process has a `Host`, which answers requests.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.protocols.world import (
    Answer,
    Criterion,
    Episode,
    FailedAction,
    Feedback,
    Task,
    World,
    completed,
    isolation_of,
    task_of,
)
from podium.protocols.world_problems import episode_problem, feedback_problem, opening_problem, raised
from podium.worlds.names import get
from podium.worlds.wire import Unsendable, from_wire, to_wire

__all__ = ["ANSWER_MB", "CLASS_VARIABLES", "Host", "prepare", "task_from_wire", "task_to_wire"]

ANSWER_MB = 16  # the size of one answer
CLASS_VARIABLES = (
    *("name", "summary", "levels", "provides", "blank", "max_tokens", "max_turns", "costly", "act_limit_s", "agents"),
    *("styles", "level", "live"),
)
READ_BY_RUNS = ("correct", "answer", "valid", "reward")  # entries of info besides those that the world provides

_prepared: list[World | BaseException] = []  # the world, or why there is none, once the server has made it


def prepare(name: str, settings: Any, folder: str, path: Sequence[str]) -> None:
    """Make the world in this process, for the processes that are forked from it."""
    try:
        _prepared.append(_make_world(name, settings, folder, path))
    except BaseException as error:  # raised again when the world is described
        _prepared.append(error)


def _make_world(name: str, settings: Any, folder: str, path: Sequence[str]) -> World:
    os.chdir(folder)
    sys.path += [entry for entry in path if entry not in sys.path]
    return get(name, **decode(from_wire(settings)))


class Host:
    """A world and its current episode; requests by name."""

    def __init__(self, name: str, settings: Any, folder: str, path: Sequence[str]) -> None:
        # A process starts in a temporary folder of its own; the world works where the run does.
        tempfile.tempdir = os.environ["TMPDIR"] = os.getcwd()
        os.chdir(folder)
        world = _prepared[0] if _prepared else _make_world(name, settings, folder, path)
        if isinstance(world, BaseException):
            raise world
        self.world, self.episode = world, Episode("")
        self.pid, self.before = os.getpid(), _surroundings()

    def __call__(self, do: str, *arguments: Any) -> dict[str, Any]:
        """The answer to a request: `value`, or `failure` in words, `refused` if it is a PodiumError; and whether the
        process is as `clean` as before."""
        answer: dict[str, Any]
        try:
            answer = {"value": getattr(self, do)(*map(from_wire, arguments))}
            size = len(json.dumps(answer)) >> 20
            if size >= ANSWER_MB:
                answer = {"failure": f"the world answered with {size} MB, more than the {ANSWER_MB - 1} MB that it may"}
        except (FailedAction, Unsendable) as failure:
            answer = {"failure": str(failure)}
        except PodiumError as error:
            answer = {"failure": str(error), "refused": True}
        except BaseException as error:  # SystemExit too: nothing but an answer leaves this process
            answer = {"failure": raised(error)}
        if os.getpid() != self.pid:
            os._exit(0)  # the world has forked: this is the copy, and only the original answers
        return {**answer, "clean": _surroundings() == self.before}

    def describe(self) -> Any:
        """What a run needs to know about the world."""
        world = self.world
        about = {name: to_wire(getattr(world, name), name) for name in CLASS_VARIABLES}
        about |= {"isolation": _declared_isolation(world), "context": encode(world.context)}
        one_turn = isinstance(world, Answer)
        graded = one_turn and type(world).reset is Answer.reset
        return {**about, "one_turn": one_turn, "graded": graded, "closes": type(world).close is not World.close}

    def size(self, split: str) -> Any:
        return to_wire(self.world.size(split), "size")

    def task(self, index: int, split: str) -> Any:
        task = task_of(self.world, index, split)
        if type(task) is not Task:
            raise FailedAction(f"a {type(task).__name__}, unlike a plain Task, cannot leave the world's process")
        return task_to_wire(task)

    def ask(self, method: str, task: Any, *arguments: Any) -> Any:
        """What another method of the world returns for a task."""
        result = getattr(self.world, method)(task_from_wire(task), *arguments)
        if method == "criteria":
            result = tuple((each.text, each.points) for each in result if isinstance(each, Criterion))
        return to_wire(result, f"{method}()")

    def grade(self, task: Any, text: str) -> Any:
        assert isinstance(self.world, Answer)
        feedback = completed(self.world.grade(task_from_wire(task), text))
        return self._checked(feedback, feedback_problem(feedback))

    def reset(self, task: Any, seed: int) -> Any:
        episode = self.world.reset(task_from_wire(task), seed=seed)
        problem = opening_problem(self.world, episode)
        if not problem and episode is self.episode:
            problem = "the world's reset() gave an episode that is under way, not a new one"
        if problem:
            raise FailedAction(problem)
        self.episode = episode
        return {"observation": episode.observation, **self._status()}

    def act(self, text: str) -> Any:
        feedback = completed(self.episode.act(text))
        answer = self._checked(feedback, feedback_problem(feedback) or episode_problem(self.episode))
        return {"feedback": answer, **self._status()}

    def end(self) -> None:
        """End the episode, so that another can begin."""
        self.episode.close()

    def close(self) -> None:
        self.world.close()

    def _status(self) -> dict[str, Any]:
        """Where the episode stands."""
        episode = self.episode
        return {"state": to_wire(episode.state, "state"), "agent": episode.agent, "recap": episode.recap}

    def _checked(self, feedback: Feedback, problem: str) -> Any:
        if problem:
            raise FailedAction(problem)
        read = {*READ_BY_RUNS, *(column.partition(".")[2] for column in self.world.provides)}
        state, info = to_wire(feedback.state, "state"), _info(feedback.info, read)
        rewards = to_wire({agent: float(reward) for agent, reward in feedback.rewards.items()}, "rewards")
        return [float(feedback.reward), bool(feedback.done), feedback.observation, state, info, rewards]


def _info(info: Mapping[str, Any], read: set[str]) -> Any:
    """A feedback's info as plain data. What cannot be sent is left out if nobody reads it, and else a failure."""
    sent = {}
    for name, value in info.items():
        try:
            sent[name] = to_wire(value, f"info[{name!r}]")
        except Unsendable as error:
            if name == "answer":
                sent[name] = str(value)  # which is all that a run keeps of it
            elif name in read:
                raise FailedAction(str(error)) from error
    return {"mapping": [[to_wire(name, "info"), value] for name, value in sent.items()]}


def task_to_wire(task: Task) -> Any:
    """A task as plain data."""
    try:
        data = {"mapping": [[to_wire(k), to_wire(v, f"task.data[{k!r}]")] for k, v in task.data.items()]}
        return [*(to_wire(value, "task") for value in (task.key, task.prompt, task.level, task.domain)), data]
    except Unsendable as error:
        raise FailedAction(str(error)) from error


def task_from_wire(sent: Sequence[Any]) -> Task:
    """The inverse of `task_to_wire`, of data that has been read already."""
    return Task(*sent)


def _surroundings() -> tuple[Any, ...]:
    """What a world may change in its process beyond its own objects. A process that has changed is not reused."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    values: list[Any] = []
    for read in (os.getcwd, partial(signal.getitimer, signal.ITIMER_REAL)):
        with suppress(OSError):  # the folder has been removed; a sandbox has no timers
            values.append(read())
    return values, dict(os.environ), list(sys.path), sys.getrecursionlimit(), threading.active_count(), handlers


def _declared_isolation(world: World) -> str:
    """How a world says that its episodes run. What Podium's own worlds say of themselves, `inline`, does not hold for a
    world that somebody derives from them."""
    declared = isolation_of(world)
    declaring = next(cls for cls in type(world).__mro__ if "isolation" in vars(cls))
    inherited = declaring.__module__.startswith("podium.") and not type(world).__module__.startswith("podium.")
    return "" if inherited and declared == world.isolation == "inline" else declared
