"""Environments of the package verifiers: their tasks, their turns and tools, and their rubrics as rewards."""

from __future__ import annotations

import json
import math
import signal
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from podium.core.errors import PodiumError, within
from podium.core.printable import error_text
from podium.protocols.pieces import Dialogue
from podium.protocols.world import Episode, FailedAction, Feedback, Task, World
from podium.worlds.file_rows import row_at
from podium.worlds.graded import hashed_uniform
from podium.worlds.puzzle import task_key
from podium.worlds.verifiers_rollout import (
    EnvironmentRollout,
    EventLoop,
    Message,
    failures_recorded,
    messages_of,
    tools_text,
    watch_functions,
)

__all__ = ["Verifiers", "module_of"]

VERSIONS = "verifiers>=0.1.14,<0.3"
LOOP = EventLoop()


class Row(NamedTuple):
    """A row of an environment's data set, and its conversation as a prompt."""

    prompt: str
    row: Mapping[str, Any]


class Verifiers(World):
    """An installed environment of the package verifiers, by its name.

    Its own code runs: what it says after each turn, its tools and stop conditions, and its rubric, whose weighted sum
    is the reward; each function of the rubric, metrics too, is a column `reward.NAME`. Functions that compare the
    rollouts of a task see all of them. An answer is correct if its reward reaches the environment's `pass_threshold`.
    """

    name = "verifiers"
    summary = "an installed environment of the package verifiers"
    isolation = "thread"
    max_tokens = 512
    act_limit_s = 120.0
    margin_s = 150.0  # it keeps the limit itself, for the answer and again for the rubric
    provides = ("rollout.correct", "rollout.answer", "turn.reward", "turn.action")

    task_name: str = ""  # the part after the colon
    config: Mapping[str, Any] = field(default_factory=dict)  # arguments of its `load_environment`
    held_out: float = 0.1  # the share of tasks that is held out, where it has none for evaluation
    instructions: bool = True  # whether the prompt lists the tools, where there are any

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "held_out", 0, 1)
        if not self.task_name:
            raise PodiumError("verifiers needs the name of an environment: verifiers:my-environment.")
        environment = self.environment
        columns = tuple(f"rollout.reward.{name}" for name in environment.rubric._get_reward_func_names())
        object.__setattr__(self, "provides", (*type(self).provides, *dict.fromkeys(columns)))
        blank = {column.partition(".")[2]: 0.0 for column in columns}
        object.__setattr__(self, "blank", {**type(self).blank, **blank})
        turns = getattr(environment, "max_turns", -1)
        object.__setattr__(self, "max_turns", turns if turns > 0 else type(self).max_turns)

    @cached_property
    def environment(self) -> Any:
        """The environment itself."""
        return _loaded(self.task_name, json.dumps(dict(self.config), sort_keys=True))

    @cached_property
    def rows(self) -> Mapping[str, Sequence[Row]]:
        """The rows of each split."""
        environment = self.environment
        trained, held_out = environment.build_dataset(), environment.build_eval_dataset()
        if trained is None:
            trained, held_out = held_out, None
        train = [self._row(row) for row in trained]
        if held_out is not None:
            return {"train": train, "test": [self._row(row) for row in held_out]}
        chances = [hashed_uniform(self.task_name, _content(row)) for row in train]
        share = max(self.held_out, math.nextafter(min(chances), 1)) if self.held_out else 0.0
        split: dict[str, list[Row]] = {"train": [], "test": []}
        for row, chance in zip(train, chances, strict=True):
            split["test" if chance < share else "train"].append(row)
        return split

    def _row(self, row: Mapping[str, Any]) -> Row:
        return Row(self._shown(messages_of(row["prompt"]), self.environment.tool_defs or ()), row)

    def _shown(self, messages: Sequence[Message], tools: Sequence[Any]) -> str:
        """A conversation as a prompt, with the tools in its system message."""
        if tools and self.instructions:
            (role, text), *rest = messages
            told = tools_text(tools)
            messages = (
                [(role, f"{text}\n\n{told}"), *rest] if role == "system" else [("system", told), (role, text), *rest]
            )
        if len(messages) == 1 and messages[0][0] == "user":
            return messages[0][1]
        return Dialogue(*messages)

    def size(self, split: str = "train") -> int:
        task_key(self.name, split, 0)
        return len(self.rows[split])

    def task(self, index: int, split: str = "train") -> Task:
        key = task_key(f"verifiers-{self.task_name}", split, index)
        row = row_at(self.rows, index, split, f"verifiers:{self.task_name}", self.held_out)
        answer = row.row.get("answer")
        return Task(key, row.prompt, domain=self.task_name, data={"row": row.row, "reference": str(answer or "")})

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Conversation(self, task)

    def remarks(self) -> tuple[str, ...]:
        sizes = {split: len(rows) for split, rows in self.rows.items()}
        held = "its own for evaluation" if self.environment.eval_dataset is not None else "held out, by a hash"
        listed = ", ".join(
            f"{name} × {weight:g}"
            for name, weight in zip(
                self.environment.rubric._get_reward_func_names(),
                self.environment.rubric._get_reward_weights(),
                strict=True,
            )
            if weight
        )
        return (
            f"verifiers:{self.task_name}: {sizes['train']:,} tasks, and {sizes['test']:,} {held}. "
            f"Reward: {listed or 'nothing: its rubric has no function with a weight'}.",
        )

    def scored(self, state: Any, key: str) -> Feedback:
        """The feedback of a rollout that the rubric has scored, and which has ended in the state of this key."""
        metrics = {f"reward.{name}": float(value) for name, value in (state["metrics"] or {}).items()}
        reward = float(state["reward"])
        correct = reward >= float(getattr(self.environment, "pass_threshold", 0.5))
        info = {"correct": correct, "answer": self._answer(state), **metrics}
        return Feedback(reward, state=key, info=info)

    def _answer(self, state: Any) -> str:
        try:
            return str(self.environment.parser.parse_answer(state["completion"]) or "")
        except Exception:  # of a parser that the environment does not use
            return ""

    def score(self, states: Sequence[Any]) -> None:
        """Let the rubric score rollouts of a task, one of them or all."""
        rubric = self.environment.rubric
        together = rubric.has_group_rewards

        async def work() -> None:
            await (rubric.score_group(list(states)) if together else rubric.score_rollout(states[0]))
            for state in states:
                await rubric.cleanup(state)

        failed = LOOP.run(failures_recorded(work()), self.act_limit_s)
        if failed:
            raise FailedAction(failed[0])


class _Conversation(Episode):
    """An episode in an environment. A copy plays the turns so far again when it is first used."""

    rollout: EnvironmentRollout | None = None

    def __init__(self, world: Verifiers, task: Task) -> None:
        self.world, self.task = world, task
        self.said: tuple[str, ...] = ()
        rollout = self._start()
        super().__init__(world._shown(rollout.messages or [], rollout.tools), state=task.key)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Conversation:
        twin = object.__new__(type(self))
        twin.__dict__.update({**self.__dict__, "rollout": None})
        return twin

    def _start(self) -> EnvironmentRollout:
        """Open a rollout, and bring it to where this episode is."""
        self.rollout = EnvironmentRollout(self.world.environment, self.task.data["row"], LOOP, self.world.act_limit_s)
        for text in self.said:
            self.rollout.answer(text)
        return self.rollout

    def act(self, text: str) -> Feedback:
        rollout = self.rollout or self._start()
        replies = rollout.answer(text)
        self.said = (*self.said, text)
        self.state = f"{self.task.key}/{len(self.said)}"
        if rollout.messages is not None:
            return Feedback(done=False, observation=_observation(replies), state=self.state)
        if self.world.environment.rubric.has_group_rewards:
            return Feedback(state=self.state, later=_Unscored(self.world, self.task.key, rollout.state))
        self.world.score([rollout.state])
        return self.world.scored(rollout.state, self.state)

    def close(self) -> None:
        rollout, self.rollout = self.rollout, None
        if rollout is not None:
            rollout.close()

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True)
class _Unscored:
    """A rollout that the rubric scores with the others of its task."""

    world: Verifiers
    task: str
    state: Any

    @property
    def batch(self) -> Hashable:
        return id(self.world.environment), self.task

    @property
    def limit_s(self) -> float:
        return self.world.act_limit_s + 10

    def complete(self, begun: Sequence[Feedback]) -> list[Feedback]:
        states = [each.later.state for each in begun if isinstance(each.later, _Unscored)]
        self.world.score(states)
        return [self.world.scored(state, each.state) for state, each in zip(states, begun, strict=True)]


def _content(row: Row) -> str:
    """What a task is, without its number: tasks may differ in what the prompt does not show."""
    return json.dumps({k: v for k, v in row.row.items() if k != "example_id"}, sort_keys=True, default=str)


def _observation(replies: Sequence[Message]) -> str:
    """What the environment says to a turn, as one message."""
    return "\n".join(f"<tool_response>\n{text}\n</tool_response>" if role == "tool" else text for role, text in replies)


def module_of(name: str) -> str:
    """The module that makes the environment of this name."""
    return name.replace("-", "_").rpartition("/")[2]


@lru_cache(maxsize=8)
def _loaded(name: str, config: str) -> Any:
    """The environment of this name, made once for these arguments."""
    try:
        import verifiers
    except ImportError as error:
        raise PodiumError("verifiers:NAME needs the package verifiers: pip install 'podium-rl[verifiers]'.") from error
    if not hasattr(verifiers, "load_environment"):
        version = getattr(verifiers, "__version__", "that is installed")
        raise PodiumError(
            f"verifiers {version} runs environments in another way, which Podium cannot: pip install '{VERSIONS}'."
        )
    try:
        with _handlers_kept():
            environment = verifiers.load_environment(name, **json.loads(config))
    except ValueError as error:
        if isinstance(error.__cause__, ImportError):
            raise PodiumError(
                f"verifiers:{name}: there is no such environment here ({error.__cause__}). Install its package, "
                "for example with `prime env install` or pip."
            ) from error
        raise PodiumError(f"verifiers:{name} could not be made: {error_text(error)}.") from error
    except Exception as error:  # of the environment's own code
        raise PodiumError(f"verifiers:{name} could not be made: {error_text(error.__cause__ or error)}.") from error
    if not hasattr(environment, "rollout") or not environment.rubric._get_reward_func_names():
        raise PodiumError(f"verifiers:{name} has no function that rewards.")
    watch_functions(environment.rubric)
    return environment


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Keep this process's handlers of signals, which environments replace when they are made."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
