"""Turns that are not written from their first token on: how they begin, with a number for everything captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from podium.core.errors import PodiumError
from podium.protocols.sampling import Completion, Stop
from podium.strategies.requests import Score, Written

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["NOTHING", "beginning", "join_prefix"]

NOTHING = Completion((), (), Stop.length)


def beginning(driver: Driver, begun: Written, context: tuple[int, ...], task: str) -> Completion:
    """What stands before the tokens that are sampled, as if it had been sampled too."""
    ids = driver.written(begun.text, False) if begun.text else begun.ids
    if len(context) + len(ids) > driver.context_length:
        raise PodiumError(
            f"A rollout of {task!r} is to begin with {len(ids)} tokens after a context of {len(context)}, more than "
            f"the {driver.context_length:g} of the model's context. Shorten them."
        )

    def numbers(name: str, known: tuple[Any, ...] | None) -> tuple[Any, ...]:
        if known is None:
            scored = begun.scored and name in ("logp", "entropy")
            return tuple(driver.score(Score(context, ids, name))[0]) if scored else (0.0,) * len(ids)
        if len(known) != len(ids):
            raise PodiumError(f"A rollout begins with {len(ids)} tokens and {len(known)} numbers of {name!r}.")
        return known

    captured = {name: numbers(name, begun.captured.get(name)) for name in driver.capture}
    full = len(context) + len(ids) >= driver.context_length
    stop = Stop.end if driver.closed(ids) else Stop.context if full else Stop.length
    return Completion(ids, numbers("logp", begun.logp), stop, captured)


def join_prefix(begun: Completion, new: Completion) -> Completion:
    """A completion with what stood before it."""
    if not begun.ids:
        return new
    captured = {name: (*begun.captured[name], *values) for name, values in new.captured.items()}
    return Completion((*begun.ids, *new.ids), (*begun.logp, *new.logp), new.stop, captured)
