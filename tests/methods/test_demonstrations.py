"""HPT, CalibRL, GRAO: rollouts beside demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.method import Method
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import AlignExpert
from podium.protocols.world import Answer, Feedback, Task
from tests.conformance.case import Case
from tests.conformance.helpers import differentiate
from tests.conformance.registry import adapters
from tests.methods.support import short_run


def beside(
    rewards: Sequence[float], demonstration: float = 1.0, purpose: Purpose = Purpose.demo, seed: int = 0
) -> Batch:
    """One group of rollouts of three tokens and, last, a demonstration."""
    n = len(rewards) + 1
    generator = torch.Generator().manual_seed(seed)
    logp = -torch.rand(n, 3, generator=generator, dtype=torch.float64)
    given = torch.arange(n) == n - 1
    columns = {
        "token.now.logp": logp,
        "token.old.logp": logp - 0.1,
        "rollout.reward": torch.tensor([*rewards, demonstration], dtype=torch.float64),
        "rollout.demonstration": given,
        "rollout.sampled": ~given,
        "rollout.purpose": torch.where(given, int(purpose), int(Purpose.train)),
    }
    return Batch.from_padded(torch.ones(n, 3), [0] * n, columns)


def prepared(method: Method, batch: Batch) -> Batch:
    for part in (*method.keep, method.advantage, *method.shape):
        batch = batch.with_columns(part(batch))
    return batch


def slope(method: Method, batch: Batch) -> Tensor:
    """[rollout, token] the gradient of the loss in the log-probabilities."""
    return batch.to_padded(differentiate(method.objective, prepared(method, batch)).grad_logp)


# -- worked examples ---------------------------------------------------------------------------------------------------


def test_hpt_worked_example() -> None:
    same = [[-0.5, -0.5]] * 8
    inputs = {
        "logp": same,
        "old_logp": [[-0.6, -0.5], *same[1:]],
        "mask": [[1, 1]] * 8,
        "rewards": [1, 0, 0, 1, 0, 0, 0, 0],
        "group": [0] * 4 + [1] * 4,
        "demo_logp": [[-0.4, -0.4], [-0.9, -0.3]],
        "demo_mask": [[1, 1]] * 2,
    }
    hyper = {"gate": 0, "sft_coef": 1.0, "clip": None, "length_divisor": 2}
    found = adapters()["hpt"](Case.of("hpt", inputs, hyper))
    assert found["route"] == ["rl", "sft"]
    assert found["pg_loss"] == pytest.approx(-0.0262927, abs=1e-6)
    assert found["sft_loss"] == pytest.approx(0.6)
    assert found["total_loss"] == pytest.approx(0.5737073, abs=1e-6)


def test_calibrl_worked_example() -> None:
    own, expert = [[-0.5, -0.5]] * 2, [-0.8, -0.3]
    inputs = {
        "logp": [*own, expert],
        "old_logp": [*own, expert],
        "mask": [[1, 1]] * 3,
        "rewards": [1, 0, 1],
        "group": [0, 0, 0],
        "is_expert": [0, 0, 1],
    }
    found = adapters()["calibrl"](Case.of("calibrl", inputs, {"aggregation": "token-mean"}))
    assert found["pg_loss"] == pytest.approx(0, abs=1e-12)
    assert found["guided_loss"] == pytest.approx(0.03125)
    assert found["total_loss"] == pytest.approx(0.003125)


def test_grao_worked_example() -> None:
    inputs = {
        "logp": [[-0.5], [-1.0]],
        "mask": [[1], [1]],
        "reference_logp": [[-2.0]],
        "reference_mask": [[1]],
        "rewards": [3.0, 1.0],
        "reference_reward": [4.0],
        "group": [0, 0],
    }
    found = adapters()["grao"](Case.of("grao", inputs))
    assert found["advantages"].tolist() == pytest.approx([1, -1])
    assert found["reference_advantage"].tolist() == pytest.approx([2])
    assert found["terms"][0] == pytest.approx([0.25, -2.0, 0.15], abs=1e-6)
    assert found["loss"] == pytest.approx(1.6, abs=1e-6)


# -- hpt ---------------------------------------------------------------------------------------------------------------


def test_hpt_with_gate_minus_one_is_dr_grpo_and_never_imitates() -> None:
    batch = beside([0, 0, 0, 1])
    method = methods.hpt(gate=-1, entropy=0, max_length=7)
    dr_grpo = methods.dr_grpo(max_length=7, over_rollouts="sum").set("objective.PolicyGradient.clip", None)
    alone = batch.take("rollout", batch["rollout.sampled"])
    assert_close(slope(method, batch)[:4], slope(dr_grpo, alone))
    assert not slope(method, batch)[4].any()


def test_hpt_with_a_gate_as_large_as_the_group_is_imitation() -> None:
    found = slope(methods.hpt(gate=4, entropy=0, max_length=7), beside([1, 1, 0, 1]))
    assert not found[:4].any()
    assert_close(found[4], torch.full((3,), -1 / 3, dtype=torch.float64))


@pytest.mark.parametrize("rewards", [[0, 0, 0], [1, 0, 0], [1, 1, 1]])
def test_hpt_a_group_is_reinforced_or_imitated_never_both(rewards: list[int]) -> None:
    found = slope(methods.hpt(entropy=0, max_length=7), beside(rewards))
    imitated = sum(rewards) == 0
    assert bool(found[-1].any()) == imitated
    assert bool(found[:-1].any()) == (0 < sum(rewards) < 3)


def test_hpt_rollouts_of_an_imitated_task_do_not_show_in_the_loss() -> None:
    method = methods.hpt(entropy=0, max_length=7)
    batch = prepared(method, beside([0, 0, 0]))
    moved = batch["token.now.logp"].where(batch.spread(batch["rollout.demonstration"], "rollout", "token"), -9)
    other = batch.with_columns({"token.now.logp": moved})
    assert differentiate(method.objective, batch).step.loss == differentiate(method.objective, other).step.loss


# -- calibrl -----------------------------------------------------------------------------------------------------------


def calibrated(rewards: Sequence[float], **settings: Any) -> Tensor:
    return slope(methods.calibrl(**settings), beside(rewards, purpose=Purpose.baseline))


def test_calibrl_without_guidance_is_ppo_with_a_mean_baseline() -> None:
    ppo = methods.dr_grpo().with_(objective=PolicyGradient(clip=Clip(dual=3.0)))
    batch = beside([1, 0, 0], purpose=Purpose.baseline)
    alone = batch.take("rollout", batch["rollout.sampled"])
    assert_close(calibrated([1, 0, 0], guide=0.0)[:3], slope(ppo, alone))


def test_calibrl_with_a_full_leak_pushes_by_rareness_whatever_the_expert_says() -> None:
    guided = calibrated([1, 0, 0], leak=1.0) - calibrated([1, 0, 0], guide=0.0)
    expected = 0.1 / 9 * torch.tensor([-2 / 3, 1 / 3, 1 / 3], dtype=torch.float64)
    assert_close(guided[:3], expected[:, None].expand(3, 3))


def test_calibrl_without_leak_nothing_is_pushed_past_the_expert() -> None:
    batch = prepared(methods.calibrl(leak=0.0), beside([1, 0, 0], purpose=Purpose.baseline))
    above = batch.to_padded(batch["token.now.logp"] > batch["token.expert.logp"], False)[:3]
    passed = torch.stack([above[0], ~above[1], ~above[2]])
    guided = (calibrated([1, 0, 0], leak=0.0) - calibrated([1, 0, 0], guide=0.0))[:3]
    assert torch.equal(guided.abs() < 1e-12, passed)


def test_calibrl_never_imitates_on_wrong_rollouts_and_never_trains_the_expert() -> None:
    guided = calibrated([1, 0, 0]) - calibrated([1, 0, 0], guide=0.0)
    assert (guided[0] < 0).all()
    assert (guided[1:3] > 0).all()
    assert not guided[3].any()


@pytest.mark.parametrize("rewards", [[0, 0], [1, 1]])
def test_calibrl_a_group_of_one_outcome_has_no_gradient(rewards: list[int]) -> None:
    assert not calibrated(rewards).any()


@pytest.mark.parametrize(("past_end", "guided"), [("certain", True), ("skip", False)])
def test_calibrl_a_group_without_expert_is_measured_against_certainty_or_not_at_all(
    past_end: str, guided: bool
) -> None:
    columns = {"token.old.logp": torch.full((2, 2), -1.0), "rollout.purpose": torch.tensor([int(Purpose.train)] * 2)}
    found = AlignExpert(past_end=past_end)(Batch.from_padded(torch.ones(2, 2), [0, 0], columns))
    assert not found["token.expert.logp"].any()
    assert found["token.guided"].tolist() == [guided] * 4


def test_calibrl_tokens_past_the_experts_end_can_be_left_out() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 0]])
    whole = beside([1, 0], purpose=Purpose.baseline)
    columns = {c: whole[c] for c in whole.columns if c.startswith("rollout.") and c != "rollout.width"}
    columns |= {c: whole.to_padded(whole[c]) for c in ("token.now.logp", "token.old.logp")}
    batch = Batch.from_padded(mask, [0, 0, 0], columns)
    found = {p: prepared(methods.calibrl(past_end=p), batch) for p in ("certain", "skip")}
    assert found["certain"]["token.guided"][:6].all()
    assert found["certain"]["token.expert.logp"][1:3].tolist() == [0, 0]
    assert found["skip"]["token.guided"][:6].tolist() == [True, False, False] * 2


# -- grao --------------------------------------------------------------------------------------------------------------


def test_grao_without_its_two_extra_parts_is_on_policy_grpo() -> None:
    batch = beside([3.0, 1.0, 2.0], 4.0)
    grpo = methods.grpo(kl=0).with_(advantage=methods.grao().advantage)
    alone = batch.take("rollout", batch["rollout.sampled"])
    on_policy = alone.with_columns({"token.old.logp": alone["token.now.logp"]})
    assert_close(slope(methods.grao(beta=0, lam=0), batch)[:3], slope(grpo, on_policy))


def test_grao_over_the_rollouts_alone_the_last_part_is_the_first_again() -> None:
    batch = beside([3.0, 1.0, 2.0], 4.0)
    both, one = (slope(methods.grao(beta=0, lam=lam), batch) for lam in (0.6, 0.0))
    assert_close(both, 1.6 * one, atol=1e-9, rtol=0)
    inside = beside([3.0, 1.0, 2.0], 4.0, Purpose.train)
    both, one = (slope(methods.grao(beta=0, lam=lam, reference_in_statistics=True), inside) for lam in (0.6, 0.0))
    assert both[3].abs().sum() > 0.01


def test_grao_a_right_reference_is_raised_where_all_rollouts_are_wrong() -> None:
    batch = beside([0, 0, 0, 0], 1.0, Purpose.train)
    found = slope(methods.grao(reference_in_statistics=True, lam=0), batch)
    assert (found[4] < 0).all()
    assert not slope(methods.grpo(kl=0), beside([0, 0, 0, 0], 0.0)).any()


def test_grao_the_references_advantage_falls_as_the_rollouts_get_better() -> None:
    found = []
    for shift in (0.0, 0.5, 1.0, 2.0):
        batch = beside([0.1 + shift, 0.4 + shift, 0.2 + shift], 1.0)
        found.append(float(prepared(methods.grao(), batch)["rollout.advantage"][3]))
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0


# -- runs --------------------------------------------------------------------------------------------------------------


class Silent(Answer):
    """A world that cannot write solutions."""

    name = "silent"

    def size(self, split: str = "train") -> int:
        return 4

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"silent/{split}/{index}", "say yes")

    def grade(self, task: Task, text: str) -> Feedback:
        return Feedback(float("yes" in text), info={"correct": "yes" in text, "answer": text})


@pytest.mark.parametrize("slug", ["hpt", "calibrl", "grao", "likelihood-reward", "spae", "refine"])
def test_a_world_without_solutions_is_refused_before_anything_is_sampled(slug: str) -> None:
    findings = [f.message for f in methods.get(slug).check(Silent.provides) if f.kind == "error"]
    assert any("solution" in m or "right answer" in m for m in findings)


@pytest.mark.parametrize("slug", ["hpt", "calibrl", "grao", "grao@one-group"])
def test_it_trains(slug: str, tmp_path: Path) -> None:
    line = short_run(slug, tmp_path / "run", tasks=2, iterations=2).metrics[-1]
    assert line["grad_norm.policy"] > 0
    assert line["sampler_gap"] < 1e-5  # what nobody sampled is not held against the sampler


def test_a_style_that_the_world_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="no style 'epic'"):
        short_run(methods.hpt(style="epic"), tmp_path / "run")
