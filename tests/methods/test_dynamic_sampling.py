"""DAPO's remaining pieces in training, and surplus groups that wait: topping up, cutting, carrying over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import decode_state, encode_state
from podium.parts.keep import DropTruncated
from podium.sessions.train import resume
from podium.store.run_directory import RunDirectory
from podium.training.top_up import take_oldest
from tests.conformance.helpers import differentiate
from tests.methods.support import rewards, short_run


def rows(path: Path, iteration: int) -> list[dict[str, Any]]:
    return pq.read_table(path / f"rollouts/iteration-{iteration:06d}.parquet").to_pylist()


def numbers(path: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in RunDirectory(path).metrics()]


def test_dapo_a_higher_upper_clip_keeps_rising_tokens_in_the_gradient_that_ppo_drops() -> None:
    ratio = torch.tensor([[1.1, 1.2001, 1.2799, 1.2801]], dtype=torch.float64)
    zero = torch.zeros_like(ratio)
    columns = {"token.now.logp": ratio.log(), "token.old.logp": zero, "token.advantage": zero + 1}
    batch = Batch.from_padded(torch.ones(1, 4), [0], columns)
    for high, moved in ((0.28, [True, True, True, False]), (0.2, [True, False, False, False])):
        outcome = differentiate(methods.dapo(clip_high=high).objective, batch)
        assert (outcome.grad_logp != 0).tolist() == moved


def test_dapo_tops_up_until_every_group_carries_a_signal_and_cuts_the_surplus(tmp_path: Path) -> None:
    lines = short_run(methods.dapo(n=4), tmp_path / "run", iterations=4).metrics[1:]
    assert max(line["rounds"] for line in lines) > 1
    assert {line["groups"] for line in lines} == {4}
    for iteration in range(1, 5):
        by_task: dict[str, set[float]] = {}
        for row in rows(tmp_path / "run", iteration):
            by_task.setdefault(row["task"], set()).add(row["reward"])
        assert all(len(values) > 1 for values in by_task.values())


def test_dapo_gives_up_in_words_where_no_group_ever_carries_a_signal(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="After 2 rounds no group carries a signal"):
        short_run(methods.dapo(n=2, max_rounds=2), tmp_path / "run", max_tokens=1)


def test_dapo_penalises_long_answers_in_training(tmp_path: Path) -> None:
    lines = short_run(methods.dapo(n=4, max_length=20, buffer=10), tmp_path / "run", iterations=2).metrics[1:]
    assert all(-1 < line["reward.overlong"] < 0 for line in lines)
    lines = short_run(methods.dapo(n=4), tmp_path / "far", iterations=1).metrics[1:]
    assert lines[0]["reward.overlong"] == 0


def test_dapo_can_leave_answers_that_were_cut_off_out_of_the_loss() -> None:
    batch = rewards([1, 0], rollout__truncated=[False, True])
    kept = batch.with_columns(DropTruncated()(batch))
    assert kept.trained("rollout", empty=True).tolist() == [True, False]
    assert methods.dapo(truncated="drop").keep[1] == DropTruncated()
    with pytest.raises(PodiumError, match="truncated = 'hide'"):
        methods.dapo(truncated="hide")


def test_the_oldest_come_first_and_the_rest_waits() -> None:
    assert take_oldest([1, 2, 3], 2) == ([1, 2], [3])
    assert take_oldest([1], 2) == (None, [1])
    assert take_oldest([1], 2, fewer=True) == ([1], [])


def test_surplus_groups_train_in_the_next_batch_and_no_task_trains_twice(tmp_path: Path) -> None:
    path = tmp_path / "run"
    lines = short_run(methods.confucius3_math(n=4, stage=3), path, iterations=6).metrics[1:]
    assert any(line["groups.waiting"] > 0 for line in lines)
    tasks = [{row["task"] for row in rows(path, i)} for i in range(1, 7)]
    assert all(len(t) == 4 for t in tasks)
    assert sum(map(len, tasks)) == len(set().union(*tasks))
    old = [row for i in range(2, 7) for row in rows(path, i) if row["version"] < i - 1]
    assert old  # sampled by earlier weights
    waited = [line["approx_kl"] for line in lines if line["approx_kl"] != 0]
    assert waited  # and weighed by the ratio to them


def test_carrying_over_samples_no_more_than_cutting(tmp_path: Path) -> None:
    method = methods.confucius3_math(n=4, stage=3)
    carried = short_run(method, tmp_path / "carried", iterations=6).metrics[1:]
    cut = short_run(method.set("keep.KeepMixed.carry_over", False), tmp_path / "cut", iterations=6).metrics[1:]
    assert sum(line["rollouts"] for line in carried) <= sum(line["rollouts"] for line in cut)


@pytest.mark.parametrize("slug", ["ngrpo", "confucius3-math@stage-3"])
def test_a_resumed_run_remembers_the_groups_that_wait(slug: str, tmp_path: Path) -> None:
    method = methods.get(slug, n=4)
    for name in ("whole", "cut"):
        short_run(method, tmp_path / name, iterations=6, checkpoint_every=1, keep_checkpoints=9)
    waiting = [line.get("groups.waiting", 0) for line in numbers(tmp_path / "whole")]
    at = next(i for i, n in enumerate(waiting) if n and i < 6)
    for later in RunDirectory(tmp_path / "cut").checkpoints()[at:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_a_batch_can_be_part_of_a_saved_state() -> None:
    batch = rewards([1, 0], [0], rollout__answer=("a", "b", "c"), rollout__keep=[True, False, True])
    tensors: dict[str, torch.Tensor] = {}
    again = decode_state(encode_state({"groups": batch}, tensors, "x"), tensors)["groups"]
    assert isinstance(again, Batch)
    assert again.columns == batch.columns
    assert all(
        torch.equal(again[c], batch[c]) if isinstance(batch[c], torch.Tensor) else again[c] == batch[c]
        for c in batch.columns
    )
    assert again["group.task"].tolist() == [0, 1] if isinstance(again["group.task"], torch.Tensor) else True
