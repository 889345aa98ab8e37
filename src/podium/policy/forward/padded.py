"""The padded forward pass: the model's own, on padded sequences. Correct for any architecture, but slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from podium.policy.forward.score_request import ScoreRequest
from podium.policy.head.functionals import CHUNK, HeadRows, Wanted, evaluate_functionals, level_of

if TYPE_CHECKING:
    from podium.policy.policy import Policy

__all__ = ["evaluate", "padded", "precision", "states"]

Ids = tuple[int, ...]


def padded(sequences: Sequence[Ids], device: torch.device, *, left: bool = False) -> tuple[Tensor, Tensor]:
    """Token ids [B, T] and the mask of real tokens."""
    width = max(len(s) for s in sequences)
    ids = torch.zeros((len(sequences), width), dtype=torch.long)
    mask = torch.zeros((len(sequences), width), dtype=torch.long)
    for row, s in enumerate(sequences):
        at = slice(width - len(s), width) if left else slice(0, len(s))
        ids[row, at], mask[row, at] = torch.tensor(s, dtype=torch.long), 1
    return ids.to(device), mask.to(device)


def precision(policy: Policy) -> torch.autocast:
    """The autocast context of the model's own forward pass, in training and in sampling."""
    return torch.autocast(policy.device.type, policy.lower, enabled=policy.lower is not None)


def _forward(policy: Policy, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [B, T, V] and final hidden states [B, T, D]."""
    model: Any = policy.model
    with precision(policy):
        out = model(**policy.inputs(ids, mask), use_cache=False, output_hidden_states=True)
    return out.logits, out.hidden_states[-1]


def states(policy: Policy, sequences: Sequence[Ids], layers: Sequence[int] | None = None) -> list[Tensor]:
    """Final hidden states of each sequence, or those after each of the blocks in `layers`."""
    whole: Any = policy.model
    given = policy.inputs(*padded(sequences, policy.device))
    every = whole(**given, use_cache=False, output_hidden_states=True).hidden_states
    hidden = every[-1] if layers is None else torch.stack([every[k] for k in layers], 2)
    return [hidden[row, : len(s)] for row, s in enumerate(sequences)]


def evaluate(
    policy: Policy, request: ScoreRequest, wanted: Sequence[tuple[Wanted, bool]], temperature: float
) -> list[Tensor]:
    """Functionals of the request's tokens, some sequences at a time; each part is recomputed for its gradient."""
    parts = list(_parts(request, policy.vocabulary))
    graph = torch.is_grad_enabled() and any(grad for _, grad in wanted)
    results: list[list[Tensor]] = []
    places: list[Tensor] = []
    rollouts: list[Tensor] = []
    for members in parts:
        chosen = np.flatnonzero(np.isin(request.owner, members))
        if not len(chosen):
            continue
        ids, mask = padded([request.sequences[i] for i in members], policy.device)
        local = {number: row for row, number in enumerate(members)}
        row = torch.tensor([local[int(i)] for i in request.owner[chosen]], device=policy.device)
        place, target = (torch.from_numpy(x[chosen]).to(policy.device) for x in (request.place, request.ids))

        part = None if request.rollout is None else request.rollout[chosen]
        written = replace(request, rollout=part).places(policy.device)
        if part is not None:
            rollouts.append(torch.from_numpy(np.unique(part[part >= 0])))

        index = torch.from_numpy(chosen).to(policy.device)
        columns_of_part = {name: x[index] for name, x in request.columns.items()}

        def run(
            ids: Tensor,
            mask: Tensor,
            row: Tensor,
            place: Tensor,
            target: Tensor,
            written: list[Tensor] = written,
            columns: Mapping[str, Tensor] = columns_of_part,
        ) -> tuple[Tensor, ...]:
            logits, hidden = _forward(policy, ids, mask)
            at = logits[row, place]
            rows = HeadRows(
                hidden[row, place],
                target,
                lambda _: at,
                temperature,
                policy._value_head,
                at,
                columns,
                sets=request.sets,
            )
            return tuple(evaluate_functionals(rows, wanted, policy.vocabulary, chunk=at.numel() + 1, rollouts=written))

        inputs = (ids, mask, row, place, target)
        recompute = graph and (len(parts) > 1 or policy.checkpointing)
        values = checkpoint(run, *inputs, use_reentrant=False) if recompute else run(*inputs)
        results.append(list(values))
        places.append(index)
    back = {"token": torch.argsort(torch.cat(places))}
    if rollouts:
        back["rollout"] = torch.argsort(torch.cat(rollouts)).to(policy.device)
    joined = [torch.cat(values) for values in zip(*results, strict=True)]
    return [v.index_select(0, back[level_of(name)]) for v, ((name, _), _) in zip(joined, wanted, strict=True)]


def _parts(request: ScoreRequest, width: int) -> Iterator[list[int]]:
    """Sequences of similar length in one part, with at most CHUNK logits; those of a rollout stay together."""
    length = [len(s) for s in request.sequences]
    if request.rollout is None:
        blocks = [[number] for number in range(len(length))]
    else:
        rollout = np.full(len(length), -1)
        np.maximum.at(rollout, request.owner, request.rollout)
        alone = [[int(i)] for i in np.flatnonzero(rollout < 0)]
        blocks = alone + [np.flatnonzero(rollout == r).tolist() for r in np.unique(rollout[rollout >= 0])]
    part: list[int] = []
    for block in sorted(blocks, key=lambda b: max(length[i] for i in b)):
        longest = max(length[i] for i in block)
        if part and (len(part) + len(block)) * longest * width > CHUNK:
            yield part
            part = []
        part += block
    if part:
        yield part
