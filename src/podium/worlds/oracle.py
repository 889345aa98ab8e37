"""Exact values of finite decision processes with a time limit, by dynamic programming in float64.

What a step was worth is then known, not estimated: the measure of every estimator of credit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from podium.core.build import Rollout
from podium.core.errors import PodiumError, nearest

__all__ = ["END", "Array", "Dynamics", "Index", "Oracle", "Walks"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
END = -1  # the goal: reward 1, and nothing after it
ROUNDING = 1e-9


@dataclass(frozen=True)
class Dynamics:
    """What each action does in each state. Action 0 does nothing; so do actions where they are impossible."""

    states: tuple[str, ...]  # the first is the start
    actions: tuple[str, ...]
    possible: NDArray[np.bool_]  # [state, action] whether it does something
    follows: Index  # [state, action, outcome] the state that follows, or END
    chance: Array  # [state, action, outcome]
    horizon: int  # turns
    read: Callable[[str], str] = str  # the action that a text means

    @classmethod
    def of_moves(
        cls,
        states: Sequence[str],
        actions: Sequence[str],
        moves: Sequence[tuple[int, int, float, int]],
        horizon: int,
        read: Callable[[str], str] = str,
    ) -> Dynamics:
        """From a list of (state, action, chance, state that follows)."""
        shape = (len(states), len(actions))
        outcomes: dict[tuple[int, int], list[tuple[float, int]]] = {}
        for state, action, chance, after in moves:
            outcomes.setdefault((state, action), []).append((chance, after))
        width = max(map(len, outcomes.values()), default=1)
        possible = np.zeros(shape, dtype=bool)
        follows = np.broadcast_to(np.arange(shape[0])[:, None, None], (*shape, width)).copy()
        chances = np.zeros((*shape, width))
        chances[..., 0] = 1.0  # to stay
        for (state, action), found in outcomes.items():
            possible[state, action] = True
            chances[state, action] = 0.0
            for place, (chance, after) in enumerate(found):
                chances[state, action, place], follows[state, action, place] = chance, after
        return cls(tuple(states), tuple(actions), possible, follows, chances, horizon, read)

    @cached_property
    def rewards(self) -> Array:
        """[state, action] the expected reward: the chance of reaching the goal at once."""
        return (self.chance * (self.follows == END)).sum(-1)

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
        """The action that a text means; one that nobody knows does nothing, as action 0."""
        return self._action_numbers.get(self.read(text), 0)

    def table(self, policy: Mapping[str, Mapping[str, float]] | Array) -> Array:
        """[state, action] a policy's probabilities, checked."""
        shape = (len(self.states), len(self.actions))
        if isinstance(policy, Mapping):
            given, policy = policy, np.zeros(shape)
            for name, row in given.items():
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
        """[state] the fewest actions to the goal if all goes well."""
        steps = np.full(len(self.states), np.inf)
        while True:
            after = np.where(self.chance > 0, np.append(steps, 0.0)[self.follows], np.inf)  # END is the last entry
            better = 1.0 + after.min((1, 2))
            if not (better < steps).any():
                return steps
            steps = np.minimum(steps, better)

    def softmax(self, strength: float) -> Array:
        """[state, action] a policy that prefers actions with a shorter way to the goal by exp(strength) a step.

        Of the actions that do something, and of waiting as one more; strength 0 takes each of them alike.
        """
        after = np.append(self.distances(), 0.0)[self.follows[..., 0]]  # the outcome that is meant comes first
        allowed = self.possible.copy()
        allowed[:, 0] = True
        with np.errstate(invalid="ignore"):
            logits = np.where(allowed, -strength * after, -np.inf)
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True)


@dataclass(frozen=True)
class Walks:
    """Rollouts as arrays, one entry a step, rollout by rollout."""

    rollout: Index
    turn: Index
    state: Index
    action: Index
    follows: Index  # the state that followed, or END
    count: int  # rollouts

    @property
    def reward(self) -> Array:
        return (self.follows == END).astype(np.float64)


@dataclass(frozen=True)
class Oracle:
    """The exact values of a policy at every turn: with a time limit, the same state is worth less later on."""

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
        """[state, action] Q = r + gamma · Σ P(s' | s, a) V(s'), with V(goal) = 0."""
        world = self.dynamics
        return world.rewards + self.gamma * (world.chance * np.append(later, 0.0)[world.follows]).sum(-1)

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
        found = np.zeros(len(turn))
        for t in np.unique(turn):
            at = turn == t
            q = self.action_values(int(t))
            found[at] = q[state[at], action[at]] - self.values[t, state[at]]
        return found

    def credit(self, rollout: Rollout) -> list[float]:
        """The exact advantage of each turn of a recorded rollout, from the turn's `state` and `action`."""
        world = self.dynamics
        steps = [(world.state(t.columns["state"]), world.action(t.columns["action"])) for t in rollout.turns]
        state, action = np.array(steps, dtype=np.int64).reshape(-1, 2).T
        return [float(x) for x in self.advantages(np.arange(len(steps)), state, action)]

    @cached_property
    def visits(self) -> Array:
        """[turn, state] how likely the policy is to stand there when the turn begins."""
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
        """Rollouts of the policy, all at once, turn by turn."""
        world = self.dynamics
        state, alive = np.zeros(count, dtype=np.int64), np.arange(count)
        columns: list[list[Index]] = [[], [], [], [], []]
        for turn in range(world.horizon):
            action = _drawn(self.policy[state], rng)
            outcome = _drawn(world.chance[state, action], rng)
            follows = world.follows[state, action, outcome]
            for column, x in zip(columns, (alive, np.full(len(alive), turn), state, action, follows), strict=True):
                column.append(x)
            alive, state = alive[follows != END], follows[follows != END]
        flat = [np.concatenate(column) for column in columns]
        order = np.lexsort((flat[1], flat[0]))
        rollout, turns, states, actions, after = (x[order] for x in flat)
        return Walks(rollout, turns, states, actions, after, count)


def _drawn(rows: Array, rng: np.random.Generator) -> Index:
    """One column of each row, with the row's probabilities."""
    bounds = rows.cumsum(1)
    # Strictly below the last bound, so that a column without probability is never drawn, whatever rounding does.
    threshold = rng.random(len(rows)) * (1 - ROUNDING) * bounds[:, -1]
    drawn: Index = (threshold[:, None] >= bounds).sum(1)
    return drawn
