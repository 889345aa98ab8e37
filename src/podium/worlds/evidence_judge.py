"""A judge of decisions that sees some of the evidence: a network fitted to which doses a clinician has preferred."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn

from podium.tables.justified import judge_loss
from podium.worlds.patients import ACTIONS, FEATURES, Cohort, Numbers, Picks, treated

__all__ = ["EvidenceJudge", "common_judge", "fitted_judge"]

WIDTH, BATCH, RATE = 32, 256, 5e-3
SHOWN = (4, 6, len(FEATURES))  # how many measurements it is shown while it is fitted, in turn


class EvidenceJudge:
    """Scores decisions. It sees the measurements that are revealed, and which those are."""

    def __init__(self, layers: list[tuple[Numbers, Numbers]]) -> None:
        self.layers = layers

    def __call__(self, state: Numbers, revealed: Numbers, action: Picks) -> Numbers:
        """[…] the score of each decision in a state […, feature] of which a part is revealed."""
        x = _seen(state, revealed, np.asarray(action))
        for number, (weight, bias) in enumerate(self.layers):
            x = x @ weight.T + bias
            if number < len(self.layers) - 1:
                x = np.tanh(x)
        return np.asarray(x[..., 0])


def _seen(state: Numbers, revealed: Numbers, action: Picks) -> Numbers:
    """What a judge reads: revealed measurements, which they are, and the decision."""
    return np.concatenate([state * revealed, revealed, np.eye(ACTIONS)[action]], -1)


@torch.enable_grad()
def fitted_judge(cohort: Cohort, seed: int, updates: int = 600) -> EvidenceJudge:
    """A judge fitted to triples of a state, the clinician's decision and a random other one; what is revealed is drawn
    anew each time."""
    draw = np.random.default_rng(seed)
    states = cohort.state[:, :-1].reshape(-1, len(FEATURES))
    chosen = cohort.action.reshape(-1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            *(nn.Linear(2 * len(FEATURES) + ACTIONS, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh()),
            nn.Linear(WIDTH, 1),
        ).double()
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    for update in range(updates):
        rows = draw.integers(len(states), size=BATCH)
        other = (chosen[rows] + draw.integers(1, ACTIONS, size=BATCH)) % ACTIONS
        order = draw.random((BATCH, len(FEATURES))).argsort(-1)
        revealed = (order < SHOWN[update % len(SHOWN)]).astype(float)
        scores = [
            network(torch.as_tensor(_seen(states[rows], revealed, action)))[:, 0] for action in (chosen[rows], other)
        ]
        loss, _ = judge_loss(scores[0], scores[1], torch.zeros(BATCH, dtype=torch.long))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    return EvidenceJudge([(x.weight.detach().numpy(), x.bias.detach().numpy()) for x in linear])


@cache
def common_judge() -> EvidenceJudge:
    """The judge of the world `evidence`, fitted when it is first asked (a second)."""
    return fitted_judge(treated(1500, np.random.default_rng(0)), 0)
