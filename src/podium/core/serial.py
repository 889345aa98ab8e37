"""Values as plain data and back: `{ClassName: {field: value}}`, and classes by name or import path."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from podium.core.errors import PodiumError, nearest
from podium.core.migrations import FORMAT, migrate
from podium.core.named_code import check_code, load_source
from podium.core.signal import Signal
from podium.core.value import REGISTRY, Value, check_settings
from podium.core.yaml_text import dump, from_yaml

__all__ = ["FORMAT", "code_names", "decode", "decode_as", "encode", "load_class", "read_data", "read_value", "to_yaml"]

V = TypeVar("V", bound=Value)


def to_yaml(value: Value) -> str:
    """The settings of a value as YAML, without its class; `read_value` is the inverse."""
    (settings,) = encode(value).values()
    return dump({"format": FORMAT, **settings})


def read_value(cls: type[V], text: str, *, trust: bool = False) -> V:
    """A value of this class from the YAML of its settings, or of a class derived from it by name.

    Code that it names is executed only if it stands in the current project, unless `trust`.
    """
    data = read_data(cls, text)
    if not trust:
        check_code(code_names(data))
    return decode_as(cls, data)


def read_data(cls: type[Value], text: str) -> dict[str, Any]:
    """`{ClassName: {field: value}}` from the YAML of the settings of a value of this class, as plain data.

    Settings that Podium's classes do not have are refused. Nothing that the text names is executed.
    """
    data = from_yaml(text)
    if not isinstance(data, dict):
        raise PodiumError(f"A {cls.__name__.lower()} in YAML is a mapping from settings to values.")
    version = data.pop("format", 1)
    if not isinstance(version, int):
        raise PodiumError(f"format: {version!r} is not the number of a version.")
    name = next(iter(data), None)
    single = len(data) == 1 and isinstance(name, str) and name[:1].isupper()  # a kind of it, named
    plain: dict[str, Any] = migrate(data if single else {cls.__name__: data}, version)
    _check_names(plain)
    ((name, settings),) = plain.items()
    if ":" not in name and not issubclass(load_class(name), cls):
        raise PodiumError(f"This is YAML of a {name}, not of a {cls.__name__}.")
    return {name: settings or {}}


def decode_as(cls: type[V], data: dict[str, Any]) -> V:
    """The value that `read_data` has read. This loads the code that it names."""
    value = decode(data)
    if not isinstance(value, cls):
        raise PodiumError(f"This is YAML of a {type(value).__name__}, not of a {cls.__name__}.")
    return value


def code_names(data: Any) -> Iterator[str]:
    """The names of code in encoded data, `my_file.py:MyPart` or `package.module:MyPart`, that `decode` would load."""
    if isinstance(data, list):
        for item in data:
            yield from code_names(item)
    elif isinstance(data, dict):
        name = _value_name(data)
        if name is not None and ":" in name:
            yield name
        for item in data.values():
            yield from code_names(item)


def _check_names(data: Any) -> None:
    """Refuse unknown classes, and settings that Podium's own do not have, before anything else is loaded."""
    if isinstance(data, list):
        for item in data:
            _check_names(item)
    elif isinstance(data, dict):
        name = _value_name(data)
        if name is not None:
            settings = _settings(name, data[name])
            if ":" not in name and name != "Signal":
                check_settings(load_class(name), settings)
        for item in data.values():
            _check_names(item)


def encode(value: Any) -> Any:
    """A value as nested dictionaries, lists and scalars."""
    if isinstance(value, Value):
        return {class_name(type(value)): {k: encode(v) for k, v in value.settings().items()}}
    if isinstance(value, Signal):
        return {
            "Signal": {
                "name": value.name,
                "of": value.of,
                "level": value.level,
                "grad": value.grad,
                **dict(value.settings),
            }
        }
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {k: encode(v) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise PodiumError(
        f"{value!r} cannot be written to YAML: a setting must be a number, text, a list, or a Podium value."
    )


def decode(data: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(data, list):
        return tuple(decode(v) for v in data)
    if isinstance(data, dict):
        name = _value_name(data)
        if name is not None:
            return build_value(name, _settings(name, data[name]))
        return {k: decode(v) for k, v in data.items()}
    return data


def _value_name(data: dict[Any, Any]) -> str | None:
    """The name of the class if a mapping stands for a value; None if it is just a mapping."""
    name = next(iter(data), None)
    if len(data) != 1 or not isinstance(name, str):
        return None
    if named(name) or name == "Signal" or ":" in name:
        return name
    if name[:1].isupper():
        load_class(name)  # raises with the nearest names
    return None


def _settings(name: str, held: Any) -> dict[str, Any]:
    if held is not None and not isinstance(held, dict):
        raise PodiumError(f"{name} holds {held!r}: give its settings by name, such as {name}: {{field: value}}.")
    for key in held or ():
        if not isinstance(key, str):
            raise PodiumError(f"{name} has no setting {key!r}: settings are named.")
    return held or {}


def build_value(name: str, settings: dict[str, Any]) -> Any:
    """The value of class `name` with these settings."""
    fields = {k: decode(v) for k, v in settings.items()}
    if name == "Signal":
        return Signal(**fields)
    cls = load_class(name)
    required = [f.name for f in dataclasses.fields(cls) if _required(f)]
    missing = [f for f in required if f not in fields]
    if missing:
        raise PodiumError(f"{name} needs the setting {missing[0]!r}.")
    return cls(**fields)


def _required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def class_name(cls: type[Value]) -> str:
    """The name under which `load_class` finds the class again."""
    if REGISTRY.get(cls.__name__) is cls:
        return cls.__name__
    if "__podium_source__" in vars(cls):  # a script's, of which a copy was saved
        return f"{vars(cls)['__podium_source__']}:{cls.__qualname__}"
    module = sys.modules.get(cls.__module__)
    source = getattr(module, "__podium_file__", None)
    if cls.__module__ == "__main__":  # a script that is being run: another process finds it by its file
        source = getattr(module, "__file__", None)
    return f"{source or cls.__module__}:{cls.__qualname__}"


@cache
def class_modules() -> dict[str, str]:
    """The module of each class that YAML may name, from the generated index, so that a class is imported when it is
    first named."""
    classes: dict[str, str] = json.loads((Path(__file__).parents[1] / "index.json").read_text("utf-8"))["classes"]
    return classes


def named(name: object) -> bool:
    """Whether a name of YAML is that of a class of Podium."""
    return name in REGISTRY or name in class_modules()


def load_class(name: str) -> type[Value]:
    """A class by its Podium name, or `my_file.py:MyPart`, or `package.module:MyPart`."""
    if ":" not in name:
        if not named(name):
            raise PodiumError(
                f"There is no part or value named {name!r}. {nearest(name, {**class_modules(), **REGISTRY})}"
            )
        if name not in REGISTRY:
            importlib.import_module(class_modules()[name])
        return REGISTRY[name]
    source, _, attribute = name.rpartition(":")
    module = load_source(source)
    found = getattr(module, attribute, None)
    if not (isinstance(found, type) and issubclass(found, Value)):
        if isinstance(found, type):
            raise PodiumError(f"{name} is neither a part nor a world: derive it from one of Podium's classes.")
        options = [k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, Value)]
        raise PodiumError(f"{source} has no part or world named {attribute!r}. {nearest(attribute, options)}")
    return found
