"""Ways to make a batch: from rollouts, from padded tensors of other libraries, from bare rewards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.core.keys import compact, number_values
from podium.core.relation import Relation
from podium.core.token_sets import CODES, SETS, set_codes

__all__ = ["Rollout", "Turn", "from_padded", "from_rewards", "from_rollouts", "to_padded"]

DRAWN_FROM = "sampler.allowed"  # the sets among the values of a turn's tokens
# A cache key: the place of each token in the flattened padded tensors that the batch was made from.
PLACES = ("link", "token", "padded")


@dataclass(frozen=True)
class Turn:
    """One exchange with the world: the tokens written in it and the context that they were sampled under.

    `train_context` is the context that they are trained under, where it differs (a hint that is removed for training).
    `columns` holds values of the turn by name, `tokens` values per token.
    """

    ids: Sequence[int]
    context: Sequence[int] = ()
    train_context: Sequence[int] | None = None
    origin: Sequence[str] | None = None  # one per token; default: policy
    columns: Mapping[str, Any] = field(default_factory=dict)
    tokens: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Rollout:
    """One answer or episode: the task it belongs to, its turns, and values by name (`reward`, `answer`, …).

    Where the turns' tokens have a number `segment` or `node`, counted from 0 along the rollout, these are levels of the
    batch, and `segments` and `nodes` hold their values by name. `pairs` holds by name the values of the pairs that it
    is the left one of, such as a judge's verdict `difference`; `right` is the other's `index` in the group. They become
    the relation `pair` of the batch.
    """

    task: Any
    turns: Sequence[Turn]
    group: Any = None  # which instance of the task, where a batch holds several
    columns: Mapping[str, Any] = field(default_factory=dict)
    segments: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    nodes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    pairs: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def from_rollouts(rollouts: Iterable[Rollout], *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Batch:
    """A batch of rollouts. Groups are numbered in the order in which they first appear."""
    rows = list(rollouts)
    if not rows:
        raise PodiumError("The batch is empty: it has no rollouts.")
    group, instances = number_values((r.task, r.group) for r in rows)
    turns = [turn for r in rows for turn in r.turns]
    columns: dict[str, Any] = {
        "group.task": [task for task, _ in instances],
        "token.id": _joined([t.ids for t in turns], np.int64),
        "turn.context": [tuple(t.context) for t in turns],
        "turn.train_context": [tuple(t.context if t.train_context is None else t.train_context) for t in turns],
    }
    if any(r.group is not None for r in rows):
        columns["group.uid"] = instances
    if any(t.origin is not None for t in turns):
        columns["token.origin"] = _members(Origin, [_origins(t, i) for i, t in enumerate(turns)])
    columns |= {f"rollout.{k}": v for k, v in _collect([r.columns for r in rows], "rollout", dtype).items()}
    columns |= {f"turn.{k}": v for k, v in _collect([t.columns for t in turns], "turn", dtype).items()}
    if any(DRAWN_FROM in t.tokens for t in turns):
        columns |= _sets(rows)
    for name in dict.fromkeys(name for t in turns for name in t.tokens if name != DRAWN_FROM):
        kept = name.partition(".")[0] == "keep"  # a token without the mark is kept
        values = [t.tokens.get(name, (True,) * len(t.ids) if kept else None) for t in turns]
        for number, (turn, value) in enumerate(zip(turns, values, strict=True)):
            if value is None or len(value) != len(turn.ids):
                raise PodiumError(
                    f"Turn {number} must have one value of {name!r} for each of its {len(turn.ids)} tokens."
                )
        columns[f"token.{name}"] = _numbers([value or () for value in values], dtype)
    links = {
        ("token", "turn"): _index([len(t.ids) for t in turns]),
        ("turn", "rollout"): _index([len(r.turns) for r in rows]),
        ("rollout", "group"): torch.tensor(group),
    }
    numbers = {level: columns.pop(f"token.{level}", None) for level in ("segment", "node")}
    sizes = {"turn": len(turns), "rollout": len(rows), "group": len(instances)}
    batch = Batch(links, columns, sizes=sizes, seed=seed)
    for level, number in numbers.items():
        if number is not None:
            of_rollouts = [r.segments if level == "segment" else r.nodes for r in rows]
            batch = _segmented(batch, level, number.long(), of_rollouts, dtype)
    return _paired(batch, [r.pairs for r in rows], dtype) if any(r.pairs for r in rows) else batch


def _sets(rows: Sequence[Rollout]) -> dict[str, Any]:
    """Which tokens each token was drawn from: see `podium.core.token_sets`."""
    coded = []
    for r in rows:
        sets = [t.tokens.get(DRAWN_FROM, (None,) * len(t.ids)) for t in r.turns]
        for turn, values in zip(r.turns, sets, strict=True):
            if len(values) != len(turn.ids):
                raise PodiumError(
                    f"A turn has {len(turn.ids)} tokens and {len(values)} sets that they were drawn from."
                )
        coded.append(set_codes(chain.from_iterable(sets)))
    return {CODES: _joined([codes for codes, _ in coded], np.int64), SETS: [sets for _, sets in coded]}


def _paired(batch: Batch, rows: Sequence[Mapping[str, Sequence[Any]]], dtype: torch.dtype) -> Batch:
    """The batch with the relation `pair`, from the pairs that each rollout is the left one of."""
    names = dict.fromkeys(["right", *(name for row in rows for name in row)])
    row_at = dict[tuple[int, int], int]()  # by group and index
    groups = batch.link("rollout", "group").tolist()
    for number, at in enumerate(zip(groups, batch["rollout.index"].tolist(), strict=True)):
        row_at[at] = -1 if at in row_at else number  # −1: there are two
    right = []
    for number, row in enumerate(rows):
        lengths = {name: len(row.get(name, ())) for name in names}
        if len(set(lengths.values())) > 1:
            raise PodiumError(f"Rollout {number} has different numbers of values for its pairs: {lengths}.")
        for index in row.get("right", ()):
            other = row_at.get((groups[number], index), -1)
            if other < 0:
                raise PodiumError(
                    f"Rollout {number} is compared with the one of index {index} in its group, which does not exist "
                    "or exists twice: number the rollouts of a group differently."
                )
            right.append(other)
    columns = {name: _numbers([row.get(name, ()) for row in rows], dtype) for name in names if name != "right"}
    left = _index([len(row.get("right", ())) for row in rows])
    return batch.with_relation("pair", Relation("rollout", left, torch.tensor(right, dtype=torch.long), columns))


def _segmented(
    batch: Batch, level: str, number: Tensor, rows: Sequence[Mapping[str, Sequence[Any]]], dtype: torch.dtype
) -> Batch:
    """The batch with one more level, whose elements are numbered within each rollout, and their columns."""
    counts = torch.tensor([len(next(iter(row.values()), ())) for row in rows])
    needed = batch.partition("token", "rollout").agg.max(number).clamp(min=-1) + 1
    for place in (counts != needed).nonzero().reshape(-1)[:1].tolist():
        raise PodiumError(f"Rollout {place} has {counts[place]} values for its {needed[place]} {level}s.")
    before = counts.cumsum(0) - counts
    batch = batch.with_level(level, number + batch.spread(before, "rollout", "token"))
    values = [dict(zip(row, each, strict=True)) for row in rows for each in zip(*row.values(), strict=True)]
    # Where all rollouts are empty there are no values, but the columns must still exist.
    named = _collect(values, level, dtype) if values else {k: torch.zeros(0, dtype=dtype) for row in rows for k in row}
    return batch.with_columns({f"{level}.{k}": v for k, v in named.items()})


def _origins(turn: Turn, number: int) -> Sequence[Any]:
    if turn.origin is None:
        return [Origin.policy.name] * len(turn.ids)
    if len(turn.origin) != len(turn.ids):
        raise PodiumError(f"Turn {number} has {len(turn.origin)} origins for its {len(turn.ids)} tokens.")
    return turn.origin


def _members(enum: type[IntEnum], parts: Sequence[Sequence[Any]]) -> Any:
    """Names or numbers of an enum's members, part after part, as numbers."""
    number = {key: int(member) for member in enum for key in (member.name, int(member))}
    try:
        return _joined([list(map(number.__getitem__, part)) for part in parts], np.int8)
    except KeyError:
        return list(chain.from_iterable(parts))  # not a member: the check of the batch names it


def _numbers(parts: Sequence[Sequence[Any]], dtype: torch.dtype) -> Tensor:
    """Numbers or booleans, part after part."""
    if all(isinstance(v, float) for part in parts for v in part[:1]):
        return _joined(parts, np.float64).to(dtype)
    kinds = set(map(type, chain.from_iterable(parts)))
    if kinds == {bool}:
        return _joined(parts, np.bool_)
    if kinds <= {bool, int, float}:
        return _joined(parts, np.float64).to(dtype)
    return torch.tensor(list(chain.from_iterable(parts)), dtype=dtype)


def _joined(parts: Sequence[Sequence[Any]], dtype: type[np.generic]) -> Tensor:
    """Numbers, part after part; an iterator takes a tenth of the time of a list."""
    return torch.from_numpy(np.fromiter(chain.from_iterable(parts), dtype, sum(map(len, parts))))


def _index(lengths: list[int]) -> Tensor:
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths, dtype=torch.long))


def _collect(rows: Sequence[Mapping[str, Any]], level: str, dtype: torch.dtype) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        missing = [i for i, row in enumerate(rows) if name not in row]
        if missing:
            raise PodiumError(f"{level} {missing[0]} has no {name!r}, which other {level}s have.")
        values = [row[name] for row in rows]
        floats = all(isinstance(v, float) for v in values)
        columns[name] = torch.tensor(values, dtype=dtype) if floats else values
    return columns


def from_padded(
    mask: Tensor,
    group: Any,
    columns: Mapping[str, Any],
    *,
    given: bool = False,
    turn: Tensor | None = None,
    seed: int = 0,
) -> Batch:
    """A batch from [B, T] tensors: `mask` is 1 at the model's tokens, `group` names the group of each row.

    Columns are `token.NAME` with shape [B, T] and `rollout.NAME` with shape [B]. Positions outside the mask are left
    out, or kept as tokens given by the world with `given=True`. `turn` [B, T] numbers the turns of each row.
    """
    if mask.dim() != 2:
        raise PodiumError(f"The mask must be [B, T], not {tuple(mask.shape)}.")
    rows, width = mask.shape
    action = mask.bool()
    chosen = torch.ones_like(action) if given else action
    length = chosen.sum(1, dtype=torch.int32)
    row = torch.repeat_interleave(length.long())
    at = None if len(row) == chosen.numel() else chosen.reshape(-1).nonzero().reshape(-1)

    def kept(name: str, value: Any) -> Tensor:
        if not isinstance(value, Tensor) or value.shape[:2] != mask.shape:
            shape = tuple(getattr(value, "shape", ()))
            raise PodiumError(f"{name!r} must have the mask's shape {tuple(mask.shape)}, not {shape}.")
        return value.flatten(0, 1) if at is None else value.flatten(0, 1).index_select(0, at)

    flat: dict[str, Any] = {}
    if at is not None and _has_holes(at, length, width):  # otherwise positions follow from the structure
        flat["token.position"] = kept("position", torch.arange(width, device=mask.device).expand(rows, -1))
    if given:
        flat["token.origin"] = torch.where(action, int(Origin.policy), int(Origin.given)).reshape(-1).to(torch.int8)
    for name, value in columns.items():
        flat[name] = kept(name, value) if name.startswith("token.") else value
    number, names = _group_numbers(group, mask.device)
    if len(number) != rows:
        raise PodiumError(f"{len(number)} group ids for {rows} rows.")
    flat.setdefault("group.task", names)
    flat.setdefault("rollout.width", torch.full((rows,), width, device=mask.device))
    if turn is None:
        turn_of_token, turn_rows = row, torch.arange(rows, device=mask.device)
    else:
        numbers = kept("turn", turn)
        if numbers.is_floating_point() or (len(numbers) and int(numbers.min()) < 0):
            raise PodiumError("The turns of tokens must be numbered by integers from 0 on.")
        span = int(numbers.max()) + 1 if len(numbers) else 1
        turn_of_token, count = compact(row * span + numbers, rows * span)
        turn_rows = torch.zeros(count, dtype=torch.long, device=mask.device).index_copy(0, turn_of_token, row)
    links = {("token", "turn"): turn_of_token, ("turn", "rollout"): turn_rows, ("rollout", "group"): number}
    batch = Batch(links, flat, seed=seed)
    if at is not None:
        batch._cache[PLACES] = at
    return batch


def _has_holes(at: Tensor, length: Tensor, width: int) -> bool:
    """Whether some row's tokens are not a prefix of it; `at` holds their places in the flattened tensors."""
    filled = length > 0
    last = at[length.cumsum(0)[filled] - 1] % width
    return not torch.equal(last + 1, length[filled].long())


def to_padded(batch: Batch, x: Tensor, fill: float = 0.0) -> Tensor:
    """The inverse of `from_padded` for a value per token."""
    if "rollout.width" not in batch:
        raise PodiumError("This batch was not made from padded tensors: use batch.link('token', 'rollout') instead.")
    if len(x) != batch.size("token"):
        raise PodiumError(f"{len(x)} values for the {batch.size('token')} tokens of the batch.")
    width = int(batch["rollout.width"].max())
    if len(x) == len(batch) * width:
        return x.reshape(len(batch), width, *x.shape[1:])  # no padding
    if PLACES not in batch._cache:
        batch._cache[PLACES] = batch.link("token", "rollout") * width + batch["token.position"]
    padded = x.new_full((len(batch) * width, *x.shape[1:]), fill).index_copy(0, batch._cache[PLACES], x)
    return padded.reshape(len(batch), width, *x.shape[1:])


def from_rewards(rewards: Tensor | Sequence[float], group: Any, columns: Mapping[str, Any]) -> Batch:
    """A batch without tokens: one reward per rollout and the group of each."""
    reward = torch.as_tensor(rewards)
    if reward.dim() != 1:
        raise PodiumError(f"Rewards must be a vector, one for each rollout, not {tuple(reward.shape)}.")
    number, names = _group_numbers(group, reward.device)
    if len(number) != len(reward):
        raise PodiumError(f"{len(number)} group ids for {len(reward)} rewards.")
    all_columns = {"group.task": names, "rollout.reward": reward} | dict(columns)
    return Batch({("rollout", "group"): number}, all_columns)


def _group_numbers(group: Any, device: torch.device) -> tuple[Tensor, Any]:
    """Groups numbered from 0, and their names: a tensor's in order of size, others in order of first appearance."""
    if isinstance(group, Tensor):
        names, codes = torch.unique(group.to(device), return_inverse=True)
        return codes, names
    numbers, names = number_values(group.tolist() if hasattr(group, "tolist") else group)
    return torch.tensor(numbers, dtype=torch.long, device=device), names
