"""Vector files and their cases."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["Case", "Malformed", "Settings", "VectorFile", "load"]


@dataclass(frozen=True)
class Malformed:
    """A vector file, or a case of it, that cannot be read, and what is wrong with it."""

    reason: str


class Settings(Mapping[str, Any]):
    """A case's settings, which remembers those that were read: one that never was is worth a word in a failure."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise KeyError(f"the case has no setting {name!r}; it has {', '.join(self._values) or 'none'}")
        self._read.add(name)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def unread(self) -> list[str]:
        return [name for name in self._values if name not in self._read]


@dataclass(frozen=True)
class Case:
    """One case: inputs, settings, and what the reference made of them."""

    slug: str
    number: int
    note: str
    inputs: Mapping[str, Any]
    hyper: Settings
    expected: Mapping[str, Any]

    def __contains__(self, name: str) -> bool:
        return name in self.inputs

    def __getitem__(self, name: str) -> Any:
        """An input as it stands in the file."""
        if name not in self.inputs:
            raise KeyError(f"the case has no input {name!r}; it has {', '.join(self.inputs)}")
        return self.inputs[name]

    def tensor(self, name: str) -> Tensor:
        """A numeric input in float64."""
        return torch.tensor(self[name], dtype=torch.float64)

    def logs(self, name: str) -> Any:
        """An input of probabilities as log-probabilities, which are finite in a batch."""

        def log(x: Any) -> Any:
            return [log(part) for part in x] if isinstance(x, list) else math.log(max(x, sys.float_info.min))

        return log(self[name])

    def totals(self, name: str) -> list[float]:
        """The sum of each row of an input."""
        return [float(sum(row)) for row in self[name]]

    def given(self, **names: str) -> dict[str, Any]:
        """Arguments for a recipe: `given(tau="temperature")` is {"tau": value} if the case sets `temperature`."""
        return {argument: self.hyper[name] for argument, name in names.items() if name in self.hyper}

    @classmethod
    def of(cls, slug: str, inputs: Mapping[str, Any], hyper: Mapping[str, Any] | None = None) -> Case:
        """A case by hand, without expectations."""
        return cls(slug, 0, "", inputs, Settings(hyper or {}), {})


@dataclass(frozen=True)
class VectorFile:
    """A file of cases; one that cannot be read stands as the reason why."""

    slug: str
    source: str
    cases: Sequence[Case | Malformed]


def load(path: Path) -> VectorFile | Malformed:
    """Read a vector file. Its slug is the one it names, or else its file name."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        return Malformed(f"{path.name} cannot be read: {error}")
    except json.JSONDecodeError as error:
        return Malformed(f"{path.name} is not JSON: {error}")
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        return Malformed(f"{path.name} must be an object with a list of 'cases'")
    if not data["cases"]:
        return Malformed(f"{path.name} has no cases")
    slug = str(data.get("slug", path.stem))
    return VectorFile(slug, str(data.get("source", "")), [_case(slug, i, c) for i, c in enumerate(data["cases"])])


def _case(slug: str, number: int, data: Any) -> Case | Malformed:
    if not isinstance(data, dict):
        return Malformed("the case is not an object")
    for key in ("inputs", "expected"):
        if not isinstance(data.get(key), dict) or not data[key]:
            return Malformed(f"the case has no {key!r}")
    hyper = data.get("hyper") or {}
    if not isinstance(hyper, dict):
        return Malformed("the case's 'hyper' is not an object")
    return Case(slug, number, str(data.get("note", "")), data["inputs"], Settings(hyper), data["expected"])
