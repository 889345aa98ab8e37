"""Recorded batches replayed: the same numbers as in training, and what tells methods apart."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

import podium
from podium.analysis.token_effects import effective_size
from podium.cli import main
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.gradient import backward
from podium.sessions.replay_batches import RecordedBatches, open_replay, replay
from podium.store.tables import read_rows, rollout_files
from podium.training.live_parts import live_parts, signals_before_updates

METHODS = ("grpo", "gspo", "ngrpo", "cispo")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three iterations of GRPO on hard sums, so that some groups are flat."""
    path = tmp_path_factory.mktemp("replay") / "run"
    podium.train("grpo", world="sums", level=4, iterations=3, tasks=8, eval_tasks=2, eval_every=0, out=path)
    return path


@pytest.fixture(scope="module")
def opened(run: Path) -> Iterator[RecordedBatches]:
    with open_replay(run, METHODS, at="checkpoint") as replayed:
        yield replayed


def test_the_credit_of_the_run_s_own_method_is_the_recorded_one(run: Path) -> None:
    with open_replay(run, []) as own:
        for number in own.files:
            rows = own.rows(number)
            effects, _ = own.methods[0].effects(own.batch(rows))
            recorded = torch.tensor([x for row in rows for x in row["token.advantage"]])
            torch.testing.assert_close(effects.credit.float(), recorded, rtol=0, atol=0)
            torch.testing.assert_close(effects.ratio, torch.ones_like(effects.ratio))


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_the_gradient_is_that_of_the_code_that_trains(opened: RecordedBatches, number: int) -> None:
    replayed, sampled = opened.methods[number], opened.batch(opened.rows(3))
    *_, gradient = replayed.gradient(sampled)
    method, batch, _ = replayed.credited(sampled)
    trainer, live = replayed.run.trainer, live_parts(method)
    batch = trainer.provide(batch, signals_before_updates(method, live))
    backward(method.objective, batch, partial(trainer._forward, "policy", None), trainer.split(batch), live)
    weights = list(replayed.run.policy.parameters())
    expected = torch.cat([p.grad.reshape(-1) for p in weights if p.grad is not None])
    for p in weights:
        p.grad = None
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))


def test_a_token_beyond_the_clip_gets_no_push_from_the_policy_gradient(opened: RecordedBatches) -> None:
    grpo = opened.methods[0]
    effects, _ = grpo.effects(opened.batch(opened.rows(1)))
    push, credit = effects.pushes["objective.PolicyGradient"], effects.credit
    beyond = ((effects.ratio > 1.2) & (credit > 0)) | ((effects.ratio < 0.8) & (credit < 0))
    assert bool(beyond.any())
    assert bool((push[beyond] == 0).all())
    inside = (credit != 0) & ~beyond
    assert bool((push[inside].sign() == credit[inside].sign()).all())


def test_only_a_virtual_success_rescues_groups_that_are_all_wrong(run: Path) -> None:
    figures = replay(run, ["grpo", "ngrpo"])
    assert figures["methods"]["grpo"]["flat"] > 0
    assert figures["methods"]["grpo"]["rescued"] == 0
    assert figures["methods"]["ngrpo"]["rescued"] == figures["methods"]["ngrpo"]["flat"]
    assert figures["methods"]["ngrpo"]["touched"] > figures["methods"]["grpo"]["touched"]
    (row,) = figures["cosines"]
    assert 0.3 < row["mean"] < 1
    assert figures["iterations"] == [1, 2, 3]


def test_methods_that_differ_in_scale_alone_have_one_direction(run: Path) -> None:
    # Both weigh tokens by reward minus the group's mean; gpg divides by the share of informative groups.
    (row,) = replay(run, ["gpg", "dr-grpo"], batches=1)["cosines"]
    assert row["mean"] == pytest.approx(1.0, abs=0.05)


def test_effective_size_counts_the_rollouts_that_pull() -> None:
    batch = Batch.from_padded(torch.ones(4, 1), [0, 0, 0, 0])
    tokens = batch.size("token")
    assert effective_size(torch.ones(tokens), batch) == pytest.approx(4)
    assert effective_size(torch.tensor([2.0, 0, 0, 0]), batch) == pytest.approx(1)
    assert effective_size(torch.tensor([1.0, -1.0, 0, 0]), batch) == pytest.approx(2)
    assert effective_size(torch.zeros(tokens), batch) == 0


def test_a_method_that_needs_other_rollouts_is_refused_by_name(run: Path) -> None:
    with pytest.raises(PodiumError, match="spo cannot be replayed"):
        replay(run, ["spo"])


def test_the_command_prints_a_table_and_takes_methods_in_a_row(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(run), "--methods", "grpo", "gspo", "--batches", "1"]) == 0
    out = capsys.readouterr().out
    assert "iterations 3 to 3" in out
    assert "Cosine between gradients" in out
    assert main(["replay", str(run), "--methods", "grpoo"]) == 2
    assert "grpo" in capsys.readouterr().err


def test_replay_writes_nothing(run: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in run.rglob("*") if file.is_file()}
    replay(run, ["grpo"], batches=1)
    assert {file: file.stat().st_mtime_ns for file in run.rglob("*") if file.is_file()} == before
    assert read_rows(rollout_files(run)[1])
