"""A method from what was typed: a name of the catalogue or a YAML file, and changes of settings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from podium.core.errors import PodiumError
from podium.docs.catalogue_text import EntryText, read_catalogue

if TYPE_CHECKING:
    from podium.method import Method

__all__ = ["catalogue_entry", "load", "read_file", "split_change", "split_changes", "with_parts"]

V = TypeVar("V")
RECIPES = Path(__file__).parents[1] / "methods"


def catalogue_entry(name: str) -> EntryText | None:
    """The entry of `grpo` or `grpo@verl`, and None for a YAML file or several methods joined. Refuses a misspelt name
    without importing torch."""
    if name.endswith((".yaml", ".yml")):
        read_file(Path(name), str)
        return None
    if "+" in name:
        for part in name.split("+"):
            catalogue_entry(part.strip())
        return None
    slug = name.partition("@")[0]
    catalogue = read_catalogue()
    if slug not in catalogue.entries and any(RECIPES.glob(f"*/{slug.replace('-', '_')}.py")):
        return None  # a recipe that is newer than the generated file
    return catalogue.entry(name)


def load(name: str, changes: Sequence[str], parts: Sequence[str] = (), *, trust: bool = False) -> Method:
    """`grpo`, `grpo@verl` or `mine.yaml`, with additional parts and `PATH=VALUE` changes: `kl=0` is an argument of the
    recipe, `advantage.scale=none` a setting of a part. `trust`: run code that the file names, wherever it is."""
    catalogue_entry(name)
    from podium.method import Method
    from podium.methods.catalogue import get

    pairs = [split_change(change) for change in changes]
    arguments = {path: value for path, value in pairs if "." not in path}
    if name.endswith((".yaml", ".yml")):
        if arguments:
            raise PodiumError(
                f"--set {next(iter(arguments))}: a method from a file has no recipe; name a part's setting."
            )
        method = read_file(Path(name), partial(Method.from_yaml, trust=trust))
    else:
        method = get(name, **arguments)
    method = with_parts(method, parts)
    for path, value in pairs:
        if "." in path:
            method = method.set(path, value)
    return method


def with_parts(method: Method, parts: Sequence[str]) -> Method:
    """The method with these parts added, as they were typed: `SamplerCorrection`, or with settings as in YAML,
    `SamplerCorrection: {cap: 3}`."""
    from podium.core import serial
    from podium.core.yaml_text import from_yaml

    for text in parts:
        data = from_yaml(text)
        method = method | (serial.build_value(data, {}) if isinstance(data, str) else serial.decode(data))
    return method


def read_file(path: Path, parse: Callable[[str], V]) -> V:
    """The parsed text of a file; every error names the file."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PodiumError(f"Cannot read {str(path)!r}: {problem.strerror}.") from problem
    except UnicodeDecodeError as problem:
        raise PodiumError(f"{path} is not UTF-8 text.") from problem
    except PodiumError as problem:
        raise PodiumError(f"{path}: {problem}") from problem


def split_changes(changes: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]:
    """Changes as they were typed, by what they change: the run, the world (`world.noise=0.1`), the optimiser
    (`optimizer.lr=3e-5`), and, as typed, the method."""
    from podium.training.config import Config

    run: dict[str, Any] = {}
    world: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    sampler: dict[str, Any] = {}
    method: list[str] = []
    settings = {"world": world, "optimizer": optimizer, "sampler": sampler}
    for change in changes:
        path, value = split_change(change)
        head, _, name = path.partition(".")
        if path == "method":
            raise PodiumError("--set method: name the method by itself, as in podium train dapo.")
        if head in settings and name:
            settings[head][name] = value
        elif path in Config.field_names():
            run[path] = value
        else:
            method.append(change)
    if sampler:
        run["sampler_settings"] = sampler
    return run, world, optimizer, method


def split_change(change: str) -> tuple[str, Any]:
    """(path, value) of a change as it was typed."""
    path, equals, text = change.partition("=")
    if not equals or not path:
        raise PodiumError(f"--set {change!r} must look like PATH=VALUE, for example advantage.scale=none.")
    return path, _parse_value(text)


def _parse_value(text: str) -> Any:
    """A value as YAML writes it, and numbers such as inf, which are text to YAML."""
    from podium.core.yaml_text import from_yaml

    try:
        data = from_yaml(text)
    except PodiumError as problem:
        raise PodiumError(f"--set: {text!r} is not a value. {problem}") from problem
    if isinstance(data, str):
        with contextlib.suppress(ValueError):
            return float(data)
        return data
    if not isinstance(data, (dict, list)):
        return data
    from podium.core import serial

    return serial.decode(data)
