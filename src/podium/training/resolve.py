"""What a configuration leaves open, filled in: from the method's protocol, else from Podium's own defaults.

An exact protocol (`SLUG@paper`) gives all numbers of its authors. Any other gives the structure of their run: betas,
weight decay, clipping and schedule as they are, the warm-up as a share of the updates, and the learning rate by the
size of the model (`podium.training.learning_rates`). A method without a protocol has Podium's defaults.
"""

from __future__ import annotations

from typing import Any

from podium.core.errors import PodiumError
from podium.core.facts import RunFacts
from podium.core.shares import scaled
from podium.method import DEFAULTS, Method, Protocol
from podium.protocols.format import turn_limit
from podium.protocols.world import World
from podium.training.config import USUAL, Config, Optimizer
from podium.training.learning_rates import learning_rate

__all__ = [
    "POOL",
    "check_context",
    "facts_of",
    "fill_in",
    "fill_in_learning_rate",
    "phase_rate",
    "updates_per_batch",
]

LARGE = learning_rate(10**12, 1)  # the usual learning rate of large models
POOL = 4  # iterations after which a task comes back, for methods that remember tasks


def updates_per_batch(method: Method) -> int:
    """Optimiser steps per batch, of phases those of the main one."""
    updates = method.main().updates
    return updates.passes * updates.mini_batches


def fill_in(config: Config, world: World) -> Config:
    """The configuration with everything but the learning rate decided, and shares as numbers."""
    protocol, main = config.method.protocol or Protocol(), config.method.main()
    format = None if main.rollout is None else main.rollout.format
    sizes = protocol if protocol.exact else Protocol()
    iterations = _first(config.iterations, sizes.iterations, DEFAULTS.iterations)
    tasks = _first(config.tasks, sizes.tasks, DEFAULTS.tasks)
    max_tokens = _first(config.max_tokens, sizes.max_tokens, turn_limit(world, format))
    pool = config.pool
    if pool is None and config.method.protocol is not None and world.size("train") is None:
        pool = _first(sizes.pool, POOL * tasks if config.method.remembers_tasks else None)
    method = scaled(config.method, {"iterations": iterations, "max_tokens": max_tokens})
    return config.replace(
        method=method,
        iterations=iterations,
        tasks=tasks,
        max_tokens=max_tokens,
        max_turns=_first(config.max_turns, sizes.max_turns),
        pool=pool,
        optimizer=_optimizer(config.optimizer, protocol, iterations, updates_per_batch(method)),
    )


def facts_of(config: Config, world: World) -> RunFacts:
    """What parts may know of a run whose configuration is filled in."""
    return RunFacts(
        iterations=config.iterations,
        tasks=config.tasks,
        max_tokens=config.max_tokens,
        max_turns=_first(config.max_turns, world.max_turns),
        pool=_first(world.size("train"), config.pool),
    )


def fill_in_learning_rate(config: Config, parameters: int) -> Config:
    """The configuration with the learning rate of a policy of so many parameters."""
    protocol = config.method.protocol
    if config.optimizer.lr is not None:
        return config
    if protocol is None:
        lr = USUAL.lr
    elif protocol.exact and protocol.lr is not None:
        lr = protocol.lr
    else:
        lr = learning_rate(parameters, updates_per_batch(config.method))
    return config.replace(optimizer=config.optimizer.replace(lr=lr))


def check_context(config: Config, context_length: int) -> None:
    """Refuse the answers of an exact protocol that the model's context cannot hold."""
    exact = config.method.protocol is not None and config.method.protocol.exact
    if exact and config.max_tokens >= context_length:
        raise PodiumError(
            f"{config.method.name} samples answers of {config.max_tokens} tokens, which do not fit in the context of "
            f"{config.model}, {context_length} tokens. Name a model with a longer context (--model), or shorter "
            f"answers (--set max_tokens={context_length // 2})."
        )


def phase_rate(method: Method, active: Method) -> float:
    """The learning rate of a phase relative to that of the run: the ratio that the two have in the protocols. A rate of
    the run that is not known counts as the usual one of large models."""
    run, phase = method.protocol, active.protocol
    if phase is None or phase.lr is None:
        return 1.0
    return phase.lr / (LARGE if run is None or run.lr is None else run.lr)


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next((value for value in values if value is not None), None)


def _optimizer(given: Optimizer, protocol: Protocol, iterations: int, updates: int) -> Optimizer:
    """The optimiser's settings, with the learning rate left open."""
    published = Optimizer(
        betas=protocol.betas,
        weight_decay=protocol.weight_decay,
        warmup=protocol.warmup_updates(iterations, updates),
        schedule=protocol.schedule,
        final=protocol.final,
        clip=protocol.clip,
    )
    return given.over(published).over(USUAL.replace(lr=None))
