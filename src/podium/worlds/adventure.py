"""Text adventures of other packages: one engine per running episode, and the package's score as the reward."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from podium.core.errors import PodiumError, within
from podium.protocols.answer_text import LONGEST
from podium.protocols.context import Window
from podium.protocols.world import Episode, Feedback, Task, World
from podium.worlds.engine import GameEngine, Pool, Process

__all__ = ["Adventure", "command_of"]

ASK = "Play this text adventure. Write one command a turn, alone on the last line."
TASKS = 1024  # tasks that are cached


class Adventure(World):
    """A game of another package.

    The reward of a turn is the increase of the score, which is between 0 and 1, and so is `turn.progress`; `score` is
    the final score, and `correct` says whether the game was won.
    """

    package: ClassVar[str] = ""
    provides: ClassVar[tuple[str, ...]] = (
        *("rollout.correct", "rollout.answer", "rollout.score", "task.solution"),
        *("turn.state", "turn.next_state", "turn.action", "turn.reward", "turn.valid", "turn.progress"),
    )
    blank: ClassVar[Mapping[str, Any]] = {"valid": False, "score": 0.0, "progress": 0.0}
    max_tokens = 24
    act_limit_s = 120.0  # seconds: an engine takes some to start, and more if many start at once
    context = Window(3)
    costly = True

    task_name: str = ""  # the part after the colon
    config: Mapping[str, Any] = field(default_factory=dict)  # settings of the game
    max_turns: int = 50  # type: ignore[misc]
    invalid_penalty: float = 0.0  # subtracted from the reward of a turn that is no command of the game
    commands: bool = True  # whether observations list the available commands
    instructions: bool = True  # whether the prompt says how to act
    engines: int = 8  # episodes that run at once, each in its own process

    def __post_init__(self) -> None:
        within(self, "max_turns", 1)
        within(self, "engines", 1)
        within(self, "invalid_penalty", 0)
        if importlib.util.find_spec(self.package) is None:
            raise PodiumError(f"{self.name}: needs {self.package}: pip install 'podium-rl[{self.name}]'.")

    @property
    def live(self) -> int:
        return self.engines

    @cached_property
    def pool(self) -> Pool:
        return Pool(self.start, self.engines + 1, self.act_limit_s)  # one more, to make tasks while the others play

    def start(self, folder: str) -> GameEngine:
        """Start a new engine, with its files in this folder."""
        return Process(self.name, folder, self.act_limit_s, self.environment())

    def environment(self) -> dict[str, str]:
        """Environment variables of the engine."""
        return {}

    def close(self) -> None:
        self.pool.close()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The answer of a free engine to a request."""
        engine = self.pool.lend()
        try:
            return engine.ask(do, **request)
        finally:
            self.pool.give_back(engine)

    def task(self, index: int, split: str = "train") -> Task:
        return self._tasks(index, split)

    @cached_property
    def _tasks(self) -> Any:
        return lru_cache(TASKS)(self.make)

    def make(self, index: int, split: str) -> Task:
        """Make a task; its data holds, as `spec`, what an engine needs to open it."""
        raise NotImplementedError

    def prompt(self, text: str) -> str:
        return f"{ASK}\n{text}" if self.instructions else text

    def show(self, text: str, commands: Sequence[str]) -> str:
        """An observation, with the available commands."""
        return f"{text}\ncommands: {', '.join(commands)}".strip() if self.commands and commands else text

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return Game(self, task)

    def walkthrough(self, task: Task) -> tuple[str, ...]:
        """The commands that win the game."""
        raise NotImplementedError

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        return self.walkthrough(task)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return "\n".join(self.walkthrough(task))

    def reference(self, task: Task) -> str:
        return self.walkthrough(task)[-1]


class Game(Episode):
    """A running game. It holds an engine until it is over or closed.

    A copy starts without an engine, and replays the commands so far when it is first used.
    """

    engine: GameEngine | None = None

    def __init__(self, world: Adventure, task: Task) -> None:
        self.world, self.task = world, task
        self.played: tuple[str, ...] = ()  # commands so far
        self.over, self.waiting = False, False
        opened = self._start()
        self.score: float = opened["score"]  # some tasks start partly solved
        self.commands: list[str] = opened["commands"]
        super().__init__(task.prompt, state=opened["state"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        twin = object.__new__(type(self))
        twin.__dict__.update({**self.__dict__, "engine": None, "waiting": False})
        return twin

    def close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            if self.waiting:  # its request was abandoned
                engine.kill()
            self.world.pool.give_back(engine)

    def __del__(self) -> None:
        self.close()  # an abandoned game must not keep an engine

    def act(self, text: str) -> Feedback:
        command = command_of(text)
        if self.over:
            return self._say("The game is over.", valid=False)
        if not command:
            return self._say(self.world.show("Write a command.", self.commands), valid=False)
        scene = self._play(command)
        if "score" not in scene:  # not a command of the game
            return self._say(self.world.show("That is no command of this game.", self.commands), valid=False)
        gain, self.score = scene["score"] - self.score, scene["score"]
        self.state, self.over, self.commands = scene["state"], scene["done"], scene["commands"]
        if self.over:
            self.close()
        answer = "" if not self.over else "won" if scene["won"] else "lost"
        shown = scene["text"] if self.over else self.world.show(scene["text"], self.commands)
        return self._say(shown, gain, valid=scene["valid"], correct=scene["won"], answer=answer)

    def _say(self, observation: str, gain: float = 0.0, *, valid: bool, **info: Any) -> Feedback:
        columns = {"correct": False, "answer": "", "score": self.score, "valid": valid, "progress": gain, **info}
        reward = gain if valid else gain - self.world.invalid_penalty
        return Feedback(reward, self.over, observation, self.state, columns)

    def _start(self) -> dict[str, Any]:
        """Take an engine, and bring it to the state of this game."""
        for again in (True, False):  # an engine may be dying of something that happened while it was idle
            self.engine = self.world.pool.lend()
            self.waiting = True
            try:
                scene = self.engine.ask("open", spec=self.task.data["spec"])
                for command in self.played:
                    scene = self.engine.ask("act", command=command)
                break
            except PodiumError:
                self.close()
                if not again:
                    raise
        self.waiting = False
        return scene

    def _play(self, command: str) -> dict[str, Any]:
        if self.engine is None:
            self._start()
        assert self.engine is not None
        self.waiting = True
        scene = self.engine.ask("act", command=command)
        self.waiting = False
        self.played = (*self.played, command)
        return scene


def command_of(text: str) -> str:
    """The command that a text ends with: its last line, without common markup and labels."""
    lines = [line.strip(" \t>*`\"'") for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    for label in ("command:", "action:"):
        if last.lower().startswith(label):
            last = last[len(label) :]
    return " ".join(last.strip(" \t.!>*`\"'").split())[:LONGEST]
