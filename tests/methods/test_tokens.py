"""Methods that select tokens, or weigh them by what they do to the entropy."""

from __future__ import annotations

import itertools

import pytest
import torch

from podium import methods
from podium.analysis import dynamics
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.value import Clock
from podium.parts.advantage import Normalize, TokenWeighted
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import Cascade
from podium.parts.shape import DropDisruptive, KeepSpread, SelectTokens, SpareEntropy
from podium.parts.shape.heterogeneous import normalised_entropy
from podium.policy.head.functionals import FUNCTIONALS, HeadRows
from tests.conformance.helpers import differentiate
from tests.methods.entropy_cases import bandit_batch, loss_of, random_update

DAPO = PolicyGradient(clip=Clip(0.2, 0.28))


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-9, atol=1e-12)


# -- the selector ------------------------------------------------------------------------------------------------------


def test_equal_entropies_are_all_kept_by_the_quantile_and_none_is_above_it() -> None:
    batch = random_update()
    batch = batch.with_columns({"token.now.entropy": torch.full((batch.size("token"),), 0.7, dtype=torch.float64)})
    assert bool(SelectTokens()(batch)["token.selected"].all())
    assert not bool(SelectTokens(rule="above_quantile")(batch)["token.selected"].any())


@pytest.mark.parametrize(("rule", "rounded"), [("floor", 0), ("ceil", 1)])
def test_top_k_keeps_exactly_its_budget_in_each_rollout(rule: str, rounded: int) -> None:
    batch = random_update()
    chosen = SelectTokens(share=0.3, scope="rollout", rule=rule)(batch)["token.selected"]
    lengths = batch["rollout.length"]
    wanted = (lengths * 0.3).floor() + (rounded if rule == "ceil" else 0)
    assert batch.reduce(chosen.double(), "token", "rollout", "sum").tolist() == wanted.clamp(min=1).tolist()


def test_demonstrations_can_be_selected_though_they_do_not_count() -> None:
    batch = random_update(**{"rollout.purpose": torch.tensor([4] * 6, dtype=torch.int8)})
    assert bool(SelectTokens()(batch)["token.selected"].any())


# -- high-entropy-tokens -----------------------------------------------------------------------------------------------


def test_a_share_of_one_is_dapo() -> None:
    batch = random_update()
    method = methods.high_entropy_tokens(share=1.0, dual=None)
    mine, plain = loss_of(method, batch), differentiate([DAPO], batch)
    assert mine.step.loss == pytest.approx(plain.step.loss, rel=1e-12)
    assert close(mine.grad_logp, plain.grad_logp)


def test_tokens_below_the_threshold_have_no_gradient() -> None:
    batch = random_update()
    method = methods.high_entropy_tokens(over="all", dual=None)
    selected = method.shape[0](batch)["token.selected"]
    gradient = loss_of(method, batch).grad_logp
    assert not bool(selected.all())
    assert bool((gradient[~selected] == 0).all())
    assert bool((gradient[selected] != 0).any())


def test_the_complement_adds_up_to_the_whole_loss_over_all_tokens() -> None:
    batch = random_update()
    selected = SelectTokens(share=0.4)(batch)["token.selected"]
    halves = batch.with_columns({"token.selected": selected, "token.rest": ~selected})
    parts = [DAPO.replace(where=where, over="all") for where in ("token.selected", "token.rest")]
    whole = differentiate([DAPO], batch)
    assert sum(differentiate([part], halves).step.loss for part in parts) == pytest.approx(whole.step.loss)


def test_dividing_by_the_selected_tokens_makes_steps_larger_by_their_share() -> None:
    batch = random_update()
    over = {x: loss_of(methods.high_entropy_tokens(rule="floor", over=x, dual=None), batch) for x in ("all", "where")}
    share = float(SelectTokens(rule="floor")(batch)["token.selected"].double().mean())
    assert close(over["where"].grad_logp * share, over["all"].grad_logp)


# -- steer -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", ["linear", "exponential"])
def test_steer_with_weights_of_one_is_dual_clip_ppo(mapping: str) -> None:
    batch = random_update()
    mine = loss_of(methods.steer(low=1.0, high=1.0, mapping=mapping), batch)
    plain = differentiate([PolicyGradient(clip=Clip(0.2, 0.28, dual=10.0))], batch)
    assert mine.step.loss == pytest.approx(plain.step.loss, rel=1e-12)
    assert close(mine.grad_logp, plain.grad_logp)


@pytest.mark.parametrize("mapping", ["linear", "exponential"])
def test_the_more_the_entropy_would_change_the_smaller_the_weight(mapping: str) -> None:
    batch = random_update()
    part = SpareEntropy(mapping=mapping)
    weight, change = part(batch)["token.weight.entropy"], part.change(batch)
    assert bool((weight[change.argsort()].diff() <= 1e-12).all())
    assert float(weight[change.argmax()]) == pytest.approx(0.8)


def test_without_advantages_every_weight_is_the_midpoint_or_one() -> None:
    batch = random_update()
    batch = batch.with_columns({"rollout.advantage": torch.zeros(len(batch), dtype=torch.float64)})
    assert set(SpareEntropy(0.8, 1.2)(batch)["token.weight.entropy"].tolist()) == {1.0}
    assert set(SpareEntropy(mapping="exponential")(batch)["token.weight.entropy"].tolist()) == {1.0}


# -- d3s ---------------------------------------------------------------------------------------------------------------


def test_d3s_keeping_everything_is_its_host() -> None:
    batch = random_update()
    mine = loss_of(methods.d3s(rollouts=(1.0, 1.0), tokens=(1.0, 1.0), over=1).at(Clock()), batch)
    plain = differentiate([PolicyGradient(clip=Clip(0.2, 0.2))], batch)
    assert mine.step.loss == pytest.approx(plain.step.loss)


def test_no_subset_of_the_same_size_has_a_larger_variance() -> None:
    batch = random_update(rollouts=7)
    advantage = batch["rollout.advantage"]
    for keep in range(1, 8):
        kept, _, variance = KeepSpread().subset(batch, torch.tensor([keep]))
        best = max(float(advantage[list(rows)].var(unbiased=False)) for rows in itertools.combinations(range(7), keep))
        assert int(kept.sum()) == keep
        assert float(variance[0]) == pytest.approx(best, abs=1e-12)


def test_rollouts_without_advantage_are_dropped_first_where_advantages_are_symmetric() -> None:
    advantage = torch.tensor([1.0, -1.0, 0.0, 0.0, 0.0, 0.0])
    batch = Batch.from_rewards(advantage, [0] * 6, {"rollout.advantage": advantage})
    assert KeepSpread(1 / 3)(batch)["rollout.keep.spread"].tolist() == [True, True, False, False, False, False]


def test_equal_advantages_keep_the_first_by_index() -> None:
    batch = Batch.from_rewards([1.0] * 5, [0] * 5, {"rollout.advantage": [0.5] * 5})
    assert KeepSpread(0.4)(batch)["rollout.keep.spread"].tolist() == [True, True, False, False, False]


def test_of_equal_variances_the_one_with_fewest_from_below_is_taken() -> None:
    batch = Batch.from_rewards([0.1, 0.7, 0.3, 1.9], [0] * 4, {"rollout.advantage": torch.tensor([0.1, 0.7, 0.3, 1.9])})
    kept, from_bottom, variance = KeepSpread().subset(batch, torch.tensor([1]))
    assert kept.tolist() == [False, False, False, True]
    assert (int(from_bottom[0]), float(variance[0])) == (0, pytest.approx(0.0, abs=1e-12))


def test_inside_each_group_a_share_of_every_group_is_kept() -> None:
    batch = random_update(rollouts=8, groups=2)
    kept = KeepSpread(0.5, key=("group",))(batch)["rollout.keep.spread"]
    assert batch.by("rollout", "group").agg.count(kept).tolist() == [2, 2]


# -- earl-rtl ----------------------------------------------------------------------------------------------------------


def test_earl_without_gate_and_anchor_is_clipped_ppo() -> None:
    batch = random_update()
    mine, plain = loss_of(methods.earl_rtl(share=1.0, kl=0.0), batch), differentiate([DAPO], batch)
    assert mine.step.loss == pytest.approx(plain.step.loss, rel=1e-12)


def test_the_anchor_acts_on_tokens_that_the_gate_leaves_out() -> None:
    batch = random_update()
    gradient = loss_of(methods.earl_rtl(kl=0.1), batch).grad_logp
    assert bool((gradient != 0).all())


def test_one_more_check_passed_never_lowers_the_reward() -> None:
    rows = torch.tensor(list(itertools.product([0.0, 1.0], [0.0, 1.0], [0.0, 0.5, 1.0], [0.0, 1.0])))
    names = ("parses", "interface_matches", "fraction_tests_passed", "equivalent")
    columns = {f"rollout.{name}": rows[:, i] for i, name in enumerate(names)}
    reward = Cascade()(Batch.from_rewards(rows[:, 0], range(len(rows)), columns))["rollout.reward"]
    for (a, x), (b, y) in itertools.product(zip(rows, reward, strict=True), repeat=2):
        if bool((a <= b).all()):
            assert float(x) <= float(y)


# -- entropy-discriminator-clip ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["batch", "vocabulary"])
def test_with_a_large_mu_nothing_is_dropped_and_it_is_grpo(norm: str) -> None:
    batch = random_update()
    batch = batch.with_columns({"token.old.expected_discriminator": batch["token.old.entropy"] / 4})
    method = methods.entropy_discriminator_clip(norm=norm, mu=1e9, mini_batches=2)
    assert loss_of(method, batch).step.loss == differentiate([PolicyGradient(clip=Clip())], batch).step.loss


@pytest.mark.parametrize("norm", ["batch", "vocabulary"])
def test_tokens_with_positive_advantage_are_never_dropped(norm: str) -> None:
    batch = random_update(rollouts=12)
    batch = batch.with_columns({"token.old.expected_discriminator": batch["token.old.entropy"] / 4})
    dropped = DropDisruptive(0.1, norm, at_most=1.0).dropped(batch)
    assert bool(dropped.any())
    assert not bool(dropped[batch["token.advantage"] > 0].any())


def test_the_limit_of_clip_v_counts_punished_tokens_alone() -> None:
    entropy = torch.full((1, 6), 1.0, dtype=torch.float64)
    columns = {
        "token.old.logp": torch.full((1, 6), -1.0, dtype=torch.float64),  # S = 0 everywhere
        "token.old.entropy": entropy,
        "token.old.expected_discriminator": torch.tensor([[0.9, 0.8, 0.7, 0.0, 0.0, 0.1]], dtype=torch.float64),
        "token.advantage": torch.tensor([[0.0, -1.0, -1.0, -1.0, 1.0, 1.0]], dtype=torch.float64),
    }
    batch = Batch.from_padded(torch.ones(1, 6), [0], columns)
    keep = DropDisruptive(1.0, "vocabulary", at_most=0.01)(batch)["token.keep.disruptive"]
    assert keep.tolist() == [False, False, True, True, True, True]  # without advantage: no limit; punished: the first


def test_dropped_tokens_leave_the_denominator() -> None:
    batch = random_update(rollouts=12)
    part = DropDisruptive(0.5)
    kept = batch.with_columns(part(batch))
    assert int(kept.trained("token").sum()) == batch.size("token") - int(part.dropped(batch).sum())


def test_the_discriminator_is_minus_the_slope_of_the_entropy() -> None:
    z = torch.tensor([1.1, 2.9, -1.0, -1.9, -0.8], dtype=torch.float64, requires_grad=True)
    entropy = -(z.softmax(-1) * z.log_softmax(-1)).sum()
    (slope,) = torch.autograd.grad(entropy, z)
    s, mean = dynamics.discriminators(z.detach())
    assert close(slope, -s)
    rows = HeadRows(z.detach()[None], torch.tensor([0]), lambda known: known)
    assert close(FUNCTIONALS["expected_discriminator"](rows)[0], mean)


def test_the_sum_over_a_batch_predicts_the_sign_of_the_entropy_change() -> None:
    z = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
    for action, advantage in itertools.product(range(4), (1.0, -1.0)):
        exact, predicted = dynamics.entropy_after_step(z, action, advantage, 1e-3)
        assert float(exact) * float(predicted) > 0


# -- lp-reg ------------------------------------------------------------------------------------------------------------


def _with_proxy(batch: Batch, shift: float = 0.2) -> Batch:
    return batch.with_columns({"token.old.logp[min_p=0.02]": batch["token.now.logp"] + shift})


def test_lp_reg_with_too_few_negative_tokens_is_the_base_loss() -> None:
    batch = _with_proxy(random_update())
    plain = differentiate([PolicyGradient(clip=Clip(1.0, 9.0))], batch)
    assert loss_of(methods.lp_reg(share=0.01), batch).step.loss == pytest.approx(plain.step.loss, rel=1e-12)


def test_lp_reg_without_its_pull_is_the_base_loss() -> None:
    batch = _with_proxy(random_update())
    plain = differentiate([PolicyGradient(clip=Clip(1.0, 9.0))], batch)
    assert close(loss_of(methods.lp_reg(share=0.5, beta=0.0), batch).grad_logp, plain.grad_logp)


def test_the_pull_raises_rare_tokens_and_spares_those_that_the_filter_removed() -> None:
    batch = random_update(rollouts=10)
    without, pulled = (loss_of(methods.lp_reg(share=0.5, beta=beta), _with_proxy(batch)) for beta in (0.0, 1.0))
    change = pulled.grad_logp - without.grad_logp
    assert bool((change <= 0).all())  # downhill is towards a larger log-probability
    assert bool((change < 0).any())
    removed = _with_proxy(batch, -1e4)
    assert close(loss_of(methods.lp_reg(share=0.5), removed).grad_logp, without.grad_logp)


def test_a_min_p_of_zero_is_the_policy_itself() -> None:
    rows = HeadRows(torch.randn(5, 7, dtype=torch.float64), torch.arange(5), lambda known: known)
    assert close(FUNCTIONALS["logp"](rows, min_p=1e-9), FUNCTIONALS["logp"](rows))
    filtered = FUNCTIONALS["logp"](rows, min_p=0.5)
    assert bool(((filtered < -9e3) | (filtered >= FUNCTIONALS["logp"](rows))).all())


# -- hapo-heterogeneous ------------------------------------------------------------------------------------------------


def test_hapo_without_its_settings_and_with_equal_lengths_is_dapo_up_to_the_population_std() -> None:
    reward = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    batch = Batch.from_padded(torch.ones(4, 3), [0] * 4, {"rollout.reward": reward})
    mine = methods.hapo_heterogeneous().advantage(batch)["token.advantage"]  # type: ignore[misc]
    plain = methods.dapo().advantage.replace(unbiased=False)(batch)["rollout.advantage"]  # type: ignore[union-attr]
    assert close(mine, batch.spread(plain, "rollout", "token"))
    update = random_update()
    same = loss_of(methods.hapo_heterogeneous(alpha=0.0, beta=0.0), update)
    assert close(same.grad_logp, differentiate([PolicyGradient(clip=Clip(dual=10.0))], update).grad_logp)


def test_over_the_tokens_of_a_group_the_advantage_has_mean_zero_and_variance_one() -> None:
    batch = random_update(rollouts=8)
    batch = batch.with_columns(methods.hapo_heterogeneous().advantage(batch))  # type: ignore[misc]
    tokens = batch.by("token", "group").agg
    assert close(tokens.mean(batch["token.advantage"]), torch.zeros(2, dtype=torch.float64))
    assert torch.allclose(tokens.var(batch["token.advantage"], unbiased=False), torch.ones(2).double(), atol=1e-4)


def test_tokens_of_the_world_may_send_a_group_to_the_advantages_of_grpo() -> None:
    reward = torch.tensor([0.9, 1.0], dtype=torch.float64)
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    # Their value, −mean/std, is beyond the limit; without them the tokens of the group are compared.
    with_world, without = (Batch.from_padded(mask, [0, 0], {"rollout.reward": reward}, given=g) for g in (True, False))
    grpo = Normalize()(without)["rollout.advantage"]
    assert close(TokenWeighted()(with_world)["token.advantage"][:2], grpo[:1].expand(2))
    assert not close(TokenWeighted()(without)["token.advantage"][:2], grpo[:1].expand(2))


def test_certain_tokens_open_the_lower_bound_and_uncertain_ones_the_upper() -> None:
    batch = random_update()
    h = normalised_entropy(batch, batch["token.now.entropy"], 0.8)
    shaped = methods.hapo_heterogeneous().shape[0](batch)
    assert bool((shaped["token.clip_low"][h > 0] == 0.2).all())
    assert bool((shaped["token.clip_high"][h <= 0] == 0.2).all())
    assert float(shaped["token.clip_low"].max()) == pytest.approx(0.4)


def test_in_the_release_certain_tokens_count_as_uncertain() -> None:
    batch = random_update()
    assert float(normalised_entropy(batch, batch["token.now.entropy"], 0.8, "released").min()) >= 0
    assert float(normalised_entropy(batch, batch["token.now.entropy"], 0.8).min()) == pytest.approx(-1.0)


# -- clip-cov-kl-cov ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["kl_cov", "clip_cov"])
def test_a_covariance_step_leaves_more_entropy_than_the_plain_step(variant: str) -> None:
    logits = torch.tensor([1.5, 0.5, 0.0, -0.5], dtype=torch.float64)
    actions, advantages = [0, 0, 1, 2, 3], [1.0, 1.0, 0.2, -0.6, -1.6]
    settings = {"low": 0.1, "high": 9.0} if variant == "clip_cov" else {"kl": 1.0}
    ours = methods.clip_cov_kl_cov(variant=variant, share=0.4, **settings)
    after = {}
    for name, terms, live in (("plain", [PolicyGradient()], ()), ("ours", ours.objective, ours.shape)):
        z = logits
        for _ in range(2):  # on-policy the penalty has no slope yet
            batch, leaf = bandit_batch(z, actions, advantages)
            old = logits.log_softmax(-1)[torch.tensor(actions)]
            batch = batch.with_columns({"token.old.logp": old})
            for part in live:
                batch = batch.with_columns(part(batch))
            sum(term(batch) for term in terms).backward()  # type: ignore[union-attr]
            assert leaf.grad is not None
            z = z - 0.5 * leaf.grad
        after[name] = float(-(z.softmax(-1) * z.log_softmax(-1)).sum())
    assert after["ours"] > after["plain"]


def test_kl_cov_without_its_weight_is_the_unclipped_gradient_and_clip_cov_with_an_empty_band_is_ppo() -> None:
    batch = random_update()
    unclipped, ppo = (differentiate([PolicyGradient(clip=clip)], batch) for clip in (None, Clip(0.2, 0.2)))
    kl_cov = methods.clip_cov_kl_cov(kl=0.0, share=0.5)
    clip_cov = methods.clip_cov_kl_cov(variant="clip_cov", share=1.0, low=50.0, high=60.0, clip=0.2)
    assert close(loss_of(kl_cov, batch).grad_logp, unclipped.grad_logp)
    assert close(loss_of(clip_cov, batch).grad_logp, ppo.grad_logp)


def test_the_smallest_share_still_touches_one_token() -> None:
    (select,) = methods.clip_cov_kl_cov(share=0.0002).shape
    assert int(select(random_update())["token.selected"].sum()) == 1


def test_the_law_is_recovered_from_points_on_it() -> None:
    law = dynamics.EntropyLaw(0.3, 0.9)
    entropies = [0.1, 0.4, 0.9, 1.5]
    fitted = dynamics.fit_entropy_law(entropies, [law(h) for h in entropies])
    assert (fitted.a, fitted.b, fitted.ceiling) == pytest.approx((0.3, 0.9, 0.6))


# -- what cannot work --------------------------------------------------------------------------------------------------


def test_bad_settings_are_refused_with_what_would_be_valid() -> None:
    for make in (
        lambda: SelectTokens(score="entropi"),
        lambda: SelectTokens(share=1.5),
        lambda: methods.d3s(within="task"),
        lambda: SpareEntropy(low=0.9, high=0.8),
    ):
        with pytest.raises(PodiumError):
            make()


def test_the_cascade_is_refused_where_the_world_has_no_such_checks() -> None:
    found = [str(f) for f in methods.earl_rtl(cascade=True).check(["rollout.correct"])]
    assert any("rollout.parses" in f for f in found)
    assert methods.earl_rtl(cascade=False).check(["rollout.correct"]) == []
