"""The packed forward pass: the decoder on a trie of sequences, with shared prefixes computed once and no padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from podium.policy.cuda.head import taken
from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import pack
from podium.policy.forward.score_request import ScoreRequest
from podium.policy.head.functionals import HeadRows, Wanted, evaluate_functionals, level_of
from podium.policy.model.device import to_device

if TYPE_CHECKING:
    from podium.policy.policy import Policy

__all__ = ["evaluate", "states"]

Ids = tuple[int, ...]


def states(decoder: Decoder, sequences: Sequence[Ids], layers: Sequence[int] | None = None) -> list[Tensor]:
    """Final hidden states of each sequence, or those after each of the blocks in `layers`."""
    packed = pack(sequences, decoder.device)
    tap = None if layers is None else dict.fromkeys(layers, torch.empty(0))
    hidden, _ = decoder.encode(packed, tap=tap)
    if layers is not None and tap is not None:
        hidden = torch.stack([tap[k] for k in layers], 1)
    return [hidden[torch.from_numpy(nodes).to(decoder.device)] for nodes in packed.nodes]


def evaluate(
    policy: Policy, decoder: Decoder, request: ScoreRequest, wanted: Sequence[tuple[Wanted, bool]], temperature: float
) -> list[Tensor]:
    """Functionals of the request's tokens; a token that several sequences share at the same node is scored once."""
    packed = pack(request.sequences, policy.device, least=decoder.least)
    starts = np.cumsum([0, *(len(n) for n in packed.nodes)])
    node = np.concatenate(packed.nodes)[starts[request.owner] + request.place]
    pair = node * policy.vocabulary + request.ids
    if request.columns:  # sequences that share a token may differ in these
        inverse = np.arange(len(pair))
    else:
        pair, inverse = np.unique(pair, return_inverse=True)
    node_of, ids = (to_device(x, policy.device) for x in np.divmod(pair, policy.vocabulary))
    hidden, _ = decoder.encode(packed)
    rows = HeadRows(
        taken(hidden, node_of),
        ids,
        decoder.logits,
        temperature,
        policy._value_head,
        columns=request.columns,
        read=decoder.read if decoder.fused else None,
        sets=request.sets,
    )
    back = to_device(inverse, policy.device)
    rollouts = [back[at] for at in request.places(policy.device)]
    values = evaluate_functionals(rows, wanted, policy.vocabulary, rollouts=rollouts)
    if len(pair) == len(request.ids) and np.array_equal(inverse, np.arange(len(pair))):
        return values
    single = [level_of(name) == "token" for (name, _), _ in wanted]
    return [v.index_select(0, back) if one else v for v, one in zip(values, single, strict=True)]
