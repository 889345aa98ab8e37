"""The plain way through a model: its own forward pass on padded sequences. Correct for any architecture, slower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from podium.policy.functionals import CHUNK, Rows, Wanted, evaluate

if TYPE_CHECKING:
    from podium.policy.policy import Policy, Question

__all__ = ["answer", "padded", "states"]

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


def _forward(model: nn.Module, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [B, T, V] and final hidden states [B, T, D]."""
    out: Any = model(input_ids=ids, attention_mask=mask, use_cache=False, output_hidden_states=True)
    return out.logits, out.hidden_states[-1]


def states(model: nn.Module, sequences: Sequence[Ids], device: torch.device) -> list[Tensor]:
    """Final hidden states of each sequence."""
    ids, mask = padded(sequences, device)
    _, hidden = _forward(model, ids, mask)
    return [hidden[row, : len(s)] for row, s in enumerate(sequences)]


def answer(
    policy: Policy, question: Question, wanted: Sequence[tuple[Wanted, bool]], temperature: float
) -> list[Tensor]:
    """Functionals of the question's tokens, sequences in parts; each part is computed again for its gradient."""
    parts = list(_parts(question.sequences, policy.vocabulary))
    graph = torch.is_grad_enabled() and any(grad for _, grad in wanted)
    results: list[list[Tensor]] = []
    places: list[Tensor] = []
    for members in parts:
        chosen = np.flatnonzero(np.isin(question.owner, members))
        if not len(chosen):
            continue
        ids, mask = padded([question.sequences[i] for i in members], policy.device)
        local = {number: row for row, number in enumerate(members)}
        row = torch.tensor([local[int(i)] for i in question.owner[chosen]], device=policy.device)
        place, target = (torch.from_numpy(x[chosen]).to(policy.device) for x in (question.place, question.ids))

        def run(ids: Tensor, mask: Tensor, row: Tensor, place: Tensor, target: Tensor) -> tuple[Tensor, ...]:
            logits, hidden = _forward(policy.model, ids, mask)
            at = logits[row, place]
            rows = Rows(hidden[row, place], target, lambda _: at, temperature, policy._value_head)
            return tuple(evaluate(rows, wanted, policy.vocabulary, chunk=at.numel() + 1))

        inputs = (ids, mask, row, place, target)
        recompute = graph and (len(parts) > 1 or policy.checkpointing)
        values = checkpoint(run, *inputs, use_reentrant=False) if recompute else run(*inputs)
        results.append(list(values))
        places.append(torch.from_numpy(chosen).to(policy.device))
    back = torch.argsort(torch.cat(places))
    return [torch.cat(values).index_select(0, back) for values in zip(*results, strict=True)]


def _parts(sequences: Sequence[Ids], width: int) -> Iterator[list[int]]:
    """Sequences of similar length together, with at most CHUNK logits in a part."""
    part: list[int] = []
    for number in sorted(range(len(sequences)), key=lambda i: len(sequences[i])):
        if part and (len(part) + 1) * len(sequences[number]) * width > CHUNK:
            yield part
            part = []
        part.append(number)
    if part:
        yield part
