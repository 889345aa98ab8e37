"""The sampler's log-probabilities in the trainer's terms.

Under a warmth, tokens are drawn from another distribution than softmax(logits / temperature), which is the one that the
trainer computes and optimises: π_old / π_sampler would differ from 1 with no drift of the policy at all. So where a
part reads the sampler's log-probabilities, they are restated as those of that distribution: log π = log μ +
(log π − log μ), the second part computed with the weights that sampled.
"""

from __future__ import annotations

from podium.core.batch import Batch
from podium.method import Method
from podium.training.run import Run
from podium.training.sentinel import SAMPLED, Sentinel, reads_sampler

__all__ = ["restated"]


def restated(run: Run, method: Method, batch: Batch) -> Batch:
    """The batch just sampled, with the sampler's log-probabilities in the trainer's terms if a part reads them."""
    shift = None if method.rollout is None else method.rollout.draw_shift
    if shift is None or SAMPLED not in batch or not reads_sampler(method):
        return batch
    comparable = Sentinel(method, run.iteration, run.config.gap_allowed).comparable_tokens(batch)
    scored = run.trainer.provide(batch, [shift])
    logp = (scored[SAMPLED] + scored[shift]).where(comparable, scored[SAMPLED])
    return batch.with_columns({SAMPLED.column: logp})
