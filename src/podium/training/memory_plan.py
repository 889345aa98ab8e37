"""GPU memory, planned before the first step: what training takes, and what is left for the sampler's KV cache.

Weights, gradients and the optimiser's moments are counted, and the activations of each token. The free bytes then say
how many tokens go through the model at a time. If not even one rollout fits, activations are recomputed in the backward
pass; if it still does not fit, the run is refused with the nearest setting that does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.policy.cuda.head import CHUNK
from podium.policy.forward.decoder import Decoder
from podium.policy.head.functionals import CHUNK as PART
from podium.policy.model.device import GIB, elsewhere, free_bytes, held_by_others, host_bytes, out_of_memory
from podium.policy.model.lora import attached
from podium.policy.network_policy import NetworkPolicy
from podium.training.config import MOMENTS

__all__ = ["MICRO_TOKENS", "MemoryNeeds", "MemoryPlan", "plan_memory", "suggest_settings", "token_bytes"]

MICRO_TOKENS = {"cpu": 16384, "cuda": 40960}  # more at a time is not faster
SPARE = 0.08  # share of the free bytes that allocators waste and libraries take
SAMPLER = 0.35  # least share for the sampler, of what weights and optimisers leave


@dataclass(frozen=True)
class MemoryPlan:
    """How a run uses the memory."""

    micro_tokens: int
    checkpointing: bool = False
    sampler: int | None = None  # bytes of the KV cache; None: the sampler decides
    notes: tuple[str, ...] = ()


def token_bytes(decoder: Decoder, checkpointing: bool, fused: bool | None = None) -> int:
    """Bytes that a training pass keeps per token, with the peak of its backward pass; of the decoder's own passes, or
    as if they were fused or not."""
    width, inside = decoder.width, decoder.config.intermediate_size
    projected = (decoder.heads + 2 * decoder.kv_heads) * decoder.head_size
    attended = decoder.heads * decoder.head_size
    if decoder.fused if fused is None else fused:
        normed = 2 * projected if decoder.layers[0].q_norm is not None else 0
        kept = 8 * width + 2 * projected + normed + 2 * attended + 4 * inside + 4 * decoder.heads
        peak = 16 * width + 4 * projected + 8 * inside
    else:  # activations in the parameters' precision, most of them twice, attention padded
        size = decoder.norm.weight.element_size()
        kept = size * (8 * width + 8 * projected + 6 * inside)
        peak = kept
    layers = len(decoder.layers)
    return peak + (4 * width * layers + kept if checkpointing else kept * layers)


def plan_memory(
    learners: Sequence[Policy],
    wanted: int | None = None,
    longest: int = 1,
    checkpointing: bool = False,
    moments: str = "float32",
) -> MemoryPlan:
    """How to use the memory of the learners' device, for rollouts of up to `longest` tokens, with the optimiser's
    running means in the precision `moments`."""
    policy = learners[0]
    kind = policy.device.type
    tokens = wanted or MICRO_TOKENS.get(kind, MICRO_TOKENS["cpu"])
    trained = sum(p.numel() for learner in learners for p in learner.parameters() if p.requires_grad)
    if kind != "cuda" or isinstance(policy, NetworkPolicy):  # a small network leaves nothing to plan
        _check_host(policy, int(MOMENTS[moments] * trained))
        return MemoryPlan(tokens, checkpointing)
    free, total = free_bytes(policy.device)
    others = held_by_others(policy.device)
    needs = MemoryNeeds.of(policy, trained, _copies(learners), moments=moments)
    recompute = checkpointing or needs.tokens(free, False) < min(longest, tokens)
    if needs.tokens(free, recompute) < longest:
        smaller = MemoryNeeds.of(policy, trained, _copies(learners), moments="8bit")
        raise PodiumError(_refusal(policy, needs, smaller, free, total, longest))
    chosen = min(tokens, needs.tokens(free, recompute))
    notes = []
    if others > total // 8:
        notes.append(f"Other programs hold {others / GIB:.1f} of the GPU's {total / GIB:.1f} GiB.")
    if chosen < tokens or recompute != checkpointing:
        way = ", their activations computed again in the backward pass" if recompute else ""
        notes.append(f"{free / GIB:.1f} GiB are free: {chosen:,} tokens go through the model at a time{way}.")
    return MemoryPlan(chosen, recompute, needs.left(free) - chosen * needs.token[recompute], tuple(notes))


def _check_host(policy: Policy, needed: int) -> None:
    """Refuse what the machine's own memory cannot hold: the system would end the program without a word."""
    left = host_bytes()
    if left is not None and needed > left:
        raise PodiumError(
            f"Training {policy.name or 'this model'} does not fit in this machine's memory: beside the weights, "
            f"gradients and optimiser need {needed / GIB:.1f} GiB, and {left / GIB:.1f} GiB are left. Keep the "
            "optimiser's moments in 8 bits (moments='8bit'), train adapters (lora=16), or a smaller model."
        )


@dataclass(frozen=True)
class MemoryNeeds:
    """What training takes beside the weights that are there already, in bytes."""

    fixed: int  # gradients, the optimiser's two moments, copies of weights in a lower precision, logits
    token: tuple[int, int]  # per token that goes through the model: with activations kept, and recomputed

    @classmethod
    def of(
        cls, policy: Policy, trained: int, copies: int = 0, fused: bool | None = None, moments: str = "float32"
    ) -> MemoryNeeds:
        """Those of a policy that trains so many weights; of its own passes, or as if they were fused or not."""
        decoder, learning = policy.decoder, int(MOMENTS[moments] * trained)
        if decoder is None:  # logits in chunks of CHUNK numbers or of one text, each recomputed
            each = _plain_bytes(policy)
            return cls(learning + 16 * PART, (each, each))
        logits = 6 * CHUNK + 8 * policy.vocabulary * decoder.width
        return cls(learning + copies + logits, (token_bytes(decoder, False, fused), token_bytes(decoder, True, fused)))

    def left(self, free: int) -> int:
        """Of so many free bytes, those for activations and for sampling."""
        return int(free * (1 - SPARE)) - self.fixed

    def tokens(self, free: int, recompute: bool) -> int:
        """How many tokens may go through the model at a time."""
        return max(int(self.left(free) * (1 - SAMPLER)), 0) // self.token[recompute]

    def free(self, tokens: int) -> int:
        """The bytes that must be free for so many tokens, their activations recomputed."""
        return int((self.fixed + self.token[True] * tokens / (1 - SAMPLER)) / (1 - SPARE))


def _plain_bytes(policy: Policy) -> int:
    """Bytes that the model's own pass keeps per token: some 17 numbers as wide as its states in every layer, and the
    logits."""
    size = (policy.lower or policy.dtype).itemsize
    return 17 * size * policy.config.hidden_size * policy.config.num_hidden_layers + 16 * policy.vocabulary


def _copies(learners: Sequence[Policy]) -> int:
    """Bytes of the copies of weights in a lower precision that the first pass will make."""
    decoders = [x.decoder for x in learners if x.decoder is not None and x.decoder.layout == 0]
    copied = [p for d in decoders if d.lower is not None for p in d.model.parameters()]
    folded = [b.weight for d in decoders if d.folds for layer in d.layers for b in layer.bases]
    return sum(p.numel() for p in (*copied, *folded)) * 2


def _refusal(policy: Policy, needs: MemoryNeeds, smaller: MemoryNeeds, free: int, total: int, longest: int) -> str:
    """Why a run does not fit, and the nearest that does; `smaller`: its needs with 8-bit moments."""
    place, others = policy.device, held_by_others(policy.device)
    shared = f" (other programs hold {others / GIB:.1f})" if others > total // 8 else ""
    reason = (
        f"Training {policy.name or 'this model'} does not fit: beside the weights, rollouts of {longest:,} tokens need "
        f"{needs.free(longest) / GIB:.1f} GiB for gradients, optimiser, activations and sampling, and "
        f"{free / GIB:.1f} of {total / GIB:.1f} GiB are free{shared}. "
    )
    advice = [a for a in (_elsewhere(policy, needs, longest), _shorter(needs, free, longest)) if a]
    if needs.free(longest) <= free + others:
        advice.append("wait until the other programs have ended")
    if needs.free(longest) > free >= smaller.free(longest):
        advice.append("keep the optimiser's moments in 8 bits (moments='8bit')")
    advice += _otherwise(policy, free, longest)
    # Weights, gradients and averages in float32, copies in half of that.
    largest = int((free + torch.cuda.memory_allocated(place)) * (1 - SPARE) * (1 - SAMPLER)) / 18e9
    advice.append(f"train a model of at most {largest:.2g} billion weights, or with device='cpu'")
    first = advice[0]
    return f"{reason}{first[0].upper()}{first[1:]}{f'; or {advice[1]}' if len(advice) > 1 else ''}."


def _elsewhere(policy: Policy, needs: MemoryNeeds, longest: int) -> str | None:
    return elsewhere(policy.device, needs.free(longest) + torch.cuda.memory_allocated(policy.device))


def _shorter(needs: MemoryNeeds, free: int, longest: int) -> str | None:
    """Shorter rollouts, where they need not be much shorter."""
    fits = needs.tokens(free, True)
    return f"use max_tokens={fits}" if 4 * fits >= longest else None


def _otherwise(policy: Policy, free: int, longest: int) -> list[str]:
    """Other ways to train these weights that fit: a lower precision, adapters, adapters on rounded weights."""
    weights = sum(p.numel() for p in policy.parameters())
    modern = torch.cuda.get_device_capability(policy.device)[0] >= 8
    exact = policy.lower is None and policy.dtype == torch.float32
    advice = []
    if attached(policy.model):
        trained = sum(p.numel() for p in policy.parameters() if p.requires_grad)
        if exact and modern and MemoryNeeds.of(policy, trained).free(longest) <= free + 2 * weights:
            advice.append("use dtype='bfloat16'")
        return advice
    if exact and modern and MemoryNeeds.of(policy, weights, 2 * weights, fused=True).free(longest) <= free:
        advice.append("use dtype='bfloat16'")
    layers = [m for m in policy.model.modules() if isinstance(m, nn.Linear)]
    adapters = 16 * sum(m.in_features + m.out_features for m in layers)
    if MemoryNeeds.of(policy, adapters, fused=False).free(longest) <= free:
        advice.append("train adapters (lora=16)")
    elif modern and MemoryNeeds.of(policy, adapters, 2 * weights, fused=True).free(longest) <= free + 2 * weights:
        advice.append("train adapters beside rounded weights (lora=16, dtype='bfloat16')")
    return advice


@contextmanager
def suggest_settings() -> Iterator[None]:
    """Turn an allocator's report that a GPU's memory is full into an error that says which settings to change."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        wanted = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
        asked = f" ({wanted[1]} more were asked for)" if wanted else ""
        raise PodiumError(
            f"The GPU ran out of memory{asked}: use a smaller micro_tokens or max_tokens, a method without a second "
            "model, adapters (lora=16), or a smaller model."
        ) from error
