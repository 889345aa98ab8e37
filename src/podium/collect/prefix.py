"""Prefixes: tokens of a turn that are given rather than sampled, with a value for everything that is captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from podium.core.errors import PodiumError
from podium.protocols.sampling import Completion, Stop
from podium.strategies.requests import Score, Written

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["NO_PREFIX", "join_prefix", "prefix_completion"]

NO_PREFIX = Completion((), (), Stop.length)


def prefix_completion(driver: Driver, prefix: Written, context: tuple[int, ...], task: str) -> Completion:
    """A prefix as a completion, as if it had been sampled."""
    ids = (*prefix.ids, *(driver.written(prefix.text, False) if prefix.text else ()))
    if len(context) + len(ids) > driver.context_length:
        raise PodiumError(
            f"A rollout of {task!r} is to begin with {len(ids)} tokens after a context of {len(context)}, more than "
            f"the {driver.context_length:g} of the model's context. Shorten them."
        )

    def values(name: str, recorded: tuple[Any, ...] | None) -> tuple[Any, ...]:
        if recorded is None:
            scored = prefix.scored and name in ("logp", "entropy")
            return tuple(driver.score(Score(context, ids, name))[0]) if scored else (0.0,) * len(ids)
        if len(recorded) != len(ids):
            raise PodiumError(f"A rollout begins with {len(ids)} tokens and {len(recorded)} numbers of {name!r}.")
        return recorded

    captured = {name: values(name, prefix.captured.get(name)) for name in driver.capture}
    full = len(context) + len(ids) >= driver.context_length
    stop = Stop.end if driver.closed(ids) else Stop.context if full else Stop.length
    return Completion(ids, values("logp", prefix.logp), stop, captured)


def join_prefix(prefix: Completion, sampled: Completion) -> Completion:
    """A prefix and the completion that was sampled after it, as one."""
    if not prefix.ids:
        return sampled
    captured = {name: (*prefix.captured[name], *values) for name, values in sampled.captured.items()}
    return Completion((*prefix.ids, *sampled.ids), (*prefix.logp, *sampled.logp), sampled.stop, captured)
