"""Roles that terms train: each a learner with an optimiser of its own, saved with the run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from podium import methods
from podium.method import Method
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.training.build import build_run
from podium.training.config import Optimizer

SMALL: dict[str, Any] = {"world": "sums", "level": 3, "tasks": 4, "eval_tasks": 2, "eval_samples": 1, "eval_every": 0}


def numbers(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "check")} for line in lines]


def test_who_is_a_learner_follows_from_the_terms() -> None:
    run = build_run(configure("implicit-prm", world="sums"))
    assert set(run.trainer.learners) == {"policy", "reward_model"}
    assert set(run.trainer.roles) == {"ref"}
    model, policy = (run.trainer.learners[name].policy for name in ("reward_model", "policy"))
    assert all(p.requires_grad for p in model.parameters())
    ours, theirs = dict(model.named_parameters()), dict(policy.named_parameters())
    assert all(bool((ours[k] == theirs[k]).all()) and ours[k] is not theirs[k] for k in theirs)


@pytest.mark.parametrize(
    "method", [methods.implicit_prm(), methods.tppo(window=8), methods.safe_control(), methods.verl_effective_rank(n=4)]
)
def test_learners_and_memories_resume_to_the_bit(method: Method, tmp_path: Path) -> None:
    config = configure(method, iterations=4, checkpoint_every=1, keep_checkpoints=9, **SMALL)
    train(config, out=tmp_path / "whole")
    train(config, out=tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[2:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_a_fresh_optimiser_warms_up_again_and_decays_over_what_is_left() -> None:
    run = build_run(configure("rloo", world="sums", optimizer=Optimizer(warmup=2, schedule="linear", lr=1.0)))
    learner = run.trainer.learners["policy"]
    assert [learner.rate(10), learner.since] == [0.5, 0]
    learner.updates = 5
    assert learner.rate(10) == pytest.approx(0.5)
    run.trainer.begin_phase()
    assert learner.rate(10) == pytest.approx(0.5)
    run.trainer.begin_phase(fresh=True)
    assert learner.rate(10) == pytest.approx(0.5)  # the first update of a warm-up of 2
    learner.updates = 6
    assert learner.rate(10) == pytest.approx(1 - 1 / 5)  # one of the five updates that are left is done
