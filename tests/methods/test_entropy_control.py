"""Methods that steer the entropy of the policy."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.value import Clock
from podium.memories import DifficultyControl, EntropyAnchor, EntropySetpoint
from podium.parts.objective import KL, Clip, CovarianceEntropy, Entropy, EntropyTarget, PolicyGradient
from podium.parts.reward.difficulty_entropy import entropy_reward
from podium.parts.shape import EntropyGate, SelectTokens, VirtualTemperature
from podium.policy.head.functionals import FUNCTIONALS, HeadRows
from tests.conformance.helpers import differentiate
from tests.methods.entropy_cases import bandit_batch, loss_of, random_update


def rows_of(logits: Tensor, ids: Tensor | None = None) -> HeadRows:
    return HeadRows(logits, torch.zeros(len(logits), dtype=torch.long) if ids is None else ids, lambda known: known)


def entropy_of(z: Tensor) -> float:
    return float(-(z.softmax(-1) * z.log_softmax(-1)).sum())


# -- siren -------------------------------------------------------------------------------------------------------------


def test_at_the_anchor_there_is_no_gradient() -> None:
    batch = random_update()
    entropy = batch["token.now.entropy"].clone().requires_grad_()
    batch = batch.with_columns({"token.now.entropy": entropy})
    pull = EntropyTarget(0.0)
    at_anchor = pull.replace(target=float(pull.mean_entropy(batch).detach()))
    (slope,) = torch.autograd.grad(at_anchor(batch), entropy)
    assert float(slope.abs().max()) < 1e-15
    (slope,) = torch.autograd.grad(pull(batch), entropy)
    assert float(slope.min()) > 0  # above the target: downhill lowers the entropy


def test_an_unknown_target_pulls_nowhere() -> None:
    assert float(EntropyTarget(-1.0)(random_update())) == 0.0


def test_the_nucleus_entropy_sends_no_gradient_to_tokens_outside_it() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.15, 0.1]], dtype=torch.float64).log().requires_grad_()
    entropy = FUNCTIONALS["entropy"](rows_of(logits), top_p=0.8)
    (slope,) = torch.autograd.grad(entropy.sum(), logits)
    # Of 0.5 and 0.25: the token that crosses 0.8 is out.
    assert float(entropy.detach()) == pytest.approx(0.636514, abs=1e-6)
    assert bool((slope[0, 2:].abs() < 1e-15).all())
    assert bool((slope[0, :2] != 0).all())


def test_a_wide_nucleus_has_nearly_the_whole_entropy() -> None:
    # The token that crosses the bound and the least likely one are out: here they weigh nothing.
    rows = rows_of(torch.tensor([[2.0, 1.0, 0.5, 0.0, -20.0, -25.0]], dtype=torch.float64))
    wide, whole = FUNCTIONALS["entropy"](rows, top_p=1 - 1e-11), FUNCTIONALS["entropy"](rows)
    assert float(wide) == pytest.approx(float(whole), rel=1e-6)


def test_the_anchor_is_taken_once_and_kept() -> None:
    memory, batch = EntropyAnchor(share=0.5, top_p=1.0), random_update()
    first = memory.observe(memory.initial(), batch)
    hotter = batch.with_columns({"token.old.entropy": batch["token.old.entropy"] + 1})
    assert memory.observe(first, hotter) == first
    assert memory.scalars(memory.initial())["anchor.level"] < 0
    peaks = SelectTokens(share=0.5, scope="rollout", rule="above_quantile", of="old")(batch)["token.selected"]
    chosen = batch.with_columns({"token.peak": peaks})
    mean = EntropyTarget(where="token.peak", aggregate=methods.siren().objective[1].aggregate).mean_entropy(chosen)
    assert first["anchor"] == pytest.approx(float(mean))


def test_siren_follows_the_anchor_of_its_memory() -> None:
    method = methods.get("siren@paper")
    assert method.at(Clock(1, {"anchor.level": 0.7})).objective[1].target == 0.7
    assert method.at(Clock()).objective[1].target < 0


def test_the_pull_is_exact_however_an_update_is_split() -> None:
    from podium.core.gradient import backward

    batch, found = random_update(rollouts=8), []
    entropy = batch["token.now.entropy"].clone()
    columns = {"token.number": torch.arange(batch.size("token"))}
    for parts in (1, 3):
        leaf = entropy.clone().requires_grad_()

        def forward(micro: Batch, signals: object, leaf: Tensor = leaf) -> dict:  # type: ignore[type-arg]
            return dict.fromkeys(signals, leaf[micro["token.number"]])  # type: ignore[attr-defined]

        update = batch.without(["token.now.entropy", "token.now.logp"]).with_columns(columns)
        backward([EntropyTarget(0.3)], update, forward, list(torch.arange(8).tensor_split(parts)))
        found.append(leaf.grad)
    assert torch.allclose(*found, atol=1e-14)  # type: ignore[arg-type]


def test_a_target_is_reached_from_above_and_from_below() -> None:
    for start in ([3.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, -0.1]):
        z = torch.tensor(start, dtype=torch.float64)
        for _ in range(400):
            batch, leaf = bandit_batch(z, [0], [0.0])
            EntropyTarget(0.9, "abs")(batch).backward()  # type: ignore[no-untyped-call]
            assert leaf.grad is not None
            z = z - 0.05 * leaf.grad
        assert entropy_of(z) == pytest.approx(0.9, abs=0.03)


# -- spine -------------------------------------------------------------------------------------------------------------


def test_spine_over_all_tokens_and_without_a_band_is_grpo_on_the_vote() -> None:
    batch = random_update()
    mine = loss_of(methods.spine(share=1.0, band=0.0), batch)
    plain = differentiate([PolicyGradient(clip=Clip())], batch)
    assert mine.step.loss == pytest.approx(plain.step.loss, rel=1e-12)
    assert methods.spine().reward == methods.ttrl().reward


def test_tokens_that_do_not_fork_have_no_gradient() -> None:
    batch = random_update()
    method = methods.spine()
    forking = method.shape[0](batch)["token.selected"]
    assert bool((loss_of(method, batch).grad_logp[~forking] == 0).all())


def test_the_band_is_free_exactly_inside() -> None:
    h = torch.tensor([[0.2, 0.5, 0.7, 1.0, 1.4]], dtype=torch.float64)
    batch = Batch.from_padded(torch.ones(1, 5), [0], {"token.now.entropy": h})
    found = Entropy(0.5, 1.0).loss(batch)
    assert found.tolist() == pytest.approx([0.3, 0.0, 0.0, 0.0, 0.4])


def test_a_single_forking_token_has_no_band_penalty() -> None:
    method = methods.spine()
    batch = random_update(rollouts=2, width=3)  # ⌈0.2 · 3⌉ = 1
    for part in method.shape:
        batch = batch.with_columns(part(batch))
    assert float(method.objective[1](batch)) == pytest.approx(0.0)


# -- light-if ----------------------------------------------------------------------------------------------------------


def test_a_larger_covariance_never_has_a_smaller_coefficient_within_a_rollout() -> None:
    batch = random_update()
    weights = CovarianceEntropy().weights(batch)
    covariance = SelectTokens("covariance").scores(batch)
    for rollout in range(len(batch)):
        own = batch.link("token", "rollout") == rollout
        order = covariance[own].argsort()
        assert bool((weights[own][order].diff() >= -1e-12).all())


def test_without_its_bonus_light_if_is_the_plain_loss() -> None:
    assert methods.get("light-if@release", phase="rl").objective == methods.light_if("rl", scale=0.0).objective
    assert not any(isinstance(term, CovarianceEntropy) for term in methods.light_if("rl", scale=0.0).objective)


def test_imitation_of_all_tokens_is_ordinary_and_without_trade_the_least_likely_are_learnt() -> None:
    batch = random_update()
    whole = loss_of(methods.light_if("sft", share=1.0), batch)
    assert whole.step.loss == pytest.approx(float(-batch["token.now.logp"].mean()))
    (select,) = methods.light_if("sft", share=0.5, trade=0.0).shape
    selected, logp = select(batch)["token.selected"], batch["token.now.logp"]
    assert float(logp[selected].max()) <= float(logp[~selected].min())


# -- qwenlong-aepo -----------------------------------------------------------------------------------------------------


def test_with_one_domain_and_one_group_the_advantage_is_grpos() -> None:
    columns = {"rollout.domain": ["a"] * 4}
    batch = Batch.from_rewards(torch.tensor([1.0, 0.0, 0.0, 1.0]).double(), [0] * 4, columns)
    mine = methods.qwenlong_aepo().main().advantage(batch)["rollout.advantage"]  # type: ignore[misc]
    plain = methods.grpo().advantage(batch)["rollout.advantage"]  # type: ignore[misc]
    assert torch.equal(mine, plain)


def test_inside_the_band_the_gate_stays_as_it_was() -> None:
    gate = EntropyGate(0.18, 0.28)
    for before in (True, False):
        assert bool(gate.negatives(torch.tensor([0.2]), torch.tensor([before]))[0]) is before
    assert not bool(gate.negatives(torch.tensor([0.3]), torch.tensor([True]))[0])
    assert bool(gate.negatives(torch.tensor([0.1]), torch.tensor([False]))[0])


def test_with_negatives_off_no_kept_advantage_is_at_most_zero() -> None:
    batch = random_update(rollouts=8)
    kept = EntropyGate().kept(batch, torch.tensor([False]))
    assert bool((batch["rollout.advantage"][kept] > 0).all())
    assert bool(EntropyGate().kept(batch, torch.tensor([True])).all())


def test_every_domain_is_drawn_alike_however_many_tasks_it_has() -> None:
    codes = torch.tensor([0, 0, 0, 1])
    weight = methods.qwenlong_aepo().main().select({"group.domain.code": codes})  # type: ignore[misc]
    assert weight.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])


# -- dcpo-distribution -------------------------------------------------------------------------------------------------


def _virtual(logits: Tensor, actions: list[int], rewards: list[float], part: VirtualTemperature) -> Tensor:
    """The advantage of one-token rollouts after the part."""
    z = logits.expand(len(actions), -1)
    ids = torch.tensor(actions)
    columns = {
        "token.old.logp": FUNCTIONALS["logp"](rows_of(z, ids))[:, None],
        f"token.old.logp[temperature={part.temperature}]": FUNCTIONALS["logp"](rows_of(z, ids).at(part.temperature))[
            :, None
        ],
        "rollout.reward": torch.tensor(rewards, dtype=torch.float64),
        "rollout.advantage": torch.zeros(len(actions), dtype=torch.float64),
    }
    batch = Batch.from_padded(torch.ones(len(actions), 1), [0] * len(actions), columns)
    return part(batch)["token.advantage"]


def test_the_ratios_of_the_virtual_policy_average_to_one_and_favour_rare_tokens_when_hot() -> None:
    p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    part = VirtualTemperature(temperature=1.2, gap=1.0, cap=1.0)
    extra = _virtual(p.log(), [0, 1, 2], [1.0, 1.0, 1.0], part) / 0.5  # a = 1/2: all succeed
    assert float((p * extra).sum()) == pytest.approx(1.0)
    assert bool((extra.diff() > 0).all())
    cold = _virtual(p.log(), [0, 1, 2], [1.0, 1.0, 1.0], part.replace(temperature=0.8))
    assert bool((cold.diff() < 0).all())


def test_without_a_cap_or_a_success_the_advantage_is_unchanged() -> None:
    p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log()
    assert float(_virtual(p, [0, 1], [1.0, 0.0], VirtualTemperature(cap=0.0)).abs().max()) == 0.0
    assert float(_virtual(p, [0, 1], [0.0, 0.0], VirtualTemperature()).abs().max()) == 0.0


def test_all_right_still_learns() -> None:
    p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log()
    assert bool((_virtual(p, [0, 2], [1.0, 1.0], VirtualTemperature()) > 0).all())


def test_the_setpoint_heats_below_its_target_and_cools_above() -> None:
    memory = EntropySetpoint(target=0.5)
    assert memory.scalars({"entropy": 0.2}) == pytest.approx({"setpoint.gap": 0.3, "setpoint.temperature": 1.2})
    assert memory.scalars({"entropy": 0.9}) == pytest.approx({"setpoint.gap": 0.4, "setpoint.temperature": 0.8})
    batch = random_update()
    assert memory.observe(memory.initial(), batch)["entropy"] == pytest.approx(float(-batch["token.old.logp"].mean()))


def test_below_its_target_an_update_leaves_more_entropy_than_grpo_and_above_less() -> None:
    for temperature, more in ((1.2, True), (0.8, False)):
        z = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
        p, after = z.softmax(-1), {}
        for share in (0.0, 1.0):
            # Expected steps of a policy that always succeeds: GRPO has no signal, DCPO pulls towards π_T.
            target = (z / temperature).softmax(-1)
            rho = target / p
            step = p * (share * rho - (p * share * rho).sum())
            after[share] = entropy_of(z + 0.1 * step)
        assert (after[1.0] > after[0.0]) is more


# -- rapo-forward-kl ---------------------------------------------------------------------------------------------------


def test_the_forward_estimate_is_never_negative_and_right_on_average() -> None:
    g = torch.Generator().manual_seed(0)
    policy, anchor = (torch.randn(6, generator=g, dtype=torch.float64).log_softmax(-1) for _ in range(2))
    columns = {"token.now.logp": policy[:, None], "token.ref.logp": anchor[:, None]}
    batch = Batch.from_padded(torch.ones(6, 1), [0] * 6, columns)
    estimate = KL("forward").distance(batch)
    assert float(estimate.min()) >= 0
    exact = (anchor.exp() * (anchor - policy)).sum()
    assert float((policy.exp() * estimate).sum()) == pytest.approx(float(exact))


def test_a_token_that_the_reference_likes_is_pulled_harder_forward_than_backward() -> None:
    columns = {"token.now.logp": torch.tensor([[-6.0]]).double(), "token.ref.logp": torch.tensor([[-0.5]]).double()}
    batch = Batch.from_padded(torch.ones(1, 1), [0], columns)
    forward, backward = (differentiate([KL(name)], batch).grad_logp for name in ("forward", "k3"))
    assert float(forward) < float(backward) < 0


def test_without_its_weights_rapo_is_grpo_and_without_flattening_the_plain_forward_kl() -> None:
    assert methods.rapo_forward_kl(kl=0.0).objective == methods.grpo(kl=0.0).objective
    part = methods.rapo_forward_kl(low=1.0, high=1.0).annotate[0]
    batch = random_update()
    assert bool((part(batch)["rollout.power"] == 1).all())


def test_a_power_of_zero_is_the_uniform_distribution() -> None:
    rows = rows_of(torch.randn(3, 5, dtype=torch.float64))
    assert torch.allclose(FUNCTIONALS["logp"](rows, power=0.0), torch.full((3,), -math.log(5)).double())


# -- ares-aepo ---------------------------------------------------------------------------------------------------------


def test_more_moments_never_hurt_on_hard_tasks_and_never_help_on_easy_ones() -> None:
    count = torch.arange(0.0, 30.0, dtype=torch.float64)
    target, alpha = torch.full_like(count, 6), torch.full_like(count, 0.5)
    right = torch.ones_like(count, dtype=torch.bool)
    easy, hard = (entropy_reward(count, target, torch.full((30,), level), right, alpha) for level in (0, 2))
    assert bool((easy.diff() <= 1e-12).all())
    assert bool((hard.diff() >= -1e-12).all())


def test_with_alpha_zero_the_reward_is_the_verdict() -> None:
    count = torch.arange(10.0, dtype=torch.float64)
    for level, right in ((0, True), (1, True), (2, True), (0, False), (2, False)):
        found = entropy_reward(count, count * 0 + 3, torch.full((10,), level), count < (99 if right else -1), count * 0)
        assert float(found.abs().max()) == 0.0


def test_the_kl_weight_grows_where_the_policy_strays_and_keeps_where_it_was_not_seen() -> None:
    memory = DifficultyControl(interval=1)
    state = memory.regulated(memory.initial(), [0.05, math.nan, 0.001])
    scalars = memory.scalars(state)
    assert scalars["beta.easy"] > 1 > scalars["beta.hard"]
    assert scalars["beta.medium"] == 1.0


def test_the_kl_weight_rests_while_the_kl_is_near_its_target() -> None:
    memory = DifficultyControl(interval=1, decay=0.5, deadzone=0.1)
    strayed = memory.regulated(memory.initial(), [0.05] * 3)
    near = memory.regulated(strayed | {"kl": (0.0101,) * 3}, [0.0101] * 3)
    assert near["log_beta"] == strayed["log_beta"]
    assert near["error"] == strayed["error"]


# -- what cannot work --------------------------------------------------------------------------------------------------


def test_spine_needs_answers_to_vote_on() -> None:
    assert any("rollout.answer" in str(f) for f in methods.spine().check(["rollout.correct"]))


def test_bad_settings_are_refused() -> None:
    for make in (
        lambda: methods.light_if("warm-up"),
        lambda: EntropyGate(0.3, 0.2),
        lambda: KL("k5"),
        lambda: EntropyTarget(distance="cube"),
    ):
        with pytest.raises(PodiumError):
            make()
