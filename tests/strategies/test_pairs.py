"""Pairs from a file, from a world's own attempts, from samples, and from exact walks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.parts.keep import KeepExtremes
from podium.sessions.train import configure, train
from podium.strategies import AttemptedPairs, RecordedPairs, WalkedSegments
from podium.training.build import build_run
from podium.training.loop import collect_round
from podium.training.metrics import Metrics


def collected(method: Any, **settings: Any) -> Batch:
    """The batch of the first iteration, before anything is trained."""
    run = build_run(configure(method, **{"iterations": 1, "tasks": 6, "eval_tasks": 1, "world": "sums", **settings}))
    batch = collect_round(run, run.begin(), Metrics())
    run.close()
    return batch


def written(tmp_path: Path, rows: Sequence[dict[str, Any]]) -> str:
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


TALK = [
    {"role": "user", "content": "3 + 4"},
    {"role": "assistant", "content": "answer: 7"},
    {"role": "user", "content": "and 1 more"},
]


def answered(text: str) -> list[dict[str, str]]:
    return [*TALK, {"role": "assistant", "content": text}]


def test_a_file_gives_pairs_with_rewards_and_trains_only_the_last_answer(tmp_path: Path) -> None:
    rows = [{"prompt": "2 + 2", "chosen": "answer: 4", "rejected": "answer: 5"}]
    talk = {"chosen": answered("answer: 8"), "rejected": answered("answer: 9")}
    batch = collected(methods.get("dpo", source=written(tmp_path, [*rows, talk])), tasks=2)
    assert batch["rollout.reward"].tolist() == [1.0, 0.0, 1.0, 0.0]
    names = [name.rpartition(", ")[2] for name in batch["group.task"]]
    assert sorted(names) == ["line 1", "line 2"]
    conversation = names.index("line 2")
    of = batch.take("group", torch.tensor([conversation]))
    assert of.size("turn") == 4
    trained = of.partition("token", "turn").agg.any(of.trained("token")).tolist()
    assert trained == [False, True, False, True]


def test_every_pair_comes_once_in_an_epoch(tmp_path: Path) -> None:
    rows = [{"prompt": f"{i} + 1", "chosen": f"answer: {i + 1}", "rejected": "answer: 0"} for i in range(6)]
    batch = collected(methods.get("ipo", source=written(tmp_path, rows)), tasks=6)
    assert len(set(batch["group.task"])) == 6


def test_soft_labels_of_a_file_reach_the_loss(tmp_path: Path) -> None:
    rows = [{"prompt": "1 + 1", "chosen": "answer: 2", "rejected": "answer: 0", "sure": 0.75}]
    method = methods.get("dpo", source=written(tmp_path, rows), labels="sure")
    assert collected(method, tasks=1)["rollout.label"].tolist() == [0.75, 0.75]
    assert method.objective[0].label == "rollout.label"


def test_rows_left_out_are_counted(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "chosen": "b", "rejected": other} for other in ("b", "c")]
    (note,) = RecordedPairs(written(tmp_path, rows), skip=True).prepare()
    assert "1 of 2 rows with empty or equal answers are left out" in note
    with pytest.raises(PodiumError, match=r"line 1: .* the same text"):
        RecordedPairs(written(tmp_path, rows)).prepare()


def test_answers_without_a_pair_train_kto(tmp_path: Path) -> None:
    rows = [
        {"prompt": "1 + 1", "completion": "answer: 2", "label": True},
        {"prompt": "1 + 2", "completion": "answer: 2", "label": False},
    ]
    method = methods.get("kto", source=written(tmp_path, rows))
    result = train(configure(method, world="sums", iterations=2, tasks=2, eval_tasks=1), out=tmp_path / "run")
    assert all(np.isfinite(line["loss"]) for line in result.metrics[1:])
    unpaired = methods.get("dpo", source=written(tmp_path, rows)).check()
    assert any("give it pairs (`kto` takes answers" in finding.message for finding in unpaired)


def test_a_world_writes_a_right_and_a_wrong_attempt_and_the_same_ones_again() -> None:
    batch, again = (collected(methods.get("dpo")) for _ in range(2))
    assert batch["rollout.reward"].tolist() == [1.0, 0.0] * 6
    assert list(batch["rollout.text"]) == list(again["rollout.text"])
    longer = collected(methods.get("dpo", styles=("long", "short")))
    lengths = longer["rollout.length"].reshape(-1, 2)
    assert bool((lengths[:, 0] > lengths[:, 1]).all())


def test_worlds_of_several_turns_write_pairs_too() -> None:
    batch = collected(methods.get("dpo"), world="lookup")
    assert batch["rollout.reward"].tolist() == [1.0, 0.0] * 6


def test_flipped_pairs_are_marked_and_stay_flipped() -> None:
    method = methods.get("power-dl", flip=0.5)
    batch, again = (collected(method, tasks=16) for _ in range(2))
    flipped = batch["rollout.flipped"].reshape(-1, 2)[:, 0]
    assert 2 <= int(flipped.sum()) <= 14
    assert batch["rollout.reward"].reshape(-1, 2)[:, 0].tolist() == (~flipped).double().tolist()
    assert batch["rollout.correct"].tolist() == [True, False] * 16  # the truth
    assert batch["rollout.flipped"].tolist() == again["rollout.flipped"].tolist()
    assert collected(methods.get("power-dl", flip=1.0))["rollout.reward"].tolist() == [0.0, 1.0] * 6


@pytest.mark.parametrize("slug", ["dpo", "simpo"])
def test_a_world_without_wrong_attempts_is_refused_with_the_remedy(slug: str) -> None:
    with pytest.raises(PodiumError, match=r"'keydoor' writes no wrong attempts.*source=best-worst"):
        build_run(configure(methods.get(slug, source="world"), world="keydoor"))


def test_settings_of_attempts_are_checked() -> None:
    with pytest.raises(PodiumError, match=r"AttemptedPairs\.flip = 1\.5"):
        AttemptedPairs(flip=1.5)
    with pytest.raises(PodiumError, match="must be two"):
        AttemptedPairs(("short",))  # type: ignore[arg-type]


def test_the_best_and_the_worst_are_kept_and_a_tie_has_no_pair() -> None:
    rewards = torch.tensor([0.2, 0.9, 0.9, 0.1, 0.5, 0.5])
    batch = Batch.from_padded(torch.ones(6, 2), [0, 0, 0, 0, 1, 1], {"rollout.reward": rewards})
    kept = KeepExtremes()(batch)["rollout.keep.extreme"]
    assert kept.tolist() == [False, True, False, True, False, False]


def test_samples_give_the_best_and_the_worst_of_a_group() -> None:
    batch = collected(methods.get("simpo"), level=2)
    groups = batch.partition("rollout", "group").agg
    pairs = groups.count(batch.trained("rollout")).tolist()
    assert set(pairs) <= {0, 2}
    assert 2 in pairs
    assert len(batch) == 5 * 6


# -- exact walks -----------------------------------------------------------------------------------------------------


def test_regret_is_what_the_actions_have_lost() -> None:
    world = worlds.get("keydoor", level=2)
    task = world.task(0)
    process = world.dynamics(task)
    best = world.demonstrate(task)
    q = process.optimal(0.9)
    assert q[0, 0].max() == pytest.approx(0.9 ** (len(best) - 1))  # the gold at the last turn of the shortest way
    batch = collected(methods.get("cpl", first=0, turns=3), world="keydoor", level=2, tasks=2)
    assert batch.size("group") == 2
    assert batch["rollout.reward"].tolist() == (-batch["rollout.regret"]).tolist()
    assert bool((batch["rollout.regret"] >= -1e-9).all())


def test_regret_telescopes_to_the_value_that_is_left() -> None:
    """In a world without chance Σ γ^t (V − Q) is V(s_0) less what was earned and what is left, discounted."""
    world = worlds.get("keydoor", level=2)
    batch = collected(methods.get("cpl", first=0, turns=3), world=world, tasks=3)
    for group in range(3):
        process = world.dynamics(world.task(int(batch["group.task"][group].rpartition("/")[2])))
        q = process.optimal(0.9)
        rollouts = batch.take("group", torch.tensor([group]))
        link, after = rollouts.link("turn", "rollout"), rollouts["turn.next_state"]
        for row in range(len(rollouts)):
            turns = (link == row).nonzero().reshape(-1).tolist()
            won = bool(rollouts["rollout.correct"][row])
            left = 0.0 if won else 0.9 ** len(turns) * q[len(turns), process.state(after[turns[-1]])].max()
            earned = 0.9 ** (len(turns) - 1) * won
            expected = q[0, 0].max() - earned - left
            assert float(rollouts["rollout.regret"][row]) == pytest.approx(float(expected), abs=1e-6)


def test_a_world_without_exact_values_is_refused() -> None:
    with pytest.raises(
        PodiumError, match="needs a world that is a finite decision process, with exact values: take keydoor or lookup"
    ):
        build_run(configure(methods.get("cpl"), world="sums"))


def test_walks_come_back_as_they_were() -> None:
    first, second = (collected(methods.get("cpl", first=0), world="keydoor", level=2, tasks=2) for _ in range(2))
    assert list(first["rollout.text"]) == list(second["rollout.text"])
    assert WalkedSegments().turns is None
