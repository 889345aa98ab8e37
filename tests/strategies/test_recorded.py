"""Recorded rollouts come in by the same door as sampled ones: demonstrations and what a run has logged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import podium
from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.method import Method, Phases
from podium.parts.advantage import PairwiseDifferences
from podium.parts.objective import Likelihood, PolicyGradient
from podium.parts.shape import SamplerCorrection
from podium.sessions.train import configure, resume, train
from podium.strategies import Recorded, Sample
from podium.strategies.requests import Plan, TaskRequest
from podium.training.build import build_run
from podium.training.loop import iterate
from tests.sessions.test_train import numbers, small


def demonstrations(path: Path, count: int = 32, **more: Any) -> Path:
    """Solutions that the world writes of its own tasks."""
    world = worlds.get("echo", level=1)
    tasks = [world.task(i) for i in range(count)]
    rows = [{"prompt": t.prompt, "completion": world.solve(t), **more} for t in tasks]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def imitation(source: Path, **settings: Any) -> Method:
    return Method("imitation", rollout=Recorded(str(source), **settings), objective=(Likelihood(),))


def gathered(method: Method, groups: int) -> Batch:
    run = build_run(small(method, tasks=groups))
    plans = [run.config.method.rollout.plan(r) for r in run.requests(run.begin(), groups)]
    return Batch.from_rollouts([r for g in run.driver.collect(plans) for r in g])


def test_imitating_recorded_solutions_learns_the_task(tmp_path: Path) -> None:
    method = imitation(demonstrations(tmp_path / "demos.jsonl", 256))
    result = train(small(method, iterations=15, tasks=16, eval_tasks=64, lr=1e-3), out=tmp_path / "run")
    first, last = result.evaluations[0]["eval.pass@1"], result.evaluations[-1]["eval.pass@1"]
    assert last > first + 0.2
    assert result.metrics[-1]["loss"] < result.metrics[1]["loss"]


def test_a_text_is_encoded_once_with_its_end_and_marked_as_not_sampled(tmp_path: Path) -> None:
    method = imitation(demonstrations(tmp_path / "demos.jsonl", 8))
    batch = gathered(method, 8)
    policy = build_run(small(method)).policy
    assert len(set(batch["group.task"])) == 8  # each once in a pass
    assert (batch["token.origin"] == Origin.expert).all()
    assert (batch["rollout.purpose"] == Purpose.demo).all()
    assert batch.trained("token").all()
    lengths = batch.partition("token", "rollout").lengths().tolist()
    for ids, text in zip(batch["token.id"].split(lengths), batch["rollout.text"], strict=True):
        assert tuple(ids.tolist()) == policy.written(text)


def test_rows_of_one_task_are_a_group_with_their_rewards(tmp_path: Path) -> None:
    file = tmp_path / "logged.jsonl"
    rows = [("echo: a", "answer: a", 1), ("echo: b", "answer: b", 1), ("echo: a", "answer: b", 0)]
    file.write_text("".join(json.dumps({"question": q, "response": t, "reward": r}) + "\n" for q, t, r in rows))
    batch = gathered(imitation(file, purpose="train"), 2)
    assert batch.size("group") == 2
    assert sorted(zip(batch["rollout.text"], batch["rollout.reward"].tolist(), strict=True)) == [
        ("answer: a", 1.0),
        ("answer: b", 0.0),
        ("answer: b", 1.0),
    ]
    assert len(gathered(imitation(file, purpose="train", n=1), 2)) == 2


def test_every_pass_has_every_group_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    tasks = gathered(imitation(demonstrations(tmp_path / "demos.jsonl", 6)), 18)["rollout.prompt"]
    passes = [tasks[i : i + 6] for i in (0, 6, 12)]
    assert all(len(set(p)) == 6 for p in passes)
    assert len(set(passes)) > 1


def test_a_runs_rollouts_are_replayed_token_by_token(tmp_path: Path) -> None:
    train(small(iterations=2), out=tmp_path / "run")
    logged = [
        row for i in (1, 2) for row in pq.read_table(tmp_path / f"run/rollouts/iteration-{i:06d}.parquet").to_pylist()
    ]
    batch = gathered(imitation(tmp_path / "run", purpose="train"), 8)
    assert batch.size("group") == 8
    assert (batch["token.origin"] == Origin.copied).all()
    lengths = batch.partition("token", "rollout").lengths().tolist()
    mine = {
        (tuple(i.tolist()), tuple(p.tolist()), r)
        for i, p, r in zip(
            batch["token.id"].split(lengths),
            batch["token.sampler.logp"].split(lengths),
            batch["rollout.reward"].tolist(),
            strict=True,
        )
    }
    assert mine == {
        (tuple(r["token.id"]), tuple(torch.tensor(r["token.sampler.logp"]).tolist()), r["reward"]) for r in logged
    }


TURNS = """
from podium.protocols.world import Episode, Feedback, Task, World

class Turns(World):
    name = "turns"
    max_tokens = 6

    def task(self, index, split="train"):
        return Task(f"turns/{split}/{index}", f"echo: {index}")

    def reset(self, task, seed=0):
        return Two(task.prompt, state="begin")

class Two(Episode):
    def act(self, text):
        done, self.state = self.state == "again", "again"
        return Feedback(float(len(text)), done=done, observation="echo: 7", state="again")
"""


def test_several_turns_are_replayed_with_their_contexts_states_and_rewards(tmp_path: Path) -> None:
    (tmp_path / "turns.py").write_text(TURNS)
    world = {"world": f"{tmp_path / 'turns.py'}:Turns", "world_settings": None, "tasks": 2, "eval_tasks": 1}
    config = configure(methods.get("grpo", n=2), **world, iterations=1)
    run = build_run(config)
    original, _ = iterate(run)
    train(config, out=tmp_path / "run")
    method = imitation(tmp_path / "run", purpose="train")
    again = build_run(configure(method, **world))
    plans = [method.rollout.plan(r) for r in again.requests(again.begin(), 2)]
    batch = Batch.from_rollouts([r for g in again.driver.collect(plans) for r in g])
    assert batch.size("turn") == 8

    def turns(b: Batch) -> set[Any]:
        columns = ("turn.context", "turn.train_context", "turn.reward", "turn.state", "turn.next_state", "turn.action")
        values = [
            v.tolist() if isinstance(v, torch.Tensor) else [_plain(x) for x in v] for v in map(b.__getitem__, columns)
        ]
        return set(zip(*values, strict=True))

    assert turns(batch) == turns(original)


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else tuple(value)


def test_logged_rollouts_train_off_policy_with_the_correction_of_their_time(tmp_path: Path) -> None:
    train(small(iterations=1), out=tmp_path / "log")
    method = methods.get("grpo", n=4, kl=0.0) | Recorded(str(tmp_path / "log"), purpose="train") | SamplerCorrection()
    result = train(small(method, iterations=2, lr=1e-3), out=tmp_path / "run")
    first, second = result.metrics[1:]
    assert first["weight.importance"] == pytest.approx(1.0, abs=1e-4)  # the policy that wrote them
    assert second["weight.importance"] != pytest.approx(1.0, abs=1e-4)  # it has moved on since
    assert first["grad_norm.policy"] > 0
    assert isinstance(method.objective[0], PolicyGradient)


def test_imitation_first_and_reinforcement_then_resumes_to_the_bit(tmp_path: Path) -> None:
    import shutil

    from podium.store.run_directory import RunDirectory

    course = Phases(imitation(demonstrations(tmp_path / "demos.jsonl")).until(2), methods.get("grpo", n=4))
    config = small(course, iterations=4, checkpoint_every=1, keep_checkpoints=9)
    train(config, out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[1:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "has no rows"),
        ('{"prompt": "a"}\n', "line 1: none of the fields completion"),
        ('{"completion": "a"}\n', "line 1: none of the fields prompt"),
        ('{"prompt": "a", "text": "b"}\n{"prompt"', "line 2: not JSON"),
        ('{"prompt": "a", "text": "b", "reward": "good"}\n', "line 1: the reward is 'good'"),
        ('{"prompt": "a", "text": "b", "reward": NaN}\n', "line 1: NaN is no value of JSON"),
    ],
)
def test_a_bad_file_is_refused_with_its_line_before_anything_is_sampled(
    tmp_path: Path, content: str, words: str
) -> None:
    file = tmp_path / "demos.jsonl"
    file.write_text(content)
    with pytest.raises(PodiumError, match=words):
        train(small(imitation(file)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_text_longer_than_the_context_is_named(tmp_path: Path) -> None:
    file = tmp_path / "demos.jsonl"
    file.write_text(json.dumps({"task": "long", "prompt": "echo: a", "text": "answer: a " * 2000}) + "\n")
    with pytest.raises(PodiumError, match=r"^The text given for 'long' has \d+ tokens with its prompt, more than"):
        gathered(imitation(file), 1)


def test_what_is_no_recording_is_said(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="There is no file"):
        train(small(imitation(tmp_path / "none.jsonl")), out=tmp_path / "run")
    with pytest.raises(PodiumError, match="has no rollouts"):
        train(small(imitation(tmp_path)), out=tmp_path / "run")
    (tmp_path / "x.parquet").write_text("not parquet")
    with pytest.raises(PodiumError, match=r"x.parquet is damaged"):
        train(small(imitation(tmp_path / "x.parquet")), out=tmp_path / "run")


def test_rollouts_of_a_model_with_other_tokens_are_refused(tmp_path: Path) -> None:
    from tests.policy import tiny

    train(small(iterations=1), out=tmp_path / "run")
    other = tiny.directory(tmp_path / "model")
    with pytest.raises(PodiumError, match="a model with other tokens"):
        train(small(imitation(tmp_path / "run"), model=str(other)), out=tmp_path / "other")


def test_it_round_trips_with_its_method(tmp_path: Path) -> None:
    method = imitation(tmp_path / "demos.jsonl", n=2)
    assert podium.Method.from_yaml(method.to_yaml()) == method


class Paired(Sample):
    """Four rollouts of each task, each compared with the next by the lengths of their texts."""

    n: int = 4
    provides = ("pair.difference",)

    def plan(self, task: TaskRequest) -> Plan:
        rollouts = yield from super().plan(task)
        lengths = [float(len(str(r.columns["text"]))) for r in rollouts]
        return [
            dataclasses.replace(
                r,
                pairs={
                    "right": [i + 1] if i < 3 else [],
                    "difference": [lengths[i] - lengths[i + 1]] if i < 3 else [],
                },
            )
            for i, r in enumerate(rollouts)
        ]


def test_verdicts_on_pairs_are_logged_and_replayed_with_their_rollouts(tmp_path: Path) -> None:
    method = Method("paired", rollout=Paired(), objective=(Likelihood(),), advantage=PairwiseDifferences())
    train(small(method, iterations=1, tasks=4), out=tmp_path / "run")
    rows = pq.read_table(tmp_path / "run/rollouts/iteration-000001.parquet").to_pylist()
    logged = {(row["group"], row["index"], right) for row in rows for right in row["pair.right"]}
    assert logged == {(group, index, index + 1) for group in range(4) for index in range(3)}
    replayed = Method("replay", rollout=Recorded(str(tmp_path / "run"), n=3, pairs=True), objective=(Likelihood(),))
    batch = gathered(replayed, 4)
    pair, index = batch.relation("pair"), batch["rollout.index"]
    assert (
        sorted(zip(index[pair.left].tolist(), index[pair.right].tolist(), strict=True)) == [(0, 1)] * 4 + [(1, 2)] * 4
    )
    lengths = torch.tensor([float(len(text)) for text in batch["rollout.text"]])
    assert torch.equal(pair["difference"], lengths[pair.left] - lengths[pair.right])
    plain = Method("replay", rollout=Recorded(str(tmp_path / "run")), objective=(Likelihood(),))
    assert gathered(plain, 4).relations == ()


def test_a_run_without_verdicts_is_refused_where_pairs_are_wanted(tmp_path: Path) -> None:
    source = demonstrations(tmp_path / "demos.jsonl", 4)
    with pytest.raises(PodiumError, match="has no verdicts on pairs: give a run whose judge compared rollouts"):
        train(small(imitation(source, pairs=True)), out=tmp_path / "run")
