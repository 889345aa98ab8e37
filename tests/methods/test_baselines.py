"""NGRPO, MC-GRPO, Lite PPO, V0.5, CANON and COPO: another centre or another scale."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.schedule import Restarts
from podium.core.shares import scaled
from podium.core.value import Clock
from podium.memories import SuccessPrior
from podium.strategies import SampleMore
from tests.conformance.helpers import credited, differentiate
from tests.methods.support import credit, rewards, short_run

MIXED = ([1, 0, 0, 1], [0, 0, 0, 1])


def grpo(batch: Batch) -> torch.Tensor:
    return credit(methods.grpo(kl=0), batch)


# -- ngrpo -------------------------------------------------------------------------------------------------------------


def test_ngrpo_worked_example() -> None:
    a = credit(methods.ngrpo(), rewards([0, 0, 0, 0], [1, 0, 0, 0]))
    assert a.tolist() == pytest.approx([-0.44721] * 4 + [1.09544, -0.73030, -0.73030, -0.73030], abs=1e-5)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_ngrpo_all_wrong_group_still_pushes_down_by_one_over_root_n_plus_one(n: int) -> None:
    a = credit(methods.ngrpo(), rewards([0] * n))
    assert a.tolist() == pytest.approx([-1 / math.sqrt(n + 1)] * n, abs=1e-5)


def test_ngrpo_all_right_group_gets_nothing_and_a_mixed_one_sums_below_zero() -> None:
    a = credit(methods.ngrpo(), rewards([1, 1, 1], [1, 0, 1]))
    assert a[:3].tolist() == [0, 0, 0]
    assert float(a[3:].sum()) < 0


def test_ngrpo_without_virtual_rollouts_is_grpo() -> None:
    assert_close(credit(methods.ngrpo(virtual=0), rewards(*MIXED)), grpo(rewards(*MIXED)))


def test_ngrpo_a_group_of_one_keeps_its_reward() -> None:
    assert credit(methods.ngrpo(), rewards([0.5])).tolist() == pytest.approx([0.5], abs=1e-5)


def test_ngrpo_drops_solved_groups_and_keeps_failed_ones() -> None:
    (keep,) = methods.ngrpo().keep
    assert keep(rewards([1, 1], [0, 0], [1, 0]))["group.keep"].tolist() == [False, True, True]


# -- mc-grpo -----------------------------------------------------------------------------------------------------------


def test_mc_grpo_worked_examples() -> None:
    binary, real = rewards([1, 0, 0]), rewards([0.2, 1.0, 0.5, 0.9, 0.1])
    assert credit(methods.mc_grpo(), binary).tolist() == pytest.approx([1000, 0, 0])
    assert credit(methods.get("mc-grpo@gsm8k"), binary).tolist() == pytest.approx([3000, 0, 0])
    expected = [-0.74813, 1.24688, 0, 0.99751, -0.99751]
    assert credit(methods.mc_grpo(), real).tolist() == pytest.approx(expected, abs=1e-5)
    compensated = credit(methods.get("mc-grpo@gsm8k"), real).tolist()
    assert compensated == pytest.approx([x * 5 / 4 for x in expected], abs=1e-4)


def test_mc_grpo_samples_one_more_and_trains_without_the_median() -> None:
    torch.manual_seed(0)
    batch = rewards(*torch.rand(6, 5).tolist(), [1, 1, 1, 1, 1], [0, 1, 1, 0, 1])
    after = credited(methods.mc_grpo(n=4), batch)
    kept, a = after["rollout.keep.pivot"], after["rollout.advantage"]
    assert methods.mc_grpo(n=4).rollout.n == 5
    assert batch.by("rollout", "group").agg.count(~kept).tolist() == [1] * 8
    assert a[~kept].tolist() == [0] * 8
    assert after.trained("rollout", empty=True).tolist() == kept.tolist()


def test_mc_grpo_an_outlier_leaves_the_signs_of_the_others() -> None:
    ordinary, outlier = rewards([0.1, 0.4, 0.5, 0.6, 0.8]), rewards([0.1, 0.4, 0.5, 0.6, 100.0])
    assert credit(methods.mc_grpo(), outlier).sign().tolist() == credit(methods.mc_grpo(), ordinary).sign().tolist()
    assert grpo(outlier).sign().tolist() != grpo(ordinary).sign().tolist()


def test_mc_grpo_flips_fewer_signs_than_a_mean_of_two() -> None:
    torch.manual_seed(0)
    r = torch.where(torch.rand(4000, 3) < 0.15, 8.0, 1.0).double() * torch.rand(4000, 3).double()
    truth = (r - float(r.mean())).sign()
    three = rewards(*r.tolist())
    median = credit(methods.mc_grpo(n=2), three).reshape(4000, 3).sign()
    pair = grpo(rewards(*r[:, :2].tolist())).reshape(4000, 2).sign()
    flips = lambda found, true: float(((found * true) < 0).double().mean())  # noqa: E731
    assert flips(median, truth) < flips(pair, truth[:, :2])


def test_mc_grpo_safe_scales_are_settings() -> None:
    a = credit(methods.get("mc-grpo@std"), rewards([1, 0, 0, 0, 0]))
    assert float(a.abs().max()) == pytest.approx(5**0.5, abs=1e-4)
    assert credit(methods.mc_grpo(scale="none"), rewards([1, 0, 0])).tolist() == [1, 0, 0]


# -- lite-ppo ----------------------------------------------------------------------------------------------------------


def test_lite_ppo_worked_example() -> None:
    a = credit(methods.lite_ppo(), rewards(*MIXED))
    expected = [0.96609, -0.96609, -0.96609, 0.96609, -0.48304, -0.48304, -0.48304, 1.44913]
    assert a.tolist() == pytest.approx(expected, abs=1e-5)


def test_lite_ppo_with_one_group_is_grpo() -> None:
    assert_close(credit(methods.lite_ppo(), rewards(MIXED[0])), grpo(rewards(MIXED[0])))


def test_lite_ppo_keeps_the_ratio_of_centred_rewards_between_groups_and_every_group_sums_to_nothing() -> None:
    batch = rewards([1, 0, 0, 0], [1, 1, 0, 0])
    a, plain = credit(methods.lite_ppo(), batch), credit(methods.dr_grpo(), batch)
    assert_close(a / plain, (a[0] / plain[0]).expand(8))
    ratio = grpo(batch) / plain
    assert not torch.allclose(ratio, ratio[0].expand(8))
    assert float(batch.by("rollout", "group").agg.sum(a).abs().max()) < 1e-12


def test_lite_ppo_constant_groups_get_nothing_although_the_batch_varies() -> None:
    assert credit(methods.lite_ppo(), rewards([1, 1], [0, 0])).tolist() == [0, 0, 0, 0]
    assert credit(methods.lite_ppo(), rewards([1])).tolist() == [0]


# -- v0-5 --------------------------------------------------------------------------------------------------------------


def prior(value: float, *group: float) -> Batch:
    return rewards(group, group__prior=torch.tensor([value], dtype=torch.float64))


def baseline(value: float, *signed: float) -> float:
    method = methods.v0_5().with_(reward=())
    return float(credited(method, prior(value, *signed))["group.baseline"])


def test_v0_5_worked_examples() -> None:
    assert baseline(0.6, -1, -1, -1, 1) == pytest.approx(-0.272727, abs=1e-6)
    assert baseline(0.6, 1, 1, 1, -1) == pytest.approx(0.6)
    strategy = methods.v0_5().rollout
    assert isinstance(strategy, SampleMore)
    group, value = torch.tensor([-1.0, -1, -1, 1]).double(), torch.tensor(0.6).double()
    assert float(strategy.gain(group, value)) == pytest.approx(0.032830, abs=1e-6)
    assert strategy.goes_on(group, value)
    assert not strategy.goes_on(-group, value)


def test_v0_5_samples_on_to_the_limit_where_the_prior_is_useless() -> None:
    strategy, value = SampleMore(), torch.tensor(1.0).double()
    counts = [k for k in range(4, 17) if strategy.goes_on(-torch.ones(k).double(), value)]
    assert counts == list(range(4, 16))


def test_v0_5_an_exact_prior_is_the_baseline_and_a_wrong_one_gives_way_to_the_data() -> None:
    assert baseline(0.5, 1, 1, 1, -1) == 0.5
    gaps = [abs(baseline(v, *[-1.0] * 8) + 1) for v in (-0.6, 0.0, 1.0)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.1


def test_v0_5_the_mixture_is_never_worse_than_either_alone() -> None:
    from podium.parts.advantage.shrunk_baseline import squared_error

    bias, noise = torch.rand(100).double(), torch.rand(100).double() + 0.01
    assert bool((squared_error(bias, noise) <= torch.minimum(bias, noise)).all())


def test_v0_5_all_right_groups_still_learn_beyond_a_modest_prior() -> None:
    a = credit(methods.v0_5(), prior(0.6, 1, 1, 1, 1))
    assert a.tolist() == pytest.approx([0.4] * 4)


def test_v0_5_with_exact_priors_most_tasks_stop_at_once() -> None:
    torch.manual_seed(0)
    strategy, counts = SampleMore(), []
    for p in torch.linspace(0.1, 0.9, 200).tolist():
        draws = torch.where(torch.rand(16) < p, 1.0, -1.0).double()
        value = torch.tensor(2 * p - 1).double()
        counts.append(next(k for k in range(4, 17) if not strategy.goes_on(draws[:k], value)))
    assert 4 <= sum(counts) / 200 <= 5.5
    assert counts.count(4) > 150


def test_v0_5_refuses_groups_too_small_to_contradict_a_prior() -> None:
    with pytest.raises(PodiumError, match="n = 2"):
        methods.v0_5(n=2)


def test_v0_5_needs_a_prior_from_somewhere() -> None:
    alone = methods.v0_5(prior="own")
    assert "group.prior" in str(alone.check(["rollout.correct"]))
    assert (alone | SuccessPrior()).check(["rollout.correct"]) == []


def test_the_prior_of_history_converges_to_the_rate_of_a_task() -> None:
    memory = SuccessPrior()
    state = memory.initial()
    assert memory.recall(state, ["new"])["group.prior"].tolist() == [0.0]
    batch = rewards([1, 1, 1, 0], [0, 0, 0, 0], rollout__correct=[True, True, True, False] + [False] * 4)
    for _ in range(50):
        state = memory.observe(state, batch)
    easy, hard, new = memory.recall(state, [0, 1, 2])["group.prior"].tolist()
    assert (easy, hard) == pytest.approx((0.5, -1.0), abs=0.02)
    assert hard < new < easy


def test_v0_5_trains_with_as_many_rollouts_as_each_task_needs(tmp_path: Path) -> None:
    lines = short_run(methods.v0_5(cost=0.001), tmp_path / "run", iterations=3, tasks=6).metrics[1:]
    assert all(4 * 6 <= line["rollouts"] <= 16 * 6 for line in lines)
    assert max(line["rollouts"] for line in lines) > 4 * 6
    assert {"prior", "prior.weight", "baseline"} <= set(lines[-1])


# -- canon -------------------------------------------------------------------------------------------------------------


def canon(batch: Batch, **settings: Any) -> list[float]:
    return credit(methods.canon(metric="rollout.length", max_length=1, **settings), batch).tolist()


def test_canon_worked_example() -> None:
    batch = rewards([1, 0, 1, 1], rollout__length=[2, 4, 6, 8])
    assert canon(batch, mu=1.0) == [0, -1, 0.5, 0.5]
    assert canon(batch, mu=0.0) == [0.5, -0.5, 0, 0]
    assert canon(batch, mu=0.5) == [0.25, -0.75, 0.25, 0.25]
    assert canon(batch, mu=1.0, alpha=0.9) == pytest.approx([0.1, -0.9, 0.4, 0.4])
    assert canon(batch, mu=1.0, beta=0.2) == pytest.approx([-0.2, -1.2, 0.7, 0.7])


def test_canon_halfway_in_even_groups_is_dr_grpo() -> None:
    torch.manual_seed(0)
    batch = rewards(*torch.rand(5, 6).tolist(), rollout__length=torch.randint(1, 9, (30,)))
    assert canon(batch, mu=0.5) == pytest.approx(credit(methods.dr_grpo(), batch).tolist())


def test_canon_mu_is_irrelevant_where_the_metric_does_not_matter() -> None:
    batch = rewards([1, 0, 0, 1], rollout__length=[1, 2, 3, 4])
    assert canon(batch, mu=0.0) == canon(batch, mu=0.3) == canon(batch, mu=1.0)


def test_canon_odd_groups_have_the_larger_half_on_top_and_one_rollout_keeps_its_reward() -> None:
    assert canon(rewards([1, 0, 0], rollout__length=[1, 2, 3]), mu=0.0) == [0, 0, 0]
    assert canon(rewards([1], rollout__length=[3]), mu=0.0) == [1]


def test_canon_equal_rewards_teach_nothing() -> None:
    assert canon(rewards([0.3, 0.3, 0.3, 0.3], rollout__length=[1, 2, 3, 4]), mu=0.4) == pytest.approx([0] * 4)


def test_canon_entropy_discounts_the_low_half_and_length_the_high_one() -> None:
    assert methods.canon().advantage.discounted == "low"
    assert methods.get("canon@length").advantage.discounted == "high"


def test_canon_schedules_of_mu() -> None:
    batch = rewards([1, 0, 1, 1], rollout__length=[2, 4, 6, 8])
    assert canon(batch, mu="reward") == pytest.approx(canon(batch, mu=0.75))
    assert canon(batch, mu="1 - reward") == pytest.approx(canon(batch, mu=0.25))
    published = {"iterations": 150, "max_tokens": 8192}
    mu = scaled(methods.get("canon@cosine"), published).advantage.mu
    assert isinstance(mu, Restarts)
    intra = [1 - mu.number(Clock(step)) for step in (0, 29, 30, 50, 69, 70)]
    assert intra == pytest.approx([0.02, 0.6, 0.6, 0.3, 0.3 * (1 + math.cos(math.pi * 39 / 40)), 0.6])
    reverse = scaled(methods.canon(mu="reversed cosine"), published).advantage.mu
    assert [1 - reverse.number(Clock(step)) for step in (29, 50)] == pytest.approx([0.0, 0.3])


@pytest.mark.parametrize("slug", ["canon", "canon@length", "canon@dynamic", "canon@cosine"])
def test_canon_trains(slug: str, tmp_path: Path) -> None:
    line = short_run(methods.get(slug, n=6), tmp_path / "run", iterations=2).metrics[-1]
    assert line["grad_norm.policy"] > 0
    assert -1 <= line["halves.gap"] <= 1


# -- copo --------------------------------------------------------------------------------------------------------------

AGREE = ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1])
ANSWERS = ("7",) * 4 + ("8",) * 4 + ("7", "8", "9", "7")


def test_copo_worked_example() -> None:
    method = methods.get("copo@formula", blend="advantages")
    after = credited(method, rewards(*AGREE, rollout__answer=ANSWERS))
    assert after["group.consistency.entropy"].tolist() == pytest.approx([0, 0, 1.03972], abs=1e-5)
    assert after["group.consistency.weight"].tolist() == pytest.approx([9.4e-14, 9.4e-14, 1.0e-4], rel=0.02)
    assert after["rollout.advantage"].tolist()[::4] == pytest.approx([1, -1, 0], abs=1e-3)


def test_copo_constant_groups_carry_a_gradient_and_tasks_sum_to_nothing() -> None:
    after = credited(methods.copo(rho=1e9), rewards(*AGREE, rollout__answer=ANSWERS))
    across = after["rollout.advantage.global"]
    assert across[0] > 0 > across[4]
    assert float(after.by("rollout", "group").agg.first(across).sum()) == pytest.approx(0, abs=1e-12)


def test_copo_is_grpo_where_answers_differ_enough() -> None:
    batch = rewards(*AGREE, rollout__answer=ANSWERS)
    after = credited(methods.copo(rho=-1e9, unrewarded="blend"), batch)
    assert_close(after["rollout.advantage"], grpo(batch))
    assert float(after["rollout.advantage.global"].abs().max()) == 0


def test_copo_compares_tasks_alone_where_answers_agree_enough() -> None:
    batch = rewards(*AGREE, rollout__answer=ANSWERS)
    method = methods.copo(blend="advantages", rho=1e9)
    means = batch.by("rollout", "group").agg.mean(batch["rollout.reward"])
    expected = (means - means.mean()) / (means.std() + 1e-6)
    assert_close(credited(method, batch)["rollout.advantage"], expected.repeat_interleave(4))


def test_copo_without_slope_both_weigh_alike_and_a_group_of_one_has_no_local_advantage() -> None:
    batch = rewards([1, 0], [1], rollout__answer=("a", "b", "a"))
    after = credited(methods.copo(gamma=0.0, unrewarded="blend"), batch)
    assert after["group.consistency.weight"].tolist() == [0.5, 0.5]
    assert after["rollout.advantage"].tolist() == pytest.approx([0.353553, -0.353553, 0], abs=1e-5)
    assert after["rollout.advantage.global"].tolist() == pytest.approx([-0.353553, -0.353553, 0.353553], abs=1e-5)


def test_copo_one_task_or_equal_tasks_have_no_global_advantage() -> None:
    for groups in ([[1, 0]], [[1, 0], [0, 1]]):
        n = sum(map(len, groups))
        after = credited(methods.copo(), rewards(*groups, rollout__answer=("a",) * n))
        assert after["rollout.advantage.global"].tolist() == [0] * n


def test_copo_rollouts_without_reward_take_the_global_advantage_alone() -> None:
    batch = rewards([1, 0], [1, 1], rollout__answer=("a", "b", "a", "a"))
    after = credited(methods.copo(gamma=0.0), batch)  # w = ½ where the reward is not 0
    # Locally ±0.707107 and 0; the tasks' means ½ and 1 are ∓0.707107 standardised.
    assert after["rollout.advantage"].tolist() == pytest.approx([0.353553, 0, 0, 0], abs=1e-5)
    found = after["rollout.advantage.global"].tolist()
    assert found == pytest.approx([-0.353553, -0.707107, 0.353553, 0.353553], abs=1e-5)


def test_copo_the_base_of_the_logarithm_moves_the_threshold() -> None:
    batch = rewards([1, 0, 0, 0], rollout__answer=("a", "b", "c", "d"))
    natural, binary = (credited(methods.copo(rho=1.5, base=b), batch)["group.consistency.weight"] for b in (math.e, 2))
    assert natural < 0.5 < binary


def test_copo_blended_losses_and_blended_advantages_agree_where_the_signs_do() -> None:
    torch.manual_seed(0)
    tokens = {name: torch.randn(8, 3).double() * 0.2 - 1 for name in ("token.now.logp", "token.old.logp")}
    r = torch.tensor([1.0, 1, 1, 0, 1, 0, 0, 0]).double()
    columns = {"rollout.reward": r, "rollout.answer": ["a", "b"] * 4}
    batch = Batch.from_padded(torch.ones(8, 3), [0] * 4 + [1] * 4, columns | tokens)
    found = {}
    for blend in ("losses", "advantages"):
        method = methods.get("copo@formula", blend=blend, rho=0.69)
        found[blend] = batch.to_padded(differentiate(method.objective, credited(method, batch)).grad_logp)
    agree = torch.tensor([True, True, True, False, False, True, True, True])  # the first task is above the mean
    assert_close(found["losses"][agree], found["advantages"][agree])
    assert not torch.allclose(found["losses"][~agree], found["advantages"][~agree])


def test_copo_trains_on_both_advantages(tmp_path: Path) -> None:
    line = short_run("copo", tmp_path / "run").metrics[-1]
    assert {"consistency.entropy", "consistency.weight", "advantage.global"} <= set(line)
    assert line["grad_norm.policy"] > 0


@pytest.mark.parametrize("slug", ["ngrpo", "mc-grpo", "mc-grpo@gsm8k", "lite-ppo"])
def test_baseline_methods_train(slug: str, tmp_path: Path) -> None:
    line = short_run(methods.get(slug, n=4), tmp_path / "run", iterations=2).metrics[-1]
    assert math.isfinite(line["loss"])
    assert line["grad_norm.policy"] > 0
