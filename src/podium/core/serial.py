"""Values as plain data and back: `{ClassName: {field: value}}`, and classes by name or import path."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import json
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import yaml

from podium.core.errors import PodiumError, nearest
from podium.core.migrations import FORMAT, migrate
from podium.core.signal import Signal
from podium.core.value import REGISTRY, Value

__all__ = ["FORMAT", "decode", "dump", "encode", "from_yaml", "load_class", "read_value", "to_yaml"]

V = TypeVar("V", bound=Value)


class _Loader(yaml.SafeLoader):
    """Safe YAML in which 1e-6 is a number, as people write it; the standard asks for 1.0e-6."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def from_yaml(text: str) -> Any:
    """Plain data from YAML text."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        place = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise PodiumError(f"This is not YAML: {error.problem}{place}.") from error
    except yaml.YAMLError as error:
        raise PodiumError(f"This is not YAML: {' '.join(str(error).split())}.") from error
    except (ValueError, RecursionError) as error:  # a number of more than 4,300 digits, a date that does not exist
        raise PodiumError(f"This is not YAML that can be read: {error}.") from error


def to_yaml(value: Value) -> str:
    """The settings of a value as YAML, without its class; `read_value` is the inverse."""
    (settings,) = encode(value).values()
    return dump({"format": FORMAT, **settings})


def dump(data: Any) -> str:
    """Plain data as YAML text."""
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


def read_value(cls: type[V], text: str) -> V:
    """A value of this class from the YAML of its settings, or of a class derived from it by name."""
    data = from_yaml(text)
    if not isinstance(data, dict):
        raise PodiumError(f"A {cls.__name__.lower()} in YAML is a mapping from settings to values.")
    version = data.pop("format", 1)
    if not isinstance(version, int):
        raise PodiumError(f"format: {version!r} is not the number of a version.")
    name = next(iter(data), None)
    single = len(data) == 1 and isinstance(name, str) and name[:1].isupper()  # a kind of it, named
    data = migrate(data if single else {cls.__name__: data}, version)
    value = decode(data)
    if not isinstance(value, cls):
        raise PodiumError(f"This is YAML of a {type(value).__name__}, not of a {cls.__name__}.")
    return value


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
        name = next(iter(data), None)
        if len(data) == 1 and isinstance(name, str) and (named(name) or name == "Signal" or ":" in name):
            return build_value(name, data[name] or {})
        if len(data) == 1 and isinstance(name, str) and name[:1].isupper():
            load_class(name)  # raises with the nearest names
        return {k: decode(v) for k, v in data.items()}
    return data


def build_value(name: str, settings: dict[str, Any]) -> Any:
    """The value of class `name` with these settings."""
    if not isinstance(settings, dict):
        raise PodiumError(f"{name} holds {settings!r}: give its settings by name, such as {name}: {{field: value}}.")
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
    module = _load_file(source) if source.endswith(".py") else _import(source)
    found = getattr(module, attribute, None)
    if not (isinstance(found, type) and issubclass(found, Value)):
        if isinstance(found, type):
            raise PodiumError(f"{name} is neither a part nor a world: derive it from one of Podium's classes.")
        options = [k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, Value)]
        raise PodiumError(f"{source} has no part or world named {attribute!r}. {nearest(attribute, options)}")
    return found


def _import(source: str) -> ModuleType:
    try:
        return importlib.import_module(source)
    except ImportError as error:
        raise PodiumError(f"Cannot import {source!r}: {error}.") from error


def _load_file(source: str) -> ModuleType:
    path = Path(source)
    if not path.is_file():
        raise PodiumError(f"There is no file {source!r} (looked in {Path.cwd()}).")
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and path.resolve() == Path(script).resolve():
        return sys.modules["__main__"]  # the script that is being run: its classes are there already
    name = f"podium_user_{hashlib.blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__podium_file__ = source  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PodiumError(f"{source} could not be loaded: {type(error).__name__}: {error}.") from error
    return module
