"""Three answers, one of which was seen once and won by chance: who bets on it?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike

from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.parts.objective.preference import preference_loss

__all__ = ["STUDY", "BanditSize", "lucky_arm"]

MASS = Quantity("mass", "probability of the lucky arm", (0.0, 1.0))
BEST = Quantity("best", "probability of the best arm", (0.0, 1.0))
WINS = 0.9  # how often the first arm beats the second


class BanditSize(StudySize):
    """How many comparisons of the two well-known arms, and gradient steps."""

    seeds: int = 8
    pairs: int = 40
    steps: int = 4000


def lucky_arm(seed: int, size: BanditSize, *, eta: float, beta: float = 1.0) -> Mapping[str, ArrayLike]:
    """The mass that gradient descent on the preference loss, plus eta · beta · (−log π of the winner), gives to an arm
    that was compared once, with the best one, and won; the reference is uniform and answers have one token."""
    wins = int(np.random.default_rng(seed).binomial(size.pairs, WINS))
    won, lost = torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0])
    count = torch.tensor([wins, size.pairs - wins, 1], dtype=torch.float64)
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(size.steps):
        logp = logits.log_softmax(0)
        loss = preference_loss(beta * logp[won], beta * logp[lost]) - eta * beta * logp[won]
        optimizer.zero_grad()
        ((count * loss).sum() / count.sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    mass = logits.detach().softmax(0)
    return {"mass": mass[2:].numpy(), "best": mass[:1].numpy()}


STUDY = Trial(
    "power-dl-bandit",
    "Who bets on an answer that was seen once and won by chance?",
    arms={"dpo": partial(lucky_arm, eta=0.0), "power": partial(lucky_arm, eta=0.1)},
    claims=(
        Claim("DPO gives the lucky arm more mass than POWER", MASS, "dpo", "power"),
        Claim("POWER gives the best arm more mass than DPO", BEST, "power", "dpo"),
    ),
    readings=(MASS, BEST),
    size=BanditSize(),
    quick=BanditSize(seeds=3),
)
