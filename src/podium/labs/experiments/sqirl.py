"""Small stochastic decision processes: does the effective horizon predict how many episodes learning takes?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.labs.findings import Claim, StudySize
from podium.labs.people import optional_package
from podium.labs.trial import Quantity, Trial, TrialFindings
from podium.report.chart import Series, chart
from podium.tables.random_values import stochastic_horizon
from podium.tables.top_k import rank_correlation
from podium.worlds.keydoor import KeyDoor
from podium.worlds.oracle import END

__all__ = ["STUDY", "EpisodeSize", "TableProcess", "processes", "q_learning_episodes", "sqirl_episodes"]

Floats = NDArray[np.float64]
SLIP = 0.1  # how often another action than the chosen one is taken
SOLVED = 0.95  # the share of the best value, above the random policy's, at which a process is solved
TO_SQIRL = Quantity("sqirl", "rank correlation with SQIRL's episodes", (-1.0, 1.0))
TO_Q = Quantity("q_learning", "rank correlation with Q-learning's episodes", (-1.0, 1.0))


class EpisodeSize(StudySize):
    """The most episodes that an algorithm may take."""

    episodes: int = 16000


@dataclass(frozen=True)
class TableProcess:
    """Transitions [state, action, state], rewards [state, action] scaled so that the best and the worst expected return
    are 1 apart, and a time limit. The last state is the end, where nothing happens any more."""

    name: str
    transition: Floats
    reward: Floats
    steps: int

    def worth(self, policy: NDArray[np.int64] | None) -> float:
        """The exact value at the start of a policy [step, state]; of the random one without."""
        value, rows = np.zeros(len(self.reward)), np.arange(len(self.reward))
        for t in range(self.steps - 1, -1, -1):
            q = self.reward + self.transition @ value
            value = q.mean(1) if policy is None else q[rows, policy[t]]
        return float(value[0])

    def best(self) -> float:
        value = np.zeros(len(self.reward))
        for _ in range(self.steps):
            value = (self.reward + self.transition @ value).max(1)
        return float(value[0])


def _process(name: str, step: NDArray[np.int64], reward: Floats, steps: int) -> TableProcess:
    """From a deterministic table [state, action] whose last state is the end."""
    states, actions = step.shape
    sure = np.zeros((states, actions, states))
    sure[np.arange(states)[:, None], np.arange(actions), step] = 1.0
    return _scaled(name, _slipping(sure), _slipping(reward), steps)


def _slipping(table: Floats) -> Floats:
    """[state, action, …] with the mean over actions as often as the chosen one slips."""
    return (1 - SLIP) * table + SLIP * table.mean(1, keepdims=True)


def _scaled(name: str, transition: Floats, reward: Floats, steps: int) -> TableProcess:
    best, worst = (TableProcess(name, transition, sign * reward, steps).best() for sign in (1.0, -1.0))
    return TableProcess(name, transition, reward / (best + worst), steps)


def _chain(length: int) -> TableProcess:
    """Advancing earns 1 at the end of the chain; leaving at once earns 0.3."""
    step = np.stack([np.append(np.arange(1, length + 1), length), np.full(length + 1, length)], 1)
    reward = np.zeros((length + 1, 2))
    reward[length - 1, 0], reward[0, 1] = 1.0, 0.3
    return _process(f"chain of {length}", step, reward, length)


def _grid(side: int, dense: bool) -> TableProcess:
    """From one corner of a square to the other, in the time of the shortest way and a step. Arriving earns 1, or every
    move toward the goal does, and every move away costs 1."""
    end = side * side
    step, reward = np.full((end + 1, 4), end), np.zeros((end + 1, 4))
    for cell in range(end - 1):
        for a, (i, j) in enumerate(((1, 0), (0, 1), (-1, 0), (0, -1))):
            row, column = np.clip((cell // side + i, cell % side + j), 0, side - 1)
            arrived = row * side + column == end - 1
            step[cell, a] = end if arrived else row * side + column
            reward[cell, a] = row + column - cell // side - cell % side if dense else float(arrived)
    return _process(f"{'dense' if dense else 'sparse'} grid of {side}", step, reward, 2 * side - 1)


def _bandit(steps: int) -> TableProcess:
    """One state whose four actions earn 0, 0.2, 0.4 and 1, again and again."""
    step, reward = np.array([[0, 0, 0, 0], [1, 1, 1, 1]]), np.array([[0.0, 0.2, 0.4, 1.0], [0.0, 0.0, 0.0, 0.0]])
    return _process(f"bandit of {steps} steps", step, reward, steps)


def _gymnasium(name: str, steps: int, **settings: Any) -> TableProcess:
    """The table of one of gymnasium's toy environments."""
    env = optional_package("gymnasium", "podium lab sqirl").make(name, **settings).unwrapped
    states, actions = env.observation_space.n, env.action_space.n
    start, _ = env.reset(seed=0)
    order = [int(start), *(s for s in range(states) if s != start)]  # the start comes first
    place = {s: n for n, s in enumerate(order)}
    transition, reward = np.zeros((states + 1, actions, states + 1)), np.zeros((states + 1, actions))
    transition[states, :, states] = 1.0
    for s in range(states):
        for a in range(actions):
            for p, following, r, done in env.P[s][a]:
                transition[place[s], a, states if done else place[following]] += p
                reward[place[s], a] += p * r
    return _scaled(name, _slipping(transition), _slipping(reward), steps)


def _keydoor(level: int) -> TableProcess:
    """The first task of the world `keydoor`, as a table, in the time of the shortest way."""
    world = KeyDoor(level=level)
    dynamics = world.dynamics(world.task(0))
    states, actions, outcomes = dynamics.follows.shape
    transition, reward = np.zeros((states + 1, actions, states + 1)), np.zeros((states + 1, actions))
    transition[states, :, states] = 1.0
    for s, a, o in np.ndindex(states, actions, outcomes):
        following = dynamics.follows[s, a, o]
        transition[s, a, states if following == END else following] += dynamics.chance[s, a, o]
        reward[s, a] += dynamics.chance[s, a, o] * dynamics.reward[s, a, o]
    shortest = int(dynamics.distances()[0])
    return _scaled(f"keydoor, level {level}", _slipping(transition), _slipping(reward), shortest)


@lru_cache(maxsize=1)
def processes() -> tuple[TableProcess, ...]:
    """Fifteen of them, all stochastic, with rewards that come late or at every step."""
    return (
        *(_chain(n) for n in (3, 4, 5)),
        *(_grid(n, dense=False) for n in (2, 3, 4)),
        *(_grid(n, dense=True) for n in (3, 5, 7)),
        *(_bandit(n) for n in (5, 10, 20)),
        _gymnasium("FrozenLake-v1", 8, is_slippery=False),
        _gymnasium("CliffWalking-v1", 14),
        _keydoor(1),
    )


def _episodes(
    process: TableProcess, policy: NDArray[np.int64], fixed: int, count: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """[episode, step] states, actions and rewards; the policy acts before the step `fixed`, chance from then on."""
    states, actions = len(process.reward), process.reward.shape[1]
    now, rows = np.zeros(count, int), process.transition.cumsum(2)
    s, a = np.zeros((2, count, process.steps), int)
    for t in range(process.steps):
        s[:, t] = now
        a[:, t] = policy[t, now] if t < fixed else generator.integers(actions, size=count)
        now = (rows[now, a[:, t]] < generator.random(count)[:, None]).sum(1).clip(max=states - 1)
    return s, a, process.reward[s, a]


def _fit(s: NDArray[np.int64], a: NDArray[np.int64], target: Floats, shape: tuple[int, int]) -> Floats:
    """[state, action] the mean of the targets: regression on a table; 0 where nothing was seen."""
    total, visits = np.zeros(shape), np.zeros(shape)
    np.add.at(total, (s, a), target)
    np.add.at(visits, (s, a), 1.0)
    return np.divide(total, visits, out=np.zeros(shape), where=visits > 0)


def shallow_policy(process: TableProcess, k: int, per_step: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """SQIRL: for every step i, episodes that are random from i on, Monte-Carlo values of the random policy, k − 1 steps
    of fitted Q-iteration on the same episodes, and the greedy action."""
    shape = process.reward.shape
    policy = np.zeros((process.steps, shape[0]), int)
    for i in range(process.steps):
        s, a, r = _episodes(process, policy, i, per_step, generator)
        returns = r[:, ::-1].cumsum(1)[:, ::-1]
        q = [_fit(s[:, t], a[:, t], returns[:, t], shape) for t in range(i, min(i + k, process.steps))]
        for depth in range(1, k):
            last = min(i + k - depth, process.steps)
            following = [q[t + 1 - i].max(1) if t + 1 - i < len(q) else None for t in range(i, last)]
            q = [
                q[t - i] if (v := following[t - i]) is None else _fit(s[:, t], a[:, t], r[:, t] + v[s[:, t + 1]], shape)
                for t in range(i, last)
            ]
        policy[i] = q[0].argmax(1)
    return policy


def _target(process: TableProcess) -> float:
    """The value from which on a process counts as solved."""
    return process.worth(None) + SOLVED * (process.best() - process.worth(None))


def sqirl_episodes(process: TableProcess, limit: int, seed: int) -> int:
    """The fewest episodes, over k = 1, 2, 3 and doublings of m, that solve a process on average over four repetitions;
    twice the limit if none do."""
    m = 2
    while process.steps * m <= limit:
        for k in (1, 2, 3):
            draws = [np.random.default_rng((seed, m, k, repetition)) for repetition in range(4)]
            worth = np.mean([process.worth(shallow_policy(process, k, m, draw)) for draw in draws])
            if worth >= _target(process) - 1e-9:
                return process.steps * m
        m *= 2
    return 2 * limit


def q_learning_episodes(process: TableProcess, limit: int, seed: int) -> int:
    """The episodes after which the greedy policy of tabular Q-learning solves a process: ε falls from 1 to 0.1 over a
    quarter of the limit, rates are 1 / visits^0.6, looked at after every growth by a tenth."""
    draw = np.random.default_rng(seed)
    states, actions = process.reward.shape
    rows, reward = process.transition.cumsum(2), process.reward
    q, visits = np.zeros((process.steps + 1, states, actions)), np.zeros((process.steps, states, actions))
    target, look = _target(process) - 1e-9, 10
    for episode in range(1, limit + 1):
        epsilon = max(0.1, 1.0 - 3.6 * episode / limit)
        state, chance = 0, draw.random((process.steps, 2))
        chosen = draw.integers(actions, size=process.steps)
        for t in range(process.steps):
            a = int(chosen[t]) if chance[t, 0] < epsilon else int(q[t, state].argmax())
            following = min(int(rows[state, a].searchsorted(chance[t, 1], "right")), states - 1)
            visits[t, state, a] += 1
            goal = reward[state, a] + (q[t + 1, following].max() if t + 1 < process.steps else 0.0)
            q[t, state, a] += (goal - q[t, state, a]) / visits[t, state, a] ** 0.6
            state = following
        if episode >= look:
            if process.worth(q[:-1].argmax(2)) >= target:
                return episode
            look = max(look + 1, int(look * 1.1))
    return 2 * limit


@lru_cache(maxsize=16)
def _taken(seed: int, episodes: int) -> tuple[Floats, Floats]:
    """[process] the episodes of SQIRL and of Q-learning. Actions are numbered anew for every seed: ties go to the
    first."""
    draw, found = np.random.default_rng(seed), []
    for process in processes():
        order = draw.permutation(process.reward.shape[1])
        p = replace(process, transition=process.transition[:, order], reward=process.reward[:, order])
        found.append((sqirl_episodes(p, episodes, seed), q_learning_episodes(p, episodes, seed)))
    return np.array(found, dtype=float)[:, 0], np.array(found, dtype=float)[:, 1]


def _effective(process: TableProcess) -> float:
    """ln(T² · A^H), the samples that the effective horizon H asks for."""
    _, horizon = stochastic_horizon(process.transition, process.reward, process.steps)
    return float(2 * np.log(process.steps) + horizon * np.log(process.reward.shape[1]))


def _horizon(process: TableProcess) -> float:
    """ln(T² · A^T), the samples that trying everything takes."""
    return float(2 * np.log(process.steps) + process.steps * np.log(process.reward.shape[1]))


def _pairs(process: TableProcess) -> float:
    """ln(S · A)."""
    return float(np.log(process.reward.size))


def _arm(predict: Any, seed: int, size: EpisodeSize) -> Mapping[str, Any]:
    """How well this number orders the processes by the episodes that both algorithms take."""
    number = np.array([predict(process) for process in processes()])
    sqirl, q_learning = _taken(seed, size.episodes)
    return {
        "sqirl": rank_correlation(number, sqirl),
        "q_learning": rank_correlation(number, q_learning),
        "number": number,
        "episodes": sqirl,
        "others": q_learning,
    }


def _solved(findings: TrialFindings) -> str:
    """How many processes each algorithm solves, and how they agree."""
    limit = findings.size.settings()["episodes"]
    runs = findings.values[EFFECTIVE]
    counts = [np.mean([(run[name] <= limit).sum() for run in runs]) for name in ("episodes", "others")]
    agree = np.mean([rank_correlation(run["episodes"], run["others"]) for run in runs])
    return (
        f"of {len(processes())} processes SQIRL solves {counts[0]:.1f} and Q-learning {counts[1]:.1f} on average; "
        f"their episodes have the rank correlation {agree:.2f}"
    )


def _scatter(findings: TrialFindings) -> str:
    """Episodes over the effective horizon, process by process."""
    runs = findings.values[EFFECTIVE]
    x = runs[0]["number"]
    order = np.argsort(x)
    series = [
        Series(
            name,
            x[order].tolist(),
            np.exp(np.mean([np.log(run[key]) for run in runs], 0))[order].tolist(),
            style="dots",
        )
        for name, key in (("SQIRL", "episodes"), ("Q-learning", "others"))
    ]
    return chart("episodes to solve", series, x_label="ln(T² · A^H), H the effective horizon", log_y=True)


EFFECTIVE = "effective horizon"

STUDY = Trial(
    "sqirl",
    "Does the effective horizon predict how many episodes learning takes?",
    arms={
        EFFECTIVE: partial(_arm, _effective),
        "horizon": partial(_arm, _horizon),
        "states × actions": partial(_arm, _pairs),
    },
    claims=(
        Claim(
            "the effective horizon predicts the episodes of Q-learning better than the horizon does",
            TO_Q,
            EFFECTIVE,
            "horizon",
        ),
        Claim("it predicts them better than the size of the table does", TO_Q, EFFECTIVE, "states × actions"),
        Claim("it predicts the episodes of SQIRL better than the horizon does", TO_SQIRL, EFFECTIVE, "horizon"),
    ),
    readings=(TO_Q, TO_SQIRL),
    charts=(_scatter,),
    notes=(_solved,),
    size=EpisodeSize(seeds=8),
    quick=EpisodeSize(seeds=3, episodes=2000),
)
