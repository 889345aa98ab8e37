"""Candidate policies chosen by off-policy estimates in a decision process whose values are known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.tables.logged import ESTIMATORS, Logs
from podium.tables.top_k import normalised_error, rank_correlation, regret_at, top_k

__all__ = ["STUDY", "EpisodicProcess", "SelectionSize", "logged_episodes"]

Floats = NDArray[np.float64]
STATES, ACTIONS, STEPS, CANDIDATES, K = 12, 4, 6, 12, 4
SHARPE = Quantity("sharpe", f"SharpeRatio@{K}", (0.0, np.inf))
REGRET = Quantity("regret", f"regret@{K}", (0.0, np.inf))
RANK = Quantity("rank", "rank correlation", (-1.0, 1.0))
ERROR = Quantity("error", "normalised error", (0.0, np.inf))
WORST = Quantity("worst", f"worst@{K}")


class SelectionSize(StudySize):
    """How many decision processes, each with a log of so many episodes."""

    processes: int = 12
    episodes: int = 100


class EpisodicProcess:
    """Random rewards and transitions over a few steps; a policy is [step, state, action]."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.reward = generator.random((STATES, ACTIONS)) ** 3
        self.step = generator.dirichlet(np.full(STATES, 0.3), (STATES, ACTIONS))

    def values(self, policy: Floats | None) -> tuple[Floats, Floats]:
        """Q [step, state, action] and V [step, state] of a policy, or of the best one."""
        q, v = np.zeros((STEPS, STATES, ACTIONS)), np.zeros((STEPS + 1, STATES))
        for t in range(STEPS - 1, -1, -1):
            q[t] = self.reward + self.step @ v[t + 1]
            v[t] = q[t].max(1) if policy is None else (policy[t] * q[t]).sum(1)
        return q, v[:STEPS]

    def worth(self, policy: Floats) -> float:
        """The exact value of a policy that begins in state 0."""
        return float(self.values(policy)[1][0, 0])


def _softmax(x: Floats) -> Floats:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logged_episodes(process: EpisodicProcess, policy: Floats, episodes: int, generator: np.random.Generator) -> Any:
    """[episode, step] states, actions and rewards of the policy."""
    state, action = np.zeros((episodes, STEPS), int), np.zeros((episodes, STEPS), int)
    now = np.zeros(episodes, int)
    for t in range(STEPS):
        state[:, t] = now
        action[:, t] = (policy[t, now].cumsum(1) < generator.random(episodes)[:, None]).sum(1).clip(max=ACTIONS - 1)
        rows = process.step[now, action[:, t]].cumsum(1)
        now = (rows < generator.random(episodes)[:, None]).sum(1).clip(max=STATES - 1)
    reward = (generator.random((episodes, STEPS)) < process.reward[state, action]).astype(float)
    return state, action, reward


def _fitted(state: Any, action: Any, reward: Floats) -> EpisodicProcess:
    """The process as the log shows it, with one made-up visit to each pair that stays in place and earns the mean."""
    model = EpisodicProcess(np.random.default_rng(0))
    visits, model.reward = np.ones((STATES, ACTIONS)), np.full((STATES, ACTIONS), reward.mean())
    model.step = np.tile(np.eye(STATES)[:, None], (1, ACTIONS, 1))
    np.add.at(visits, (state, action), 1.0)
    np.add.at(model.reward, (state, action), reward)
    np.add.at(model.step, (state[:, :-1], action[:, :-1], state[:, 1:]), 1.0)
    model.reward = model.reward / visits
    model.step = model.step / model.step.sum(2, keepdims=True)
    return model


@lru_cache(maxsize=4)
def _measured(seed: int, size: SelectionSize) -> list[tuple[dict[str, Floats], Floats, float]]:
    """Per process: every estimator's estimates [candidate], the true values, and the value of the logging policy."""
    found = []
    for n in range(size.processes):
        generator = np.random.default_rng((seed, n))
        process = EpisodicProcess(generator)
        best = process.values(None)[0]
        behaviour = _softmax(1.0 * best)
        # Candidates sharpen a noisy idea of the best action: some are good, some are confidently wrong.
        noise = generator.standard_normal((CANDIDATES, STEPS, STATES, ACTIONS))
        sharp, wrong = generator.uniform(1.0, 6.0, CANDIDATES), generator.uniform(0.0, 1.0, CANDIDATES)
        candidates = [_softmax(s * (best + w * e)) for s, w, e in zip(sharp, wrong, noise, strict=True)]
        state, action, reward = logged_episodes(process, behaviour, size.episodes, generator)
        model, steps = _fitted(state, action, reward), np.arange(STEPS)[None]
        taken = np.log(behaviour[steps, state, action])
        estimates: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
        for candidate in candidates:
            q, v = model.values(candidate)
            logs = Logs(
                *(reward, taken, np.log(candidate[steps, state, action]), np.ones_like(reward)),
                q=q[steps, state, action],
                v=v[steps, state],
            )
            for name, estimator in ESTIMATORS.items():
                estimates[name].append(estimator(logs))
        true = np.array([process.worth(candidate) for candidate in candidates])
        found.append(({k: np.array(x) for k, x in estimates.items()}, true, process.worth(behaviour)))
    return found


def _arm(estimator: str, seed: int, size: SelectionSize) -> Mapping[str, Any]:
    """The policies that this estimator ranks highest, at their true values."""
    rows, curves = [], []
    for estimates, true, behaviour in _measured(seed, size):
        chosen = top_k(estimates[estimator], true, behaviour, clip=True)
        ratios = [np.nan if r is None else r for r in chosen.sharpe_ratio]
        rank = rank_correlation(estimates[estimator], true)
        error = normalised_error(estimates[estimator], true)
        rows.append((ratios[K - 1], regret_at(estimates[estimator], true, K), rank, error, chosen.worst[K - 1]))
        curves.append(ratios[1:])
    sharpe, regret, rank_, error_, worst = np.array(rows).T
    return {
        **{"sharpe": sharpe, "regret": regret, "rank": rank_, "error": error_, "worst": worst},
        "k": np.arange(2.0, CANDIDATES + 1),
        "curve": np.array(curves).mean(0),
    }


def _separates(findings: TrialFindings) -> str:
    """How often two estimators whose best choice is the same have portfolios of different risk."""
    equal = apart = 0
    for one, other in combinations(findings.values, 2):
        for a, b in zip(findings.values[one], findings.values[other], strict=True):
            same = np.isclose(a["regret"], b["regret"])
            equal += int(same.sum())
            apart += int((same & ~np.isclose(a["sharpe"], b["sharpe"])).sum())
    return f"of {equal} pairs of estimators with equal regret@{K}, {apart} differ in SharpeRatio@{K}"


STUDY = Trial(
    "sharpe-ratio-at-k",
    "Which off-policy estimator picks good policies without picking bad ones beside them?",
    arms={name: partial(_arm, name) for name in ESTIMATORS},
    claims=(
        Claim(
            "self-normalising lowers the risk of importance sampling", SHARPE, "self-normalised", "importance sampling"
        ),
        Claim("weighing per decision lowers it, too", SHARPE, "per decision", "importance sampling"),
        Claim("a model in addition lowers it further", SHARPE, "doubly robust", "per decision"),
        Claim("importance sampling lets worse policies in", WORST, "doubly robust", "importance sampling"),
    ),
    readings=(SHARPE, REGRET, RANK, ERROR, WORST),
    charts=(traced("curve", over="k", title="SharpeRatio@k", x_label="k"),),
    notes=(_separates,),
    size=SelectionSize(seeds=12),
    quick=SelectionSize(seeds=4, processes=6),
)
