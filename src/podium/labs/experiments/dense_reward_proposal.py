"""Dense rewards in houses with exact tables: one that is a potential, and one that can be hacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from podium.analysis.decision_table import DecisionTable
from podium.analysis.dense_rewards import misled
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.worlds.keydoor import KeyDoor

__all__ = ["STUDY", "DenseSize", "shaped_by_values", "walking_bonus"]

GAMMA, RATE, PAY = 0.95, 0.1, 0.5  # discount; Adam's learning rate; what a step through a door pays
SPEED = Quantity("speed", "success, mean over training", (0.0, 1.0))
SUCCESS = Quantity("success", "success at the end", (0.0, 1.0))
OPTIMUM = Quantity("optimum", "return of the dense reward's optimum")
ALARM = Quantity("alarm", "alarm raised", (0.0, 1.0))


class DenseSize(StudySize):
    """How long each policy is trained, and on how many episodes per step."""

    steps: int = 100
    walks: int = 32


def shaped_by_values(table: DecisionTable, actions: tuple[str, ...]) -> Tensor:
    """[turn, state, action] r + γ E[Φ(s′)] − Φ(s) with the optimal values as potential Φ, which is 0 at the end."""
    phi = table.best(table.reward, 0.0, GAMMA)[1]
    ahead = torch.stack([table.moves @ phi[turn + 1] for turn in range(table.horizon)])
    return table.reward + GAMMA * ahead - phi[:-1, :, None]


def walking_bonus(table: DecisionTable, actions: tuple[str, ...]) -> Tensor:
    """[state, action] r + a bonus for each step through a door, as often as one likes."""
    walks = torch.tensor([name.startswith("go ") for name in actions])
    moves = table.moves.diagonal(dim1=0, dim2=2).T < 1  # [state, action] whether one may get elsewhere
    return table.reward + PAY * (walks & moves)


def outcome_only(table: DecisionTable, actions: tuple[str, ...]) -> Tensor:
    """[state, action] r alone: 1 for the gold."""
    return table.reward


def arm(
    dense: Callable[[DecisionTable, tuple[str, ...]], Tensor], seed: int, size: DenseSize
) -> Mapping[str, Tensor | float]:
    """Policy gradient on sampled episodes (returns to go, less their mean at each turn; Adam on a table), in a house of
    its own for each seed. Without sampling a potential would change nothing: it only lowers the noise."""
    world = KeyDoor(level=2)
    dynamics = world.dynamics(world.task(seed))
    table = DecisionTable.of(dynamics)
    paid = dense(table, dynamics.actions).expand(table.shape)
    generator = torch.Generator().manual_seed(seed)
    logits = torch.zeros(table.shape[1:], dtype=torch.float64, requires_grad=True)
    optimiser, turns = torch.optim.Adam([logits], lr=RATE), torch.arange(table.horizon)
    discounts = GAMMA**turns
    returns, success = [], []
    for _ in range(size.steps):
        policy = logits.detach().expand(table.shape)
        returns.append(float(table.value(policy, paid, gamma=GAMMA)))
        success.append(float(table.value(policy, table.reward)))
        states, actions = table.walks(policy, size.walks, generator)
        going = states != table.shape[1] - 1  # until the end
        earned = discounts * paid[turns, states, actions] * going
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
        "alarm": float(misled(returns, success).any()),
        "step": torch.arange(size.steps),
        "curve": torch.tensor(success),
        "paid": torch.tensor(returns),
    }


SPARSE, POTENTIAL, HACKED = "outcome only", "potential of exact values", "bonus for walking"

STUDY = Trial(
    "dense-reward-proposal",
    "Does a dense reward speed up learning without changing what is optimal, and is one noticed that does?",
    arms={
        SPARSE: partial(arm, outcome_only),
        POTENTIAL: partial(arm, shaped_by_values),
        HACKED: partial(arm, walking_bonus),
    },
    claims=(
        Claim("a potential of exact values speeds up learning", SPEED, POTENTIAL, SPARSE),
        Claim("its optimum is worth more than that of a bonus that can be hacked", OPTIMUM, POTENTIAL, HACKED),
        Claim("such a bonus lowers success", SUCCESS, SPARSE, HACKED),
        Claim("the alarm is raised by the bonus and not by the potential", ALARM, HACKED, POTENTIAL),
    ),
    readings=(SPEED, SUCCESS, OPTIMUM, ALARM),
    charts=(
        traced("curve", over="step", title="success", x_label="step"),
        traced("paid", over="step", title="dense return", x_label="step"),
    ),
    size=DenseSize(seeds=16, steps=300),
    quick=DenseSize(seeds=4),
)
