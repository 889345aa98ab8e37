"""Group 7: a part is a value: it prints, is saved, compares; and so is a memory's state."""

from __future__ import annotations

import json
from typing import Any

import yaml

from podium.core import serial
from podium.core.errors import PodiumError
from podium.core.memory import Memory, decode_state, encode_state
from podium.core.part import Columns
from podium.core.signal import Signal
from podium.core.value import REGISTRY
from podium.testing.bench import Bench
from podium.testing.subject import difference

__all__ = ["equal_parts_are_equal", "prints_as_code", "state_survives_saving", "survives_yaml"]


def prints_as_code(part: Any, bench: Bench) -> str | None:
    namespace = {**REGISTRY, "Signal": Signal, type(part).__name__: type(part)}
    try:
        again = eval(repr(part), namespace)  # its own repr
    except Exception as error:
        return f"prints as {part!r}, which cannot be evaluated: {type(error).__name__}: {error}"
    return None if again == part else f"prints as {part!r}, which is a different part"


def survives_yaml(part: Any, bench: Bench) -> str | None:
    try:
        text = yaml.safe_dump(serial.encode(part))
        again = serial.decode(yaml.safe_load(text))
    except PodiumError as error:
        return f"does not survive YAML: {error}"
    return None if again == part else f"comes back from YAML as {again!r} instead of {part!r}"


def equal_parts_are_equal(part: Any, bench: Bench) -> str | None:
    twin = part.replace()
    if twin != part:
        return "is not equal to a part with the same settings"
    try:
        return None if hash(twin) == hash(part) else "has another hash than an equal part"
    except TypeError as error:
        return f"cannot be hashed ({error}): settings must be numbers, texts, tuples or values"


def state_survives_saving(part: Memory, bench: Bench) -> str | None:
    batches = [batch for _, batch in bench.accepted(part)]
    for before, after in zip(batches, [*batches[1:], batches[0]], strict=True):
        state = part.observe(part.initial(), before)
        try:
            saved = _saved(state)
        except PodiumError as error:
            return f"has a state that cannot be saved: {error}"
        expected = _next(part, state, after)
        again = _saved(state)
        if again[0] != saved[0] or difference(saved[1], again[1], tolerance=0.0):
            return "changes its state in place: `observe` must return a new one"
        gap = difference(expected, _next(part, decode_state(json.loads(saved[0]), saved[1]), after), tolerance=0.0)
        if gap:
            return f"goes on differently after its state was saved and loaded: {gap}"
    return None


def _saved(state: Any) -> tuple[str, dict[str, Any]]:
    tensors: dict[str, Any] = {}
    text = json.dumps(encode_state(state, tensors))
    return text, {name: x.clone() for name, x in tensors.items()}


def _next(part: Memory, state: Any, batch: Any) -> Columns:
    return part.recall(part.observe(state, batch), batch["group.task"])
