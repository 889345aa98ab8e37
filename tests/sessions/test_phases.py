"""A run with a method in phases: it changes over when it should, and resumes to the bit before and after that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import podium
from podium import methods
from podium.cli import main
from podium.core.errors import PodiumError
from podium.core.schedule import Linear
from podium.core.shares import ShareOfRun
from podium.method import Alternate, Phase, Phases, Reached
from podium.parts.objective import Entropy
from podium.sessions.compare import compare
from podium.sessions.train import resume, train
from podium.store.json_lines import read_object
from podium.store.run_directory import RunDirectory
from podium.training.config import Config, Optimizer
from tests.sessions.test_train import numbers, small, weights

GRPO = methods.get("grpo", n=4)
RLOO = methods.get("rloo", n=4) | Entropy(coefficient=Linear(0.0, 0.01, over=4))
PPO = methods.get("ppo", n=2)
COURSE = Phases(GRPO.until(Reached("reward", above=-1.0, times=2)), Alternate(RLOO, PPO))


def test_phases_change_over_and_resume_to_the_bit(tmp_path: Path) -> None:
    config = small(COURSE, iterations=5, checkpoint_every=1, keep_checkpoints=9)
    assert Config.from_yaml(config.to_yaml()) == config
    result = train(config, out=tmp_path / "whole")
    lines = result.metrics[1:]
    assert [line["phase"] for line in lines] == [0, 0, 1, 1, 1]
    assert [line["rollouts"] for line in lines] == [16, 16, 16, 8, 16]
    assert ["grad_norm.critic" in line for line in lines] == [False, False, False, True, False]
    for done in (1, 2, 3, 4):  # killed before, at and after the change, and between two turns
        shutil.copytree(tmp_path / "whole", tmp_path / f"cut-{done}")
        for later in RunDirectory(tmp_path / f"cut-{done}").checkpoints()[done:]:
            shutil.rmtree(later)
        resume(tmp_path / f"cut-{done}", config=config)
        assert numbers(tmp_path / f"cut-{done}") == numbers(tmp_path / "whole")
        whole, cut = weights(tmp_path / "whole"), weights(tmp_path / f"cut-{done}")
        assert all((whole[k] == cut[k]).all() for k in whole)


def test_a_later_phase_that_cannot_run_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    needy = RLOO.replace(name="needy").set("advantage.of", "rollout.nowhere")
    with pytest.raises(PodiumError, match=r"needy: .*rollout\.nowhere"):
        train(small(Phases(GRPO.until(1), needy)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_temperature_that_changes_is_the_trainers_too(tmp_path: Path) -> None:
    method = GRPO.set("rollout.draw.temperature", Linear(1.0, 0.5, over=2))
    result = train(small(method, iterations=3), out=tmp_path / "run")
    assert all(line["sampler_gap"] < 1e-4 for line in result.metrics[1:])


def test_a_run_without_a_name_gets_a_path_without_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = podium.train(Phases(GRPO.until(1), RLOO), world="echo", iterations=1, tasks=2, eval_tasks=2)
    assert result.path.name.startswith("grpo-then-rloo-echo-")


def test_a_course_is_typed_as_a_file_with_changes_to_one_of_its_methods(tmp_path: Path) -> None:
    (tmp_path / "course.yaml").write_text(Phases(GRPO.until(1), RLOO).to_yaml())
    few = ["--set", "tasks=2", "--set", "eval_tasks=1", "--set", "1.rollout.n=3"]
    out = tmp_path / "run"
    assert (
        main(["train", str(tmp_path / "course.yaml"), "--world", "echo", "--iterations", "2", "--out", str(out), *few])
        == 0
    )
    assert [line["rollouts"] for line in numbers(out)[1:]] == [8, 6]
    again = ["--config", str(out / "config.yaml"), "--set", "0.rollout.n=2", "--out", str(tmp_path / "again")]
    assert main(["train", *again]) == 0
    assert [line["rollouts"] for line in numbers(tmp_path / "again")[1:]] == [4, 6]


def test_a_fresh_phase_begins_with_new_moments_and_warm_up_and_resumes_to_the_bit(tmp_path: Path) -> None:
    warm = Optimizer(warmup=2, schedule="linear", lr=1e-3)
    course = Phases(RLOO.until(2), Phase(RLOO.replace(name="again"), fresh=True))
    config = small(course, iterations=5, checkpoint_every=1, keep_checkpoints=9, optimizer=warm)
    assert Config.from_yaml(config.to_yaml()) == config
    train(config, out=tmp_path / "whole")
    saved = [read_object(file / "state.json") for file in RunDirectory(tmp_path / "whole").checkpoints()]
    counts = [state["learners"]["policy"] for state in saved]
    assert counts == [{"updates": 2}, *({"updates": n, "since": 4} for n in (4, 6, 8, 10))]
    for done in (1, 2, 3):  # killed before, at and after the change
        shutil.copytree(tmp_path / "whole", tmp_path / f"cut-{done}")
        for later in RunDirectory(tmp_path / f"cut-{done}").checkpoints()[done:]:
            shutil.rmtree(later)
        resume(tmp_path / f"cut-{done}", config=config)
        assert numbers(tmp_path / f"cut-{done}") == numbers(tmp_path / "whole")
        whole, cut = weights(tmp_path / "whole"), weights(tmp_path / f"cut-{done}")
        assert all((whole[k] == cut[k]).all() for k in whole)
    train(config.replace(method=Phases(*(phase.replace(fresh=False) for phase in course.phases))), out=tmp_path / "old")
    kept = weights(tmp_path / "old")
    assert any((whole[k] != kept[k]).any() for k in whole)


def test_stages_are_as_long_for_every_method_of_a_comparison(tmp_path: Path) -> None:
    staged = Phases(methods.get("grpo", kl=0.0).until(ShareOfRun(0.5)), methods.get("rloo")).replace(name="staged")
    small_run = {"world": "echo", "iterations": 2, "tasks": 2, "eval_tasks": 1, "max_tokens": 8}
    found = compare(["reinforce", staged], seeds=1, n=2, out=tmp_path, **small_run)
    (run,) = found.rows[1].results
    assert [line["phase"] for line in run.metrics if "phase" in line][:2] == [0, 1]
