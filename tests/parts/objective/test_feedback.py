"""Losses of feedback that is wrong at times and mostly not given, by numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.annotate import NoiseAnchors, SimulatedFeedback
from podium.parts.objective import FeedbackLoss, ReactionLoss
from podium.parts.objective.feedback import (
    doubly_robust,
    imputed_loss,
    inverse_propensity,
    label_loss,
    mean_losses,
    noise_corrected,
    noise_rates,
)

F, R, SEEN = [0.9, 0.3, 0.6], [1.0, 0.0, 1.0], [True, True, False]
P, E = [0.5, 0.8, 0.4], [0.1, 0.1, 0.2]
RATES = (0.2, 0.1)


def listed(x: Any) -> Any:
    return pytest.approx(x, abs=1e-6)


def double(x: Any) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def heads(*values: list[float], observed: list[bool] = SEEN) -> Batch:
    """One rollout of two tokens each, whose heads predict these probabilities after the last one."""
    rows = [
        Rollout(i, [Turn((1, 2))], columns={"reward": 0.0, "observed": o, "feedback": r})
        for i, (o, r) in enumerate(zip(observed, R, strict=True))
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    columns = {}
    for head, each in enumerate(values):
        both = double([x for p in each for x in (9.0, logit(p))])
        columns |= {f"token.{of}.value[head={head}]": both for of in ("now", "rm")}
    return batch.with_columns(columns)


def test_the_surrogate_is_the_true_loss_on_average() -> None:
    f = double(F)
    assert noise_corrected(f, double(R), *RATES).tolist() == listed([-0.2185714, 0.0328571, 0.1028571])
    one, zero = (noise_corrected(double([0.7]), double([r]), *RATES) for r in (1.0, 0.0))
    assert float(0.8 * one + 0.2 * zero) == listed(0.09)  # the true label is 1
    assert float(0.1 * one + 0.9 * zero) == listed(0.49)  # it is 0
    assert torch.equal(noise_corrected(f, double(R), 0.0, 0.0), label_loss(f, double(R)))
    with pytest.raises(PodiumError, match="sum below 1"):
        noise_corrected(f, double(R), 0.5, 0.5)


def test_the_means_of_the_estimators() -> None:
    found = mean_losses(*map(double, (F, R)), torch.tensor(SEEN), *map(double, (P, E)), *RATES)
    assert {name: float(x) for name, x in found.items()} == listed(
        {"naive": 0.05, "surrogate": -0.0928571, "ips": -0.1320238, "dr": -0.1070238}
    )


def test_two_hundred_draws_show_no_bias_where_it_is_corrected() -> None:
    """Mean over draws of feedback against the loss of the true labels: within 4 standard errors for ips and dr."""
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(400, generator=g, dtype=torch.float64) < 0.5).double()
    f = torch.where(y > 0.5, 0.75, 0.4) + 0.2 * torch.rand(400, generator=g, dtype=torch.float64)
    p, wrong_p = torch.where(y > 0.5, 0.9, 0.3).double(), torch.full_like(f, 0.7)
    clean, good = float(label_loss(f, y).mean()), label_loss(f, y)
    bad = torch.full_like(f, 0.5)
    kinds: dict[str, list[float]] = {}
    for _ in range(200):
        o = torch.rand(400, generator=g, dtype=torch.float64) < p
        flip = torch.rand(400, generator=g, dtype=torch.float64) < torch.where(y > 0.5, RATES[0], RATES[1])
        r = (y.bool() ^ flip).double()
        loss = noise_corrected(f, r, *RATES)
        draws = {
            **{name: x for name, x in mean_losses(f, r, o, p, bad, *RATES).items() if name != "dr"},
            "dr, wrong e": doubly_robust(loss, o, p, bad).mean(),
            "dr, wrong p": doubly_robust(loss, o, wrong_p, good).mean(),
            "dr, good e": doubly_robust(loss, o, p, good).mean(),
            "ips, wrong p": inverse_propensity(loss, o, wrong_p).mean(),
        }
        for name, x in draws.items():
            kinds.setdefault(name, []).append(float(x))
    bias = {name: abs(float(double(x).mean()) - clean) / float(double(x).std() / 200**0.5) for name, x in kinds.items()}
    assert max(bias[name] for name in ("ips", "dr, wrong e", "dr, wrong p", "dr, good e")) < 4
    assert min(bias[name] for name in ("naive", "ips, wrong p")) > 8
    assert double(kinds["dr, good e"]).std() < double(kinds["ips"]).std()


def test_small_propensities_weigh_no_more_than_the_least() -> None:
    loss = inverse_propensity(double([1.0, 1.0]), torch.tensor([True, False]), double([0.01, 0.0]), least=0.05)
    assert loss.tolist() == listed([20.0, 0.0])
    assert imputed_loss(double([0.9]), double([0.5])).tolist() == listed([0.41])
    assert noise_rates(double([0.3, 0.8, 0.15])) == listed((0.2, 0.15))


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        ("naive", [0.01, 0.09, 0.0]),
        ("surrogate", [-0.2185714, 0.0328571, 0.0]),
        ("ips", [-0.4371429, 0.0410714, 0.0]),
        # e = .41, .29, .26 with q = 1/2, beside 2 · .6285714² and 1.25 · .2571429² for the imputation
        ("dr", [-0.8471429 + 0.7902041, -0.0314286 + 0.0826531, 0.26]),
    ],
)
def test_the_loss_of_a_reward_model_by_estimator(estimator: str, expected: list[float]) -> None:
    batch = heads(F, P, [0.5] * 3, [0.5] * 3)
    term = FeedbackLoss(estimator, RATES)
    assert term.loss(batch).tolist() == listed(expected)
    assert float(term(batch)) == listed(sum(expected) / 3)
    assert term.diagnostics(batch)["feedback.predicted"].tolist() == listed(F)
    anchored = batch.with_columns({"batch.rho_01": double([RATES[0]]), "batch.rho_10": double([RATES[1]])})
    assert FeedbackLoss(estimator).loss(anchored).tolist() == listed(expected)


def test_the_loss_of_who_reacts_and_how() -> None:
    batch = heads([0.5] * 3, P, [0.5, 0.9, 0.9])
    # (p − o)² + (o / p) (g − r)²
    assert ReactionLoss().loss(batch).tolist() == listed([0.25 + 0.5, 0.04 + 1.25 * 0.81, 0.16])
    assert ReactionLoss().diagnostics(batch)["feedback.propensity"].tolist() == listed(P)


def test_anchors_are_the_surest_rollouts() -> None:
    found = NoiseAnchors()(heads([0.5] * 3, P, [0.3, 0.8, 0.15]))
    assert [float(found[f"batch.{name}"]) for name in ("rho_01", "rho_10")] == listed([0.2, 0.15])
    nothing_learned = NoiseAnchors()(heads([0.5] * 3, P, [0.5] * 3))
    assert [float(x) for x in nothing_learned.values()] == listed([0.4, 0.4])


def test_users_react_to_what_they_like_and_err_at_their_rates() -> None:
    rows = [Rollout(i, [Turn((1,))], columns={"reward": float(i % 2)}) for i in range(4000)]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    liked = batch["rollout.reward"] > 0.5
    found = SimulatedFeedback(RATES, 0.5)(batch)
    observed, feedback = found["rollout.observed"], found["rollout.feedback"]
    assert bool(observed[liked].all())
    assert float(observed[~liked].double().mean()) == pytest.approx(0.5, abs=0.04)
    assert float(feedback[liked].mean()) == pytest.approx(0.8, abs=0.03)
    assert float(feedback[~liked & observed].mean()) == pytest.approx(0.1, abs=0.03)
    assert float(feedback[~observed].sum()) == 0
    truth = SimulatedFeedback((0.0, 0.0), 1.0)(batch)
    assert bool(truth["rollout.observed"].all())
    assert torch.equal(truth["rollout.feedback"], batch["rollout.reward"])


def test_noise_rates_are_held_below_their_bound() -> None:
    part = NoiseAnchors(most=0.3)
    batch = heads([0.9, 0.3, 0.6])
    column = next(iter(part.needs)).column
    wide = part.replace(most=0.99)(batch.with_columns({column: batch["token.rm.value[head=0]"]}))
    held = part(batch.with_columns({column: batch["token.rm.value[head=0]"]}))
    rates = [float(x) for x in wide.values()]
    assert rates == listed([0.1, 0.3])  # 1 less the highest, and the lowest
    assert [float(x) for x in held.values()] == listed([0.075, 0.225])  # scaled to sum 0.3


def test_users_react_and_err_by_the_stated_chances() -> None:
    n = 4000
    rewards = torch.tensor([1.0, 0.5] * (n // 2), dtype=torch.float64)  # a reward at the threshold is not liked
    found = SimulatedFeedback(noise=(0.2, 0.1), alpha=0.25)(Batch.from_rewards(rewards, list(range(n)), {}))
    observed, feedback = found["rollout.observed"], found["rollout.feedback"]
    best, middling = rewards == 1.0, rewards == 0.5
    assert bool(observed[best].all())
    assert float(observed[middling].double().mean()) == pytest.approx(0.5, abs=0.035)  # 0.25 ** 0.5, 3 standard errors
    assert float(feedback[best].mean()) == pytest.approx(0.8, abs=0.027)
    assert float(feedback[middling & observed].mean()) == pytest.approx(0.1, abs=0.029)
    assert not bool(feedback[~observed].any())
