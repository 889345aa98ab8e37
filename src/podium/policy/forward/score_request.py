"""Which tokens a forward pass scores, and how their values are scattered back to the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.token_sets import TokenSets

__all__ = ["ScoreRequest", "scatter_to_rollouts", "scatter_to_tokens", "score_request_of"]

Ids = tuple[int, ...]


@dataclass(frozen=True)
class ScoreRequest:
    """Tokens to be scored: token `ids[i]` follows position `place[i]` of sequence `owner[i]`."""

    sequences: list[Ids]
    owner: NDArray[np.int64]
    place: NDArray[np.int64]
    ids: NDArray[np.int64]
    columns: Mapping[str, Tensor] = field(default_factory=dict)  # [token, …] columns named by settings of signals
    sets: TokenSets | None = None  # those that the column `token.allowed` numbers
    rollout: NDArray[np.int64] | None = None  # for signals of rollouts: the rollout of each token, −1 for none

    @classmethod
    def after(cls, pairs: Sequence[tuple[Ids, Ids]]) -> ScoreRequest:
        """All tokens of texts, each conditioned on its context and the text's earlier tokens."""
        return cls(
            [(*context, *text[:-1]) for context, text in pairs],
            np.repeat(np.arange(len(pairs)), [len(text) for _, text in pairs]),
            np.concatenate([np.arange(len(c) - 1, len(c) + len(text) - 1) for c, text in pairs]),
            np.concatenate([np.asarray(text) for _, text in pairs]),
        )

    def places(self, device: torch.device) -> list[Tensor]:
        """For every rollout with tokens, the indices of its tokens in order."""
        if self.rollout is None:
            return []
        order = np.argsort(self.rollout, kind="stable")
        order = order[self.rollout[order] >= 0]
        _, starts = np.unique(self.rollout[order], return_index=True)
        return [torch.from_numpy(at).to(device) for at in np.split(order, starts[1:])] if len(order) else []


def score_request_of(batch: Batch, where: Tensor | None, whole: bool = False) -> tuple[ScoreRequest, Tensor]:
    """The batch's turns as sequences, and the indices of the scored tokens; with `whole`, their rollouts too."""
    turn = batch.link("token", "turn").cpu().numpy()
    ids = batch["token.id"].cpu().numpy()
    contexts: tuple[Ids, ...] = batch["turn.train_context"]
    order = np.arange(len(ids)) if bool((np.diff(turn) >= 0).all()) else np.argsort(turn, kind="stable")
    bounds = np.searchsorted(turn[order], np.arange(len(contexts) + 1))
    chosen = np.ones(len(ids), dtype=bool) if where is None else where.cpu().numpy()
    written: list[int] = ids[order].tolist()
    sequences: list[Ids] = []
    owner, place, rows = [], [], []
    for number, context in enumerate(contexts):
        low, high = int(bounds[number]), int(bounds[number + 1])
        inside = np.flatnonzero(chosen[order[low:high]])
        if not len(inside):
            continue
        if not context and inside[0] == 0:
            raise PodiumError(f"Turn {number} has no context: nothing predicts its first token.")
        last = int(inside[-1])
        # The last token is only predicted; it does not go through the model.
        sequences.append((*context, *written[low : low + last]))
        owner.append(np.full(len(inside), len(sequences) - 1))
        place.append(inside + (len(context) - 1))
        rows.append(order[low + inside])
    if not sequences:
        none = np.zeros(0, dtype=np.int64)
        return ScoreRequest([], none, none, none), torch.zeros(0, dtype=torch.long)
    row = np.concatenate(rows)
    rollout = None
    if whole:
        rollout = batch.link("token", "rollout").where(batch.action, -1).cpu().numpy()[row]
    request = ScoreRequest(sequences, np.concatenate(owner), np.concatenate(place), ids[row], rollout=rollout)
    return request, torch.from_numpy(row)


def scatter_to_tokens(batch: Batch, rows: Tensor, value: Tensor | None) -> Tensor:
    """[token] the values of the tokens at `rows`; 0 for the others."""
    size = batch.size("token")
    if value is None:
        return torch.zeros(size, dtype=batch.dtype, device=batch.device)
    value = value.to(device=batch.device, dtype=batch.dtype)
    return value if rows.numel() == size else value.new_zeros((size, *value.shape[1:])).index_copy(0, rows, value)


def scatter_to_rollouts(
    batch: Batch, request: ScoreRequest, value: Tensor | None, empty: Callable[[], Tensor]
) -> Tensor:
    """[rollout] the values of rollouts with tokens; `empty` [1] for the others."""
    wrote = np.zeros(0, dtype=np.int64) if request.rollout is None else request.rollout
    present = torch.from_numpy(np.unique(wrote[wrote >= 0])).to(batch.device)
    if value is not None and len(present) == len(batch):
        return value.to(device=batch.device, dtype=batch.dtype)
    nothing = empty().to(device=batch.device, dtype=batch.dtype)
    everyone = nothing.expand(len(batch), *nothing.shape[1:])
    if value is None or not len(present):
        return everyone
    return everyone.index_copy(0, present, value.to(device=batch.device, dtype=batch.dtype))
