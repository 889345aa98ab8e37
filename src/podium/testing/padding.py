"""The same rollouts as padded tensors: what a neighbour's trainer would hand over."""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Origin

__all__ = ["garbage", "with_padding"]


def garbage(name: str) -> float:
    """What stands where nobody should look: of each column another large number, so that no two cancel."""
    return 20.0 + zlib.crc32(name.encode()) % 2000 / 100


def with_padding(batch: Batch, extra: int) -> Batch:
    """The batch by way of [B, T] tensors with `extra` columns of padding, which become tokens of the world."""
    row, place = batch.link("token", "rollout"), batch.position("token")
    width = int(batch.partition("token", "rollout").lengths().max()) + extra

    def pad(x: Tensor, fill: Any) -> Tensor:
        return x.new_full((len(batch), width, *x.shape[1:]), fill).index_put((row, place), x)

    columns: dict[str, Any] = {}
    segments: dict[str, Any] = {}  # columns of further segmentations
    for name in batch.columns:
        x, level = batch[name], name.partition(".")[0]
        if level not in ("token", "turn", "rollout", "group", "batch"):
            segments[name] = x
        elif level != "token":
            columns[name] = x
        elif isinstance(x, Tensor):
            columns[name] = pad(x, _fill(name, x))
    turn = batch.spread(batch.position("turn"), "turn", "token")
    last = batch.partition("turn", "rollout").lengths() - 1
    turns = torch.where(pad(torch.ones_like(turn), 0).bool(), pad(turn, 0), last[:, None])
    padded = Batch.from_padded(
        pad(batch.action.long(), 0), batch.link("rollout", "group"), columns, given=True, turn=turns, seed=batch.seed
    )
    for name, relation in batch._relations.items():
        padded = padded.with_relation(name, relation)
    for level in set(batch.levels) - set(padded.levels):
        own = batch.link("token", level)
        final = batch.partition("token", "rollout").agg.max(own.double()).long()
        index = torch.where(pad(torch.ones_like(own), 0).bool(), pad(own, 0), final[:, None]).reshape(-1)
        padded = padded.with_level(level, index)
    return padded.with_columns(segments)


def _fill(name: str, x: Tensor) -> Any:
    if name == "token.row":
        return -1
    if name == "token.origin":
        return int(Origin.given)
    return garbage(name) if x.is_floating_point() else True if x.dtype == torch.bool else 0
