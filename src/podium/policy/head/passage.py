"""Passages: fixed texts, such as a reference answer, scored after a context of their own, as signals of any level.

A passage `answer` of the level `rollout` is a pair of columns of token ids, `rollout.answer.context` and
`rollout.answer.ids`. `Signal("logp", level="rollout", passage="answer", reduce="sum", grad=True)` is one number per
passage: the sum or the mean of the functional over its tokens, or the mean of its exponential. An empty passage gives
0. `Signal("similarity", level="rollout", passage="truth")` compares the hidden states of a rollout and of a passage.
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

__all__ = ["REDUCES", "mean_cosine", "passage_of", "reduced", "passage_signal"]

REDUCES = ("sum", "mean", "mean_exp")


def passage_of(signal: Signal) -> str | None:
    """The passage that a signal scores; None: the batch's own tokens."""
    return dict(signal.settings).get("passage")


def passage_signal(policy: Policy, batch: Batch, signal: Signal, temperature: float, grad: bool) -> Tensor:
    """[level of the signal] the functional of each passage, reduced to one number."""
    if signal.name == "similarity":
        return _similarity(policy, batch, signal)
    settings = dict(signal.settings)
    name, reduce = settings.pop("passage"), settings.pop("reduce", "sum")
    if reduce not in REDUCES:
        raise PodiumError(f"{signal!r} cannot reduce a passage by {reduce!r}. {nearest(reduce, REDUCES)}")
    contexts, targets = (batch[f"{signal.level}.{name}.{part}"] for part in ("context", "ids"))
    wants = grad and signal.grad
    values = policy.score(contexts, targets, name=signal.name, temperature=temperature, grad=wants, **settings)
    return reduced([v.to(device=batch.device, dtype=batch.dtype) for v in values], reduce)


def mean_cosine(predicted: Tensor, truth: Tensor) -> Tensor:
    """The mean cosine of the states [k, D] of the truth with the predicted ones; a missing one counts as 0."""
    m = min(len(predicted), len(truth))
    return torch.cosine_similarity(predicted[:m], truth[:m], dim=-1).sum() / max(len(truth), 1)


def _similarity(policy: Policy, batch: Batch, signal: Signal) -> Tensor:
    """[rollout] the mean cosine, token by token, of the final hidden states of its last turn and of the passage."""
    name = passage_of(signal)
    last = batch.last("turn", "rollout").nonzero().reshape(-1).tolist()
    turns = batch["token.id"].split(batch.partition("token", "turn").lengths().tolist())
    written = [(batch["turn.train_context"][i], tuple(turns[i].tolist())) for i in last]
    truth = list(zip(batch[f"rollout.{name}.context"], batch[f"rollout.{name}.ids"], strict=True))
    with torch.no_grad():
        # An empty text is replaced by one token, whose state is dropped below.
        states = policy.states([(*context, *ids) or (0,) for context, ids in (*written, *truth)])
    parts = [x[len(context) :].float() for x, (context, _) in zip(states, (*written, *truth), strict=True)]
    parts = [x if len(ids) else x[:0] for x, (_, ids) in zip(parts, (*written, *truth), strict=True)]
    pairs = zip(parts[: len(written)], parts[len(written) :], strict=True)
    return torch.stack([mean_cosine(*pair) for pair in pairs]).to(device=batch.device, dtype=batch.dtype)


def reduced(values: Sequence[Tensor], reduce: str) -> Tensor:
    """One number per passage from the values of its tokens."""
    flat, lengths = torch.cat(list(values)), torch.tensor([len(v) for v in values])
    owner = torch.arange(len(values)).repeat_interleave(lengths).to(flat.device)
    of_passage = Partition(owner, len(values), ordered=True).agg
    if reduce == "sum":
        return of_passage.sum(flat)
    return of_passage.mean(flat.exp() if reduce == "mean_exp" else flat)
