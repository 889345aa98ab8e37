"""Exact values of finite decision processes with a time limit, by dynamic programming in float64.

The value of every step is then known exactly, so that estimators of credit can be measured against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError, nearest

if TYPE_CHECKING:
    from podium.core.build import Rollout  # needs torch, which the processes of worlds do without

__all__ = ["END", "Array", "Dynamics", "Index", "Oracle", "Outcome", "Walks"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
END = -1  # the episode is over
ROUNDING = 1e-9

S = TypeVar("S")


class Outcome(NamedTuple, Generic[S]):
    """One possible outcome of an action."""

    follows: S | None  # None: the episode is over
    reward: float = 0.0
    chance: float = 1.0


@dataclass(frozen=True)
class Dynamics:
    """A task as a finite decision process with a time limit: what each action does in each state."""

    states: tuple[str, ...]  # the first is the start
    actions: tuple[str, ...]  # the first changes nothing
    follows: Index  # [state, action, outcome] the state that follows, or END
    reward: Array  # [state, action, outcome]
    chance: Array  # [state, action, outcome]
    away: Array  # [state, action] the apparent distance to the goal after it, in turns; inf: never tried
    horizon: int  # turns
    read: Callable[[str], str] = str  # from a text to an action

    @classmethod
    def explore(
        cls,
        start: S,
        actions: Sequence[str],
        moves: Callable[[S], Mapping[str, Sequence[Outcome[S]]]],
        horizon: int,
        *,
        key: Callable[[S], str] = str,
        away: Callable[[S, str], float] | None = None,
        idle: float = 0.0,
        read: Callable[[str], str] = str,
    ) -> Dynamics:
        """Explore everything that can be reached from the start. `key` names states; equal names are the same state.

        `moves` gives the outcomes of each action, the intended one first; actions that it omits change nothing and are
        never tried; their reward is `idle`. Without `away`, the distance to the goal is that of the shortest path to
        the end.
        """
        nodes, names = [start], {key(start): 0}

        def number(node: S | None) -> int:
            """The index of a state; a new one is queued for exploration."""
            if node is None:
                return END
            name = key(node)
            if name not in names:
                names[name] = len(nodes)
                nodes.append(node)
            return names[name]

        column = {action: n for n, action in enumerate(actions)}
        cells: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
        for state, node in enumerate(nodes):
            cells[state, 0] = [(state, idle, 1.0)]
            for action, outcomes in moves(node).items():
                cells[state, column[action]] = [(number(after), reward, chance) for after, reward, chance in outcomes]
        shape = (len(nodes), len(actions), max(map(len, cells.values())))
        follows = np.tile(np.arange(shape[0])[:, None, None], (1, *shape[1:]))
        rewards, chances, far = np.zeros(shape), np.zeros(shape), np.full(shape[:2], np.inf)
        chances[..., 0], rewards[..., 0] = 1.0, idle  # by default an action changes nothing
        for cell, ends in cells.items():
            for n, end in enumerate(ends):
                follows[(*cell, n)], rewards[(*cell, n)], chances[(*cell, n)] = end
        explored = cls(tuple(names), tuple(actions), follows, rewards, chances, far, horizon, read)
        shortest = np.append(explored.distances(), 0.0)[follows[..., 0]]  # END is the last entry
        for state, place in cells:
            far[state, place] = shortest[state, place] if away is None else away(nodes[state], actions[place])
        return explored

    def oracle(self, policy: Mapping[str, Mapping[str, float]] | Array, gamma: float = 1.0) -> Oracle:
        """The exact values of a policy: V(s), Q(s, a) and advantages, at every turn.

        `policy` gives the probability of each action in each state, by their names or as an array [state, action].
        """
        return Oracle(self, self.table(policy), gamma)

    @cached_property
    def expected(self) -> Array:
        """[state, action] the expected reward."""
        return (self.chance * self.reward).sum(-1)

    @cached_property
    def _state_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.states)}

    @cached_property
    def _action_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.actions)}

    def state(self, name: str) -> int:
        if name not in self._state_numbers:
            raise PodiumError(f"There is no state {name!r}. {nearest(name, self.states)}")
        return self._state_numbers[name]

    def action(self, text: str) -> int:
        """The index of the action that a text means; an unknown one does nothing, like action 0."""
        return self._action_numbers.get(self.read(text), 0)

    def table(self, policy: Mapping[str, Mapping[str, float]] | Array) -> Array:
        """[state, action] the probabilities of a policy, validated."""
        shape = (len(self.states), len(self.actions))
        if isinstance(policy, Mapping):
            by_name, policy = policy, np.zeros(shape)
            for name, row in by_name.items():
                for text, probability in row.items():
                    policy[self.state(name), self.action(text)] += probability
        table = np.asarray(policy, dtype=np.float64)
        if table.shape != shape:
            raise PodiumError(f"The policy has the shape {table.shape}, not {shape}: states times actions.")
        wrong = np.flatnonzero((table < 0).any(1) | (abs(table.sum(1) - 1) > ROUNDING))
        if len(wrong):
            raise PodiumError(
                f"In the state {self.states[wrong[0]]!r} the probabilities of the policy add up to "
                f"{table[wrong[0]].sum():g}: give each state's actions probabilities that add up to 1."
            )
        return table

    def distances(self) -> Array:
        """[state] the fewest actions to an end with a reward, if every outcome is favourable."""
        steps = np.full(len(self.states), np.inf)
        lost = (self.chance == 0) | ((self.follows == END) & (self.reward <= 0))
        while True:
            after = np.where(lost, np.inf, np.append(steps, 0.0)[self.follows])  # END is the last entry
            better = 1.0 + after.min((1, 2))
            if not (better < steps).any():
                return steps
            steps = np.minimum(steps, better)

    def optimal(self, gamma: float = 1.0) -> Array:
        """[turn, state, action] Q of the best policy."""
        q, later = np.zeros((self.horizon, *self.expected.shape)), np.zeros(len(self.states))
        for turn in reversed(range(self.horizon)):
            q[turn] = self.expected + gamma * (self.chance * np.append(later, 0.0)[self.follows]).sum(-1)
            later = q[turn].max(1)
        return q

    def regret(self, rollout: Rollout, gamma: float = 1.0) -> float:
        """Σ_t γ^t (V*(s_t) − Q*(s_t, a_t)) over the turns of a recorded rollout: what its actions have lost."""
        q = self.optimal(gamma)
        steps = [(self.state(t.columns["state"]), self.action(t.columns["action"])) for t in rollout.turns]
        return sum(gamma**t * float(q[t, s].max() - q[t, s, a]) for t, (s, a) in enumerate(steps))

    def softmax(self, strength: float) -> Array:
        """[state, action] the policy softmax(−strength · `away`).

        Strength 0 is uniform over all actions that are ever tried.
        """
        logits = np.full(self.away.shape, -np.inf)
        np.multiply(-strength, self.away, out=logits, where=np.isfinite(self.away))
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)


@dataclass(frozen=True)
class Walks:
    """Rollouts as arrays with one entry per step, rollout by rollout."""

    rollout: Index
    turn: Index
    state: Index
    action: Index
    follows: Index  # the state that followed, or END
    reward: Array
    count: int  # rollouts


@dataclass(frozen=True)
class Oracle:
    """The exact values of a policy at every turn: with a time limit, the value of a state depends on the turn."""

    dynamics: Dynamics
    policy: Array  # [state, action]
    gamma: float = 1.0

    @cached_property
    def values(self) -> Array:
        """[turn, state] V before the turn; the last row, after the horizon, is 0."""
        horizon, states = self.dynamics.horizon, len(self.dynamics.states)
        values = np.zeros((horizon + 1, states))
        for turn in reversed(range(horizon)):
            values[turn] = (self.policy * self._ahead(values[turn + 1])).sum(1)
        return values

    def _ahead(self, later: Array) -> Array:
        """[state, action] Q = r + gamma · Σ P(s' | s, a) V(s'), with V(END) = 0."""
        world = self.dynamics
        return world.expected + self.gamma * (world.chance * np.append(later, 0.0)[world.follows]).sum(-1)

    def action_values(self, turn: int = 0) -> Array:
        """[state, action] Q at a turn."""
        if not 0 <= turn < self.dynamics.horizon:
            raise PodiumError(f"Turns are numbered 0 to {self.dynamics.horizon - 1}; {turn} was asked for.")
        return self._ahead(self.values[turn + 1])

    def value(self, state: str, turn: int = 0) -> float:
        return float(self.values[turn, self.dynamics.state(state)])

    def action_value(self, state: str, action: str, turn: int = 0) -> float:
        return float(self.action_values(turn)[self.dynamics.state(state), self.dynamics.action(action)])

    def advantages(self, turn: Index, state: Index, action: Index) -> Array:
        """Q(s, a) − V(s) of steps."""
        advantages = np.zeros(len(turn))
        for t in np.unique(turn):
            at = turn == t
            q = self.action_values(int(t))
            advantages[at] = q[state[at], action[at]] - self.values[t, state[at]]
        return advantages

    def credit(self, rollout: Rollout) -> list[float]:
        """The exact advantage of each turn of a recorded rollout, from the turn's `state` and `action`."""
        world = self.dynamics
        steps = [(world.state(t.columns["state"]), world.action(t.columns["action"])) for t in rollout.turns]
        state, action = np.array(steps, dtype=np.int64).reshape(-1, 2).T
        return [float(x) for x in self.advantages(np.arange(len(steps)), state, action)]

    @cached_property
    def visits(self) -> Array:
        """[turn, state] the probability that the policy is in the state when the turn begins."""
        world = self.dynamics
        visits = np.zeros((world.horizon, len(world.states)))
        visits[0, 0] = 1.0
        inside = world.follows != END
        for turn in range(world.horizon - 1):
            flow = visits[turn][:, None, None] * self.policy[:, :, None] * world.chance
            np.add.at(visits[turn + 1], world.follows[inside], flow[inside])
        return visits

    @cached_property
    def gradient(self) -> Array:
        """[state, action] ∂V(start) / ∂logit = Σ_t P(s_t = s) · π(a | s) · A_t(s, a)."""
        total = np.zeros_like(self.policy)
        for turn in range(self.dynamics.horizon):
            advantage = self.action_values(turn) - self.values[turn][:, None]
            total += self.visits[turn][:, None] * self.policy * advantage
        return total

    def walks(self, count: int, rng: np.random.Generator) -> Walks:
        """Sample rollouts of the policy, all in parallel, turn by turn."""
        world = self.dynamics
        state, alive = np.zeros(count, dtype=np.int64), np.arange(count)
        rewards: list[Array] = []
        columns: list[list[Index]] = [[], [], [], [], []]
        for turn in range(world.horizon):
            action = _drawn(self.policy[state], rng)
            outcome = _drawn(world.chance[state, action], rng)
            follows = world.follows[state, action, outcome]
            for column, x in zip(columns, (alive, np.full(len(alive), turn), state, action, follows), strict=True):
                column.append(x)
            rewards.append(world.reward[state, action, outcome])
            alive, state = alive[follows != END], follows[follows != END]
        flat = [np.concatenate(column) for column in columns]
        order = np.lexsort((flat[1], flat[0]))
        rollout, turns, states, actions, after = (x[order] for x in flat)
        return Walks(rollout, turns, states, actions, after, np.concatenate(rewards)[order], count)


def _drawn(rows: Array, rng: np.random.Generator) -> Index:
    """Draw one column of each row by the row's probabilities."""
    bounds = rows.cumsum(1)
    # Strictly below the last bound, so that a column of probability 0 is never drawn, whatever the rounding.
    threshold = rng.random(len(rows)) * (1 - ROUNDING) * bounds[:, -1]
    drawn: Index = (threshold[:, None] >= bounds).sum(1)
    return drawn
