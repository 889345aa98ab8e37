"""Worlds in processes of their own: whatever such a world does, the run goes on.

`isolated` gives a world whose methods all run elsewhere: the code of the world is not even imported here. A process
holds one episode at a time. One that has ended cleanly is used again, except in a sandbox, where each episode and each
verdict on a text has a process that has seen no other.
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
from podium.worlds.processes import Processes, WorldProcess
from podium.worlds.wire import from_wire, to_wire

__all__ = ["is_isolated", "isolated"]

HOST = "podium.worlds.hosting"
TASK_S = 300.0  # seconds to make a task, a solution, …
EPISODES = 64  # that are open at once, each in its process
# What a confined process may use besides its time.
MEMORY_MB, FILES_MB = 1024, 64
# What a run needs to know about a world; a confined one may say anything.
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
    """A world, by name or as a value, whose episodes run as `isolation` says, or as the world says.

    A world that is named by its path runs in processes unless it says otherwise; one that was made in this process may
    hold anything, and runs in threads. `act_limit_s`: seconds for an action; None: as the world says.
    """
    settings = dict(settings or {})
    if isinstance(world, str) and names_code(world) and isolation in (None, "process", "sandbox"):
        opened = _open(world, settings, isolation or "process", act_limit_s)
        said = opened.about["isolation"]
        if isolation is not None or said in ("", "process"):
            return opened
        opened.close()
        return _open(world, settings, said, act_limit_s, known=True) if said == "sandbox" else get(world, **settings)
    made = get(world, **settings)
    chosen = isolation or isolation_of(made)
    if chosen not in ("process", "sandbox"):
        return made
    made.close()
    if isinstance(world, str):
        return _open(world, settings, chosen, act_limit_s, known=True)
    ((path, fields),) = encode(made).items()
    return _open(
        path if ":" in path else f"{type(made).__module__}:{path}", decode(fields), chosen, act_limit_s, known=True
    )


def is_isolated(world: World) -> bool:
    return isinstance(world, _Isolated)


def _open(
    name: str, settings: Mapping[str, Any], isolation: str, act_limit_s: float | None, *, known: bool = False
) -> _Isolated:
    """`known`: the code of the world has run outside a sandbox already, and only the texts that it reads are not to be
    trusted; the server can then load it for all processes."""
    confined = isolation == "sandbox"
    file, _, cls = name.rpartition(":")
    if file.endswith(".py"):
        name = f"{Path(file).resolve()}:{cls}"
    made = (name, to_wire(encode(settings)), os.getcwd(), [os.path.abspath(entry) for entry in sys.path])
    named = [text for text in settings.values() if isinstance(text, str) and os.path.exists(text)]
    sandbox = Sandbox(
        (HOST,),
        prepare=() if confined and not known else (SandboxedCall(f"{HOST}:prepare", made),),
        readable=[
            os.path.abspath(path) for path in (*([os.path.dirname(name)] if file.endswith(".py") else []), *named)
        ],
        side_by_side=2 * EPISODES,
        confined=confined,
    )
    tasks = Processes(sandbox, f"{HOST}:Host", made, _limits(TASK_S, TASK_S), reuse=True)
    try:
        about = _description(tasks, name, confined)
    except BaseException:
        sandbox.close()
        raise
    limit = about["act_limit_s"] if act_limit_s is None else act_limit_s
    verdicts = Processes(sandbox, f"{HOST}:Host", made, _limits(limit, limit * about["max_turns"]), reuse=not confined)
    world = object.__new__(_IsolatedAnswer if about["one_turn"] else _Isolated)
    shown = {each: about[each] for each in (*KINDS, "context")} | {"isolation": isolation, "act_limit_s": limit}
    shown["name"] = shown["name"] or cls
    vars(world).update({**shown, "path": name, "about": about, "tasks": tasks, "verdicts": verdicts})
    return world


def _limits(wall_s: float, cpu_s: float) -> Limits:
    return Limits(wall_s=wall_s, cpu_s=cpu_s + 1, memory_mb=MEMORY_MB, files_mb=FILES_MB, answer_mb=ANSWER_MB)


def _description(tasks: Processes, name: str, confined: bool) -> dict[str, Any]:
    """What a world says about itself, from its process."""
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

    grace_s: ClassVar[float] = 30.0  # its processes keep the time; nobody gives up before they do
    path: ClassVar[str]
    about: ClassVar[Mapping[str, Any]]  # what the world says
    tasks: ClassVar[Processes]  # for what depends on no text of a model
    verdicts: ClassVar[Processes]  # for episodes, and for verdicts on texts

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.path} ({self.isolation})"

    @property
    def live(self) -> int | None:
        said: int | None = self.about["live"]
        if self.about["graded"]:
            return said  # its episodes hold nothing
        return EPISODES if said is None else min(said, EPISODES)

    def close(self) -> None:
        for processes in (self.tasks, self.verdicts):
            processes.close(told=self.about["closes"])
        self.tasks.sandbox.close()

    def _made(self, what: str, do: str, *arguments: Any) -> Any:
        """What a method that makes tasks or solutions returns."""
        try:
            return self.tasks.call(do, *arguments)
        except FailedAction as failure:
            raise PodiumError(f"The world {self.name!r} could not make {what}: {failure}.") from failure

    def _ask(self, method: str, task: Task, *arguments: Any) -> Any:
        sent = (method, task_to_wire(task), *arguments)
        return from_wire(self._made(f"{method}() of {task.key}", "ask", *sent))

    def _judge(self, method: str, failed: Any, task: Task, text: str) -> Any:
        """What a method returns that reads a model's text; where that fails, what is said instead."""
        try:
            return from_wire(self.verdicts.call("ask", method, task_to_wire(task), text))
        except FailedAction as failure:
            warnings.warn(f"{method}() of the world {self.name!r} failed, and counts as 0: {failure}", stacklevel=3)
            return failed

    def size(self, split: str = "train") -> int | None:
        size: int | None = self._made(f"the size of {split}", "size", split)
        return size

    def task(self, index: int, split: str = "train") -> Task:
        return Task(*from_wire(self._made(f"its {split} task {index}", "task", index, split)))

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return str(self._ask("solve", task, style, seed))

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        return tuple(map(str, self._ask("demonstrate", task, style, seed)))

    def reference(self, task: Task) -> str:
        return str(self._ask("reference", task))

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        return tuple(Criterion(*criterion) for criterion in self._ask("criteria", task))

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        found = self._judge("met", None, task, text)
        return tuple(map(bool, [False] * len(self.criteria(task)) if found is None else found))

    def step_scores(self, task: Task, text: str) -> tuple[float, ...]:
        return tuple(map(float, self._judge("step_scores", [0.0] * len(text.splitlines()), task, text)))

    def completed(self, task: Task, beginning: str) -> str | None:
        rest: str | None = self._judge("completed", None, task, beginning)
        return rest

    def reset(self, task: Task, seed: int = 0) -> Episode:
        if isinstance(self, _IsolatedAnswer) and self.about["graded"]:
            return _GradedEpisode(self, task)
        return _IsolatedEpisode(self.verdicts, task, seed)


class _IsolatedAnswer(_Isolated, Answer):
    """A world of single answers whose methods run in processes."""

    def grade(self, task: Task, text: str) -> Feedback:
        return _feedback(self.verdicts.call("grade", task_to_wire(task), text))


class _GradedEpisode(Episode):
    """One turn, which needs a process only to be graded."""

    def __init__(self, world: _IsolatedAnswer, task: Task) -> None:
        super().__init__(task.prompt, state=task.key)
        self.world, self.task = world, task

    def act(self, text: str) -> Feedback:
        return self.world.grade(self.task, text)


class _IsolatedEpisode(Episode):
    """An episode in a process. A copy repeats the actions so far in a process of its own, when it is first used."""

    process: WorldProcess | None = None

    def __init__(self, processes: Processes, task: Task, seed: int) -> None:
        self.processes, self.begun = processes, (task_to_wire(task), seed)
        self.said: tuple[str, ...] = ()  # actions so far
        opened = self._start()
        super().__init__(str(opened["observation"]))
        self._stand(opened)

    def __deepcopy__(self, memo: dict[int, Any]) -> _IsolatedEpisode:
        twin = object.__new__(type(self))
        twin.__dict__.update({**self.__dict__, "process": None})
        return twin

    def _start(self) -> dict[str, Any]:
        self.process, opened = self.processes.begin("reset", *self.begun)
        for text in self.said:
            self.process.ask("act", text)
        answer: dict[str, Any] = opened
        return answer

    def _stand(self, answer: dict[str, Any]) -> None:
        self.state, self.agent, self.recap = from_wire(answer["state"]), answer["agent"], answer["recap"]

    def act(self, text: str) -> Feedback:
        if self.process is None:
            self._start()
        assert self.process is not None
        answer = self.process.ask("act", text)
        self.said = (*self.said, text)
        self._stand(answer)
        return _feedback(answer["feedback"])

    def close(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            self.processes.end(process)

    def __del__(self) -> None:
        if self.process is not None:  # an episode that nobody has closed must not keep it
            self.processes.abandon(self.process)


def _feedback(sent: Any) -> Feedback:
    return Feedback(*map(from_wire, sent))
