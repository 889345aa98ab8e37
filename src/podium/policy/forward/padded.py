"""The plain way through a model: its own forward pass on padded sequences. Correct for any architecture, slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from podium.policy.forward.question import Question
from podium.policy.head.functionals import CHUNK, HeadRows, Wanted, evaluate_functionals, level_of

if TYPE_CHECKING:
    from podium.policy.policy import Policy

__all__ = ["answer", "padded", "precision", "states"]

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
    """In which a model's own pass is computed, in training and in sampling."""
    return torch.autocast(policy.device.type, policy.lower, enabled=policy.lower is not None)


def _forward(policy: Policy, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [B, T, V] and final hidden states [B, T, D]."""
    model: Any = policy.model
    with precision(policy):
        out = model(input_ids=ids, attention_mask=mask, use_cache=False, output_hidden_states=True)
    return out.logits, out.hidden_states[-1]


def states(
    model: nn.Module, sequences: Sequence[Ids], device: torch.device, layers: Sequence[int] | None = None
) -> list[Tensor]:
    """Final hidden states of each sequence, or those after so many blocks as `layers` says."""
    ids, mask = padded(sequences, device)
    whole: Any = model
    every = whole(input_ids=ids, attention_mask=mask, use_cache=False, output_hidden_states=True).hidden_states
    hidden = every[-1] if layers is None else torch.stack([every[k] for k in layers], 2)
    return [hidden[row, : len(s)] for row, s in enumerate(sequences)]


def answer(
    policy: Policy, question: Question, wanted: Sequence[tuple[Wanted, bool]], temperature: float
) -> list[Tensor]:
    """Functionals of the question's tokens, sequences in parts; each part is computed again for its gradient."""
    parts = list(_parts(question, policy.vocabulary))
    graph = torch.is_grad_enabled() and any(grad for _, grad in wanted)
    results: list[list[Tensor]] = []
    places: list[Tensor] = []
    rollouts: list[Tensor] = []
    for members in parts:
        chosen = np.flatnonzero(np.isin(question.owner, members))
        if not len(chosen):
            continue
        ids, mask = padded([question.sequences[i] for i in members], policy.device)
        local = {number: row for row, number in enumerate(members)}
        row = torch.tensor([local[int(i)] for i in question.owner[chosen]], device=policy.device)
        place, target = (torch.from_numpy(x[chosen]).to(policy.device) for x in (question.place, question.ids))

        part = None if question.rollout is None else question.rollout[chosen]
        written = replace(question, rollout=part).places(policy.device)
        if part is not None:
            rollouts.append(torch.from_numpy(np.unique(part[part >= 0])))

        here = torch.from_numpy(chosen).to(policy.device)
        own = {name: x[here] for name, x in question.columns.items()}

        def run(
            ids: Tensor,
            mask: Tensor,
            row: Tensor,
            place: Tensor,
            target: Tensor,
            written: list[Tensor] = written,
            columns: Mapping[str, Tensor] = own,
        ) -> tuple[Tensor, ...]:
            logits, hidden = _forward(policy, ids, mask)
            at = logits[row, place]
            rows = HeadRows(hidden[row, place], target, lambda _: at, temperature, policy._value_head, at, columns)
            return tuple(evaluate_functionals(rows, wanted, policy.vocabulary, chunk=at.numel() + 1, rollouts=written))

        inputs = (ids, mask, row, place, target)
        recompute = graph and (len(parts) > 1 or policy.checkpointing)
        values = checkpoint(run, *inputs, use_reentrant=False) if recompute else run(*inputs)
        results.append(list(values))
        places.append(here)
    back = {"token": torch.argsort(torch.cat(places))}
    if rollouts:
        back["rollout"] = torch.argsort(torch.cat(rollouts)).to(policy.device)
    joined = [torch.cat(values) for values in zip(*results, strict=True)]
    return [v.index_select(0, back[level_of(name)]) for v, ((name, _), _) in zip(joined, wanted, strict=True)]


def _parts(question: Question, width: int) -> Iterator[list[int]]:
    """Sequences of similar length together, with at most CHUNK logits in a part, and those of a rollout in one."""
    length = [len(s) for s in question.sequences]
    if question.rollout is None:
        blocks = [[number] for number in range(len(length))]
    else:
        rollout = np.full(len(length), -1)
        np.maximum.at(rollout, question.owner, question.rollout)
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
