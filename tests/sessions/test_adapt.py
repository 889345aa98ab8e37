"""Adapting to one held-out task at a time."""

import json

import pytest

from podium import methods
from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.sessions.adapt import adapt
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.training.snapshot import RunSnapshot

NOISY = {"world": "digits", "world_settings": {"level": 1, "shift": "noise", "strength": 0.4}, "model": "podium/tiny2"}


def test_a_snapshot_brings_everything_back_bit_for_bit():
    run = build_run(configure(methods.rlcf(views=2, share=0.5), tasks=1, iterations=3, pool=1, eval_every=0, **NOISY))
    iterate(run)
    state = RunSnapshot.of(run)
    iterate(run)
    once = RunSnapshot.of(run)
    assert not state.holds(run)
    state.restore(run)
    assert state.holds(run)
    assert run.iteration == 1
    iterate(run)
    assert once.holds(run)  # optimiser and memories were those of before, too
    run.close()


def test_weights_are_back_after_each_task_and_its_answer_is_read_before():
    found = adapt(methods.rlcf(views=1, share=1.0), tasks=3, steps=2, lr=1e-3, **NOISY)
    assert found.restored
    assert len(found.tasks) == 3
    alone = adapt(methods.rlcf(views=1, share=1.0), tasks=1, first=2, steps=2, lr=1e-3, **NOISY)
    assert alone.tasks[0] == found.tasks[2]  # what was adapted to before has left no trace


def test_other_methods_without_labels_adapt_too():
    method = methods.ttrl(votes=8, mini_batches=1, kl=0.0)
    found = adapt(method, tasks=1, steps=1, world="sums", level=1)
    assert found.restored


def test_a_method_that_reads_the_answer_is_refused():
    with pytest.raises(PodiumError, match="right answer to the task"):
        adapt("grpo", world="sums", tasks=1)


def test_command(tmp_path, capsys):
    out = tmp_path / "answers.json"
    words = ["adapt", "rlcf", "--tasks", "2", "--steps", "1"]
    assert main([*words, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "bit for bit" in shown
    assert len(json.loads(out.read_text())["tasks"]) == 2
    assert main([*words, "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
