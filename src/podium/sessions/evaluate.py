"""Evaluating a run or a model from start to end."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from podium import policy as policies
from podium import worlds
from podium.analysis.paired_models import PairedComparison, tally
from podium.analysis.thinking import BudgetPoint, curve
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.errors import PodiumError, nearest
from podium.core.signal import Signal
from podium.evaluation.frontier import Frontier
from podium.evaluation.interventions import AXES, Interventions, answers, check_axes
from podium.evaluation.measure import failure_note, formatted_strategy, held_out, held_out_requests, measure
from podium.evaluation.resample import Array, Measure
from podium.method import Method
from podium.policy.model.device import usual_dtype
from podium.policy.model.load import EMBEDDED
from podium.protocols.format import turn_limit
from podium.protocols.sampling import Sampling
from podium.protocols.world import World
from podium.sampler.of_policy import sampler_of
from podium.store.run_directory import RunDirectory
from podium.store.sound_checkpoint import newest_sound
from podium.training.config import Config
from podium.training.run import SHOWN
from podium.training.stored_config import stored_config

__all__ = [
    "BASE_MODEL",
    "EvaluationSetting",
    "contrast",
    "driver_for",
    "evaluate",
    "frontier",
    "interventions",
    "load_target",
    "run_config",
    "thinking",
]

LOGP = Signal("logp")
BASE_MODEL = "base"  # in place of a model: the one that the run started from


def evaluate(
    target: str | Path,
    *,
    world: str | World | None = None,
    ks: Sequence[int] = (1, 8),
    tasks: int = 128,
    samples: int | None = None,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    device: str = "cpu",
    trust: bool = False,
    **world_settings: Any,
) -> dict[str, Measure]:
    """Measures of a run's last checkpoint, or of a model, on held-out tasks (by default of the run's world).

    Each task gets `samples` answers, as many as the largest of `ks` by default. The code of a run's world must stand in
    the current project, unless `trust`; that of its method is not executed. A run whose method has a format is asked
    for it, and read in it.
    """
    wanted = max(ks, default=1) if samples is None else samples
    _check_counts(ks, tasks, wanted)
    setting = EvaluationSetting.of(target, world, world_settings, max_tokens, trust)
    groups = setting.sample(target, device, tasks=tasks, samples=wanted, seed=seed, temperature=temperature)
    return measure(groups, ks)


def thinking(
    target: str | Path,
    *,
    budgets: Sequence[int] | None = None,
    world: str | World | None = None,
    tasks: int = 128,
    samples: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    force: str | None = None,
    device: str = "cpu",
    trust: bool = False,
    **world_settings: Any,
) -> list[BudgetPoint]:
    """The accuracy of a run's last checkpoint, or of a model, by how many tokens it may think: see `curve`.

    A run whose method has a format is asked for it, read in it, and forced to answer in it.
    """
    _check_counts((), tasks, samples)
    setting = EvaluationSetting.of(target, world, world_settings, max_tokens, trust)
    driver = setting.driver(target, device)
    strategy = formatted_strategy(setting.method)
    format = None if strategy is None else strategy.format
    limit = setting.max_tokens or turn_limit(setting.world, format)
    sampling = Sampling(max_tokens=limit, temperature=temperature)
    requests = held_out_requests(setting.world, tasks, sampling, seed, format)
    with closing(setting.world):
        return curve(driver, requests, budgets, samples, force)


def contrast(
    target: str | Path,
    base: str | Path = BASE_MODEL,
    *,
    world: str | World | None = None,
    ks: Sequence[int] = (1, 8, 64),
    tasks: int = 128,
    samples: int | None = None,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    device: str = "cpu",
    trust: bool = False,
    **world_settings: Any,
) -> PairedComparison:
    """Compare a run or model with the model that it started from, or another, on the same prompts and random streams.

    Unless a world is named, it is that of the run, or of `base` if that is a run.
    """
    wanted = max(ks, default=1) if samples is None else samples
    _check_counts(ks, tasks, wanted)
    base, setting = EvaluationSetting.of_both(target, base, world, world_settings, max_tokens, trust)
    counts = {"tasks": tasks, "samples": wanted, "seed": seed, "temperature": temperature}
    before, after = (tally(setting.sample(model, device, **counts)) for model in (base, target))
    return PairedComparison(before, after, tuple(ks))


def frontier(
    target: str | Path,
    base: str | Path = BASE_MODEL,
    *,
    world: str | World | None = None,
    tasks: int = 128,
    samples: int = 64,
    seed: int = 0,
    max_tokens: int | None = None,
    device: str = "cpu",
    trust: bool = False,
    **world_settings: Any,
) -> Frontier:
    """Reward and KL divergence of a run or model against the model that it started from, or another, beside what the
    tilts of that model and the best of several of its answers would have. Both answer at temperature 1."""
    _check_counts((), tasks, samples)
    base, setting = EvaluationSetting.of_both(target, base, world, world_settings, max_tokens, trust)
    before, after = (setting.sample(model, device, tasks=tasks, samples=samples, seed=seed) for model in (base, target))
    batch = Batch.from_rollouts(rollout for group in after for rollout in group)
    both = [load_target(model, device) for model in (target, base)]
    logp = [policy.signals(batch, [LOGP])[LOGP].where(batch.action, 0) for policy in both]
    ratio = batch.reduce(logp[0] - logp[1], "token", "rollout", "sum").double()
    return Frontier(_rewards(before), _rewards(after), ratio.reshape(len(after), samples).numpy())


def interventions(
    target: str | Path,
    base: str | Path = BASE_MODEL,
    *,
    axes: Sequence[str] = AXES,
    world: str | World | None = None,
    tasks: int = 128,
    samples: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    device: str = "cpu",
    trust: bool = False,
    **world_settings: Any,
) -> Interventions:
    """What a plan, the needed knowledge and subproblems are worth to a run or model, and to the one that it started
    from or another, on the same held-out tasks and random streams."""
    _check_counts((), tasks, samples)
    base, setting = EvaluationSetting.of_both(target, base, world, world_settings, max_tokens, trust)
    check_axes(axes, setting.world)
    strategy = formatted_strategy(setting.method)
    format = None if strategy is None else strategy.format
    limit = setting.max_tokens or turn_limit(setting.world, format)
    requests = held_out_requests(
        setting.world, tasks, Sampling(max_tokens=limit, temperature=temperature), seed, format
    )
    with closing(setting.world):
        before, after = (answers(setting.driver(m, device), requests, axes, samples) for m in (base, target))
    return Interventions(before, after)


def _rewards(groups: Sequence[Sequence[Rollout]]) -> Array:
    """[task, sample]"""
    return np.array([[float(r.columns["reward"]) for r in group] for group in groups])


def driver_for(
    policy: policies.Policy,
    world: World,
    isolation: str | None = None,
    act_limit_s: float | None = None,
    others: Mapping[str, policies.Policy] | None = None,
) -> Driver:
    """A driver that samples from a policy in a world, and from further ones by role."""
    return Driver(
        sampler_of(policy),
        world,
        follow_up=policy.follow_up,
        written=policy.written,
        ends=policy.ends,
        score=policy.score,
        act_limit_s=act_limit_s,
        isolation=isolation,
        others={role: sampler_of(other) for role, other in (others or {}).items()},
    )


@dataclass(frozen=True)
class EvaluationSetting:
    """The world in which a model is measured, and its limits."""

    world: World
    max_tokens: int | None  # None: the world's, and what the format needs
    method: Method | None = None  # of the run, as far as it says how its policy is asked and read
    isolation: str | None = None
    act_limit_s: float | None = None

    @classmethod
    def of(
        cls,
        target: str | Path,
        world: str | World | None,
        settings: dict[str, Any],
        max_tokens: int | None,
        trust: bool,
    ) -> EvaluationSetting:
        """As `find`, with an error where there is no world."""
        setting = cls.find(world, settings, run_config(target, world, trust), max_tokens)
        if setting is None:
            _check_there(Path(target))
            there = Path(target).exists() or str(target).startswith(EMBEDDED)
            kind = "is a model and" if there else "is no run here, and a model"
            raise PodiumError(f"{target} {kind} has no world of its own: name one with --world.")
        return setting

    @classmethod
    def of_both(
        cls,
        target: str | Path,
        base: str | Path,
        world: str | World | None,
        settings: dict[str, Any],
        max_tokens: int | None,
        trust: bool,
    ) -> tuple[str | Path, EvaluationSetting]:
        """The model that a run is held against, and where both are measured."""
        config = run_config(target, world, trust)
        if base == BASE_MODEL:
            if config is None:
                _check_there(Path(target))
                raise PodiumError(
                    f"{target} is a model, which did not start from another: name one with --compare MODEL."
                )
            base = config.model
        setting = cls.find(world, settings, config or run_config(base, world, trust), max_tokens)
        if setting is None:
            _check_there(Path(target))
            raise PodiumError(f"{target} and {base} are models and have no world of their own: name one with --world.")
        return base, setting

    @classmethod
    def find(
        cls, world: str | World | None, settings: dict[str, Any], config: Config | None, max_tokens: int | None
    ) -> EvaluationSetting | None:
        """With the world that was named, or the run's with these changes; None: there is neither."""
        if world is None and config is None:
            return None
        isolation = None  # as a world says that was named here
        if world is None and config is not None:
            world, settings = config.world, {**(config.world_settings or {}), **settings}
            isolation = config.isolation
        act_limit_s = config.act_limit_s if config else None
        opened = worlds.isolated(world or "", settings, isolation=isolation, act_limit_s=act_limit_s)
        limit = max_tokens or (config.max_tokens if config else None)
        return cls(opened, limit, config.method if config else None, isolation, act_limit_s)

    def sample(self, target: str | Path, device: str, **counts: Any) -> list[list[Rollout]]:
        """Rollouts of a run's last checkpoint, or of a model, on held-out tasks."""
        driver = self.driver(target, device)
        with closing(self.world):
            shown = _shown(target)
            groups = held_out(driver, max_tokens=self.max_tokens, method=self.method, shown=shown, **counts)
        if all(r.columns["failure"] for g in groups for r in g):
            raise PodiumError(f"Nothing can be measured: the world failed in every rollout: {failure_note(groups)}.")
        return groups

    def driver(self, target: str | Path, device: str, others: Mapping[str, str | Path] | None = None) -> Driver:
        """A driver that samples from a run's last checkpoint, or from a model, and from others of them by role."""
        for path in (target, *(others or {}).values()):
            _check_there(Path(path))
        policy = load_target(target, device)
        loaded = {role: load_target(other, device) for role, other in (others or {}).items()}
        # It may add notes to the policy's.
        driver = driver_for(policy, self.world, self.isolation, self.act_limit_s, loaded)
        for note in policy.notes:
            warnings.warn(note, stacklevel=2)
        return driver


def run_config(target: str | Path, world: str | World | None, trust: bool) -> Config | None:
    """What measuring takes of the configuration of a run, its world only if no other is named; None for a model."""
    if _embedded(target) or not (Path(target) / "config.yaml").is_file():
        return None
    if not RunDirectory(target).checkpoints():
        raise PodiumError(f"The run {target} has no checkpoint yet.")
    unneeded = ("method",) if world is None else ("method", "world")
    return stored_config(RunDirectory(target), trust=trust, leave_out=unneeded).config


def load_target(target: str | Path, device: str) -> policies.Policy:
    """A model, or that of a run's newest sound checkpoint."""
    read = partial(policies.load, device=device, dtype=usual_dtype(device))
    checkpoints = [] if _embedded(target) else RunDirectory(target).checkpoints()
    if not checkpoints:
        return read(str(target))
    policy, sound = newest_sound(checkpoints, lambda checkpoint: read(str(checkpoint / "policy")))
    if sound.damaged:
        reasons = " ".join(map(str, sound.damaged))
        warnings.warn(f"{reasons} Measured instead: {sound.checkpoint.name}.", stacklevel=2)
    return policy


def _shown(target: str | Path) -> tuple[str, str]:
    """The texts above and below each question that a run has learnt; empty for a model."""
    checkpoints = [] if _embedded(target) else RunDirectory(target).checkpoints()
    if not checkpoints:
        return "", ""

    def read(checkpoint: Path) -> tuple[str, str]:
        file = checkpoint / SHOWN
        above, below = json.loads(file.read_text("utf-8")) if file.is_file() else ("", "")
        return above, below

    return newest_sound(checkpoints, read)[0]


def _check_counts(ks: Sequence[int], tasks: int, samples: int) -> None:
    for name, value in (("tasks", tasks), *(("k", k) for k in ks), ("samples", samples)):
        if value < 1:
            raise PodiumError(f"{name} = {value} must be at least 1.")
    for k in ks:
        if k > samples:
            raise PodiumError(f"pass@{k} needs at least {k} samples a task, not {samples}.")


def _embedded(target: str | Path) -> bool:
    """Whether a name is that of an embedded model, whatever folders there are here."""
    return str(target).startswith(EMBEDDED)


def _check_there(path: Path) -> None:
    """Refuse a local path that does not exist, without asking the hub for it, and a directory of neither kind."""
    if _embedded(path):
        return
    if path.is_file() and path.suffix != ".gguf":
        raise PodiumError(f"{path} is a file: name the directory of a run or of a model.")
    if path.is_dir() and not any((path / name).is_file() for name in ("config.yaml", "config.json")):
        raise PodiumError(f"{path} is neither a run (it has no config.yaml) nor a model (it has no config.json).")
    if not path.exists() and path.parent != Path() and path.parent.is_dir():
        neighbours = [str(p) for p in path.parent.iterdir() if p.is_dir()]
        raise PodiumError(f"There is no run or model {path}. {nearest(str(path), neighbours)}")
