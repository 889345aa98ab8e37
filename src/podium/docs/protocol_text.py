"""How a method is trained, as text: the authors' run beside the run of `podium train SLUG`."""

from __future__ import annotations

from podium.method import DEFAULTS, Method, Protocol
from podium.methods.catalogue import Recipe, get

__all__ = ["ENDLESS", "NOT_GIVEN", "home_text", "protocol_rows"]

NOT_GIVEN = "not given"
ENDLESS = "no end of them"
SIZES = {"max_tokens": "the world's", "max_turns": "the world's"}  # by default, beside tasks and iterations
NAMES = {
    "lr": "learning rate",
    "betas": "AdamW's betas",
    "weight_decay": "weight decay",
    "warmup": "warm-up",
    "schedule": "schedule",
    "clip": "gradient clipping",
    "tasks": "tasks per iteration",
    "iterations": "iterations",
    "max_tokens": "tokens per turn",
    "max_turns": "turns",
    "pool": "distinct tasks",
}


def protocol_rows(entry: Recipe) -> list[tuple[str, str, str]]:
    """(setting, as published, by default) for each setting of a run that the authors or the method decide."""
    published = entry.protocol
    if published is None:
        return []
    plain, paper = get(entry.slug).main(), get(f"{entry.slug}@paper").main()
    rows = [
        ("model", published.model or NOT_GIVEN, "podium/tiny"),
        ("optimiser steps per batch", _steps(paper), _steps(plain)),
        ("rollouts per task", _rollouts(paper), _rollouts(plain)),
        ("temperature", _temperature(paper), _temperature(plain)),
    ]
    rows += [(label, _published(published, name), _by_default(entry, published, name)) for name, label in NAMES.items()]
    rows += [
        (f"learning rate of {role.name}", _of_role(role.lr, role.lr_ratio), _of_role(role.lr, role.lr_ratio))
        for role in plain.roles
        if role.lr is not None or role.lr_ratio != 1
    ]
    return rows


def home_text(entry: Recipe) -> str:
    """Where a method trains unless a world is named."""
    home = entry.home
    dials = [f"{name} {value}" for name, value in home.world_settings.items()]
    where = f"{home.world} ({', '.join(dials)})" if dials else home.world
    with_model = f" with {home.model}" if home.model else ""
    return f"{where}{with_model}, {home.iterations} iterations of {home.tasks} tasks"


def _steps(method: Method) -> str:
    updates = method.updates
    if updates.passes == 1:
        return str(updates.mini_batches)
    return f"{updates.passes * updates.mini_batches} ({updates.passes} epochs of {updates.mini_batches})"


def _rollouts(method: Method) -> str:
    n = None if method.rollout is None else method.rollout.n
    return "as the strategy decides" if n is None else str(n)


def _temperature(method: Method) -> str:
    return "1.0" if method.rollout is None else str(method.rollout.temperature)


def _published(protocol: Protocol, name: str) -> str:
    value = getattr(protocol, name)
    if value is None:
        return NOT_GIVEN
    if name == "warmup":
        return f"{value:g} of the updates" if 0 < value < 1 else f"{value:g} updates"
    if name == "schedule" and protocol.final:
        return f"{value}, to {protocol.final:g} of the learning rate"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _by_default(entry: Recipe, protocol: Protocol, name: str) -> str:
    if name == "lr":
        return "by the size of the model and the steps per batch"
    if name in ("tasks", "iterations"):
        return f"{getattr(entry.home, name)} at home, else {getattr(DEFAULTS, name)}"
    if name in SIZES:
        return SIZES[name]
    if name == "pool":
        return "so few that they come back" if get(entry.slug).remembers_tasks else ENDLESS
    if getattr(protocol, name) is None:
        return _published(DEFAULTS, name)
    if name == "warmup" and protocol.warmup:
        return "the same share of the updates" if protocol.iterations or protocol.warmup < 1 else "at most a tenth"
    return _published(protocol, name)


def _of_role(lr: float | None, ratio: float) -> str:
    return f"{ratio:g} × the policy's" if lr is None else f"{lr:g}"
