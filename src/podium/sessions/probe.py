"""What each part of a method does: trained with and without it, under the same random numbers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from podium import worlds
from podium.analysis.probe import Replacement, parent, relative_distance, replacements, weight_vector
from podium.core.activity import activity
from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import RECIPES, get
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.config import Config
from podium.training.loop import iterate
from podium.training.preflight import columns_of

__all__ = ["APART", "PRESET", "ProbeRow", "probe"]

PRESET = "preset"  # the row that compares a preset with its method
APART = 0.01  # of the update: from this distance on a part counts as one that does something


@dataclass(frozen=True)
class ProbeRow:
    """What happened without a part."""

    part: str
    by: str  # what stood in its place
    distance: float | None  # between the weights, as a share of the update since the two runs parted, or 1 where only
    # the texts that they have learnt differ; None: it could not be trained without it
    iterations: int = 0  # after which that was measured
    acted: tuple[int, int] | None = None  # in how many iterations the part itself changed something, of how many
    reason: str = ""  # why there is no distance

    @property
    def acts(self) -> bool:
        """Whether the part does something, as far as this could be measured."""
        return self.distance is None or self.distance > APART


class _Course:
    """The weights of a run after each iteration, trained as far as somebody asks."""

    def __init__(self, config: Config) -> None:
        self.run = build_run(config)
        self.weights = [weight_vector(self.run.policy.parameters())]
        self.shown = [self.run.shown]  # the texts that it has learnt after each iteration
        self.metrics: list[Mapping[str, Any]] = []

    def after(self, iterations: int) -> Tensor:
        while len(self.weights) <= iterations:
            self.metrics.append(iterate(self.run)[1])
            self.weights.append(weight_vector(self.run.policy.parameters()))
            self.shown.append(self.run.shown)
        return self.weights[iterations]

    def close(self) -> None:
        self.run.close()


def probe(
    method: str | Method,
    *,
    whole: bool = False,
    only: Container[str] | None = None,
    progress: Callable[[ProbeRow], None] | None = None,
    **settings: Any,
) -> list[ProbeRow]:
    """A row for each part that can be replaced, and first one for the whole method against what it extends; for a
    preset another one against the method that it is a preset of.

    Each run ends once the weights are more than 1 % of the update apart, or after the iterations of the method's home;
    with `whole` the method itself is always trained to the end, so that rows say in how many iterations parts acted.
    `only` are the names of the rows that are wanted, such as `everything` and `shape.Whiten`.
    `settings` are those of `podium.sessions.train.configure`, such as `iterations` and `world`.
    """
    config = configure(method, eval_every=0, eval_tasks=1, **settings)
    rows = []
    with closing(_Course(config)) as course:
        iterations = int(course.run.config.iterations)
        if whole:
            course.after(iterations)
        counts = activity(course.metrics)
        for replacement in _listed(config):
            if only is not None and replacement.part not in only:
                continue
            row = _row(config, course, replacement, iterations, counts)
            rows.append(row)
            if progress is not None:
                progress(row)
    return rows


def _listed(config: Config) -> Iterator[Replacement]:
    with closing(worlds.isolated(config.world, config.world_settings, isolation=config.isolation)) as world:
        columns = columns_of(world)
    slug = config.method.name.partition("@")[0]
    extends = RECIPES[slug].extends if slug in RECIPES else "grpo"
    yield Replacement("everything", "plain GRPO" if extends == "grpo" else extends, parent(config.method, extends))
    if config.method.name != slug and slug in RECIPES:
        yield Replacement(PRESET, slug, get(slug))
    yield from replacements(config.method, columns)


def _row(
    config: Config,
    course: _Course,
    replacement: Replacement,
    iterations: int,
    counts: Mapping[str, tuple[int, int]],
) -> ProbeRow:
    acted = counts.get(replacement.part.partition(" ")[0].lstrip("0123456789").removeprefix("."))
    if replacement.method is None:
        return ProbeRow(replacement.part, replacement.by, None, acted=acted, reason=replacement.reason)
    distance, done, together = 0.0, 0, 0
    # Its own numbers where the method would decide them otherwise: pool, mini-batches and learning rate stay. They are
    # part of what a preset says.
    own = {"optimizer": course.run.config.optimizer, "pool": course.run.config.pool}
    kept = {} if replacement.part == PRESET else own
    try:
        with closing(_Course(config.replace(method=replacement.method, **kept))) as other:
            while done < iterations and distance <= APART:
                done += 1
                distance = relative_distance(course.after(done), other.after(done), course.weights[together])
                if distance == 0 and course.shown[done] != other.shown[done]:
                    distance = 1.0  # nothing of what was learnt in words is the same
                if distance == 0:  # a later phase begins where the two are still the same
                    together = done
    except PodiumError as problem:
        return ProbeRow(replacement.part, replacement.by, None, acted=acted, reason=str(problem))
    return ProbeRow(replacement.part, replacement.by, distance, done, acted)
