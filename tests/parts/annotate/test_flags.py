"""Flags and scores of rollouts, read from their turns and texts."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.annotate import CountSearches, EvidenceRubrics, FormsUsed, ReadSearchTags, ScoreVector
from tests.batches import sampled


def spoken(*rows: tuple[list[dict[str, object]], dict[str, object]]) -> Batch:
    rollouts = [
        Rollout("a", [Turn([0], columns=turn) for turn in turns], columns={"reward": 0.0, **columns})
        for turns, columns in rows
    ]
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def test_all_tools_and_one_answer() -> None:
    def forms(*names: str, formed: bool = True) -> tuple[list[dict[str, object]], dict[str, object]]:
        return [{"form": name} for name in names], {"well_formed": formed}

    batch = spoken(
        forms("search", "python", "answer"),
        forms("search", "python", "extra", "answer"),
        forms("search", "answer", "answer"),
        forms("python", "search"),
        forms("answer", formed=False),
    )
    found = FormsUsed()(batch)
    assert found["rollout.all_tools"].tolist() == [True, True, False, True, False]
    assert found["rollout.complete"].tolist() == [True, True, False, False, False]


def test_searches_are_counted_and_every_turn_must_be_understood() -> None:
    def turn(searched: bool, valid: bool) -> dict[str, object]:
        return {"searched": searched, "valid": valid}

    batch = spoken(
        ([turn(True, True), turn(True, True)], {"correct": True}),
        ([turn(True, True), turn(False, False)], {"correct": False}),
        ([turn(False, False)], {"correct": False}),
    )
    found = CountSearches()(batch)
    assert found["rollout.searches"].tolist() == [2.0, 1.0, 0.0]
    assert found["rollout.matched"].tolist() == [True, False, False]
    assert found["rollout.formed"].tolist() == [True, False, False]


def test_thinking_must_begin_and_end() -> None:
    texts = [
        "<think>a</think><answer>The 7</answer>",
        "<think>a<answer>7</answer>",
        "a</think>",
        "<think>a</think>[search",
    ]
    batch = sampled([0.0] * 4, [0] * 4, ["a"], text=texts, reference_answer=["7"] * 4)
    found = ReadSearchTags()(batch)
    assert found["rollout.formed"].tolist() == [True, False, False, False]
    assert found["rollout.matched"].tolist() == [True, True, False, False]


def test_a_chain_is_whole_where_every_rubric_is_met() -> None:
    rubrics = ("<E0> is the son of <E1>", "<E1> lives in <E2>")
    entities = (("E0", "ann"), ("E1", "bob"), ("E2", "rome"))
    columns = {
        "rubrics": [rubrics] * 3,
        "entities": [entities] * 3,
        "supported": [(True, True), (True, False), (True, True)],
        "cited": [True, True, False],
    }
    found = EvidenceRubrics()(sampled([0.0] * 3, [0] * 3, ["a"], **columns))
    assert found["rollout.rubric"].tolist() == [1.0, 0.5, 0.0]
    assert found["rollout.whole_chain"].tolist() == [True, False, False]


def test_scores_are_hundredths_of_what_counts_as_full() -> None:
    batch = sampled([0.5, 1.0], [0, 0], ["a"], length=torch.tensor([20.0, 5.0], dtype=torch.float64))
    found = ScoreVector(of=("rollout.reward", "rollout.length"), full=(2.0, 40.0))(batch)["rollout.scores"]
    assert found.tolist() == [[25.0, 50.0], [50.0, 12.5]]
