"""Memory on a GPU, planned before the first step: what training takes, what is left for the sampler's keys and values.

Weights, gradients and the optimiser's averages are counted; so is what a pass keeps of each token. From the free bytes
follows how many tokens go through the model at a time. If not even one rollout fits, activations are computed again in
the backward pass; if it still does not fit, the run is refused with what would help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.policy.cuda.head import CHUNK
from podium.policy.decoder import Decoder
from podium.policy.device import GIB, free_bytes

__all__ = ["MICRO_TOKENS", "Room", "plan", "token_bytes"]

MICRO_TOKENS = {"cpu": 16384, "cuda": 40960}  # more at a time is not faster
SPARE = 0.08  # of the free bytes: what allocators waste, and what libraries take
SAMPLER = 0.35  # of what is left after weights and optimisers, at least, for the sampler


@dataclass(frozen=True)
class Room:
    """How a run uses the memory."""

    micro_tokens: int
    checkpointing: bool = False
    sampler: int | None = None  # bytes for keys and values; None: as the sampler likes
    notes: tuple[str, ...] = ()


def token_bytes(decoder: Decoder, checkpointing: bool) -> int:
    """What a training pass keeps of each token, and what the widest moment of its backward pass adds."""
    width, inside = decoder.width, decoder.config.intermediate_size
    projected = (decoder.heads + 2 * decoder.kv_heads) * decoder.head_size
    attended = decoder.heads * decoder.head_size
    if decoder.fused:
        normed = 2 * projected if decoder.layers[0].q_norm is not None else 0
        kept = 8 * width + 2 * projected + normed + 2 * attended + 4 * inside + 4 * decoder.heads
        moment = 16 * width + 4 * projected + 8 * inside
    else:  # whole numbers in the parameters' precision, most of them twice, attention padded
        size = decoder.norm.weight.element_size()
        kept = size * (8 * width + 8 * projected + 6 * inside)
        moment = kept
    layers = len(decoder.layers)
    return moment + (4 * width * layers + kept if checkpointing else kept * layers)


def plan(learners: Sequence[Policy], wanted: int | None = None, longest: int = 1, checkpointing: bool = False) -> Room:
    """How to use the memory of the learners' device, for rollouts of up to `longest` tokens."""
    policy = learners[0]
    kind = policy.device.type
    tokens = wanted or MICRO_TOKENS.get(kind, MICRO_TOKENS["cpu"])
    decoder = policy.decoder
    if kind != "cuda" or decoder is None:
        return Room(tokens, checkpointing)
    free, total = free_bytes(policy.device)
    # Gradients and the optimiser's two averages, in float32; the weights are there already.
    trained = sum(p.numel() for learner in learners for p in learner.parameters() if p.requires_grad)
    fixed = 12 * trained + 6 * CHUNK + 8 * policy.vocabulary * decoder.width
    left = int(free * (1 - SPARE)) - fixed
    share = left if left < 0 else int(left * (1 - SAMPLER))
    fits = {again: share // token_bytes(decoder, again) for again in (False, True)}
    again = checkpointing or fits[False] < min(longest, tokens)
    if fits[again] < longest:
        raise PodiumError(_refusal(policy, free, total, fixed + token_bytes(decoder, True) * longest, longest))
    chosen = min(tokens, fits[again])
    notes = []
    if total - free > total // 4:
        notes.append(f"{(total - free) / GIB:.1f} of the GPU's {total / GIB:.1f} GiB are in use already.")
    if chosen < tokens or again != checkpointing:
        way = ", their activations computed again in the backward pass" if again else ""
        notes.append(f"{free / GIB:.1f} GiB are free: {chosen:,} tokens go through the model at a time{way}.")
    return Room(chosen, again, left - chosen * token_bytes(decoder, again), tuple(notes))


def _refusal(policy: Policy, free: int, total: int, needed: int, longest: int) -> str:
    said = (
        f"Training {policy.name or 'this model'} does not fit: rollouts of {longest:,} tokens need "
        f"{needed / (1 - SPARE) / (1 - SAMPLER) / GIB:.1f} GiB for gradients, optimiser, activations and sampling, and "
        f"{free / GIB:.1f} of {total / GIB:.1f} GiB are free. "
    )
    if total - free > total // 2:
        return said + "Wait until the GPU is free, or use another one (device='cuda:1')."
    if not any("lora_" in name for name, _ in policy.named_parameters()):
        return said + "Train adapters (lora=16), use a smaller max_tokens, or a smaller model."
    return said + "Use a smaller max_tokens or a smaller model."
