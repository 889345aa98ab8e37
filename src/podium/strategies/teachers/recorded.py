"""Recorded rollouts: demonstrations from a file, or the rollouts that a run has logged. Nothing is sampled."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Strategy
from podium.core.streams import key
from podium.protocols.world import Episode, Feedback, Task
from podium.store.json_lines import objects, text_of
from podium.strategies.requests import Plan, Recite, Replay, Request, TaskRequest, rollouts_of

__all__ = ["Recorded"]

PROMPTS = ("prompt", "question", "problem", "input", "query")
TEXTS = ("completion", "response", "text", "solution", "answer", "output")
# The columns that a run logs of every rollout and turn, and that a replayed rollout has again.
COLUMNS = ("reward", "correct", "answer", "truncated", "stop", "failure", "text", "prompt", "level", "domain")
TURN = ("reward", "state", "next_state", "action")
MARKED = {"demonstration": True, "sampled": False}


class Recorded(Strategy):
    """The rollouts of a file: one recorded group in place of each task, in a new random order in every epoch.

    `source` is a file of JSON lines (prompt and completion, optionally reward and task), or a run's directory. Rows of
    the same task or prompt form a group; their rewards are the recorded ones, or 1. The world's own tasks are used for
    evaluation only.
    """

    source: str
    n: int | None = None  # rollouts of a group at most, the first ones; None: all
    purpose: str = "demo"  # demo: trained, not in statistics; train: both, as if they had been sampled
    prompt_field: str = ""  # the name of the field; empty: prompt, question, …
    text_field: str = ""  # empty: completion, response, …
    reward_field: str = "reward"
    pairs: bool = False  # whether they come with the judge's verdicts on pairs of them, which a run has logged

    def __post_init__(self) -> None:
        within(self, "n", 1, optional=True)
        one_of(self, "purpose", ("demo", "train"))

    @property
    def provides(self) -> tuple[str, ...]:
        marks = ("rollout.purpose", "rollout.demonstration", "rollout.sampled")
        return (*marks, "pair.difference") if self.pairs else marks

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        from podium.store.retention import examples_kept, kept_text  # pyarrow, which only recorded runs need
        from podium.store.tables import rollout_files

        if self.pairs and not all("pair.right" in row for group in self.groups for row in group):
            raise PodiumError(f"{self.source} has no verdicts on pairs: give a run whose judge compared rollouts.")
        _ = self.groups
        files = rollout_files(Path(self.source))
        thinned = sum(examples_kept(file) is not None for file in files.values())
        if not thinned:
            return ()
        kept = kept_text(files)
        return (f"{self.source} keeps rollouts of {kept}: {len(files) - thinned} of {len(files)} are replayed.",)

    def plan(self, task: TaskRequest) -> Plan:
        epoch, position = divmod(task.number, len(self.groups))
        order = np.random.default_rng(key(task.stream[0], (epoch,))).permutation(len(self.groups))
        group = self.groups[order[position]]
        places = {row.get("index", i): i for i, row in enumerate(group)}
        return rollouts_of((yield [self._request(task, row, i, places) for i, row in enumerate(group)]))

    @cached_property
    def groups(self) -> list[list[Mapping[str, Any]]]:
        """The rows of each group, in the order of the source."""
        path, groups = Path(self.source), dict[Any, list[Mapping[str, Any]]]()
        if path.is_dir() or path.suffix == ".parquet":
            for row in _logged(path):
                groups.setdefault((row["iteration"], row["group"]), []).append(row)
        else:
            for row in (self._row(data, line) for line, data in objects(self.source)):
                groups.setdefault(row["task"], []).append(row)
        return [group[: self.n] for group in groups.values()]

    def _row(self, data: Mapping[str, Any], line: int) -> Mapping[str, Any]:
        where = f"{self.source}, line {line}"
        prompt = text_of(data, self.prompt_field, PROMPTS, "prompt_field", where)
        text = text_of(data, self.text_field, TEXTS, "text_field", where)
        reward = data.get(self.reward_field, 1.0)
        if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
            raise PodiumError(f"{where}: the reward is {reward!r}, not a number.")
        return {"task": str(data.get("task", prompt)), "prompt": prompt, "text": text, "reward": float(reward)}

    def _request(self, request: TaskRequest, row: Mapping[str, Any], index: int, places: Mapping[int, int]) -> Request:
        purpose = Purpose[self.purpose]
        if "turn.length" in row:
            columns = {name: row[name] for name in COLUMNS} | {"purpose": int(purpose), "index": index} | MARKED
            columns["source"] = Origin.copied.name
            pairs = _pairs(row, places) if self.pairs else {}
            return Replay(Rollout(row["task"], _turns(row), group=request.group, columns=columns, pairs=pairs))
        task = Task(row["task"], row["prompt"])
        return Recite(
            dataclasses.replace(request, task=task),
            texts=(row["text"],),
            purpose=purpose,
            index=index,
            columns=dict(MARKED),
            episode=_Graded(row["prompt"], row["reward"]),
        )


class _Graded(Episode):
    """An episode of one turn with a recorded reward."""

    def __init__(self, prompt: str, reward: float) -> None:
        super().__init__(prompt, state=prompt)
        self.reward = reward

    def act(self, text: str) -> Feedback:
        return Feedback(self.reward, state=self.state, info={"correct": self.reward > 0, "answer": text})


def _logged(path: Path) -> list[Mapping[str, Any]]:
    """The rollouts that a run has logged."""
    from podium.store.retention import examples_kept
    from podium.store.tables import read_rows

    folder = path / "rollouts" if (path / "rollouts").is_dir() else path
    files = [path] if path.suffix == ".parquet" else sorted(folder.glob("*.parquet"))
    rows: list[Mapping[str, Any]] = []
    thinned = False
    for file in files:
        if examples_kept(file) is not None:  # their tokens are gone
            thinned = True
        else:
            rows += read_rows(file)
    if not rows and thinned:
        raise PodiumError(f"{path} keeps only examples: record a run with keep_rollouts_gb=null to replay all of it.")
    if not rows:
        raise PodiumError(f"{path} has no rollouts: give a run's directory, a parquet file or a file of JSON lines.")
    turns = {f"turn.{name}" for name in TURN}
    missing = {*COLUMNS, *turns, "turn.length", "turn.context", "token.id", "token.sampler.logp"} - set(rows[0])
    if missing:
        raise PodiumError(f"{path} was not written by a run: its rollouts have no {', '.join(sorted(missing))}.")
    return rows


def _pairs(row: Mapping[str, Any], places: Mapping[int, int]) -> dict[str, list[Any]]:
    """The logged verdicts on pairs whose left one is this rollout, where the right one is replayed too."""
    verdicts = {name.removeprefix("pair."): values for name, values in row.items() if name.startswith("pair.")}
    there = [place for place, index in enumerate(verdicts["right"]) if index in places]
    kept = {name: [values[place] for place in there] for name, values in verdicts.items()}
    return {**kept, "right": [places[index] for index in kept["right"]]}


def _turns(row: Mapping[str, Any]) -> list[Turn]:
    """The turns of a logged rollout, with its tokens and their log-probabilities when it was sampled."""
    turns, start = [], 0
    trained = row.get("turn.train_context") or row["turn.context"]
    observations = row.get("turn.observation") or [""] * len(trained)  # older runs did not log them
    for number, length in enumerate(row["turn.length"]):
        span = slice(start, start + length)
        turns.append(
            Turn(
                ids=row["token.id"][span],
                context=row["turn.context"][number],
                train_context=trained[number],
                origin=[Origin.copied.name] * length,
                columns={name: row[f"turn.{name}"][number] for name in TURN} | {"observation": observations[number]},
                tokens={k.removeprefix("token."): row[k][span] for k in row if k.startswith("token.sampler.")},
            )
        )
        start += length
    return turns
