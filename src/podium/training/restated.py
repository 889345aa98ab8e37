"""What the sampler says of tokens, in the trainer's terms: its log-probabilities, and what it has not captured.

Under a warmth, tokens are drawn from another distribution than softmax(logits / temperature), which is the one that the
trainer computes and optimises: π_old / π_sampler would differ from 1 with no drift of the policy at all. So where a
part reads the sampler's log-probabilities, they are restated as those of that distribution: log π = log μ +
(log π − log μ), the second part computed with the weights that sampled.
"""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.memory import Memory
from podium.core.part import Part
from podium.core.signal import Signal
from podium.method import Method
from podium.sampler.outside import LOCAL
from podium.training.run import Run
from podium.training.sentinel import SAMPLED, Sentinel, reads_sampler

__all__ = ["restated"]


def restated(run: Run, method: Method, batch: Batch) -> Batch:
    """The batch just sampled, with the sampler's log-probabilities in the trainer's terms if a part reads them."""
    batch = _completed(run, method, batch)
    shift = None if method.rollout is None else method.rollout.draw_shift
    if shift is None or SAMPLED not in batch or not reads_sampler(method):
        return batch
    comparable = Sentinel(method, run.iteration, run.config.gap_allowed).comparable_tokens(batch)
    scored = run.trainer.provide(batch, [shift])
    logp = (scored[SAMPLED] + scored[shift]).where(comparable, scored[SAMPLED])
    return batch.with_columns({SAMPLED.column: logp})


def _completed(run: Run, method: Method, batch: Batch) -> Batch:
    """The batch with what parts read of the sampler and an engine outside does not tell: the same functional of the
    trainer's weights, which are those that sampled."""
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    needs = [n for reader in readers for n in reader.needs if isinstance(n, Signal)]
    missing = dict.fromkeys(n for n in needs if n.of == "sampler" and n.name != "logp" and n not in batch)
    if run.config.sampler == LOCAL or not missing:
        return batch
    same = {need: Signal(need.name, of="old", level=need.level, **dict(need.settings)) for need in missing}
    scored = run.trainer.provide(batch, list(same.values()))
    return batch.with_columns({need.column: scored[source] for need, source in same.items()})
