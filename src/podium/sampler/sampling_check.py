"""How a model of any other architecture is sampled: tried on a few tokens before a run begins."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.forward.padded import padded, precision
from podium.policy.policy import Policy
from podium.sampler.hf_batched import Waves
from podium.sampler.row_engine import Prompt, Stats, Stepped
from podium.sampler.uncached import Whole

__all__ = ["by_own_pass"]

Ids = tuple[int, ...]
TEXTS: tuple[Ids, ...] = ((5, 6, 7, 8, 9, 10), (11, 6, 5, 12))
ALLOWED = 1e-3, 0.2  # mean distances of log-probabilities that rounding explains, in float32 and in less


def by_own_pass(policy: Policy, stats: Stats, memory: int | None) -> Stepped:
    """Rows that keep what the model keeps between tokens if it gives the numbers of its whole pass; or else whole
    texts. A model that is not causal is refused."""
    texts = [tuple(i % policy.vocabulary for i in text) for text in TEXTS]
    with torch.inference_mode():
        whole = [_logp(policy, text) for text in texts]
        earlier = [_logp(policy, text[:-1]) for text in texts]
        if not _alike(policy, [w[:-1] for w in whole], earlier):
            raise PodiumError(
                f"{policy.name or 'The model'} is not a causal language model: what it says of a token depends on "
                "those after it. Nothing can be sampled from it: use another model."
            )
        try:
            able = _alike(policy, whole, _stepped(policy, texts))
        except torch.OutOfMemoryError:
            raise
        except Exception:  # caches are of as many kinds as models, and some models have none
            able = False
    if able:
        return Waves(policy, stats, memory)
    policy.slower("reads all of its text again for every token, since no cache of it can be used row by row")
    return Whole(policy, stats)


def _logp(policy: Policy, text: Ids) -> Tensor:
    """[token, vocabulary] by the pass that training takes."""
    ids, mask = padded([text], policy.device)
    try:
        with precision(policy):
            out = policy.model(input_ids=ids, attention_mask=mask, use_cache=False)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise PodiumError(f"{policy.name or 'The model'} cannot read a text by itself: {reason}.") from error
    logits: Tensor = out.logits[0]
    if bool(logits.isnan().any()):
        raise PodiumError(
            f"{policy.name or 'The model'} gives numbers that are none in {logits.dtype}: use dtype='float32'."
        )
    return logits.float().log_softmax(-1)


def _stepped(policy: Policy, texts: Sequence[Ids]) -> list[Tensor]:
    """The same, the last tokens one by one in rows of different lengths, of which one leaves and others move."""
    rows = Waves(policy, Stats())
    begun, places = [text[:-2] for text in texts], [len(text) - 3 for text in texts]
    order = [0, 1, 0]
    rows.admit([0, 1, 2], [Prompt(begun[i]) for i in order])
    found: list[list[Tensor]] = [[], []]

    def step(order: list[int]) -> None:
        ids = torch.tensor([texts[i][places[i]] for i in order], device=policy.device)
        logits = rows.step(ids, torch.tensor([places[i] for i in order], device=policy.device), 0)
        for i in set(order):
            found[i].append(logits[len(order) - 1 - order[::-1].index(i)])
            places[i] += 1

    step(order)
    step(order)
    rows.move([2], [0], 2)
    step(order[:2])
    return [torch.stack(x).float().log_softmax(-1) for x in found]


def _alike(policy: Policy, one: list[Tensor], other: list[Tensor]) -> bool:
    """Whether the last rows of these are the same up to rounding."""
    low = (policy.lower or policy.dtype) != torch.float32
    gaps = [(a[-len(b) :] - b).abs().mean() for a, b in zip(one, other, strict=True)]
    return bool(torch.stack(gaps).max() <= ALLOWED[low])
