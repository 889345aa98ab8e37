"""Runs whose pairs are judged by a model: the folder of another run, the policy itself, and a server that is down."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from podium import methods
from podium.core.errors import PodiumError
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.training.config import Config

SIZES: dict[str, Any] = {"world": "sums", "tasks": 4, "eval_tasks": 2, "eval_samples": 1, "model": "podium/tiny2"}


def small(judge: str, **settings: Any) -> Config:
    method = methods.get("think-rm", judge=judge, scaled=False, judge_tokens=48)
    return configure(method, **{**SIZES, "iterations": 1, "max_tokens": 24, **settings})


def numbers(path: Path) -> list[dict[str, Any]]:
    lines = RunDirectory(path).metrics()
    return [{k: v for k, v in line.items() if not k.startswith(("seconds", "time"))} for line in lines]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that has trained a judge."""
    path = tmp_path_factory.mktemp("judge") / "run"
    method = methods.get("think-rm@short", n=2, imitate=1)
    train(configure(method, **{**SIZES, "world": "verdicts", "iterations": 2, "max_tokens": 60}), out=path)
    return path


def test_a_policy_is_trained_by_the_judge_of_another_run_and_resumes_to_the_bit(judge: Path, tmp_path: Path) -> None:
    whole = train(small(str(judge), iterations=2, checkpoint_every=1), out=tmp_path / "whole")
    lines = [line for line in whole.metrics if "judge.calls" in line]
    assert [line["judge.calls"] for line in lines] == [4 * 6] * 2  # every pair once
    assert lines[0].get("judge.nonsense", 0) < 12  # it mostly writes verdicts
    assert lines[0]["grad_norm.policy"] > 0
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for checkpoint in RunDirectory(tmp_path / "cut").checkpoints()[1:]:
        shutil.rmtree(checkpoint)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut")[-1]["loss"] == numbers(tmp_path / "whole")[-1]["loss"]
    assert numbers(tmp_path / "cut")[-1]["tokens.sampled"] == numbers(tmp_path / "whole")[-1]["tokens.sampled"]


def test_the_policy_judges_itself_by_options(tmp_path: Path) -> None:
    method = methods.get("think-rm", judge="policy", way="options")
    result = train(configure(method, **{**SIZES, "iterations": 1, "max_tokens": 24}), out=tmp_path / "run")
    line = next(line for line in result.metrics if "judge.calls" in line)
    assert (line["judge.calls"], "judge.nonsense" in line) == (24, False)


def test_a_server_that_is_down_stops_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = small(f"http://127.0.0.1:{port}/v1", checkpoint_every=1)
    server = config.method.rollout.judge.asks.replace(retries=0)  # type: ignore[union-attr]
    method = config.method.set("rollout.judge.asks", server)
    with pytest.raises(PodiumError, match="cannot be reached"):
        train(config.replace(method=method), out=tmp_path / "run")
    assert (tmp_path / "run" / "config.yaml").exists()


def test_bad_choices_are_refused() -> None:
    with pytest.raises(PodiumError, match="trains a policy or a judge"):
        methods.get("think-rm", trains="critic")
    with pytest.raises(PodiumError, match="'pairs' or 'points'"):
        methods.get("think-rm", credit="ranks")
