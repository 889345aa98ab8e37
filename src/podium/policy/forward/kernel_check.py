"""A check of the training kernels on a few tokens before a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from podium.policy.cuda import ops

if TYPE_CHECKING:
    from podium.policy.policy import Policy

__all__ = ["check_training_kernels"]

SHARED, ENDS = tuple(range(5, 37)), ((5, 6, 7), (8, 9))  # a prefix long enough to be shared, and two suffixes


def check_training_kernels(policy: Policy) -> str | None:
    """Compile and run all kernels of a forward and a backward pass at this model's widths.

    A GPU may have too little shared memory for one of them. If one fails, plain torch replaces all of them, and a note
    that says so is returned.
    """
    note = ops.check(policy.device)
    if note is not None or policy.decoder is None or not policy.decoder.fused:
        return note
    try:
        context = [i % policy.vocabulary for i in SHARED]
        torch.cat(policy.score([context] * len(ENDS), ENDS, grad=True)).sum().backward()  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        return None  # reported when the memory is planned
    except Exception as error:  # whatever a compiler, a driver or a cache directory may raise
        return ops.give_up(error)
    finally:
        for parameter in policy.parameters():
            parameter.grad = None
    return None
