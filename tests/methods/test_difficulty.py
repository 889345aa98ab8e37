"""A-GRAE, ADORA and Confucius3-Math: advantages times a factor of how hard the group is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.parts.objective import EntropyTarget
from tests.conformance.helpers import credited
from tests.methods.support import credit, rewards, short_run

MIXED = ([1, 0, 0, 1], [0, 0, 0, 1])


# -- a-grae ------------------------------------------------------------------------------------------------------------


def test_a_grae_worked_example() -> None:
    expected = [0.43261, -1.15363, -1.15363, 0.43261, -0.5, -0.5, -0.5, 0.5625]
    assert credit(methods.a_grae(), rewards(*MIXED)).tolist() == pytest.approx(expected, abs=1e-5)


def test_a_grae_positive_advantages_sum_to_less_than_negative_ones_below_alpha() -> None:
    a = credit(methods.a_grae(alpha=0.5), rewards(*MIXED))  # the mean reward is 0.375
    assert a.clamp(min=0).sum() < -a.clamp(max=0).sum()
    a = credit(methods.a_grae(alpha=0.3), rewards(*MIXED))
    assert_close(a.clamp(min=0).sum(), -a.clamp(max=0).sum())


@pytest.mark.parametrize("easy", ["1 - sqrt p", "sqrt(1 - p)"])
def test_a_grae_moves_its_focus_from_easy_to_hard_groups(easy: str) -> None:
    hard, medium, nearly = [1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]

    def factors(*filling: list[float]) -> list[float]:
        batch = rewards(hard, medium, nearly, *filling)
        plain = credit(methods.a_grae().with_(shape=()), batch)
        shaped = credit(methods.a_grae(easy=easy, alpha=0.0), batch)
        return [float(shaped[i] / plain[i]) for i in (0, 6, 12)]

    weak = factors(*[[0] * 6] * 200)
    strong = factors(*[[1] * 6] * 200)
    assert weak == sorted(weak)
    assert weak[0] < weak[2]
    assert strong == sorted(strong, reverse=True)
    assert strong[0] > strong[2]


def test_a_grae_without_focus_and_damping_is_grpo() -> None:
    method = methods.a_grae(alpha=0.0).set("shape.ProgressFocus.focus", False)
    assert_close(credit(method, rewards(*MIXED)), credit(methods.grpo(kl=0), rewards(*MIXED)))
    # With alpha ≤ P nothing is damped either.
    method = methods.a_grae(alpha=0.3).set("shape.ProgressFocus.focus", False)
    assert_close(credit(method, rewards(*MIXED)), credit(methods.grpo(kl=0), rewards(*MIXED)))


def test_a_grae_the_released_easy_focus_differs_from_the_symmetric_one() -> None:
    released, symmetric = (credit(methods.get(slug), rewards(*MIXED)) for slug in ("a-grae", "a-grae@symmetric"))
    assert not torch.allclose(released, symmetric)


def test_a_grae_counts_every_group_once_however_large() -> None:
    method = methods.a_grae()
    batch = rewards([1, 0], [0, 0, 0, 0, 0, 0])
    assert float(method.shape[0](batch.with_columns(method.advantage(batch)))["batch.progress"]) == 0.25


def test_a_grae_the_release_takes_zero_for_the_mean_of_a_group_of_one() -> None:
    batch = rewards([1, 0], [1])
    ours, released = (credited(methods.get(name), batch) for name in ("a-grae", "a-grae@release"))
    assert ours["batch.progress"].tolist() == [0.75]
    assert released["batch.progress"].tolist() == [0.25]
    assert float(released["rollout.advantage"][2]) > 1e4


def test_a_grae_gives_a_group_of_one_nothing() -> None:
    assert credit(methods.a_grae(), rewards([1], [1, 0])).tolist()[0] == 0


# -- adora -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lengths", "factor"), [([3, 8, 5, 9], 1.0), ([3, 8, 5, 6], 0.1)])
def test_adora_worked_example(lengths: list[int], factor: float) -> None:
    batch = rewards([3, -1, -1, 3], rollout__length=lengths)
    a = credit(methods.adora(correct_above=1.01, max_length=10), batch)
    assert a.tolist() == pytest.approx([factor * x for x in (0.86603, -0.86603, -0.86603, 0.86603)], abs=1e-5)


def test_adora_weights_are_constant_in_a_group_and_never_change_a_sign() -> None:
    torch.manual_seed(0)
    r = (torch.rand(40) < 0.5).double().reshape(8, 5)
    batch = rewards(*r.tolist(), rollout__length=torch.randint(1, 30, (40,)))
    plain, gated = credit(methods.grpo(kl=0), batch), credit(methods.adora(max_length=25), batch)
    mixed = plain.reshape(8, 5)[:, 0] != 0
    factor = (gated / plain).reshape(8, 5)[mixed].round(decimals=6)
    assert bool((factor == factor[:, :1]).all())
    assert set(factor[:, 0].tolist()) <= {0.1, 1.0}
    assert bool((gated.sign() == plain.sign()).all())


def test_adora_with_damp_one_is_grpo() -> None:
    batch = rewards(*MIXED, rollout__length=torch.arange(8))
    assert_close(credit(methods.adora(damp=1.0, max_length=3900), batch), credit(methods.grpo(kl=0), batch))


@pytest.mark.parametrize(("variant", "wrong", "right"), [("llm", 0.1, 1.0), ("vlm", 1.0, 0.1)])
def test_adora_forks_differ_where_one_side_is_missing(variant: str, wrong: float, right: float) -> None:
    batch = rewards([0, 0, 0], [1, 1, 1], [1, 0, 0], rollout__length=[1, 2, 3, 4, 5, 6, 7, 99, 99])
    gate = methods.adora(variant=variant, max_length=50).shape[0].gate(batch)
    assert gate.tolist() == pytest.approx([wrong, right, right])  # cut-off wrong rollouts count as none
    tie = rewards([1, 0], rollout__length=[5, 5])
    assert methods.adora(variant=variant, max_length=3900).shape[0].gate(tie).tolist() == pytest.approx([0.1])


# -- confucius3-math ---------------------------------------------------------------------------------------------------


def test_confucius_worked_example() -> None:
    a = credit(methods.confucius3_math(stage=2), rewards([1, 0, 0, 0]))  # rewards become ±1
    assert a.tolist() == pytest.approx([2.076, -0.692, -0.692, -0.692])


def test_confucius_hardness_falls_with_success_and_advantages_sum_to_nothing() -> None:
    method = methods.confucius3_math(stage=2)
    batch = rewards(*[[1.0] * k + [0.0] * (8 - k) for k in range(9)])
    for part in (*method.annotate, *method.reward, method.advantage, *method.shape):
        batch = batch.with_columns(part(batch))
    hardness = batch["group.hardness"]
    assert_close(hardness.diff(), hardness.diff().mean().expand(8))
    assert (float(hardness[0]), float(hardness[-1])) == pytest.approx((1.512, 1.0))
    assert float(batch.by("rollout", "group").agg.sum(batch["rollout.advantage"]).abs().max()) < 1e-12


def test_confucius_without_slope_is_dr_grpo_on_signed_rewards() -> None:
    batch = rewards(*MIXED)
    signed = batch.with_columns({"rollout.reward": 2 * batch["rollout.reward"] - 1})
    assert_close(
        credit(methods.confucius3_math(stage=2, slope=0.0, offset=1.0), batch), credit(methods.dr_grpo(), signed)
    )


@pytest.mark.parametrize("start", [0.01, 1.6])
def test_confucius_entropy_term_holds_a_toy_policy_at_its_target(start: float) -> None:
    term = methods.get("confucius3-math@stage-1").objective[1]
    assert isinstance(term, EntropyTarget)
    logits = torch.zeros(5, dtype=torch.float64)
    logits[0] = 6.0 if start < 0.55 else 0.5  # the uniform distribution is a saddle
    logits.requires_grad_()

    def entropy() -> torch.Tensor:
        return -(logits.softmax(0) * logits.log_softmax(0)).sum()

    for _ in range(4000):
        batch = Batch.from_padded(torch.ones(1, 1), [0], {"token.now.entropy": entropy().reshape(1, 1)})
        (slope,) = torch.autograd.grad(term(batch), logits)
        with torch.no_grad():
            logits -= 50.0 * slope
    assert float(entropy().detach()) == pytest.approx(0.55, abs=0.03)


def test_confucius_stages_train(tmp_path: Path) -> None:
    first = short_run(methods.get("confucius3-math@stage-1", n=4), tmp_path / "1", iterations=2).metrics[-1]
    assert {"entropy.mean", "loss.EntropyTarget"} <= set(first)
    second = short_run(methods.get("confucius3-math@stage-2", n=4), tmp_path / "2", iterations=2).metrics[-1]
    assert {"hardness", "groups.waiting"} <= set(second)
    assert second["grad_norm.policy"] > 0
    run = tmp_path / "all"
    lines = short_run(methods.get("confucius3-math", n=4), run, iterations=4, tasks=4, max_tokens=160).metrics[1:]
    assert [line["phase"] for line in lines] == [0, 1, 1, 2]  # 4234, 5470 and 3405 of 13109 hours
    assert ["hardness" in line for line in lines] == [False, True, True, True]
    shares = [leaf.rollout.draw.token_share for leaf in methods.get("confucius3-math").leaves()]
    assert shares == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(("slug", "diagnostic"), [("a-grae", "progress"), ("adora", "gate")])
def test_difficulty_methods_train_and_report(slug: str, diagnostic: str, tmp_path: Path) -> None:
    line = short_run(slug, tmp_path / "run", iterations=2).metrics[-1]
    assert 0 <= line[diagnostic] <= 1
    assert line["grad_norm.policy"] > 0
