"""Every method learns the identity task within seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podium import worlds
from podium.methods.catalogue import RECIPES
from podium.sessions.train import configure, train
from tests.methods.catalogue import errors, lines, small

ECHO, HARDER = worlds.get("echo", level=2), worlds.get("echo", level=3)
# What is not meant to raise this reward: it learns from texts, from coins, for several rewards, from a reward
# model (which a single iteration of feedback has not taught yet), in words that podium/tiny does not know, or it is a
# measurement.
ELSEWHERE = {
    *("refine", "clip-bias-spurious", "invisible-leash", "sft", "dpa", "causalrm", "training-free-grpo", "knowrl"),
}
# Those whose signal is weak or whose updates are many get more rollouts and smaller steps.
GENTLE: Mapping[str, Any] = {"tasks": 32, "lr": 1e-4, "iterations": 20}
BRISK: Mapping[str, Any] = {"tasks": 12, "lr": 3e-4, "iterations": 12}
MANY: Mapping[str, Any] = {"tasks": 12, "lr": 1e-4, "iterations": 12}  # for sixteen updates a batch
# Two terms are balanced for answers of thousands of tokens; here they have ten.
SHORT: Mapping[str, Mapping[str, float]] = {
    "light-if": {"objective.CovarianceEntropy.scale": 0.05},
    "siren": {"objective.EntropyTarget.coefficient": 2e-5},
}
WEAK = {
    "copo",
    "implicit-prm",
    "remax",
    "riskpo",
    "ppo",
    "safe-control",
    "two-stage-negative",
    "d3s",
    "reinforce-plus-plus",
    "rose",
}
# Those that sample below temperature 1 begin at 0.8 on level 2, which leaves little to learn.
COOL = {"drpo", "grao", "qwenlong-aepo", "real", "rover"}
# Those that learn from the world's own right and wrong answers sample nothing in training.
PAIRED = ("dpo", "ipo", "kto", "power-dl")
SLUGS = [slug for slug in RECIPES if slug not in ELSEWHERE.union(PAIRED) and not errors(small(slug), ECHO)]


@pytest.mark.parametrize("slug", SLUGS)
def test_the_share_of_right_answers_rises(slug: str) -> None:
    method = small(slug, n=2 if slug == "seele" else 8)  # of which seele has four rounds
    for path, value in SHORT.get(slug, {}).items():
        method = method.set(path, value)
    pace = MANY if slug == "siren" else GENTLE if slug in WEAK | COOL else BRISK
    rates = [line["pass@1"] for line in lines(method, HARDER if slug in COOL else ECHO, **pace)]
    before, after = sum(rates[:2]) / 2, sum(rates[-3:]) / 3
    assert after >= min(before + 0.1, 0.9), f"{slug} went from {before:.2f} to {after:.2f}"


@pytest.mark.parametrize("slug", PAIRED)
def test_the_share_of_right_held_out_answers_rises(slug: str, tmp_path: Path) -> None:
    config = configure(slug, world=ECHO, tasks=16, iterations=12, lr=1e-4, eval_tasks=64, eval_every=12)
    rates = [line["eval.pass@1"] for line in train(config, out=tmp_path / "run").metrics if "eval.pass@1" in line]
    assert rates[-1] >= rates[0] + 0.1
