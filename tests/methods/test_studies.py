"""Studies: metrics and control runs."""

from __future__ import annotations

import pytest
import torch

from podium import methods
from podium.analysis.dynamics import advantage_lost_to_noise, bandit
from podium.analysis.support import answer_entropy, detectability, support_change
from podium.core.batch import Batch
from podium.parts.advantage import Normalize
from podium.parts.metric.clip_bias import ClipBias
from podium.parts.metric.entropies import EntropyPair
from podium.parts.objective import Clip, PolicyGradient
from tests.methods.entropy_cases import random_update

# -- invisible-leash ---------------------------------------------------------------------------------------------------


def test_identical_models_keep_everything_and_discover_nothing() -> None:
    found = support_change([3, 0, 1], [3, 0, 1])
    assert (found.retention, found.discovery, found.dynamic_score, found.net_change) == (1.0, 0.0, 0.0, 0.0)


def test_two_models_that_solve_nothing_have_no_support_to_compare() -> None:
    found = support_change([0, 0], [0, 0])
    assert found.out_of_support == 2
    assert (found.retention, found.net_change) == (0.0, 0.0)


def test_more_samples_see_rarer_solutions() -> None:
    assert detectability(8192) == pytest.approx(3.656e-4, rel=1e-3)
    assert detectability(16) > detectability(1024)


def test_the_metric_is_the_entropy_of_the_answers_of_each_task() -> None:
    answers = ["a", "a", "b", "c"]
    batch = Batch.from_padded(torch.ones(4, 2), [0] * 4, {"token.sampler.entropy": torch.ones(4, 2).double()})
    found = EntropyPair()(batch.with_columns({"rollout.answer": answers}))
    assert float(found["group.entropy.answer"]) == pytest.approx(answer_entropy(answers)) == pytest.approx(1.039721)


def test_an_arm_without_probability_never_gets_any() -> None:
    z = torch.tensor([0.3, -0.2, float("-inf")], dtype=torch.float64)
    rewards = torch.tensor([0.2, 0.1, 1.0], dtype=torch.float64)
    for _ in range(200):
        p = z.softmax(-1)
        z = z + p * (rewards - (p * rewards).sum())
    assert float(z.softmax(-1)[2]) == 0.0


def test_a_little_of_the_uniform_policy_breaks_the_leash() -> None:
    rewards = torch.tensor([0.2, 0.1, 1.0], dtype=torch.float64)
    start = torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64)
    mixed = 0.95 * start + 0.05 / 3
    (leashed,), (free,) = (bandit(p, rewards, 1.0, [500]) for p in (start, mixed))
    assert float(leashed[2]) == 0.0
    assert float(free[2]) > 0.9


# -- clip-bias-spurious ------------------------------------------------------------------------------------------------


def test_clipping_never_adds_to_the_surrogate_and_a_wide_clip_takes_nothing() -> None:
    batch = random_update()
    assert float(ClipBias()(batch)["batch.clip.bias"]) < 0
    assert float(ClipBias(1.0, 50.0)(batch)["batch.clip.bias"]) == 0.0


def test_the_bias_is_what_the_clipped_tokens_lose() -> None:
    batch = random_update()
    metric = ClipBias()
    up, down = metric.clipped(batch)
    ratio, a = metric.ratio(batch), batch["token.advantage"]
    lost = torch.where(up, (1.2 - ratio) * a, torch.where(down, (0.8 - ratio) * a, 0.0))
    assert float(metric(batch)["batch.clip.bias"]) == pytest.approx(float(lost.mean()))


def test_fair_coins_lose_as_much_advantage_as_the_formula_says() -> None:
    size, right, trials = 8, 3, 20000
    g = torch.Generator().manual_seed(0)
    coins = (torch.rand(trials, size, generator=g) < 0.5).double()
    centred = coins - coins.mean(1, keepdim=True)
    true = torch.tensor([1.0] * right + [0.0] * (size - right)).double()
    ideal = (true - true.mean())[:right].sum()
    lost = float(ideal - centred[:, :right].sum(1).mean())
    assert lost == pytest.approx(float(advantage_lost_to_noise(torch.tensor(8.0), torch.tensor(3.0))), abs=0.02)


def test_rewards_from_a_coin_do_not_depend_on_the_answer() -> None:
    (coin,) = methods.clip_bias_spurious().reward
    right, wrong = (Batch.from_rewards([x] * 64, [i // 8 for i in range(64)]) for x in (1.0, 0.0))
    first = coin(right)["rollout.reward"]
    assert torch.equal(first, coin(wrong)["rollout.reward"])
    assert 0.3 < float(first.mean()) < 0.7


def entropy_under_coins(clip: Clip | None, runs: int = 100, size: int = 8, iterations: int = 15) -> float:
    """The mean entropy of softmax bandits that start confident and are rewarded by a coin, four updates a batch."""
    draw = torch.Generator().manual_seed(0)
    z = torch.tensor([0.9, 0.05, 0.03, 0.02], dtype=torch.float64).log().expand(runs, -1)
    owner, term = torch.arange(runs).repeat_interleave(size), PolicyGradient(clip=clip)
    for _ in range(iterations):
        old = z.log_softmax(-1)
        arm = torch.multinomial(old.exp(), size, replacement=True, generator=draw).flatten()
        columns = {
            "rollout.reward": (torch.rand(runs * size, generator=draw) < 0.5).double(),
            "token.old.logp": old[owner, arm][:, None],
        }
        batch = Batch.from_padded(torch.ones(runs * size, 1), owner.tolist(), columns)
        batch = batch.with_columns(Normalize(unbiased=False)(batch))
        for _ in range(4):
            leaf = z.clone().requires_grad_()
            loss = term(batch.with_columns({"token.now.logp": leaf.log_softmax(-1)[owner, arm]}))
            (slope,) = torch.autograd.grad(loss, leaf)
            z = z - 0.5 * runs * slope
    return float(-(z.softmax(-1) * z.log_softmax(-1)).sum(-1).mean())


def test_a_coin_raises_the_entropy_of_a_confident_policy_and_clipping_holds_it_down() -> None:
    start = torch.tensor([0.9, 0.05, 0.03, 0.02], dtype=torch.float64)
    clipped, free = entropy_under_coins(Clip(0.2, 0.2)), entropy_under_coins(None)
    assert free > clipped + 0.1
    assert free > float(-(start * start.log()).sum()) + 0.1
