"""Isolation: worlds in separate processes, so that the run goes on whatever a world does.

`isolated` returns a world whose methods all run in other processes; its code is not even imported here. A process holds
one episode at a time. After an episode that ended cleanly it is used again, except in a sandbox, where each episode and
each verdict on a text gets a fresh process.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.protocols.context import Context
from podium.protocols.world import Answer, Criterion, Episode, FailedAction, Feedback, Task, World, isolation_of
from podium.sandbox import Limits, Sandbox, SandboxedCall
from podium.worlds.hosting import ANSWER_MB, CLASS_VARIABLES, task_to_wire
from podium.worlds.names import get, names_code
from podium.worlds.processes import WorldProcess, WorldProcesses
from podium.worlds.wire import from_wire, to_wire

__all__ = ["is_isolated", "isolated"]

HOST = "podium.worlds.hosting"
TASK_S = 300.0  # seconds for making a task or a solution
EPISODES = 64  # open at once, each in its process
# What a confined process may use besides its time.
MEMORY_MB, FILES_MB = 1024, 64
# What a run needs to know about a world, and its types, which are checked because confined code may answer anything.
KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("name", "summary"), str),
    **dict.fromkeys(("levels", "provides", "agents", "styles"), (tuple, list)),
    **dict.fromkeys(("max_tokens", "max_turns", "level"), int),
    **{"blank": Mapping, "costly": bool, "act_limit_s": (int, float), "live": (int, type(None))},
}


def isolated(
    world: str | World,
    settings: Mapping[str, Any] | None = None,
    *,
    isolation: str | None = None,
    act_limit_s: float | None = None,
) -> World:
    """A world, by name or as a value, whose episodes run as `isolation` says; None: as the world declares.

    Without a declaration, a world that is named by its path runs in processes. One that is given as a value may hold
    any object of this process, and runs in threads. `act_limit_s`: seconds for an action; None: as the world declares.
    """
    settings = dict(settings or {})
    if isinstance(world, str) and names_code(world) and isolation in (None, "process", "sandbox"):
        opened = _open(world, settings, isolation or "process", act_limit_s)
        declared = opened.about["isolation"]
        if isolation is not None or declared in ("", "process"):
            return opened
        opened.close()
        if declared == "sandbox":
            return _open(world, settings, declared, act_limit_s, preload=True)
        return get(world, **settings)
    value = get(world, **settings)
    chosen = isolation or isolation_of(value)
    if chosen not in ("process", "sandbox"):
        return value
    if chosen == "sandbox" and value.uses_sandbox:
        raise PodiumError(f"The world {value.name!r} judges in a sandbox of its own: leave out isolation=sandbox.")
    value.close()
    if isinstance(world, str):
        return _open(world, settings, chosen, act_limit_s, preload=True)
    ((name, fields),) = encode(value).items()
    path = name if ":" in name else f"{type(value).__module__}:{name}"
    return _open(path, decode(fields), chosen, act_limit_s, preload=True)


def is_isolated(world: World) -> bool:
    """Whether the methods of a world run in other processes."""
    return isinstance(world, _Isolated)


def _open(
    name: str, settings: Mapping[str, Any], isolation: str, act_limit_s: float | None, *, preload: bool = False
) -> _Isolated:
    """`preload`: the server itself loads the world, once for all processes. This is for worlds whose code has run
    outside a sandbox already, so that only the texts that they read are not trusted."""
    confined = isolation == "sandbox"
    file, _, cls = name.rpartition(":")
    if file.endswith(".py"):
        name = f"{Path(file).resolve()}:{cls}"
    arguments = (name, to_wire(encode(settings)), os.getcwd(), [os.path.abspath(entry) for entry in sys.path])
    readable = [text for text in settings.values() if isinstance(text, str) and os.path.exists(text)]
    if file.endswith(".py"):
        readable.append(os.path.dirname(name))
    sandbox = Sandbox(
        (HOST,),
        prepare=() if confined and not preload else (SandboxedCall(f"{HOST}:prepare", arguments),),
        readable=[os.path.abspath(path) for path in readable],
        max_processes=2 * EPISODES,
        confined=confined,
    )
    tasks = WorldProcesses(sandbox, f"{HOST}:Host", arguments, _limits(TASK_S, TASK_S), reuse=True)
    try:
        about = _description(tasks, name, confined)
    except BaseException:
        sandbox.close()
        raise
    limit = about["act_limit_s"] if act_limit_s is None else act_limit_s
    limits = _limits(limit, limit * about["max_turns"])
    episodes = WorldProcesses(sandbox, f"{HOST}:Host", arguments, limits, reuse=not confined)
    world = object.__new__(_IsolatedAnswer if about["one_turn"] else _Isolated)
    attributes = {each: about[each] for each in (*KINDS, "context")} | {"isolation": isolation, "act_limit_s": limit}
    attributes["name"] = attributes["name"] or cls
    vars(world).update({**attributes, "path": name, "about": about, "tasks": tasks, "episodes": episodes})
    return world


def _limits(wall_s: float, cpu_s: float) -> Limits:
    return Limits(wall_s=wall_s, cpu_s=cpu_s + 1, memory_mb=MEMORY_MB, files_mb=FILES_MB, answer_mb=ANSWER_MB)


def _description(tasks: WorldProcesses, name: str, confined: bool) -> dict[str, Any]:
    """What a world declares about itself, asked from its process."""
    try:
        about: dict[str, Any] = tasks.call("describe")
        about |= {each: from_wire(about[each]) for each in CLASS_VARIABLES}
        wrong = next((each for each, kind in KINDS.items() if not isinstance(about[each], kind)), "")
        if wrong:
            raise ValueError(f"its {wrong} is {about[wrong]!r}")
        names = _names(about["context"])
        if confined and any(":" in each for each in names):
            raise ValueError(f"its context is {names[0]}, and must be one of Podium's own in a sandbox")
        about["context"] = decode(about["context"])
        if not isinstance(about["context"], Context):
            raise ValueError("its context is no Context")
    except FailedAction as failure:
        problem = str(failure).removeprefix("the world ").removesuffix(".")
        raise PodiumError(f"The world {name} could not be opened: it {problem}.") from failure
    except (ValueError, KeyError, TypeError) as error:
        raise PodiumError(f"The world {name} could not be opened: {error}.") from error
    return about | {each: tuple(about[each]) for each, kind in KINDS.items() if kind == (tuple, list)}


def _names(data: Any) -> list[str]:
    """The keys of nested data, among which are the classes of values."""
    if isinstance(data, dict):
        return [str(key) for key in data] + [name for value in data.values() for name in _names(value)]
    return [name for value in data for name in _names(value)] if isinstance(data, list) else []


class _Isolated(World):
    """A world whose methods run in processes."""

    margin_s: ClassVar[float] = 30.0  # the driver waits so much longer than act_limit_s, which the processes enforce
    path: ClassVar[str]
    about: ClassVar[Mapping[str, Any]]  # what the world declares
    tasks: ClassVar[WorldProcesses]  # for methods that read no text of a model
    episodes: ClassVar[WorldProcesses]  # for episodes, and for methods that judge a text

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.path} ({self.isolation})"

    @property
    def live(self) -> int | None:
        declared: int | None = self.about["live"]
        if self.about["graded"]:
            return declared  # its episodes hold no process
        return EPISODES if declared is None else min(declared, EPISODES)

    def close(self) -> None:
        for processes in (self.tasks, self.episodes):
            processes.close(close_worlds=self.about["closes"])
        self.tasks.sandbox.close()

    def _call(self, what: str, do: str, *arguments: Any) -> Any:
        """The result of a request that makes tasks or solutions; `what` names it in errors."""
        try:
            return self.tasks.call(do, *arguments)
        except FailedAction as failure:
            raise PodiumError(f"The world {self.name!r} could not make {what}: {failure}.") from failure

    def _ask(self, method: str, task: Task, *arguments: Any) -> Any:
        """The result of a method for a task."""
        return from_wire(self._call(f"{method}() of {task.key}", "ask", method, task_to_wire(task), *arguments))

    def _judge(self, method: str, otherwise: Any, task: Task, text: str) -> Any:
        """The result of a method that judges a model's text; `otherwise` where it fails."""
        try:
            return from_wire(self.episodes.call("ask", method, task_to_wire(task), text))
        except FailedAction as failure:
            warnings.warn(f"{method}() of the world {self.name!r} failed, and counts as 0: {failure}", stacklevel=3)
            return otherwise

    def size(self, split: str = "train") -> int | None:
        size: int | None = self._call(f"the size of {split}", "size", split)
        return size

    def task(self, index: int, split: str = "train") -> Task:
        return Task(*from_wire(self._call(f"its {split} task {index}", "task", index, split)))

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return str(self._ask("solve", task, style, seed))

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        return tuple(map(str, self._ask("demonstrate", task, style, seed)))

    def reference(self, task: Task) -> str:
        return str(self._ask("reference", task))

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        return tuple(Criterion(*criterion) for criterion in self._ask("criteria", task))

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        met = self._judge("met", None, task, text)
        return tuple(map(bool, [False] * len(self.criteria(task)) if met is None else met))

    def compare(self, task: Task, left: str, right: str, seed: int = 0) -> tuple[float, float]:
        scores: tuple[float, float] = self._scores("compare", task, left, right, seed)
        return scores

    def rate(self, task: Task, text: str, seed: int = 0) -> float:
        score: float = self._scores("rate", task, text, seed)
        return score

    def _scores(self, method: str, task: Task, *arguments: Any) -> Any:
        """What a judge says, whose failures the driver counts."""
        return from_wire(self.episodes.call("ask", method, task_to_wire(task), *arguments))

    def step_scores(self, task: Task, text: str) -> tuple[float, ...]:
        return tuple(map(float, self._judge("step_scores", [0.0] * len(text.splitlines()), task, text)))

    def completed(self, task: Task, beginning: str) -> str | None:
        rest: str | None = self._judge("completed", None, task, beginning)
        return rest

    def reset(self, task: Task, seed: int = 0) -> Episode:
        if isinstance(self, _IsolatedAnswer) and self.about["graded"]:
            return _GradedEpisode(self, task)
        return _IsolatedEpisode(self.episodes, task, seed)


class _IsolatedAnswer(_Isolated, Answer):
    """A world of single answers whose methods run in processes."""

    def grade(self, task: Task, text: str) -> Feedback:
        return _feedback(self.episodes.call("grade", task_to_wire(task), text))


class _GradedEpisode(Episode):
    """One turn, which needs a process only to be graded."""

    def __init__(self, world: _IsolatedAnswer, task: Task) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.task = world, task

    def act(self, text: str) -> Feedback:
        return self.world.grade(self.task, text)


class _IsolatedEpisode(Episode):
    """An episode in a process. A copy repeats the actions so far in another process when it is first used."""

    process: WorldProcess | None = None

    def __init__(self, processes: WorldProcesses, task: Task, seed: int) -> None:
        self.processes, self.opening = processes, (task_to_wire(task), seed)
        self.actions: tuple[str, ...] = ()  # so far
        opened = self._start()
        super().__init__(str(opened["observation"]))
        self._update(opened)

    def __deepcopy__(self, memo: dict[int, Any]) -> _IsolatedEpisode:
        twin = object.__new__(type(self))
        twin.__dict__.update({**self.__dict__, "process": None})
        return twin

    def _start(self) -> dict[str, Any]:
        """Open the episode in a process, and repeat its actions there."""
        opened: dict[str, Any]
        self.process, opened = self.processes.begin("reset", *self.opening)
        for text in self.actions:
            self.process.ask("act", text)
        return opened

    def _update(self, answer: dict[str, Any]) -> None:
        self.state, self.agent, self.recap = from_wire(answer["state"]), answer["agent"], answer["recap"]

    def act(self, text: str) -> Feedback:
        if self.process is None:
            self._start()
        assert self.process is not None
        answer = self.process.ask("act", text)
        self.actions = (*self.actions, text)
        self._update(answer)
        return _feedback(answer["feedback"])

    def close(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            self.processes.end(process)

    def __del__(self) -> None:
        if self.process is not None:  # an episode that nobody has closed must not keep its process
            self.processes.abandon(self.process)


def _feedback(sent: Any) -> Feedback:
    return Feedback(*map(from_wire, sent))
