"""The baselines that everybody compares with: DAPO, GSPO, CISPO, GRPO's presets, ReMax, MaxRL, GDPO and ScaleRL."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.memory import State
from podium.core.signal import Signal
from podium.memories import PassRates
from podium.parts.advantage import NormalizeEach, Returns
from podium.parts.keep import KeepMixed
from podium.parts.objective import KL, Clip, DivergenceMask, PolicyGradient
from podium.parts.reward import TokenReward, WithinLength
from podium.parts.select import NotMastered
from podium.parts.shape import MarkNear
from tests.conformance.helpers import credited
from tests.methods.support import credit, rewards, short_run

# -- dapo --------------------------------------------------------------------------------------------------------------


def kept(batch: Batch) -> list[bool]:
    """Which groups DAPO keeps, after its rewards."""
    method = methods.dapo(max_length=20, buffer=10)
    for part in method.reward:
        batch = batch.with_columns(part(batch))
    found: list[bool] = method.keep[0](batch)["group.keep"].tolist()
    return found


def test_dapo_drops_an_all_wrong_and_an_all_right_group_of_unequal_lengths() -> None:
    batch = rewards(
        *([0, 0], [1, 1], [0, 1]),
        rollout__length=[5.0, 20.0, 5.0, 20.0, 5.0, 5.0],
        rollout__correct=[False, False, True, True, False, True],
    )
    assert kept(batch) == [False, False, True]
    for part in methods.dapo(max_length=20, buffer=10).reward:
        batch = batch.with_columns(part(batch))
    assert KeepMixed()(batch)["group.keep"].tolist() == [True, True, True]  # by the reward, all would stay


def test_dapo_s_penalty_is_half_of_what_separates_right_from_wrong() -> None:
    batch = rewards([0, 1, 1], rollout__length=[5.0, 5.0, 20.0], rollout__correct=[False, True, True])
    for part in methods.dapo(max_length=20, buffer=10).reward:
        batch = batch.with_columns(part(batch))
    assert batch["rollout.reward"].tolist() == [-1, 1, 0]  # at the limit: 1 − 1


def test_dapo_averages_per_task_and_in_verl_over_the_update() -> None:
    # Task a has 1 token with the loss 4, task b 3 tokens with the loss 0: 2 per task, 1 per token.
    mask = torch.tensor([[1.0, 0, 0], [1, 1, 1]]).double()
    advantage = torch.tensor([[-4.0, 0, 0], [0, 0, 0]]).double()
    zero = torch.zeros(2, 3).double()
    columns = {"token.advantage": advantage, "token.old.logp": zero, "token.now.logp": zero}
    batch = Batch.from_padded(mask, ["a", "b"], columns)
    assert methods.dapo().objective[0](batch).item() == 2.0
    assert methods.get("dapo@verl").objective[0](batch).item() == 1.0


# -- gspo, cispo, grpo -------------------------------------------------------------------------------------------------


def test_gspo_s_clip_acts_over_its_four_mini_batches(tmp_path: Path) -> None:
    assert methods.gspo().updates.mini_batches == 4
    last = short_run("gspo", tmp_path / "run", iterations=2).metrics[-1]
    assert last["clip_fraction"] > 0


def test_gspo_and_gspo_token_differ_only_where_advantages_vary_within_an_answer() -> None:
    def gradient(preset: str, advantage: list[float]) -> torch.Tensor:
        now = torch.tensor([[-1.0, -2.0]]).double().requires_grad_()
        old = torch.tensor([[-1.0001, -2.0]]).double()
        columns = {"token.advantage": torch.tensor([advantage]).double(), "token.old.logp": old, "token.now.logp": now}
        loss = methods.get(preset).objective[0](Batch.from_padded(torch.ones(1, 2), [0], columns))
        return torch.autograd.grad(loss, now)[0]

    torch.testing.assert_close(gradient("gspo", [1.0, 1.0]), gradient("gspo@token", [1.0, 1.0]))
    # s = e^0.00005: shared, both tokens get the mean advantage −2 s / 2; per token, each its own −A s / 2.
    s = torch.tensor(5e-5).double().exp().item()
    assert gradient("gspo", [1.0, 3.0]).tolist() == [pytest.approx([-s, -s])]
    assert gradient("gspo@token", [1.0, 3.0]).tolist() == [pytest.approx([-s / 2, -3 * s / 2])]


def test_cispo_s_weights_go_from_0_to_5_and_are_not_dapo_s() -> None:
    clip = methods.cispo().objective[0].clip  # type: ignore[attr-defined]
    assert clip == Clip(1.0, 4.0, kind="weight") == Clip.capped(5.0)
    assert methods.get("cispo@trl").objective == methods.cispo().objective


@pytest.mark.parametrize(
    ("preset", "success"),
    [
        *((name, 1.5) for name in ("verl", "trl", "openrlhf", "slime", "skyrl")),
        *(("nemo", 1.0), ("prime-rl", 0.75), ("deepseek-v3.2", 0.75)),
    ],
)
def test_one_success_in_four(preset: str, success: float) -> None:
    part = methods.get(f"grpo@{preset}").advantage
    assert part is not None
    found = part(rewards([1, 0, 0, 0]))["rollout.advantage"][0].item()
    assert found == pytest.approx(success, abs=1e-3)


def test_grpo_paper_has_64_rollouts_and_a_single_update() -> None:
    method = methods.get("grpo@paper")
    assert method.rollout is not None
    assert method.rollout.n == 64
    assert method.updates.single


def test_prime_rl_masks_by_probability_and_holds_log_ratios_near_zero() -> None:
    surrogate, held = methods.get("grpo@prime-rl").objective
    assert surrogate == PolicyGradient(clip=DivergenceMask(cap=None), behaviour="sampler")
    # 0.001 · (log r)² at log r = 0.5
    columns = {"token.now.logp": torch.tensor([[-1.0]]).double(), "token.sampler.logp": torch.tensor([[-1.5]]).double()}
    assert held(Batch.from_padded(torch.ones(1, 1), [0], columns)).item() == pytest.approx(0.001 * 0.25)


def test_the_corrected_kl_is_weighed_by_the_ratio() -> None:
    # d = log ref − log π = −0.5, log r = 0.2: (e^−0.5 + 0.5 − 1) · e^0.2 = 0.106531 · 1.221403.
    columns = {
        "token.now.logp": torch.tensor([[-1.0]]).double(),
        "token.ref.logp": torch.tensor([[-1.5]]).double(),
        "token.old.logp": torch.tensor([[-1.2]]).double(),
    }
    batch = Batch.from_padded(torch.ones(1, 1), [0], columns)
    assert KL(corrected=True)(batch).item() == pytest.approx(0.106531 * 1.221403, rel=1e-5)


def test_rollouts_that_were_pushed_down_and_moved_far_are_left_out() -> None:
    # Mean log(π_old / π): 0.3, 0.3, 0.1 against a threshold of 0.2; only the first has A < 0 and is too far.
    old = torch.zeros(3, 2).double()
    now = -torch.tensor([[0.2, 0.4], [0.2, 0.4], [0.1, 0.1]]).double()
    advantage = torch.tensor([[-1.0, -1], [1, 1], [-1, -1]]).double()
    columns = {"token.advantage": advantage, "token.old.logp": old, "token.now.logp": now}
    batch = Batch.from_padded(torch.ones(3, 2), [0, 0, 0], columns)
    assert MarkNear(0.2)(batch)["rollout.near"].tolist() == [False, True, True]


# -- remax -------------------------------------------------------------------------------------------------------------


def test_remax_discounts_bounds_and_does_not_sum_the_penalty() -> None:
    # R − b = 9 − 1, bounded by 5; three tokens, gamma 0.99; KL penalties 0.05 · (0.4, 0, −0.2) at their own tokens.
    columns = {
        "rollout.reward": torch.tensor([9.0, 1.0]).double(),
        "rollout.purpose": ["train", "baseline"],
        "token.old.logp": torch.tensor([[-1.0, -1.0, -1.0]] * 2).double(),
        "token.ref.logp": torch.tensor([[-1.4, -1.0, -0.8]] * 2).double(),
    }
    batch = Batch.from_padded(torch.ones(2, 3), ["a", "a"], columns)
    found = batch.to_padded(credited(methods.remax(), batch)["token.advantage"])[0]
    assert found.tolist() == pytest.approx([5 * 0.99**2 - 0.02, 5 * 0.99, 5 + 0.01])
    summed = batch.to_padded(credited(methods.get("remax@verl", kl=0.05), batch)["token.advantage"])[0]
    assert summed.tolist() == pytest.approx([8 - 0.02 + 0.01, 8 + 0.01, 8 + 0.01])


def test_an_immediate_reward_counts_at_its_own_token() -> None:
    columns = {
        "token.reward": torch.tensor([[0.0, 0, 1]]).double(),
        "token.extra": torch.tensor([[1.0, 2, 3]]).double(),
    }
    batch = Batch.from_padded(torch.ones(1, 3), ["a"], columns)
    found = Returns(gamma=0.5, immediate="token.extra")(batch)["token.advantage"]
    assert found.tolist() == [1.25, 2.5, 4.0]


def test_the_outcome_minus_a_baseline_within_a_limit() -> None:
    batch = Batch.from_padded(torch.ones(2, 2), ["a", "a"], {"rollout.reward": torch.tensor([9.0, -9.0]).double()})
    batch = batch.with_columns({"group.baseline": torch.tensor([1.0]).double()})
    found = TokenReward(baseline="group.baseline", limit=5.0)(batch)["token.reward"]
    assert found.tolist() == [0, 5, 0, -5]


# -- maxrl, gdpo, scalerl ----------------------------------------------------------------------------------------------


def test_maxrl_divides_by_the_pass_rate() -> None:
    # p = 1/4: (1 − p) / p = 3 and −1; p = 1/2: 1 and −1; nothing right: 0; all right: 0.
    a = credit(methods.maxrl(), rewards([1, 0, 0, 0], [1, 1, 0, 0], [0, 0], [1, 1]))
    assert a.tolist() == pytest.approx([3, -1, -1, -1, 1, 1, -1, -1, 0, 0, 0, 0], abs=1e-4)


def test_maxrl_s_gradient_is_that_of_the_truncated_log_likelihood() -> None:
    """By enumeration: the mean of Σ_i A_i ∇log π_i / n is ∇p Σ_{k < n − 1} (1 − p)^k, without epsilon."""
    p, n = 0.3, 4
    part = methods.maxrl().advantage.replace(epsilon=0.0)  # type: ignore[union-attr]
    found = 0.0
    for outcome in range(2**n):
        r = [float(outcome >> i & 1) for i in range(n)]
        probability = math.prod(p if x else 1 - p for x in r)
        a = part(rewards(r))["rollout.advantage"].tolist()
        score = [1 / p if x else -1 / (1 - p) for x in r]  # d log π / d p
        found += probability * sum(x * y for x, y in zip(a, score, strict=True)) / n
    assert found == pytest.approx(sum((1 - p) ** k for k in range(n - 1)), rel=1e-9)


def test_gdpo_normalises_each_reward_on_its_own() -> None:
    # Rewards (1, 1), (1, 0), (0, 0), (0, 1): the sums 2, 1, 0, 1 would leave two rollouts without credit.
    # Each column is ±0.5 / 0.57735 = ±0.866025.
    batch = rewards([0, 0, 0, 0], rollout__a=[1.0, 1, 0, 0], rollout__b=[1.0, 0, 0, 1])
    part = NormalizeEach(of=(("rollout.a", 1.0), ("rollout.b", 0.5)))
    h = 0.866024
    assert part(batch)["rollout.advantage"].tolist() == pytest.approx([1.5 * h, h / 2, -1.5 * h, -h / 2], abs=1e-5)


def test_gdpo_whitens_the_sum_over_the_batch() -> None:
    batch = rewards([0] * 4, rollout__correct=[True, True, False, False], rollout__length=[1.0, 9.0, 9.0, 1.0])
    batch = batch.with_columns(WithinLength(5)(batch))
    assert batch["rollout.reward.short"].tolist() == [1, 0, 0, 1]
    # (1, 1), (1, 0), (0, 0), (0, 1): 2 h, 0, −2 h, 0, whose unbiased variance is 8 h² / 3.
    a = credit(methods.gdpo(max_length=5), batch)
    assert a.tolist() == pytest.approx([1.224745, 0, -1.224745, 0], abs=1e-5)


def test_only_a_right_answer_counts_as_short() -> None:
    batch = rewards([0, 0], rollout__correct=[True, False], rollout__length=[1.0, 1.0])
    assert WithinLength(5, when_right=True)(batch)["rollout.reward.short"].tolist() == [1, 0]


def test_scalerl_centres_within_the_group_and_scales_over_the_batch() -> None:
    # ±1 rewards: (1, −1), (1, 1), (−1, −1, −1, 1); the std of all eight (4 of 1, 4 of −1) is sqrt(8/7).
    std = (8 / 7) ** 0.5
    a = credit(methods.scalerl(), rewards([1, 0], [1, 1], [0, 0, 0, 1]))
    assert a.tolist() == pytest.approx([x / std for x in (1, -1, 0, 0, -0.5, -0.5, -0.5, 1.5)], abs=1e-5)
    [keep] = methods.scalerl().keep
    assert not keep.top_up


def test_a_mastered_task_is_not_drawn_again() -> None:
    memory = PassRates()
    state: State = {"rates": {"easy": (0.95, 0.2), "hard": (0.1, 0.5)}}
    columns = memory.recall(state, ["easy", "hard", "new"])
    assert columns["group.pass_rate.highest"].tolist() == [0.95, 0.5, 0.0]
    assert NotMastered(0.9)(columns).tolist() == [0, 1, 1]
    assert NotMastered(0.05)(columns | {"group.pass_rate.highest": torch.tensor([1.0, 1, 1])}).tolist() == [1, 1, 1]


# -- distillation and imitation ----------------------------------------------------------------------------------------


def test_sft_imitates_the_world_s_solutions_and_samples_nothing(tmp_path: Path) -> None:
    lines = short_run("sft", tmp_path / "run", iterations=2).metrics[1:]
    assert all(line["tokens.sampled"] == 0 and line["grad_norm.policy"] > 0 for line in lines)


def test_sft_learns_a_file_by_heart(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text('{"prompt": "1 + 1 = ?", "completion": "answer: 2"}\n' * 3)
    lines = short_run(methods.sft(str(file)), tmp_path / "run", iterations=3, lr=1e-3).metrics[1:]
    assert lines[-1]["loss"] < lines[0]["loss"]


@pytest.mark.parametrize("name", ["opd", "opd@reverse", "opd@student-top", "opd@verl", "opsd", "opsd@top", "sdpo"])
def test_distillation_moves_the_policy(name: str, tmp_path: Path) -> None:
    lines = short_run(name, tmp_path / "run", iterations=2).metrics[1:]
    assert all(line["grad_norm.policy"] > 0 for line in lines)


def test_opd_credits_a_token_with_its_own_log_ratio_alone() -> None:
    columns = {
        "token.old.logp": torch.tensor([[-1.0, -2.0]]).double(),
        Signal("logp", of="teacher", power=2.0).column: torch.tensor([[-0.5, -3.0]]).double(),
    }
    batch = Batch.from_padded(torch.ones(1, 2), ["a"], columns | {"rollout.reward": torch.ones(1).double()})
    assert credited(methods.opd(), batch)["token.advantage"].tolist() == [0.5, -1.0]
