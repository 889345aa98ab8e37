"""Choosing among the checkpoints of runs by off-policy estimates, held against what they are really worth.

The log is what the runs sampled while they trained, with the exact log-probability of every token; the candidates are
their checkpoints; the truth is fresh rollouts of every candidate on the tasks of the log. Where the dynamics of the
world are known, these bracket the exact value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from podium import policy as policies
from podium.analysis.value_bounds import ValueBounds, value_bounds
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.evaluation.resample import Array
from podium.policy.model.device import usual_dtype
from podium.protocols.format import turn_limit
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task, World, task_of
from podium.sessions.evaluate import EvaluationSetting, driver_for, run_config
from podium.store.run_directory import RunDirectory
from podium.store.tables import read_rows, rollout_files
from podium.strategies.requests import Play, TaskRequest
from podium.tables.logged import ESTIMATORS, Logs, effective_sample_size
from podium.tables.top_k import normalised_error, rank_correlation, regret_at, top_k

__all__ = ["CheckpointSelection", "logged_rollouts", "select_checkpoints"]

LOGP = Signal("logp")
TRUTH = 1 << 41  # streams that neither training nor evaluation use
USED = tuple(name for name in ESTIMATORS if name != "direct method")  # nothing here predicts returns of a policy
READ = ("task", "reward", "purpose", "source", "turn.length", "turn.context", "turn.reward", "token.id")


@dataclass(frozen=True)
class CheckpointSelection:
    """What estimators say of the candidates, and what these are worth."""

    candidates: tuple[str, ...]
    true: Array  # [candidate] the mean reward of fresh rollouts, within the bounds
    behaviour: float  # the mean reward of the log
    estimates: Mapping[str, Array]  # by estimator, [candidate]
    sample_size: Array  # [candidate] how many rollouts of its own the log is worth
    rollouts: int  # in the log
    bounds: Array | None = None  # [candidate, 2] what the exact value lies between, where the dynamics are known

    def quality(self, estimator: str, k: int) -> dict[str, float]:
        """How good an estimator is at choosing: error, rank correlation, what its k best are worth, and, where exact
        bounds are known, the share of its estimates that cannot be right."""
        estimate = self.estimates[estimator]
        chosen = top_k(estimate, self.true, self.behaviour, max_k=k, clip=True)
        sharpe = chosen.sharpe_ratio[-1]
        outside: dict[str, float] = {}
        if self.bounds is not None:
            outside["outside"] = float(((estimate < self.bounds[:, 0]) | (estimate > self.bounds[:, 1])).mean())
        return {
            "error": normalised_error(estimate, self.true),
            "rank": rank_correlation(estimate, self.true) if np.ptp(estimate) and np.ptp(self.true) else float("nan"),
            "regret": regret_at(estimate, self.true, k),
            "worst": chosen.worst[-1],
            "sharpe": float("nan") if sharpe is None else sharpe,
            **outside,
        }

    def as_dict(self, k: int) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "candidates": list(self.candidates),
            "true": self.true.tolist(),
            "bounds": None if self.bounds is None else self.bounds.tolist(),
            "behaviour": self.behaviour,
            "rollouts": self.rollouts,
            "sample_size": self.sample_size.tolist(),
            "estimates": {name: x.tolist() for name, x in self.estimates.items()},
            "quality": {name: self.quality(name, k) for name in self.estimates},
        }


def select_checkpoints(
    runs: Sequence[str | Path],
    *,
    rollouts: int = 256,
    samples: int = 4,
    seed: int = 0,
    device: str = "cpu",
    trust: bool = False,
    progress: Callable[[str], None] | None = None,
) -> CheckpointSelection:
    """Estimate every checkpoint of the runs, which must share a world, from up to `rollouts` logged ones, spread evenly
    over their iterations; `samples` fresh rollouts of every task of the log are the truth."""
    places = [checkpoint for run in runs for checkpoint in RunDirectory(run).checkpoints()]
    if len(places) < 2:
        raise PodiumError(
            f"There are {len(places)} checkpoints to choose from: train with --set checkpoint_every=5 --set "
            "keep_checkpoints=8, or name several runs."
        )
    setting = EvaluationSetting.of(runs[0], None, {}, None, trust)
    _check_temperature(setting)
    log = logged_rollouts(runs, rollouts)
    batch = Batch.from_rollouts(log)
    tasks = _tasks_of(log, setting.world, runs, trust)
    estimates: dict[str, list[float]] = {name: [] for name in USED}
    sizes: list[float] = []
    worth: list[ValueBounds] = []
    exact = False
    with closing(setting.world):
        for place in places:
            policy = policies.load(str(place / "policy"), device=device, dtype=usual_dtype(device))
            logs = _logs(batch, policy)
            for name in USED:
                estimates[name].append(ESTIMATORS[name](logs))
            sizes.append(effective_sample_size(logs))
            known, exact = _worth(policy, setting, tasks, samples, seed)
            worth.append(known)
            if progress is not None:
                progress(f"{place}: {known.value:.3f}")
    names = [f"{Path(run).name}/{c.name}" for run in runs for c in RunDirectory(run).checkpoints()]
    behaviour = float(np.mean([rollout.columns["reward"] for rollout in log]))
    arrays = {name: np.array(x) for name, x in estimates.items()}
    true, bounds = np.array([x.value for x in worth]), np.array([(x.low, x.high) for x in worth])
    return CheckpointSelection(
        tuple(names), true, behaviour, arrays, np.array(sizes), len(log), bounds if exact else None
    )


def logged_rollouts(runs: Sequence[str | Path], count: int) -> list[Rollout]:
    """Up to `count` of the rollouts that runs sampled from their policies and trained on, spread evenly over files."""
    files = [file for run in runs for file in rollout_files(Path(run)).values()]
    if not files:
        raise PodiumError(f"{', '.join(map(str, runs))}: no logged rollouts: give the directories of runs.")
    each, found = max(1, count // len(files)), []
    for file in files:
        rows = [row for row in read_rows(file) if _usable(row)]
        chosen = {int(n) for n in np.linspace(0, len(rows) - 1, min(each, len(rows)))} if rows else set()
        found += [_rollout(rows[n], f"{file} {n}") for n in sorted(chosen)]
    if not found:
        raise PodiumError("The logged rollouts have no log-probabilities of the sampler, or none was written alone.")
    return found[:count]


def _usable(row: Mapping[str, Any]) -> bool:
    """Whether the policy wrote all of it, under the context that it is scored under."""
    whole = all(name in row for name in READ) and "token.sampler.logp" in row
    own = row.get("source") == "policy" and not row.get("purpose") and "turn.train_context" not in row
    return whole and own and bool(row["token.id"]) and not row.get("failure") and "token.origin" not in row


def _rollout(row: Mapping[str, Any], place: str) -> Rollout:
    """A row of the log as a rollout. Each is a group of its own: what was sampled together does not matter here."""
    turns, start = [], 0
    for length, context, reward in zip(row["turn.length"], row["turn.context"], row["turn.reward"], strict=True):
        part = slice(start, start + length)
        logp = {"sampler.logp": row["token.sampler.logp"][part]}
        turns.append(Turn(row["token.id"][part], context, columns={"reward": reward}, tokens=logp))
        start += length
    # What a world or a reward part pays for the whole is booked to the last turn.
    paid = sum(turn.columns["reward"] for turn in turns)
    last = turns[-1]
    rest = {"reward": last.columns["reward"] + row["reward"] - paid}
    turns[-1] = Turn(last.ids, last.context, columns=rest, tokens=last.tokens)
    return Rollout(row["task"], turns, group=place, columns={"reward": row["reward"]})


def _logs(batch: Batch, policy: policies.Policy) -> Logs:
    """The log as arrays [rollout, turn], with the candidate's log-probabilities. The model of returns is the mean
    reward of the other rollouts of the task, whatever is done."""
    now = policy.signals(batch, [LOGP])[LOGP].where(batch.action, 0).double()
    columns = {
        "target": batch.reduce(now, "token", "turn", "sum"),
        "behaviour": batch.reduce(batch["token.sampler.logp"].double().where(batch.action, 0), "token", "turn", "sum"),
        "reward": batch["turn.reward"].double(),
    }
    of = batch.link("turn", "rollout").numpy()
    place = np.concatenate([np.arange(n) for n in np.bincount(of, minlength=len(batch))])
    shape = (len(batch), int(place.max()) + 1)
    arrays = {name: np.zeros(shape) for name in (*columns, "mask")}
    for name, values in columns.items():
        arrays[name][of, place] = values.cpu().numpy()
    arrays["mask"][of, place] = 1.0
    model = _others_mean(list(batch["group.task"]), arrays["reward"].sum(1))[:, None]
    left = model - np.concatenate([np.zeros((len(batch), 1)), arrays["reward"].cumsum(1)[:, :-1]], 1)
    return Logs(arrays["reward"], arrays["behaviour"], arrays["target"], arrays["mask"], left, left)


def _others_mean(tasks: Sequence[Any], returns: Array) -> Array:
    """[rollout] the mean return of the other rollouts of its task; of all others where there is none."""
    total: dict[Any, tuple[float, int]] = {}
    for task, value in zip(tasks, returns, strict=True):
        sums, count = total.get(task, (0.0, 0))
        total[task] = (sums + float(value), count + 1)
    everybody = (returns.sum() - returns) / max(len(returns) - 1, 1)
    pairs = zip(tasks, returns, everybody, strict=True)
    return np.array([(total[t][0] - r) / (total[t][1] - 1) if total[t][1] > 1 else mean for t, r, mean in pairs])


def _tasks_of(log: Sequence[Rollout], world: World, runs: Sequence[str | Path], trust: bool) -> list[tuple[Task, int]]:
    """The tasks of the log, with the number of its rollouts of each."""
    counts: dict[str, int] = {}
    for rollout in log:
        counts[rollout.task] = counts.get(rollout.task, 0) + 1
    config = run_config(runs[0], None, trust)
    assert config is not None
    size = world.size("train") or config.pool or 64 * config.tasks * config.iterations
    left, found = set(counts), []
    for number in range(size):
        if not left:
            break
        task = task_of(world, number, "train")
        if task.key in left:
            left.remove(task.key)
            found.append((task, counts[task.key]))
    if left:
        raise PodiumError(f"The world of {runs[0]} has no task {min(left)!r}: name runs of one world.")
    return found


def _worth(
    policy: policies.Policy, setting: EvaluationSetting, tasks: Sequence[tuple[Task, int]], samples: int, seed: int
) -> tuple[ValueBounds, bool]:
    """The value of a policy from fresh rollouts, tasks weighed as in the log, and whether its bounds hold: without
    known dynamics they are the mean reward."""
    sampling = Sampling(max_tokens=setting.max_tokens or turn_limit(setting.world, None))
    requests = [TaskRequest(task, n, sampling, (seed, TRUTH, n)) for n, (task, _) in enumerate(tasks)]
    driver = driver_for(policy, setting.world, setting.isolation, setting.act_limit_s)

    def plan(request: TaskRequest) -> Any:
        (rollouts,) = yield [Play(request, samples)]
        return rollouts

    groups = driver.collect([partial(plan, request)() for request in requests])
    try:
        exact = [
            value_bounds(group, setting.world.dynamics(task)) for group, (task, _) in zip(groups, tasks, strict=True)
        ]
    except PodiumError:  # a world without known dynamics
        means = [float(np.mean([r.columns["reward"] for r in group])) for group in groups]
        exact, known = [ValueBounds(mean, mean, mean) for mean in means], False
    else:
        known = True
    rows = np.array([(x.value, x.low, x.high) for x in exact])
    return ValueBounds(*map(float, np.average(rows, axis=0, weights=[count for _, count in tasks]))), known


def _check_temperature(setting: EvaluationSetting) -> None:
    strategy = None if setting.method is None else setting.method.main().rollout
    if strategy is not None and strategy.temperature != 1.0:
        raise PodiumError(
            f"The run samples at temperature {strategy.temperature}; estimates are of policies at temperature 1."
        )
