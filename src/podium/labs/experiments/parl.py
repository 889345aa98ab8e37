"""Learning a reward from preferences about the policy that it induces, with and without the gradient through it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from podium.analysis.bilevel import RewardDesign, hypergradient
from podium.analysis.decision_table import DecisionTable
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.worlds.keydoor import KeyDoor
from podium.worlds.oracle import Dynamics

__all__ = ["STUDY", "ParlSize", "house_features", "judged_pairs_loss"]

BONUS, SHARPNESS, RATE = 0.1, 5.0, 0.1  # α of the agent; how decided the judge is; Adam's learning rate
ENOUGH = 0.9  # of the way from the uniform policy to the best one
KINDS = ("take gold", "take a key", "take something else", "open", "go", "nothing")
LABELS = Quantity("labels", "labels until 90 %", (0.0, float("inf")))
RETURN = Quantity("return", "share of the optimum, mean over labels")
FINAL = Quantity("final", "share of the optimum at the end")


class ParlSize(StudySize):
    """How many rounds of how many labelled pairs."""

    rounds: int = 60
    pairs: int = 8


def house_features(dynamics: Dynamics) -> Tensor:
    """[state, action, kind] what kind of thing an action does, the end included, where nothing does anything."""
    states, actions = dynamics.expected.shape
    features = torch.zeros(states + 1, actions, len(KINDS), dtype=torch.float64)
    for number, name in enumerate(dynamics.actions):
        verb, _, thing = name.partition(" ")
        kind = {"open": 3, "go": 4}.get(verb, 0 if thing == "gold" else 1 if "key" in thing else 2)
        for state in range(states):
            changes = (dynamics.follows[state, number] != state).any()
            features[state, number, kind if changes else 5] = 1.0
    return features


def judged_pairs_loss(nu: Tensor, returns: Tensor, label: Tensor) -> Tensor:
    """[pair] −[y ln σ(R(τ₀) − R(τ₁)) + (1 − y) ln σ(R(τ₁) − R(τ₀))], from summed features [pair, 2, kind]."""
    scores = returns @ nu
    return binary_cross_entropy_with_logits(scores[:, 0] - scores[:, 1], label, reduction="none")


def arm(fresh: bool, through: bool, seed: int, size: ParlSize) -> Mapping[str, Tensor | float]:
    """Adam on the preference loss; a judge compares two episodes by a hidden reward of the same features."""
    world = KeyDoor(level=1)
    dynamics = world.dynamics(world.task(seed))
    table, features = DecisionTable.of(dynamics), house_features(dynamics)
    generator = torch.Generator().manual_seed(seed)
    wanted = torch.tensor([1.0, 0.4, -0.2, 0.4, -0.05, -0.1], dtype=torch.float64)
    wanted = wanted * (0.5 + torch.rand(len(KINDS), dtype=torch.float64, generator=generator))
    design = RewardDesign(table, features, features @ wanted, BONUS)
    nu = torch.zeros(len(KINDS), dtype=torch.float64, requires_grad=True)
    first = design.induced(nu.detach())
    worst, best = (table.value(x, design.utility) for x in (first, table.best(design.utility, 0.0)[0]))
    optimiser, shares = torch.optim.Adam([nu], lr=RATE), []
    for _ in range(size.rounds):
        now = nu.detach()
        theta = design.induced(now)
        shares.append(float((table.value(theta, design.utility) - worst) / (best - worst)))
        states, actions = table.walks(theta if fresh else first, 2 * size.pairs, generator)
        returns = features[states, actions].sum(1).reshape(size.pairs, 2, -1)
        truth = SHARPNESS * (returns @ wanted)
        label = torch.bernoulli((truth[:, 0] - truth[:, 1]).sigmoid(), generator=generator)
        nu.grad = _gradient(design, now, theta, (states, actions), returns, label, through)
        optimiser.step()
    reached = [n for n, share in enumerate(shares) if share >= ENOUGH]
    labels = torch.arange(size.rounds) * size.pairs
    return {
        "labels": float((reached[0] if reached else size.rounds) * size.pairs),
        "return": sum(shares) / len(shares),
        "final": shares[-1],
        "spent": labels,
        "curve": torch.tensor(shares),
    }


def _gradient(
    design: RewardDesign,
    nu: Tensor,
    theta: Tensor,
    walks: tuple[Tensor, Tensor],
    returns: Tensor,
    label: Tensor,
    through: bool,
) -> Tensor:
    """Of the preference loss on these pairs: as if they were given, or also through the policy that wrote them."""
    states, actions = walks
    turns = torch.arange(states.shape[1])

    def loss(nu: Tensor, theta: Tensor) -> Tensor:
        each = judged_pairs_loss(nu, returns, label)
        surprise = each.detach() - each.detach().mean()  # E[U ∇ ln π], with a baseline
        logp = theta.log_softmax(-1)[turns, states, actions].sum(1).reshape(-1, 2).sum(1)
        return each.mean() + (surprise * logp).mean()

    if not through:
        given: Tensor = torch.func.grad(loss)(nu, theta)
        return given
    return hypergradient(loss, design.lower, nu, theta, steps=40, damping=1e-4, tolerance=1e-4)


BILEVEL, DIRECT, FIXED = "A-PARL", "without the term", "pairs of the first policy"

STUDY = Trial(
    "parl",
    "Does the gradient through the induced policy save labels when a reward is learned from preferences?",
    arms={
        BILEVEL: partial(arm, True, True),
        DIRECT: partial(arm, True, False),
        FIXED: partial(arm, False, False),
    },
    claims=(
        Claim("it needs fewer labels than the same loop without that term", LABELS, DIRECT, BILEVEL),
        Claim("it needs fewer labels than a reward learned from the first policy's pairs", LABELS, FIXED, BILEVEL),
        Claim("along the way its policy is better than without the term", RETURN, BILEVEL, DIRECT),
    ),
    readings=(LABELS, RETURN, FINAL),
    charts=(traced("curve", over="spent", title="share of the optimal return", x_label="labelled pairs"),),
    size=ParlSize(seeds=12),
    quick=ParlSize(seeds=3, rounds=20),
)
