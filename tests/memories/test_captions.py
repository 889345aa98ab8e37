"""Captions, their labels, and the network that learns from them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.memory import decode_state, encode_state
from podium.memories import Captions
from podium.memories.caption_network import caption_scores, new_network, ranking_loss, trained_network

HELPFUL, USELESS = [f"you take the {x} key" for x in "abcd"], [f"you wait {x}" for x in "abcd"]


def seen(memory: Captions, state: dict[str, Any], found: list[str], labels: dict[tuple[str, ...], float]) -> Any:
    columns = {
        "caption.found": tuple((n, caption, 0.0) for n, caption in enumerate(found)),
        "caption.queued": tuple((n, (caption,)) for n, caption in enumerate(found)),
        "caption.labels": tuple((n, *given) for n, given in enumerate(labels.items())),
    }
    turns = [Turn([0], columns={"caption.score": 0.0})]
    return memory.observe(state, Batch.from_rollouts([Rollout("one", turns, columns={"index": 0, **columns})]))


def known(memory: Captions, state: dict[str, Any]) -> Any:
    return memory.recall(state, ["one"])["group.captions"][0]


def test_a_table_gives_labels_and_what_has_none_waits() -> None:
    memory = Captions()
    state = seen(memory, memory.initial(), ["gold", "hit", "door"], {("gold",): 1.0, ("hit",): 0.0})
    assert known(memory, state).scores(["gold", "hit", "door"]) == [1.0, 0.0, 0.0]
    assert known(memory, state).queue == [("door",)]
    assert known(memory, state).asked() == {("gold",), ("hit",), ("door",)}
    assert memory.recall(state, ["one"])["batch.captions.helpful"].tolist() == [0.5]


def test_the_share_of_helpful_captions_is_that_of_all_labels() -> None:
    memory = Captions()

    def helpful(labels: dict[tuple[str, ...], float]) -> list[float]:
        found = memory.recall(seen(memory, memory.initial(), [], labels), ["one"])["batch.captions.helpful"]
        return [round(x, 6) for x in found.tolist()]

    assert helpful({}) == [0.0]
    assert helpful({("gold",): 1.0}) == [1.0]
    assert helpful({("gold",): 1.0, ("key",): 1.0, ("hit",): 0.0}) == [0.666667]


def test_labels_that_come_late_count_later() -> None:
    memory = Captions(delay=1)
    state = seen(memory, memory.initial(), ["gold"], {("gold",): 1.0})
    assert known(memory, state).scores(["gold"]) == [0.0]
    assert ("gold",) in known(memory, state).asked()
    assert state["late"] == [(2, {("gold",): 1.0})]
    later = seen(memory, state, [], {})
    assert known(memory, later).scores(["gold"]) == [1.0]
    assert later["late"] == []
    assert later["iteration"] == 2


def test_the_oldest_of_too_many_that_wait_make_room() -> None:
    memory = Captions(waiting=2)
    assert seen(memory, memory.initial(), ["a", "b", "c"], {})["queue"] == [("b",), ("c",)]


def test_a_classifier_learns_from_labels_and_generalises() -> None:
    memory = Captions("classification", steps=40)
    labels = {(text,): float(text in HELPFUL) for text in (*HELPFUL, *USELESS)}
    state = seen(memory, memory.initial(), [], labels)
    helpful, useless = known(memory, state).scores(["you take the e key", "you wait e"])
    assert helpful > 0.9
    assert useless < 0.1


def test_a_ranker_puts_first_what_won_its_comparisons() -> None:
    memory = Captions("ranking", steps=40)
    state = seen(memory, memory.initial(), [], {(a, b): 0.0 for a in HELPFUL for b in USELESS})
    better, worse = known(memory, state).scores([HELPFUL[0], USELESS[0]])
    assert better > worse + 1


def test_the_loss_of_pairs_by_hand() -> None:
    scores = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]], dtype=torch.float64)
    assert float(ranking_loss(scores, torch.tensor([0, 1, 2]))) == pytest.approx(0.377779, abs=1e-6)


def test_the_score_of_a_caption_does_not_depend_on_those_beside_it() -> None:
    network = new_network(8, seed=0)
    alone = caption_scores(network, ["short"], 64)
    beside = caption_scores(network, ["short", "a caption that is a good deal longer than the other"], 64)
    torch.testing.assert_close(alone[0], beside[0])


def test_a_saved_network_goes_on_to_the_bit() -> None:
    memory = Captions("classification", width=8)
    state = seen(memory, memory.initial(), [], {("gold",): 1.0, ("hit",): 0.0})
    tensors: dict[str, torch.Tensor] = {}
    again = decode_state(json.loads(json.dumps(encode_state(state, tensors))), tensors)
    now, later = (seen(memory, s, [], {("door",): 1.0}) for s in (state, again))
    assert all(torch.equal(now["network"][name], later["network"][name]) for name in now["network"])
    assert not torch.equal(now["network"]["score"], state["network"]["score"])


def test_learning_ends_when_there_are_labels_enough() -> None:
    memory = Captions("classification", most=1, width=8)
    state = seen(memory, memory.initial(), [], {("gold",): 1.0})
    assert torch.equal(seen(memory, state, [], {("hit",): 0.0})["network"]["score"], state["network"]["score"])


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(PodiumError, match="retrieval"):
        Captions("table")


def test_training_is_a_function_of_its_seed() -> None:
    examples = [(("gold",), 1.0), (("hit",), 0.0), (("door",), 1.0)]
    settings: Any = {"length": 32, "steps": 2, "batch": 2, "lr": 1e-2}
    a, b, c = (trained_network(new_network(8, 0), examples, seed=s, **settings) for s in (1, 1, 2))
    assert torch.equal(a["score"], b["score"])
    assert not torch.equal(a["score"], c["score"])
