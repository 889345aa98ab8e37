"""The kernels of a training pass, tried on a few tokens before a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from podium.policy.cuda import ops

if TYPE_CHECKING:
    from podium.policy.policy import Policy

__all__ = ["trial"]

SHARED, ENDS = tuple(range(5, 37)), ((5, 6, 7), (8, 9))  # a beginning long enough to be encoded once, and two ends


def trial(policy: Policy) -> str | None:
    """Compile and try what a pass forward and back launches, at this model's own widths: a GPU may have too little fast
    memory for one kernel of many. Where one fails, plain torch takes the place of all, and this says so."""
    said = ops.check(policy.device)
    if said is not None or policy.decoder is None or not policy.decoder.fused:
        return said
    try:
        context = [i % policy.vocabulary for i in SHARED]
        torch.cat(policy.score([context] * len(ENDS), ENDS, grad=True)).sum().backward()  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        return None  # said when the memory is planned
    except Exception as error:  # whatever a compiler, a driver or a cache directory can do
        return ops.give_up(error)
    finally:
        for parameter in policy.parameters():
            parameter.grad = None
    return None
