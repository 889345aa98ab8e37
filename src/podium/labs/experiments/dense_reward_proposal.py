"""Dense rewards in houses with exact tables: potentials, credit by coalitions, and a bonus that can be hacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from podium.analysis.decision_table import DecisionTable
from podium.analysis.dense_rewards import (
    TransitionGraph,
    discounted_return,
    misled,
    owen_credit,
    shaped_reward,
    shapley_credit,
    span_rewards,
    transition_graph,
)
from podium.evaluation.resample import Array
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.worlds.keydoor import KeyDoor

__all__ = [
    "STUDY",
    "Dense",
    "DenseSize",
    "by_coalitions",
    "closeness",
    "outcome_only",
    "shaped_by_closeness",
    "shaped_by_values",
    "walking_bonus",
]

GAMMA, RATE, PAY = 0.95, 0.1, 0.5  # discount; Adam's learning rate; what a step through a door pays
SPANS, ALPHA = 4, 0.5  # units whose credit is shared out, of an episode; how much of the reward that is
SEEN = 512  # episodes at random from which the graph of states is made
SPEED = Quantity("speed", "success, mean over training", (0.0, 1.0))
SUCCESS = Quantity("success", "success at the end", (0.0, 1.0))
OPTIMUM = Quantity("optimum", "return of the dense reward's optimum")
UNEVEN = Quantity("uneven", "spread of what is added to returns", (0.0, float("inf")))
ALARM = Quantity("alarm", "alarm raised", (0.0, 1.0))


class DenseSize(StudySize):
    """How long each policy is trained, and on how many episodes per step."""

    steps: int = 100
    walks: int = 32


@dataclass(frozen=True)
class Dense:
    """What is paid for: on average, and along episodes. The two have the same sums."""

    paid: Tensor  # [turn, state, action], or without turns
    along: Callable[[Tensor, Tensor], Array] | None = None  # [walk, turn] from states and actions; None: as in `paid`


def shaped_by(table: DecisionTable, phi: Tensor) -> Dense:
    """r + γ Φ(s′) − Φ(s), with a potential Φ [turn or 1 more, state] that is 0 at the end."""
    ahead = torch.stack([table.moves @ phi[turn + 1] for turn in range(table.horizon)])
    turns = torch.arange(table.horizon + 1)

    def along(states: Tensor, actions: Tensor) -> Array:
        last = table.moves[states[:, -1], actions[:, -1]].argmax(-1)
        visited = torch.cat([states, last[:, None]], 1)
        return shaped_reward(table.reward[states, actions].numpy(), phi[turns, visited].numpy(), GAMMA)

    return Dense(table.reward + GAMMA * ahead - phi[:-1, :, None], along)


def shaped_by_values(table: DecisionTable, actions: tuple[str, ...]) -> Dense:
    """r + γ Φ(s′) − Φ(s) with the optimal values as potential Φ, which is 0 at the end."""
    return shaped_by(table, table.best(table.reward, 0.0, GAMMA)[1])


def closeness(graph: TransitionGraph, goal: int, states: int) -> Tensor:
    """[state] γ to the number of steps from a state to the goal in the graph of what was seen; 0: there is no way."""
    near = graph.target > 0
    node_of = {int(node[0]): number for number, node in enumerate(graph.nodes)}
    steps = np.full(len(graph.nodes), np.inf)
    if goal in node_of:
        front, hops = np.arange(len(steps)) == node_of[goal], 0
        while front.any():
            steps[front], hops = hops, hops + 1
            front = near[front].any(0) & np.isinf(steps)
    found = torch.zeros(states, dtype=torch.float64)
    for state, number in node_of.items():
        found[state] = float(GAMMA ** steps[number])
    return found


def shaped_by_closeness(table: DecisionTable, actions: tuple[str, ...]) -> Dense:
    """r + γ Φ(s′) − Φ(s) with Φ the closeness to where the gold can be taken, in the graph of the states that 512
    random episodes saw."""
    states, _ = table.walks(torch.zeros(table.shape, dtype=torch.float64), SEEN, torch.Generator().manual_seed(0))
    # Each episode forth and back: it ends where the next one begins, and no step between two episodes is counted.
    there_and_back = torch.cat([states, states.flip(1)], 1)
    graph = transition_graph(there_and_back.reshape(-1, 1).numpy(), 0.5)
    phi = closeness(graph, int(table.reward.amax(1).argmax()), table.shape[1])
    phi[-1] = 0.0
    return shaped_by(table, torch.cat([phi.expand(table.horizon, -1), torch.zeros(1, len(phi))]))


def by_coalitions(share: Callable[[Array], Array], table: DecisionTable, actions: tuple[str, ...]) -> Dense:
    """Half of the reward is shared out among four spans of an episode. The worth of some spans is the reward and the
    best value of where one stands, if one waits during the others."""
    score = table.best(table.reward, 0.0, GAMMA)[1][0]
    follows, wait = table.moves.argmax(-1), actions.index("wait")
    span = torch.arange(table.horizon) * SPANS // table.horizon
    ends = [int((span == unit).nonzero()[-1]) for unit in range(SPANS)]

    def worth(taken: Tensor) -> Tensor:
        """[walk, coalition]"""
        values = []
        for mask in range(1 << SPANS):
            here, earned = torch.zeros(len(taken), dtype=torch.long), torch.zeros(len(taken), dtype=torch.float64)
            for turn, action in enumerate(taken.T):
                acts = action if mask >> int(span[turn]) & 1 else torch.full_like(action, wait)
                here, earned = follows[here, acts], earned + table.reward[here, acts]
            values.append(earned + score[here])
        return torch.stack(values, 1)

    def along(states: Tensor, taken: Tensor) -> Array:
        values, outcomes = worth(taken).numpy(), table.reward[states, taken].sum(1).tolist()
        silent = np.zeros(table.horizon)
        return np.stack([span_rewards(share(v), ends, silent, r, ALPHA) for v, r in zip(values, outcomes, strict=True)])

    return Dense(table.reward + ALPHA * (table.moves @ score - score[:, None]), along)


def in_halves(value: Array) -> Array:
    """[unit] Owen's credit, with the first two and the last two spans as blocks."""
    return owen_credit(value, ((0, 1), (2, 3)))


def walking_bonus(table: DecisionTable, actions: tuple[str, ...]) -> Dense:
    """r + a bonus for each step through a door, as often as one likes."""
    walks = torch.tensor([name.startswith("go ") for name in actions])
    moves = table.moves.diagonal(dim1=0, dim2=2).T < 1  # [state, action] whether one may get elsewhere
    return Dense(table.reward + PAY * (walks & moves))


def outcome_only(table: DecisionTable, actions: tuple[str, ...]) -> Dense:
    """r alone: 1 for the gold."""
    return Dense(table.reward)


def _arm(
    dense: Callable[[DecisionTable, tuple[str, ...]], Dense], seed: int, size: DenseSize
) -> Mapping[str, Tensor | float]:
    """Policy gradient on sampled episodes (returns to go, less their mean at each turn; Adam on a table), in a house of
    its own for each seed. Without sampling a potential would change nothing: it only lowers the noise."""
    world = KeyDoor(level=2)
    dynamics = world.dynamics(world.task(seed))
    table = DecisionTable.of(dynamics)
    chosen = dense(table, dynamics.actions)
    paid = chosen.paid.expand(table.shape)
    generator = torch.Generator().manual_seed(seed)
    logits = torch.zeros(table.shape[1:], dtype=torch.float64, requires_grad=True)
    optimiser, turns = torch.optim.Adam([logits], lr=RATE), torch.arange(table.horizon)
    discounts = GAMMA**turns
    returns, success, uneven = [], [], []
    for _ in range(size.steps):
        policy = logits.detach().expand(table.shape)
        returns.append(float(table.value(policy, paid, gamma=GAMMA)))
        success.append(float(table.value(policy, table.reward)))
        states, actions = table.walks(policy, size.walks, generator)
        going = states != table.shape[1] - 1  # until the end
        along = (
            paid[turns, states, actions] if chosen.along is None else torch.from_numpy(chosen.along(states, actions))
        )
        added = (along - table.reward[states, actions]).numpy()
        uneven.append(float(discounted_return(added, GAMMA).std()))
        earned = discounts * along * going
        to_go = earned.flip(1).cumsum(1).flip(1)
        credit = (to_go - to_go.mean(0)) * going
        optimiser.zero_grad()
        (-(credit * logits.log_softmax(-1)[states, actions]).sum(1).mean()).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    best = table.best(paid, 0.0, GAMMA)[0]
    return {
        "speed": sum(success) / len(success),
        "success": success[-1],
        "optimum": float(table.value(best, table.reward, gamma=GAMMA)),
        "uneven": sum(uneven) / len(uneven),
        "alarm": float(misled(returns, success).any()),
        "step": torch.arange(size.steps),
        "curve": torch.tensor(success),
        "paid": torch.tensor(returns),
    }


SPARSE, POTENTIAL, HACKED = "outcome only", "potential of exact values", "bonus for walking"
GRAPH, SHAPLEY, OWEN = "closeness in the graph that was seen", "credit of spans (Shapley)", "credit of spans (Owen)"

STUDY = Trial(
    "dense-reward-proposal",
    "Does a dense reward speed up learning without changing what is optimal, and is one noticed that does?",
    arms={
        SPARSE: partial(_arm, outcome_only),
        POTENTIAL: partial(_arm, shaped_by_values),
        HACKED: partial(_arm, walking_bonus),
        GRAPH: partial(_arm, shaped_by_closeness),
        SHAPLEY: partial(_arm, partial(by_coalitions, shapley_credit)),
        OWEN: partial(_arm, partial(by_coalitions, in_halves)),
    },
    claims=(
        Claim("a potential of exact values speeds up learning", SPEED, POTENTIAL, SPARSE),
        Claim("its optimum is worth more than that of a bonus that can be hacked", OPTIMUM, POTENTIAL, HACKED),
        Claim("such a bonus lowers success", SUCCESS, SPARSE, HACKED),
        Claim("the alarm is raised by the bonus and not by the potential", ALARM, HACKED, POTENTIAL),
        Claim("closeness in the graph that was seen speeds up learning", SPEED, GRAPH, SPARSE),
        Claim("credit of spans by coalitions speeds up learning", SPEED, SHAPLEY, SPARSE),
    ),
    readings=(SPEED, SUCCESS, OPTIMUM, UNEVEN, ALARM),
    charts=(
        traced("curve", over="step", title="success", x_label="step"),
        traced("paid", over="step", title="dense return", x_label="step"),
    ),
    size=DenseSize(seeds=16, steps=300),
    quick=DenseSize(seeds=4),
)
