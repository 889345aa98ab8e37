"""A trial: a paper's controlled experiment that trains no language model, as a value.

An arm is a function of a seed and a size that returns arrays by name. Everything random in it comes from the seed, and
arms of the same seed meet the same problem: they are compared element by element.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getdoc
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from podium.core.errors import PodiumError
from podium.evaluation.resample import Array, Measure, estimate
from podium.labs.findings import Findings, Study, StudySize
from podium.labs.reading import Reading, counted
from podium.store.files import atomic_text

__all__ = ["Quantity", "Trial", "TrialFindings", "run_trial"]

Arm = Callable[[int, Any], Mapping[str, ArrayLike]]  # from a seed and a size to arrays by name


@dataclass(frozen=True)
class Quantity(Reading):
    """The mean of what the arms return under a name: a number per seed, or an array of one per element."""

    name: str
    text: str = ""  # the header of its column; empty: the name
    bounds: tuple[float, float] = (-math.inf, math.inf)  # within which it always lies


@dataclass(frozen=True)
class Trial(Study[Quantity]):
    """Functions that are run on the same problems. What they return beside the readings is for charts and notes."""

    arms: Mapping[str, Arm]
    size: StudySize = StudySize()
    quick: StudySize = StudySize(seeds=3)


@dataclass(frozen=True)
class TrialFindings(Findings[Quantity]):
    """What a trial came to: for each arm and seed the arrays that it returned."""

    study: Trial
    values: Mapping[str, Sequence[Mapping[str, Array]]]

    @property
    def basis(self) -> str:
        return (
            "Arms of a seed meet the same problem. Brackets and bands are 95 % intervals over seeds and elements, "
            "resampled together; differences are paired."
        )

    def descriptions(self) -> dict[str, str]:
        return {name: getdoc(getattr(arm, "func", arm)) or "" for name, arm in self.study.arms.items()}

    def columns(self, reading: Quantity, arm: str) -> Array:
        return np.stack([counted(np.atleast_1d(values[reading.name])) for values in self.values[arm]])

    def label(self, reading: Quantity) -> str:
        return reading.text or reading.name

    def trace(self, name: str, arm: str) -> list[Measure]:
        """An array [point] as a curve: each point with its interval over seeds."""
        by_seed = np.stack([values[name] for values in self.values[arm]])
        return [estimate(counted(column)[:, None]) for column in by_seed.T]


def run_trial(
    trial: Trial,
    size: StudySize,
    path: Path,
    progress: Callable[[str], None] | None,
    only: int | None = None,
) -> TrialFindings:
    """Run every arm with every seed, or with `only` one, or read what it returned when it was run before."""
    values: dict[str, list[Mapping[str, Array]]] = {arm: [] for arm in trial.arms}
    for seed in range(size.seeds) if only is None else (only,):
        store = _Store(path / f"seed-{seed}.json", trial.slug, size)
        for name, arm in trial.arms.items():
            if name not in store.values:
                begun = time.monotonic()
                store.keep(name, _returned(trial, name, arm, seed, size))
                if progress is not None:
                    progress(f"{name}, seed {seed}: {time.monotonic() - begun:.1f} s")
            values[name].append({key: np.asarray(x, dtype=float) for key, x in store.values[name].items()})
    _check_pairs(trial, values)
    return TrialFindings(trial, size, path, values)


class _Store:
    """The file of a seed: what each arm returned, and for which size."""

    def __init__(self, file: Path, slug: str, size: StudySize) -> None:
        self.file = file
        self.of = {"trial": slug, **{k: v for k, v in size.settings().items() if k != "seeds"}}
        self.values: dict[str, dict[str, Any]] = {}
        if file.is_file():
            try:
                stored = json.loads(file.read_text(encoding="utf-8"))
                of, self.values = stored["of"], stored["values"]
            except (ValueError, LookupError, TypeError) as error:
                raise PodiumError(f"{file} is damaged. Delete it: the same command then repeats this seed.") from error
            if of != self.of:
                raise PodiumError(f"{file.parent} was measured with other settings. Choose another --out.")

    def keep(self, arm: str, returned: Mapping[str, Array]) -> None:
        self.values[arm] = {name: x.tolist() for name, x in returned.items()}
        atomic_text(self.file, json.dumps({"of": self.of, "values": self.values}))


def _returned(trial: Trial, name: str, arm: Arm, seed: int, size: StudySize) -> dict[str, Array]:
    """What an arm returns, as arrays; one sentence says which arm and seed went wrong."""
    where = f"{trial.slug}: the arm {name!r} with seed {seed}"
    try:
        returned = {key: np.asarray(x, dtype=float) for key, x in arm(seed, size).items()}
    except PodiumError:
        raise
    except Exception as error:
        raise PodiumError(f"{where} failed: {type(error).__name__}: {error}") from error
    for reading in trial.readings:
        if reading.name not in returned:
            raise PodiumError(f"{where} returned no {reading.name!r}, only {', '.join(returned) or 'nothing'}.")
        if not np.isfinite(returned[reading.name]).all():
            raise PodiumError(f"{where} returned a {reading.name!r} that is not finite.")
    return returned


def _check_pairs(trial: Trial, values: Mapping[str, Sequence[Mapping[str, Array]]]) -> None:
    """Refuse readings that cannot be compared element by element."""
    for reading in trial.readings:
        shapes = {found[reading.name].shape for seeds in values.values() for found in seeds}
        if len(shapes) > 1 or len(next(iter(shapes))) > 1:
            raise PodiumError(
                f"{trial.slug}: {reading.name!r} has the shapes {', '.join(map(str, sorted(shapes)))}; it must be a "
                "number, or an array of one number per element, with as many elements in every arm and seed."
            )
