"""Token X-rays: recorded rollouts token by token, and what several methods would have done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from podium import policy as policies
from podium.analysis.token_view import Read, method_view, recorded_effects, token_groups
from podium.core.errors import PodiumError, nearest
from podium.policy import Policy
from podium.sessions.replay_batches import open_replay
from podium.store.retention import examples_kept
from podium.store.run_directory import RunDirectory
from podium.store.tables import read_rows, rollout_files
from podium.training.stored_config import stored_config

__all__ = ["reader_of", "recorded_view", "xray"]

Rows = list[dict[str, Any]]


def xray(
    path: Path | str,
    methods: Sequence[str] = (),
    *,
    iteration: int | None = None,
    task: str | None = None,
    at: str = "checkpoint",
    trust: bool = False,
) -> dict[str, Any]:
    """The view of an iteration's rollouts, as `podium.analysis.token_view` describes it.

    Each method is applied to the whole recorded batch, with `at` as in `open_replay`; `task` chooses what is shown.
    Without methods, what the run's own did.
    """
    with open_replay(path, methods, at=at, trust=trust) as opened:
        number = _iteration(path, opened.files, iteration)
        rows = opened.rows(number)
        sampled = opened.batch(rows)
        views = {}
        for each in opened.methods:
            try:
                effects, trained = each.effects(sampled)
            except PodiumError as problem:
                raise PodiumError(f"{each.name} cannot be applied to iteration {number}: {problem}") from problem
            views[each.name] = method_view(effects, trained, rows)
        groups = token_groups(rows, views, reader_of(opened.methods[0].run.policy))
    return _view(path, number, list(views), groups, task)


def recorded_view(
    path: Path | str, *, iteration: int | None = None, groups: int | None = None, read: Read | None = None
) -> dict[str, Any]:
    """The same with what was recorded alone: no method is applied, and no code that the run names is executed."""
    directory = RunDirectory(path)
    files = {n: f for n, f in rollout_files(directory.path).items() if examples_kept(f) is None}
    number = _iteration(path, files, iteration)
    rows = read_rows(files[number])
    shown = list(dict.fromkeys(row["group"] for row in rows))[:groups]
    rows = [row for row in rows if row["group"] in shown]
    config = stored_config(directory, leave_out=("method", "world")).config
    read = read or reader_of(_tokenizer(directory, config.model))
    name = config.method.name
    return _view(path, number, [name], token_groups(rows, {name: [recorded_effects(row) for row in rows]}, read), None)


def _tokenizer(directory: RunDirectory, model: str) -> Policy:
    checkpoints = directory.checkpoints()
    return policies.load(str(checkpoints[-1] / "policy") if checkpoints else model)


def _iteration(path: Path | str, files: Mapping[int, Path], wanted: int | None) -> int:
    if not files:
        raise PodiumError(f"{path} has no whole rollouts yet.")
    if wanted is not None and wanted not in files:
        raise PodiumError(f"{path} has no whole rollouts of iteration {wanted}: it has {min(files)} to {max(files)}.")
    return max(files) if wanted is None else wanted


def _view(path: Path | str, number: int, methods: list[str], groups: list[Any], task: str | None) -> dict[str, Any]:
    if task is not None:
        tasks = [group["task"] for group in groups]
        if task not in tasks:
            raise PodiumError(f"Iteration {number} has no task {task!r}. {nearest(task, tasks)}")
        groups = [group for group in groups if group["task"] == task]
    return {"run": str(path), "iteration": number, "methods": methods, "groups": groups}


def reader_of(policy: Policy) -> Read:
    """What shows each token as its own text; special tokens by name."""
    tokenizer = policy.tokenizer

    def read(ids: Sequence[int]) -> list[str]:
        text, ends = policy.read(list(ids))
        pieces = [text[a:b] for a, b in pairwise([0, *ends])]
        names = tokenizer.convert_ids_to_tokens(list(ids))
        return [piece or f"⟨{name}⟩" for piece, name in zip(pieces, names, strict=True)]

    return read
