"""Runs from start to end on the embedded model: they learn, they resume to the bit, they refuse bad input in words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import podium
from podium.sampler.local import LocalSampler
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.training.build import build_run
from podium.training.config import Config
from podium.training.loop import iterate
from podium.training.stored_config import differing_settings

TINY = {"world": "echo", "level": 1, "tasks": 4, "eval_tasks": 8, "eval_every": 0, "lr": 3e-4}


def small(method: Any = "grpo", **changes: Any) -> Config:
    return configure(podium.methods.get(method, n=4) if isinstance(method, str) else method, **{**TINY, **changes})


def weights(path: Path) -> dict[str, Any]:
    last = RunDirectory(path).checkpoints()[-1]
    return load_file(last / "policy" / "model.safetensors")


def numbers(path: Path) -> list[dict[str, Any]]:
    """Metrics without what a clock measured."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in RunDirectory(path).metrics()]


def test_a_run_writes_what_it_promises(tmp_path: Path) -> None:
    result = train(small(iterations=2), out=tmp_path / "run")
    assert result.finished
    stored = Config.from_yaml((tmp_path / "run/config.yaml").read_text())
    assert differing_settings(small(iterations=2, dtype="float32"), stored) == []
    assert None not in (stored.iterations, stored.tasks, stored.max_tokens, *stored.optimizer.settings().values())
    lines = [json.loads(text) for text in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 1, 2]
    assert {"reward", "pass@1", "entropy", "flat_groups", "length", "loss", "sampler_gap"} <= set(lines[1])
    rows = pq.read_table(tmp_path / "run/rollouts/iteration-000001.parquet").to_pylist()
    assert len(rows) == 4 * 4
    row = rows[0]
    assert len(row["token.id"]) == len(row["token.advantage"]) == len(row["token.sampler.logp"])
    assert {"prompt", "text", "reward", "stop", "task", "correct"} <= set(row)
    policy = podium.evaluate(tmp_path / "run", ks=[1], tasks=4)
    assert 0 <= policy["pass@1"].mean <= 1


def test_a_resumed_run_equals_the_uninterrupted_one_to_the_bit(tmp_path: Path) -> None:
    config = small(iterations=4, checkpoint_every=1, keep_checkpoints=9)
    train(config, out=tmp_path / "whole")
    train(config, out=tmp_path / "cut")
    directory = RunDirectory(tmp_path / "cut")
    for later in directory.checkpoints()[2:]:  # as if killed after iteration 2 had been saved, during iteration 4
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all((whole[k] == cut[k]).all() for k in whole)


def test_a_run_is_resumed_on_another_device(tmp_path: Path) -> None:
    config = small(iterations=4, checkpoint_every=2)
    train(config.replace(iterations=2), out=tmp_path / "half")
    directory = RunDirectory(tmp_path / "half")
    directory.write_config(config.replace(device="cuda:7", dtype="float32").to_yaml())
    with pytest.raises(podium.PodiumError, match="device"):
        resume(tmp_path / "half")
    assert resume(tmp_path / "half", device="cpu").finished


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path: Path) -> None:
    config = small(iterations=2)
    train(config, out=tmp_path / "whole")
    train(config, out=tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut/checkpoints")
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(small(iterations=2, seed=seed), out=tmp_path / name)
    assert numbers(tmp_path / "a") == numbers(tmp_path / "b")
    assert numbers(tmp_path / "a") != numbers(tmp_path / "c")


@pytest.mark.parametrize(
    "method", ["grpo", "rloo", "dapo", "remax", "ppo", "gspo", "reinforce-plus-plus@baseline", "real"]
)
def test_base_methods_train_with_finite_numbers_and_a_gradient(method: str, tmp_path: Path) -> None:
    # Hard enough that groups differ, also for a method that samples at a low temperature.
    result = train(small(podium.methods.get(method, n=4), world="sums", level=3, iterations=2), out=tmp_path / "run")
    last = result.metrics[-1]
    assert last["grad_norm.policy"] > 0
    assert last["rollouts"] >= 16


def test_a_greedy_baseline_beside_a_single_rollout_does_not_alarm_the_sentinel(tmp_path: Path) -> None:
    result = train(small(podium.methods.get("remax", n=1), iterations=2), out=tmp_path / "run")
    assert result.metrics[-1]["sampler_gap"] < 1e-4


def test_a_sampler_with_stale_weights_stops_the_run() -> None:
    run = build_run(small(iterations=2))
    stale = run.policy.frozen_copy()
    run.driver.samplers["policy"] = LocalSampler(stale)
    with torch.no_grad():
        for parameter in run.policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    run.policy.bump()
    with pytest.raises(podium.PodiumError, match="Sampler and trainer disagree"):
        iterate(run)


def test_several_updates_a_batch_leave_the_old_policy_behind(tmp_path: Path) -> None:
    method = podium.methods.get("grpo", n=4, kl=0.0).set("updates.mini_batches", 2).set("updates.epochs", 2)
    result = train(small(method, iterations=1, lr=1e-3), out=tmp_path / "run")
    assert result.metrics[-1]["updates"] == 4
    assert result.metrics[-1]["approx_kl"] != 0


def test_grpo_learns_echo(tmp_path: Path) -> None:
    method = podium.methods.get("grpo", n=8, kl=0.0)
    result = train(small(method, iterations=25, tasks=8, eval_tasks=64, lr=5e-4), out=tmp_path / "run")
    first, last = result.evaluations[0]["eval.pass@1"], result.evaluations[-1]["eval.pass@1"]
    assert last > first + 0.2


# -- bad input -----------------------------------------------------------------------------------------------------


def test_an_existing_run_is_not_overwritten(tmp_path: Path) -> None:
    train(small(iterations=1), out=tmp_path / "run")
    with pytest.raises(podium.PodiumError, match="already holds a run"):
        train(small(iterations=1), out=tmp_path / "run")


def test_a_resume_with_a_changed_config_names_what_changed(tmp_path: Path) -> None:
    train(small(iterations=1), out=tmp_path / "run")
    with pytest.raises(podium.PodiumError, match=r"other settings .*seed"):
        resume(tmp_path / "run", config=small(iterations=1, seed=3))


def test_two_processes_cannot_write_to_one_run(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path / "run")
    first.open()
    with pytest.raises(podium.PodiumError, match="Another process"):
        train(small(iterations=1), out=tmp_path / "run")
    first.close()


def test_an_unknown_setting_of_the_world_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(podium.PodiumError, match=r"a setting 'nois'. Did you mean 'noise'"):
        train("grpo", **{**TINY, "nois": 0.1}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_method_whose_needs_the_world_cannot_meet_is_refused(tmp_path: Path) -> None:
    needy = podium.methods.get("grpo").set("advantage.of", "rollout.nowhere")
    with pytest.raises(podium.PodiumError, match=r"grpo cannot run on echo: .*rollout\.nowhere"):
        train(small(needy), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_world_that_fails_is_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from podium.protocols.world import Answer, Feedback, Task\n"
        "class Mine(Answer):\n"
        "    name = 'mine'\n"
        "    def task(self, index, split='train'):\n"
        "        return Task(f'{split}/{index}', f'echo: {index % 7}')\n"
        "    def grade(self, task, text):\n"
        "        if len(text) % 2:\n"
        "            raise RuntimeError('no verdict')\n"
        "        return Feedback(reward=float(len(text) % 3), info={'correct': True, 'answer': text})\n"
    )
    config = configure(
        podium.methods.get("grpo", n=4), world=f"{file}:Mine", tasks=4, eval_tasks=4, iterations=1, lr=1e-4
    )
    result = train(config, out=tmp_path / "run")
    assert result.metrics[-1]["failures"] > 0
    rows = pq.read_table(tmp_path / "run/rollouts/iteration-000001.parquet").to_pylist()
    assert any("raised RuntimeError: no verdict" in row["failure"] for row in rows)


@pytest.mark.parametrize(("asked", "threads"), [(None, [1]), ("2", [])])
def test_a_small_model_runs_in_one_thread_unless_the_environment_says_otherwise(
    asked: str | None, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    chosen: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", chosen.append)
    build_run(configure("grpo", world="echo"))
    assert chosen == threads


class Stages:
    """A progress that notes what it shows."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, run: object, line: Mapping[str, Any]) -> None:
        self.shown.append(f"iteration {line['iteration']}")

    def stage(self, text: str) -> None:
        self.shown.append(text)


def test_a_progress_is_told_what_the_first_iteration_waits_for(tmp_path: Path) -> None:
    progress = Stages()
    train(small(iterations=1), out=tmp_path / "run", progress=progress)
    world, model, *_, evaluation, before, after = progress.shown
    assert (world, model) == ("Opening the world echo", "Loading podium/tiny")
    assert evaluation.startswith("Evaluating podium/tiny on")
    assert (before, after) == ("iteration 0", "iteration 1")
