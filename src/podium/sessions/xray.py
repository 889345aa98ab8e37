"""Token X-rays: recorded rollouts token by token, and what several methods would have done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium.analysis.token_view import Read, method_view, recorded_effects, token_groups
from podium.core.errors import PodiumError, nearest
from podium.policy.model.load import load_tokenizer
from podium.sessions.replay_batches import open_replay
from podium.store.retention import examples_kept
from podium.store.run_directory import RunDirectory
from podium.store.tables import read_rows, rollout_files
from podium.training.stored_config import stored_config

__all__ = ["reader_of", "recorded_view", "xray"]

BEFORE = 8  # tokens that are decoded with one, since its text may depend on them


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
        groups = token_groups(rows, views, reader_of(opened.methods[0].run.policy.tokenizer))
    return _view(path, number, list(views), groups, task)


def recorded_view(path: Path | str, *, iteration: int | None = None, groups: int | None = None) -> dict[str, Any]:
    """The same with what was recorded alone: no method is applied, and no code that the run names is executed."""
    directory = RunDirectory(path)
    files = {n: f for n, f in rollout_files(directory.path).items() if examples_kept(f) is None}
    number = _iteration(path, files, iteration)
    rows = read_rows(files[number])
    shown = list(dict.fromkeys(row["group"] for row in rows))[:groups]
    rows = [row for row in rows if row["group"] in shown]
    config = stored_config(directory, leave_out=("method", "world")).config
    read = reader_of(_tokenizer(directory, config.model))
    name = config.method.name
    return _view(path, number, [name], token_groups(rows, {name: [recorded_effects(row) for row in rows]}, read), None)


def _tokenizer(directory: RunDirectory, model: str) -> Any:
    """Of the newest checkpoint, or of the model that the run starts from."""
    for checkpoint in reversed(directory.checkpoints()):
        if (checkpoint / "policy" / "tokenizer_config.json").is_file():
            return load_tokenizer(checkpoint / "policy")
    return load_tokenizer(model)


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


def reader_of(tokenizer: Any) -> Read:
    """What shows each token as its own text, and special tokens by name. A character of several tokens is shown at its
    last one."""

    def text(ids: Sequence[int]) -> str:
        decoded: str = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return decoded.rstrip("\ufffd")

    def read(ids: Sequence[int]) -> list[str]:
        pieces = []
        for place, name in enumerate(tokenizer.convert_ids_to_tokens(list(ids))):
            begin = max(0, place - BEFORE)
            before, whole = text(ids[begin:place]), text(ids[begin : place + 1])
            pieces.append(whole[len(before) :] or f"⟨{name}⟩")
        return pieces

    return read
