"""Passages: given texts scored after a prefix of their own, as signals of any level.

A passage `answer` of a level is a pair of columns, `rollout.answer.context` and `rollout.answer.ids`, tuples of token
ids. `Signal("logp", level="rollout", passage="answer", reduce="sum", grad=True)` is one number for each: the sum or the
mean of the functional over the passage's tokens, or the mean of its exponential. An empty passage gives 0.
`Signal("similarity", level="rollout", passage="truth")` compares what a rollout wrote with a passage, state by state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, nearest
from podium.core.partition import Partition
from podium.core.signal import Signal
from podium.policy.policy import Policy

__all__ = ["REDUCES", "mean_cosine", "passage_of", "reduced", "scored"]

REDUCES = ("sum", "mean", "mean_exp")


def passage_of(signal: Signal) -> str | None:
    """The passage that a signal is about; None: the batch's own tokens."""
    return dict(signal.settings).get("passage")


def scored(policy: Policy, batch: Batch, signal: Signal, temperature: float, grad: bool) -> Tensor:
    """[level of the signal] the functional of each passage, reduced to one number."""
    if signal.name == "similarity":
        return _similar(policy, batch, signal)
    settings = dict(signal.settings)
    name, reduce = settings.pop("passage"), settings.pop("reduce", "sum")
    if reduce not in REDUCES:
        raise PodiumError(f"{signal!r} cannot reduce a passage by {reduce!r}. {nearest(reduce, REDUCES)}")
    contexts, targets = (batch[f"{signal.level}.{name}.{part}"] for part in ("context", "ids"))
    wants = grad and signal.grad
    values = policy.score(contexts, targets, name=signal.name, temperature=temperature, grad=wants, **settings)
    return reduced([v.to(device=batch.device, dtype=batch.dtype) for v in values], reduce)


def mean_cosine(predicted: Tensor, truth: Tensor) -> Tensor:
    """The mean over the truth's states [k, D] of their cosine with the predicted ones; one that is missing counts 0."""
    m = min(len(predicted), len(truth))
    return torch.cosine_similarity(predicted[:m], truth[:m], dim=-1).sum() / max(len(truth), 1)


def _similar(policy: Policy, batch: Batch, signal: Signal) -> Tensor:
    """[rollout] how alike the final hidden states of its last turn and of the passage are, token by token."""
    name = passage_of(signal)
    last = batch.last("turn", "rollout").nonzero().reshape(-1).tolist()
    turns = batch["token.id"].split(batch.partition("token", "turn").lengths().tolist())
    own = [(batch["turn.train_context"][i], tuple(turns[i].tolist())) for i in last]
    truth = list(zip(batch[f"rollout.{name}.context"], batch[f"rollout.{name}.ids"], strict=True))
    with torch.no_grad():
        # What has no text is compared with nothing: one token stands for it.
        states = policy.states([(*context, *ids) or (0,) for context, ids in (*own, *truth)])
    parts = [x[len(context) :].float() for x, (context, _) in zip(states, (*own, *truth), strict=True)]
    parts = [x if len(ids) else x[:0] for x, (_, ids) in zip(parts, (*own, *truth), strict=True)]
    pairs = zip(parts[: len(own)], parts[len(own) :], strict=True)
    return torch.stack([mean_cosine(*pair) for pair in pairs]).to(device=batch.device, dtype=batch.dtype)


def reduced(values: Sequence[Tensor], reduce: str) -> Tensor:
    """One number for each passage from the numbers of its tokens."""
    flat, lengths = torch.cat(list(values)), torch.tensor([len(v) for v in values])
    owner = torch.arange(len(values)).repeat_interleave(lengths).to(flat.device)
    of_passage = Partition(owner, len(values), ordered=True).agg
    if reduce == "sum":
        return of_passage.sum(flat)
    return of_passage.mean(flat.exp() if reduce == "mean_exp" else flat)
