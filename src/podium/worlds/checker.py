"""A check for worlds, for people who write their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from podium.core.errors import PodiumError
from podium.protocols.world import Episode, Feedback, Task, World, isolation_of
from podium.protocols.world_problems import scores_problem, unpaid_agent

__all__ = ["check_world"]

Say = Callable[[str], None]

TEXTS = ("", "answer: 0", "an answer that nobody expects")  # texts that a model may write anywhere
# Columns that a rollout or turn has even if its world has failed.
KNOWN = ("correct", "answer", "reward", "valid", "state", "next_state", "action", "agent", "observation")


def check_world(world: World, *, tasks: int = 20, turns: int = 200) -> list[str]:
    """What is wrong with the world, in words; empty if nothing is.

    Checks on the first `tasks` tasks of each split that tasks are stable, that episodes are reproducible and their
    copies independent, that rewards are finite numbers, that an episode ends within `turns` turns, that the world's own
    solutions are correct, that scores of a world that judges answers lie in [0, 1], and that `blank` covers every
    column for the case that the world fails.
    """
    findings: dict[str, None] = {}  # each once, in order

    def say(finding: str) -> None:
        findings[finding] = None

    prompts: dict[str, set[str]] = {}
    keys: dict[str, str] = {}
    for split in ("train", "test"):
        for index, task in _tasks(world, split, tasks, say):
            where = f"task {index} of {split}"
            if task.key in keys:
                say(f"Two tasks have the key {task.key!r}: {keys[task.key]} and {where}.")
            keys[task.key] = where
            prompts.setdefault(split, set()).add(task.prompt)
            try:
                _check_task(world, task, where, turns, say)
            except Exception as error:
                say(f"{where}: {type(error).__name__}: {error}")
    shared = prompts.get("train", set()) & prompts.get("test", set())
    if (
        shared and not world.agents and not world.hides
    ):  # a game may begin alike for all: its players make the difference
        say(f"{len(shared)} of the held-out prompts occur in training, such as {sorted(shared)[0]!r}.")
    return list(findings)


def _check_blank(world: World, task: Task, say: Say) -> None:
    """Every column needs a value for the case that the world fails; a world that runs inline never does."""
    covered = {"turn": {*KNOWN, *world.blank}, "rollout": {*KNOWN, *world.blank, *task.data}}
    for column in () if isolation_of(world) == "inline" else world.provides:
        level, _, name = column.partition(".")
        if level in covered and name not in covered[level]:
            say(f"The world provides {column}, but its `blank` has no value for it if the world fails.")


def _tasks(world: World, split: str, count: int, say: Say) -> list[tuple[int, Task]]:
    try:
        size = world.size(split)
        indices = range(count if size is None else min(count, size))
        tasks = [(i, world.task(i, split)) for i in indices]
        again = [world.task(i, split) for i in indices]
    except Exception as error:
        say(f"The {split} tasks cannot be made: {type(error).__name__}: {error}")
        return []
    if not tasks:
        say(f"There are no {split} tasks.")
    for (i, task), other in zip(tasks, again, strict=True):
        if not isinstance(task, Task):
            say(f"task({i}, {split!r}) gives a {type(task).__name__}, not a Task.")
            return []
        if task != other:
            say(f"Task {i} of {split} is another each time it is made: draw it from its index and split alone.")
        if not task.prompt.strip():
            say(f"Task {i} of {split} has an empty prompt.")
    return tasks


def _check_task(world: World, task: Task, where: str, turns: int, say: Say) -> None:
    _check_blank(world, task, say)
    texts = [*TEXTS]
    for style in getattr(world, "styles", ("short",)):
        try:
            solution = list(world.demonstrate(task, style))
        except PodiumError:
            break  # a world need not have solutions
        texts += solution
        if type(world).reset is not World.reset and solution:
            last = _play(world.reset(task), _script(solution, 0), turns)[-1]
            if last.done and not last.info.get("correct", last.reward > 0):
                shown = "\n".join(solution)[:200]
                say(f"{where}: the world's own solution ({style}) is graded wrong: {shown!r}.")
    _check_judge(world, task, texts, where, say)
    for start in range(len(texts)):
        said = _script(texts, start)
        first, second = (_play(world.reset(task, seed=1), said, turns) for _ in range(2))
        for feedback in first:
            _check_feedback(feedback, where, say)
        _check_paid(world, world.reset(task, seed=1), said, len(first), where, say)
        if first != second:
            say(f"{where}: the same task, seed and texts give different feedback.")
        if not first[-1].done and "max_turns" not in world.field_names():  # else the caller ends it there
            say(f"{where}: the episode is not done after {turns} turns.")
        if first[-1].done:
            missing = [p.partition(".")[2] for p in world.provides if p.startswith("rollout.")]
            for name in missing:
                if name not in first[-1].info and name not in task.data:
                    say(f"The last feedback has no info[{name!r}], though the world provides rollout.{name}.")
        _check_copies(world, task, said, first, where, say)


def _check_judge(world: World, task: Task, texts: list[str], where: str, say: Say) -> None:
    """A world that judges answers gives scores in [0, 1], the same ones for the same texts and seed."""
    asks: dict[str, tuple[int, Callable[[str], Any]]] = {
        "task.compare": (2, lambda text: world.compare(task, text, texts[-1], seed=1)),
        "task.rate": (1, lambda text: world.rate(task, text, seed=1)),
    }
    for ability, (count, ask) in asks.items():
        for text in texts if ability in world.provides else ():
            scores = ask(text)
            problem = scores_problem(scores, count)
            if problem:
                say(f"{where}: {problem}.")
            elif scores != ask(text):
                say(f"{where}: the judge gives other scores to the same texts with the same seed.")


def _script(texts: list[str], start: int) -> Callable[[int], str]:
    return lambda turn: texts[(start + turn) % len(texts)]


def _play(episode: Episode, said: Callable[[int], str], turns: int) -> list[Feedback]:
    history = []
    for turn in range(turns):
        history.append(episode.act(said(turn)))
        if history[-1].done:
            break
    return history


def _check_paid(world: World, episode: Episode, said: Callable[[int], str], turns: int, where: str, say: Say) -> None:
    """Only agents of the world are paid, and each not before its first turn."""
    acted: set[str] = set()
    for turn in range(turns):
        acted.add(episode.agent)
        problem = unpaid_agent(world, episode.act(said(turn)).rewards, acted)
        if problem:
            say(f"{where}: {problem}.")
            return


def _check_copies(
    world: World, task: Task, said: Callable[[int], str], history: list[Feedback], where: str, say: Say
) -> None:
    """A copy made before each of the first turns must behave like the original, and must not change it."""
    episode = world.reset(task, seed=1)
    for turn, expected in enumerate(history[:5]):
        same, other = episode.copy(), episode.copy()
        other.act(said(turn + 1))  # takes another path
        if same.act(said(turn)) != expected:
            say(f"{where}: a copy of an episode gives other feedback than the original.")
        if episode.act(said(turn)) != expected:
            say(f"{where}: acting in a copy changes the original episode.")
            return


def _check_feedback(feedback: Any, where: str, say: Say) -> None:
    if not isinstance(feedback, Feedback):
        say(f"{where}: act() gives a {type(feedback).__name__}, not a Feedback.")
        raise PodiumError("the rest of the check needs a Feedback")
    if isinstance(feedback.reward, str) or not math.isfinite(feedback.reward):
        say(f"{where}: the reward is {feedback.reward!r}; a finite number is needed.")
    if not isinstance(feedback.done, bool):
        say(f"{where}: done is {feedback.done!r}; True or False is needed.")
