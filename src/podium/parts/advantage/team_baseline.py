"""Advantages with one baseline for each team."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import within
from podium.core.part import Advantage, Columns, Need
from podium.core.partition import Partition

__all__ = ["TeamBaseline"]


class TeamBaseline(Advantage):
    """Judges an agent against its team mates: the baseline is the mean return of all agents of the team in all episodes
    of the task.

        A = G − mean of G over (task, team);   then (A − mean) / (std + ε) over the team in the batch, unbiased

    G is the sum of an agent's rewards in an episode, and an agent counts once in an episode, however often it acts.
    Teams never mix. One agent in each team is GRPO without its std, normalised over the batch.
    """

    reference = "AdvEvo-MARL, https://arxiv.org/abs/2510.01586"
    team: str = "turn.role"  # a column: agents with the same value are a team
    agent: str = "turn.agent"  # a column that tells the agents of an episode apart
    scaled: bool = True  # whether advantages are normalised over the batch
    epsilon: float = 1e-8  # ≥ 0

    provides = ("turn.advantage", "turn.return", "turn.baseline")

    def __post_init__(self) -> None:
        within(self, "epsilon", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("turn.reward", self.team, self.agent)

    @property
    def normalizes(self) -> bool:
        return self.scaled

    def __call__(self, batch: Batch) -> Columns:
        agents = batch.by("turn", "rollout", self.agent)
        returns = agents.spread(agents.total(batch["turn.reward"]))
        share = agents.spread(agents.total(torch.ones_like(returns))).reciprocal()  # an agent's turns count as one
        baseline = batch.by("turn", "group", self.team).mean(returns, weight=share)
        advantage = returns - baseline
        if self.scaled:
            teams = batch.by("turn", self.team)
            centred = advantage - teams.mean(advantage, weight=share)
            std = overflow_safe(lambda x: self.std(teams, x, share), centred)
            advantage = (centred / (std + self.epsilon)).where(std > 0, 0)
        return {"turn.advantage": advantage, "turn.return": returns, "turn.baseline": baseline}

    def std(self, teams: Partition, centred: Tensor, share: Tensor) -> Tensor:
        """The unbiased standard deviation over the agents of a team; 0 for one alone."""
        freedom = (teams.sum(share) - 1).clamp(min=1)
        return (teams.sum(centred.square() * share) / freedom).sqrt()
