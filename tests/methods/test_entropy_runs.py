"""Entropy methods in the loop: signals, samplers, memories and metrics that they rely on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import podium
from podium import methods
from podium.core import Signal
from podium.core.batch import Batch
from podium.policy import FUNCTIONALS, HeadRows
from podium.protocols.sampling import Warmth
from podium.sampler.capture import capture
from podium.sampler.draw import draw
from podium.training.trainer import Trainer
from tests.methods.catalogue import small
from tests.policy import tiny
from tests.policy.head.test_functionals import rollouts

SMALL: dict[str, Any] = {"world": "echo", "iterations": 2, "tasks": 2, "eval_tasks": 1, "eval_samples": 1}


# -- signals -----------------------------------------------------------------------------------------------------------


def test_a_setting_of_a_signal_may_be_a_column_of_rollouts() -> None:
    batch = Batch.from_rollouts(rollouts())
    power = torch.tensor([0.0, 0.5, 1.0])[torch.arange(len(batch)) % 3]
    batch = batch.with_columns({"rollout.power": power})
    trainer = Trainer({}, {"ref": tiny.policy()})
    by_rollout = Signal("logp", of="ref", power="rollout.power")
    found = trainer.provide(batch, [by_rollout])
    for value in (0.0, 0.5, 1.0):
        same = Signal("logp", of="ref", power=value)
        own = batch.spread(power == value, "rollout", "token")
        torch.testing.assert_close(found[by_rollout][own], trainer.provide(batch, [same])[same][own])


def test_the_entropy_of_the_likeliest_tokens_counts_the_others_as_one() -> None:
    p = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)
    rows = HeadRows(p.log(), torch.tensor([0]), lambda known: known)
    expected = -(0.5 * math.log(0.5) + 0.3 * math.log(0.3) + 0.2 * math.log(0.2))
    assert float(FUNCTIONALS["entropy"](rows, top_k=2)) == pytest.approx(expected)
    assert float(FUNCTIONALS["entropy"](rows, top_k=4)) == pytest.approx(float(FUNCTIONALS["entropy"](rows)))


def test_the_sampler_captures_a_functional_with_settings() -> None:
    drawn = draw(torch.randn(3, 9), torch.rand(3, dtype=torch.float64))
    rows = HeadRows.of(drawn.log_softmax, drawn.probability, drawn.token)
    assert torch.equal(capture("entropy[top_k=2]")(drawn, torch.zeros(9, 2)), FUNCTIONALS["entropy"](rows, top_k=2))


# -- a temperature that follows the entropy ----------------------------------------------------------------------------


def _entropy(log_p: torch.Tensor) -> torch.Tensor:
    return -(log_p.exp() * log_p).sum(-1)


def test_a_warm_sampler_is_hotter_where_it_is_uncertain_and_colder_where_it_is_certain() -> None:
    logits = torch.tensor([[4.0, 0.0, 0.0, 0.0], [0.3, 0.2, 0.1, 0.0]])
    uniform = torch.rand(2, dtype=torch.float64)
    plain = draw(logits, uniform)
    warmth = torch.tensor(Warmth(0.2, math.log(0.7), above=1.0, below=1.0).numbers())[:, None].expand(4, 2)
    warm = draw(logits, uniform, warmth=warmth)
    change = _entropy(warm.log_softmax) - _entropy(plain.log_softmax)
    assert float(change[0]) < 0 < float(change[1])


def test_without_slopes_the_temperature_is_left_alone() -> None:
    logits, uniform = torch.randn(4, 9), torch.rand(4, dtype=torch.float64)
    steady = torch.tensor(Warmth(0.2).numbers())[:, None].expand(4, 4)
    assert torch.equal(draw(logits, uniform, warmth=steady).log_softmax, draw(logits, uniform).log_softmax)


def test_hapo_samples_on_the_scale_of_the_batch_before(tmp_path: Path) -> None:
    method = methods.get("hapo-heterogeneous", n=4, max_length=40, buffer=10)
    first, later = (method.at(podium.Clock(i, x)).rollout for i, x in ((0, {}), (1, {"warmth.above": 0.7})))
    assert first.draw.warmth.above == 0.0  # type: ignore[union-attr]
    assert later.draw.warmth.above == 0.7  # type: ignore[union-attr]
    result = podium.train(method, out=tmp_path / "run", **SMALL)
    assert result.finished


# -- memories and metrics in a run -------------------------------------------------------------------------------------


def test_siren_anchors_to_its_first_batch_and_to_no_later_one(tmp_path: Path) -> None:
    method = methods.get("siren", n=4, mini_batches=2)
    lines = podium.train(method, out=tmp_path / "run", **SMALL | {"iterations": 3}).metrics
    pulls = [line["loss.EntropyTarget"] for line in lines[1:]]
    assert pulls[0] == 0.0
    assert all(pull > 0 for pull in pulls[1:])
    levels = {line["anchor.level"] for line in lines[2:]}
    assert len(levels) == 1


def test_every_update_of_a_control_run_reports_the_bias_of_its_clip(tmp_path: Path) -> None:
    method = methods.get("clip-bias-spurious", n=4, mini_batches=2)
    lines = podium.train(method, out=tmp_path / "run", lr=3e-3, **SMALL).metrics
    assert all(line["clip.bias"] <= 0 for line in lines[1:])


DEGENERATE = [
    "steer",
    "d3s",
    "earl-rtl",
    "entropy-discriminator-clip",
    "entropy-discriminator-clip@clip-v",
    "lp-reg",
    "siren",
    "spine",
    "light-if",
    "light-if@sft",
    "qwenlong-aepo",
    "dcpo-distribution",
    "rapo-forward-kl",
    "hicra",
    "pear",
    "two-stage-negative",
    "invisible-leash",
    "clip-bias-spurious",
]


@pytest.mark.parametrize("slug", DEGENERATE)
def test_cut_off_answers_that_are_all_wrong_train_without_a_nan(slug: str, tmp_path: Path) -> None:
    lines = podium.train(small(slug, n=8), out=tmp_path / "run", max_tokens=1, **SMALL | {"iterations": 1}).metrics
    assert all(math.isfinite(x) for line in lines for x in line.values() if isinstance(x, float))


@pytest.mark.parametrize("slug", ["steer", "spine", "siren", "dcpo-distribution", "pear", "two-stage-negative"])
def test_groups_of_one_train_without_a_nan(slug: str, tmp_path: Path) -> None:
    lines = podium.train(methods.get(slug, n=1), out=tmp_path / "run", **SMALL | {"iterations": 1}).metrics
    assert all(math.isfinite(x) for line in lines for x in line.values() if isinstance(x, float))
