"""Memories of texts: edits of experiences, and instructions with weights."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.memory import decode_state, encode_state
from podium.memories import Experiences, Instructions
from podium.memories.instructions import credited, selection_probabilities, strongest
from podium.memories.text_edits import Edit, Experience, apply_edits, numbered, read_edits, write_edits


def _texts(library: dict[str, Experience]) -> dict[str, str]:
    return {name: experience.text for name, experience in library.items()}


def test_edits_of_the_worked_example() -> None:
    library = numbered([Experience("check units"), Experience("draw a figure")])
    plan = [
        Edit("UPDATE", "check units and signs", "G0"),
        Edit("ADD", "try small cases"),
        Edit("DELETE", "x", "G1"),
    ]
    assert _texts(apply_edits(library, plan)) == {"G0": "check units and signs", "G1": "try small cases"}
    assert apply_edits({"G3": Experience("a"), "G7": Experience("b")}, []) == numbered(
        [Experience("a"), Experience("b")]
    )


def test_votes_for_a_text_that_stays_add_up() -> None:
    library = numbered([Experience("a", 2.0)])
    assert apply_edits(library, [Edit("UPDATE", "a", "G0", 3.0)]) == {"G0": Experience("a", 5.0)}
    assert apply_edits(library, [Edit("UPDATE", "b", "G0", 3.0)]) == {"G0": Experience("b", 3.0)}


@pytest.mark.parametrize("text", ["", "no list", "[1, 2]", '{"operation": "ADD"}', '[{"operation": "ADD"', "[" * 9999])
def test_what_is_no_list_of_edits_is_told_apart(text: str) -> None:
    assert read_edits(text) is None


def test_edits_are_read_among_words_and_odd_values_are_empty() -> None:
    said = 'Here: [{"content": " a "}, {"operation": "delete", "id": 3, "content": null}] as asked.'
    assert read_edits(said) == [Edit("ADD", "a"), Edit("DELETE", "", "")]
    plan = [Edit("UPDATE", "a", "G0", 1.5)]
    assert read_edits(write_edits(plan)) == plan


def _batch(rows: list[dict[str, object]]) -> Batch:
    rollouts = []
    for index, row in enumerate(rows):
        columns = {"index": index, "reward": 0.0, "purpose": Purpose.train, "text": "", **row}
        group = int(columns.pop("group", 0))  # type: ignore[call-overload]
        turn = Turn(context=(1,), ids=(2, 3), tokens={"sampler.logp": (0.0, 0.0)})
        rollouts.append(Rollout(task=f"t{group}", group=group, turns=(turn,), columns=columns))
    return Batch.from_rollouts(rollouts)


def test_experiences_follow_the_plan_of_the_batch_once() -> None:
    memory = Experiences(start=("a",))
    plan = write_edits([Edit("ADD", "b")])
    state = memory.observe(memory.initial(), _batch([{"edits": plan}, {"edits": plan}]))
    assert [row[0] for row in state["texts"]] == ["a", "b"]
    recalled = memory.recall(state, ["t0", "t1"])
    assert recalled["group.experiences"] == ((Experience("a"), Experience("b")),) * 2
    assert recalled["batch.experiences"].tolist() == [2.0]
    assert memory.observe(state, _batch([{"edits": ""}])) == state
    tensors: dict[str, torch.Tensor] = {}
    assert decode_state(encode_state(state, tensors), tensors) == state


def test_the_worked_example_of_instructions() -> None:
    weights = torch.tensor([0.5, 0.5, 0.2], dtype=torch.float64)
    expected = torch.tensor([0.449816, 0.449816, 0.100368], dtype=torch.float64)
    torch.testing.assert_close(selection_probabilities(weights, 0.2), expected, atol=1e-6, rtol=0)
    after = credited(weights, torch.tensor([0, 0, 1]), torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64), 0.1)
    torch.testing.assert_close(after, torch.tensor([0.525, 0.45, 0.2], dtype=torch.float64))
    torch.testing.assert_close(selection_probabilities(weights + 7, 0.2), selection_probabilities(weights, 0.2))
    assert strongest([0.5, 0.5, 0.9], 2) == [0, 2]


def test_the_better_of_two_instructions_is_drawn_nine_times_of_ten() -> None:
    memory = Instructions(start=(("a",), ("b",)), every=1000)
    state = memory.initial()
    for _ in range(60):  # success rates .3 and .7
        rows = [{"group": 0, "instruction": 0.0, "candidate": "", "reward": 0.3}]
        rows += [{"group": 1, "instruction": 1.0, "candidate": "", "reward": 0.7}]
        state = memory.observe(state, _batch(rows))
    (population,) = memory.recall(state, [None])["group.instructions"]
    assert population.members[1].weight == pytest.approx(0.7, abs=0.01)
    assert population.probabilities[1] == pytest.approx(1 / (1 + torch.tensor(-2.0).exp().item()), abs=0.01)
    assert population.best == 1
    sharper = memory.replace(temperature=0.1).recall(state, [None])["group.instructions"][0]
    assert sharper.probabilities[1] > 0.9


def test_candidates_at_or_above_the_lowest_survivor_join() -> None:
    memory = Instructions(start=(("a",), ("b",)), every=1, rate=0.0)
    state = {**memory.initial(), "members": [[["a"], 0.5], [["b"], 0.2]], "iterations": 1}
    rows: list[dict[str, object]] = [{"instruction": 0.0, "candidate": "", "reward": 0.0, "text": "failed"}]
    for name, reward in (("good", 0.9), ("even", 0.5), ("bad", 0.4), ("a", 1.0)):
        rows.append({"instruction": -1.0, "candidate": name, "reward": reward, "purpose": Purpose.probe})
    after = memory.observe(state, _batch(rows))
    assert after["members"][0] == [["a"], 0.5]
    assert [member[0] for member in after["members"][1:]] == [["good"], ["even"]]
    assert after["buffer"] == [["failed", ["a"], 0.0]]


def test_a_population_evolves_every_other_iteration_and_half_of_it_rounded_up_stays() -> None:
    memory = Instructions(start=(("a",), ("b",), ("c",)), every=2, rate=0.0)
    state = {**memory.initial(), "members": [[["a"], 0.5], [["b"], 0.2], [["c"], 0.9]]}
    evolves, kept = {}, {}
    for iterations in range(5):
        (population,) = memory.recall({**state, "iterations": iterations}, [None])["group.instructions"]
        evolves[iterations], kept[iterations] = population.evolves, population.kept
    assert evolves == {0: False, 1: False, 2: True, 3: False, 4: True}
    assert kept[1] == (0, 1, 2)
    assert kept[2] == (0, 2)  # two of three
    candidate: dict[str, object] = {"instruction": -1.0, "candidate": "new", "reward": 1.0, "purpose": Purpose.probe}
    for iterations, lines in ((0, ["a", "b", "c"]), (1, ["a", "b", "c"]), (2, ["a", "c", "new"])):
        after = memory.observe({**state, "iterations": iterations}, _batch([candidate]))
        assert [member[0] for member in after["members"]] == [[line] for line in lines]
        assert after["iterations"] == iterations + 1


def test_the_probability_of_the_best_instruction_is_reported() -> None:
    memory = Instructions(start=(("a",), ("b",)), temperature=0.2)
    state = {**memory.initial(), "members": [[["a"], 0.2], [["b"], 0.0]]}
    recalled = memory.recall(state, [None])
    assert recalled["batch.instructions"].tolist() == [2.0]
    assert recalled["batch.instructions.best"].item() == pytest.approx(0.731059, abs=1e-6)  # e / (1 + e)


def test_equal_instructions_are_refused() -> None:
    with pytest.raises(PodiumError, match="none twice"):
        Instructions(start=(("a",), ("a",)))
