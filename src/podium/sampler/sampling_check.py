"""Which engine can sample a model that the decoder does not support: checked on a few tokens before a run begins."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.forward.padded import padded, precision
from podium.policy.policy import Policy
from podium.sampler.hf_batched import HFBatchedEngine
from podium.sampler.row_engine import Prompt, Stats, SteppedEngine
from podium.sampler.uncached import UncachedEngine

__all__ = ["choose_hf_engine"]

Ids = tuple[int, ...]
TEXTS: tuple[Ids, ...] = ((5, 6, 7, 8, 9, 10), (11, 6, 5, 12))
ALLOWED = 1e-3, 0.2  # mean differences of log-probabilities that rounding explains, in float32 and below


def choose_hf_engine(policy: Policy, stats: Stats, memory: int | None) -> SteppedEngine:
    """`HFBatchedEngine` if the model's KV cache reproduces its full forward pass, else `UncachedEngine`.

    A model that is not causal is refused.
    """
    texts = [tuple(i % policy.vocabulary for i in text) for text in TEXTS]
    with torch.inference_mode():
        whole = [_logp(policy, text) for text in texts]
        earlier = [_logp(policy, text[:-1]) for text in texts]
        if not _alike(policy, [w[:-1] for w in whole], earlier):
            raise PodiumError(
                f"{policy.name or 'The model'} is not a causal language model: what it predicts for a token "
                "depends on later tokens. It cannot be sampled from: use another model."
            )
        try:
            cached = _alike(policy, whole, _stepped(policy, texts))
        except torch.OutOfMemoryError:
            raise
        except Exception:  # KV caches differ from model to model, and some models have none
            cached = False
    if cached:
        return HFBatchedEngine(policy, stats, memory)
    policy.slower("reads the whole text again for every token, because its KV cache cannot be used row by row")
    return UncachedEngine(policy, stats)


def _logp(policy: Policy, text: Ids) -> Tensor:
    """[token, vocabulary] by the forward pass that training uses."""
    ids, mask = padded([text], policy.device)
    try:
        with precision(policy):
            out = policy.model(input_ids=ids, attention_mask=mask, use_cache=False)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise PodiumError(f"{policy.name or 'The model'} failed on a plain text input: {reason}.") from error
    logits: Tensor = out.logits[0]
    if bool(logits.isnan().any()):
        raise PodiumError(f"{policy.name or 'The model'} gives NaN in {logits.dtype}: use dtype='float32'.")
    return logits.float().log_softmax(-1)


def _stepped(policy: Policy, texts: Sequence[Ids]) -> list[Tensor]:
    """The same for the last tokens, decoded one by one in rows of different lengths, of which one leaves and one
    moves."""
    rows = HFBatchedEngine(policy, Stats())
    prompts, places = [text[:-2] for text in texts], [len(text) - 3 for text in texts]
    order = [0, 1, 0]
    rows.admit([0, 1, 2], [Prompt(prompts[i]) for i in order])
    logits_of: list[list[Tensor]] = [[], []]

    def step(order: list[int]) -> None:
        ids = torch.tensor([texts[i][places[i]] for i in order], device=policy.device)
        logits = rows.step(ids, torch.tensor([places[i] for i in order], device=policy.device), 0)
        for i in set(order):
            logits_of[i].append(logits[len(order) - 1 - order[::-1].index(i)])
            places[i] += 1

    step(order)
    step(order)
    rows.move([2], [0], 2)
    step(order[:2])
    return [torch.stack(x).float().log_softmax(-1) for x in logits_of]


def _alike(policy: Policy, one: list[Tensor], other: list[Tensor]) -> bool:
    """Whether the last rows of these agree up to rounding."""
    low = (policy.lower or policy.dtype) != torch.float32
    gaps = [(a[-len(b) :] - b).abs().mean() for a, b in zip(one, other, strict=True)]
    return bool(torch.stack(gaps).max() <= ALLOWED[low])
