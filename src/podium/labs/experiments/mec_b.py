"""Messages carried by the actions of a soft-optimal policy in a grid, through a code of limited rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from podium.analysis.coupling import (
    Blocks,
    action_law,
    bits,
    blocks_within,
    posterior_after,
    quantised,
    through_blocks,
)
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial

__all__ = ["STUDY", "CodingSize", "grid_steps", "played", "soft_policy_table"]

Floats = NDArray[np.float64]
SIDE, SLIP, DISCOUNT, SWEEPS, LONGEST = 8, 0.1, 0.95, 100, 60
GOAL, TRAP, START = (0, SIDE - 1), (1, SIDE - 1), (SIDE - 1, 0)
WALLS = tuple((i, i) for i in range(2, SIDE - 2))
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
TEMPERATURES = (-6.0, -5.0, -4.0, -3.0)  # log β
BELIEF = Quantity("belief", "belief in the message", (0.0, 1.0))
REWARD = Quantity("reward", "discounted reward", (-1.0, 1.0))


class CodingSize(StudySize):
    """How many messages there are, and how many episodes are played at each temperature."""

    messages: int = 64
    episodes: int = 50


def grid_steps() -> tuple[Floats, Floats]:
    """[state, action, state] probabilities and [state] the reward of arriving there; goal and trap end the episode."""
    chance, reward = np.zeros((SIDE * SIDE, len(MOVES), SIDE * SIDE)), np.zeros(SIDE * SIDE)
    reward[_number(GOAL)], reward[_number(TRAP)] = 1.0, -1.0
    for state in range(SIDE * SIDE):
        for action in range(len(MOVES)):
            for turn, p in ((0, 1 - 2 * SLIP), (1, SLIP), (-1, SLIP)):
                chance[state, action, _moved(state, (action + turn) % len(MOVES))] += p
    return chance, reward


def _number(place: tuple[int, int]) -> int:
    return place[0] * SIDE + place[1]


def _moved(state: int, move: int) -> int:
    if state in (_number(GOAL), _number(TRAP)):
        return state
    row, column = state // SIDE + MOVES[move][0], state % SIDE + MOVES[move][1]
    inside = 0 <= row < SIDE and 0 <= column < SIDE and (row, column) not in WALLS
    return _number((row, column)) if inside else state


def soft_policy_table(beta: float) -> Floats:
    """[state, action] π = softmax(Q / β), Q by soft value iteration: Q = Σ P (r + γ β logsumexp(Q / β))."""
    chance, reward = grid_steps()
    going = np.array([state not in (_number(GOAL), _number(TRAP)) for state in range(SIDE * SIDE)])
    q = np.zeros((SIDE * SIDE, len(MOVES)))
    for _ in range(SWEEPS):
        top = q.max(1)
        value = (top + beta * np.log(np.exp((q - top[:, None]) / beta).sum(1))) * going
        q = chance @ (reward + DISCOUNT * value)
    p = np.exp((q - q.max(1, keepdims=True)) / beta)
    return np.asarray(p / p.sum(1, keepdims=True))


Code = Callable[[Floats, float], Blocks]


def played(policy: Floats, code: Code, rate: float, messages: int, rng: np.random.Generator) -> tuple[float, float]:
    """One episode: the discounted reward, and the receiver's belief in the message at its end."""
    chance, reward = grid_steps()
    message, belief, state, earned = int(rng.integers(messages)), np.full(messages, 1 / messages), _number(START), 0.0
    for step in range(LONGEST):
        joint = through_blocks(belief, policy[state], code(belief, rate))
        action = int(rng.choice(len(MOVES), p=action_law(joint, message)))
        belief = posterior_after(joint, action)
        state = int(rng.choice(SIDE * SIDE, p=chance[state, action]))
        earned += DISCOUNT**step * reward[state]
        if reward[state]:
            break
    return float(earned), float(belief[message])


def _arm(code: Code, share: float, seed: int, size: CodingSize) -> Mapping[str, Floats]:
    """Episodes at each temperature, with a rate that is a share of the message's entropy."""
    rate = share * bits(np.full(size.messages, 1 / size.messages))
    outcomes = np.array(
        [
            [
                played(policy, code, rate, size.messages, np.random.default_rng((seed, number, episode)))
                for episode in range(size.episodes)
            ]
            for number, policy in enumerate(soft_policy_table(float(np.exp(t))) for t in TEMPERATURES)
        ]
    )
    return {
        "reward": outcomes[..., 0].ravel(),
        "belief": outcomes[..., 1].ravel(),
        "temperature": np.array(TEMPERATURES) + 7.0,
        "curve": outcomes[..., 1].mean(1),
    }


SEARCH, UNIFORM, LOW, LOW_UNIFORM, PLAIN = (
    "search, half the rate",
    "uniform, half the rate",
    "search, a quarter",
    "uniform, a quarter",
    "plain coupling",
)

STUDY = Trial(
    "mec-b",
    "Do actions tell a message better through blocks that are searched for than through uniform ones?",
    arms={
        SEARCH: partial(_arm, blocks_within, 0.5),
        UNIFORM: partial(_arm, quantised, 0.5),
        LOW: partial(_arm, blocks_within, 0.25),
        LOW_UNIFORM: partial(_arm, quantised, 0.25),
        PLAIN: partial(_arm, blocks_within, 1.0),
    },
    claims=(
        Claim(
            "at half the rate the receiver believes the message more than by uniform quantisation",
            BELIEF,
            SEARCH,
            UNIFORM,
        ),
        Claim("at a quarter of the rate, too", BELIEF, LOW, LOW_UNIFORM),
        Claim("a larger rate tells more", BELIEF, PLAIN, LOW),
    ),
    readings=(BELIEF, REWARD),
    charts=(traced("curve", over="temperature", title="belief in the message", x_label="7 + log β", log_x=False),),
    size=CodingSize(seeds=8),
    quick=CodingSize(seeds=3, messages=32, episodes=20),
)
