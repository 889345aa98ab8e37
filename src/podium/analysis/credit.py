"""How well estimators credit the steps of rollouts, measured against exact advantages.

In a world that is a finite decision process (`World.dynamics`: keydoor, lookup) Q(s, a) − V(s) of every step is known.
Policies given as tables walk through it; each estimator sees the same rollouts as columns of a batch, as it would in
training, and its credit is held against what the step was really worth. No language model is involved: a turn is one
token, and parts that read words find none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from podium.analysis.agreement import STATISTICS, ahead, expected, measured, sums, variance
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Advantage, Keep, Reward, Shape
from podium.core.signal import Signal
from podium.core.value import Clock
from podium.evaluation.resample import Measure
from podium.method import Method
from podium.parts.advantage import GAE
from podium.parts.reward import TokenReward
from podium.protocols.world import World
from podium.worlds.oracle import END, Array, Index, Oracle

__all__ = [
    *(
        "STRENGTHS",
        "Estimator",
        "Sampled",
        "CreditScore",
        "compare_estimators",
        "credit",
        "fitting",
        "oracles",
        "references",
    ),
    "walked",
]

VALUE = Signal("value", of="old")
SOURCES = ("sampler", "old", "now", "ref")  # all the same policy: nothing has been updated yet
# Of policies that seldom, mostly and nearly always succeed at level 3.
STRENGTHS = {"keydoor": (0.25, 0.5, 1.0), "lookup": (1.0, 2.0, 3.0)}


@dataclass(frozen=True)
class Estimator:
    """A method's credit: its reward, keep, advantage and shape stages."""

    name: str
    method: Method
    noise: float = 0.0  # the standard deviation of the errors of its values, fixed for a state and turn; 0: exact


def references(noise: float = 0.1) -> list[Estimator]:
    """GAE with values nobody has in practice, and with values that are wrong by about `noise`."""

    def gae(lam: float) -> Method:
        return Method("gae", reward=(TokenReward(),), advantage=GAE(lam=lam))

    exact = [Estimator(f"gae, exact values, lam {lam:g}", gae(lam)) for lam in (0.0, 0.95, 1.0)]
    return [*exact, *(Estimator(f"gae, values ± {noise:g}, lam {lam:g}", gae(lam), noise) for lam in (0.0, 0.95))]


@dataclass(frozen=True)
class Sampled:
    """Rollouts of several tasks: what an estimator sees, and what it does not."""

    batch: Batch
    exact: Array  # [token] Q(s, a) − V(s)
    task: Index  # [token] the number of the task
    state: Index  # [token] the state that the step was taken in
    action: Index  # [token]


def walked(oracles: Sequence[Oracle], rollouts: int, seed: int, noise: float = 0.0) -> Sampled:
    """`rollouts` rollouts of each task, one group per task, as a batch with the columns that training would have."""
    rng = np.random.default_rng([seed, rollouts])
    columns: dict[str, list[Any]] = {}
    names: dict[str, list[str]] = {"turn.state": [], "turn.next_state": [], "turn.action": []}
    for number, known in enumerate(oracles):
        world, walks = known.dynamics, known.walks(rollouts, rng)
        error = noise * rng.standard_normal(known.values.shape)
        with np.errstate(divide="ignore"):
            logp = np.log(known.policy)
        entropy = -(known.policy * np.where(known.policy > 0, logp, 0.0)).sum(1)
        per_step = {
            "rollout": walks.rollout + number * rollouts,
            "task": np.full(len(walks.turn), number),
            "state": walks.state,
            "action": walks.action,
            "reward": walks.reward,
            "over": walks.follows == END,
            "logp": logp[walks.state, walks.action],
            "entropy": entropy[walks.state],
            "value": (known.values + error)[walks.turn, walks.state],
            "exact": known.advantages(walks.turn, walks.state, walks.action),
        }
        for name, values in per_step.items():
            columns.setdefault(name, []).append(values)
        labels = (*world.states, "end")  # END is the last
        names["turn.state"] += [labels[i] for i in walks.state]
        names["turn.next_state"] += [labels[i] for i in walks.follows]
        names["turn.action"] += [world.actions[i] for i in walks.action]
    flat = {name: np.concatenate(values) for name, values in columns.items()}
    hidden = (flat[name] for name in ("exact", "task", "state", "action"))
    return Sampled(_batch(flat, names, len(oracles), rollouts, seed), *hidden)


def _batch(flat: dict[str, Any], names: dict[str, list[str]], tasks: int, rollouts: int, seed: int) -> Batch:
    tensors = {name: torch.from_numpy(values) for name, values in flat.items()}
    turn, count = tensors["rollout"], tasks * rollouts
    outcome = torch.zeros(count, dtype=torch.float64).index_add(0, turn, tensors["reward"])
    won = torch.zeros(count, dtype=torch.bool)
    won[turn[tensors["reward"] > 0]] = True
    answers = [""] * count  # what ended the rollout, if anything did
    for step in tensors["over"].nonzero().flatten().tolist():
        answers[turn[step]] = names["turn.action"][step]
    columns = {
        "group.task": [f"task {number}" for number in range(tasks)],
        "rollout.reward": outcome,
        "rollout.correct": won,
        "rollout.answer": answers,
        "rollout.index": torch.arange(rollouts).repeat(tasks),
        "rollout.truncated": torch.zeros(count, dtype=torch.bool),
        "rollout.domain": [""] * count,
        "turn.reward": tensors["reward"],
        "turn.valid": tensors["action"] != 0,
        "turn.train_context": [()] * len(turn),
        **names,
        "token.id": tensors["action"],
        **{Signal("logp", of=source).column: tensors["logp"] for source in SOURCES},
        **{Signal("entropy", of=source).column: tensors["entropy"] for source in SOURCES},
        VALUE.column: tensors["value"],
    }
    links = {
        ("token", "turn"): torch.arange(len(turn)),
        ("turn", "rollout"): turn,
        ("rollout", "group"): torch.arange(tasks).repeat_interleave(rollouts),
    }
    return Batch(links, columns, seed=seed)


def credit(method: Method, batch: Batch) -> Tensor:
    """[token] what multiplies the gradient of a token's log-probability: advantage times weight, 0 if not trained.

    As in the first iteration of a run: schedules stand at their beginning, and memories have seen nothing.
    """
    if any(leaf is not method for leaf in method.leaves()):
        raise PodiumError(f"{method.name} has several phases, each with a credit of its own: measure one of them.")
    begun = [(memory, memory.initial()) for memory in method.memories]
    method = method.at(Clock(0, {k: v for memory, state in begun for k, v in memory.scalars(state).items()}))
    for memory, state in begun:
        batch = batch.with_columns(memory.recall(state, list(batch["group.task"])))
    for part in _stages(method):
        missing = ", ".join(map(str, (need for need in part.needs if need not in batch)))
        if missing or part.probes:
            needed = missing or "texts that a model scores"
            raise PodiumError(f"{method.name}: {part!r} needs {needed}, which rollouts of a table do not have.")
        batch = batch.with_columns(part(batch))
    if "token.advantage" not in batch:
        raise PodiumError(f"{method.name} writes no advantage.")
    advantage: Tensor = batch["token.advantage"].to(torch.float64)
    weight = batch.weight("token")
    return (advantage if weight is None else advantage * weight).where(batch.trained("token"), 0.0)


def _stages(method: Method) -> list[Reward | Keep | Advantage | Shape]:
    estimator = [] if method.advantage is None else [method.advantage]
    return [*method.reward, *method.keep, *estimator, *method.shape]


@dataclass(frozen=True)
class CreditScore:
    """How well an estimator credits the rollouts of one policy, at so many rollouts a task."""

    name: str
    world: str
    strength: float
    rollouts: int
    reward: float  # expected of the policy, over the tasks
    measures: dict[str, Measure]  # correlation, sign errors, error, gradient, ahead, expected, variance


def fitting(methods: Sequence[Method], world: World) -> tuple[list[Estimator], dict[str, str]]:
    """The methods whose credit can be measured in a world, and why the others cannot."""
    batch = walked(oracles(world, 2, 0.5), 4, seed=0).batch
    fit, refused = [], {}
    for method in methods:
        try:
            credit(method, batch)
        except PodiumError as reason:
            refused[method.name] = str(reason)
        else:
            fit.append(Estimator(method.name, method))
    return fit, refused


def oracles(world: World, tasks: int, strength: float) -> list[Oracle]:
    """The exact values of a softmax policy in the world's first tasks."""
    processes = [world.dynamics(world.task(number)) for number in range(tasks)]
    return [process.oracle(process.softmax(strength)) for process in processes]


def compare_estimators(
    estimators: Sequence[Estimator],
    world: World,
    *,
    strength: float = 0.5,
    rollouts: int = 8,
    tasks: int = 8,
    seeds: int = 20,
) -> list[CreditScore]:
    """All estimators on the same rollouts of one policy. Each seed is a batch of its own, with one group per task.

    `ahead` is how much higher `gradient` is than that of the first estimator, paired.
    """
    exact_values = oracles(world, tasks, strength)
    columns: dict[str, list[Array]] = {e.name: [] for e in estimators}
    gradients: dict[str, list[Array]] = {e.name: [] for e in estimators}
    exact = [o.gradient.reshape(-1) for o in exact_values]
    for seed in range(seeds):
        seen = {noise: walked(exact_values, rollouts, seed, noise) for noise in {e.noise for e in estimators}}
        for estimator in estimators:
            sample = seen[estimator.noise]
            x = credit(estimator.method, sample.batch).numpy()
            estimated = _gradients(exact_values, sample, x, rollouts)
            products = [[g @ g, h @ h, g @ h] for g, h in zip(estimated, exact, strict=True)]
            columns[estimator.name].append(np.hstack([sums(x, sample.exact, sample.task, tasks), products]))
            gradients[estimator.name].append(np.concatenate(estimated))
    reward = float(np.mean([o.values[0, 0] for o in exact_values]))
    where = f"{world.name}, level {world.level}"
    scores = []
    for estimator in estimators:
        stacked = np.stack(columns[estimator.name])
        measures = {name: measured(stacked, name) for name in STATISTICS}
        measures["ahead"] = ahead(stacked, np.stack(columns[estimators[0].name]), "gradient")
        measures["expected"] = expected(np.stack(gradients[estimator.name]), np.concatenate(exact))
        measures["variance"] = variance(np.stack(gradients[estimator.name]))
        scores.append(CreditScore(estimator.name, where, strength, rollouts, reward, measures))
    return scores


def _gradients(known: Sequence[Oracle], sample: Sampled, x: Array, rollouts: int) -> list[Array]:
    """[task] Σ x · ∇ log π(a | s) over the steps, a rollout, with respect to the logits of the policy's table."""
    gradients = []
    for number, o in enumerate(known):
        of_task = sample.task == number
        state, action, weight = sample.state[of_task], sample.action[of_task], x[of_task] / rollouts
        table = np.zeros_like(o.policy)
        np.add.at(table, (state, action), weight)
        table -= np.bincount(state, weights=weight, minlength=len(table))[:, None] * o.policy
        gradients.append(table.reshape(-1))
    return gradients
