"""Methods in turn are methods: values that print, round-trip, compare, check every phase, and say whose turn it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import podium
from podium import methods
from podium.core.errors import PodiumError
from podium.core.memory import decode_state, encode_state
from podium.core.schedule import Linear
from podium.core.value import Clock
from podium.memories import SuccessTracker
from podium.method import Alternate, Iterations, Method, Phase, Phases, Plateau, Reached
from podium.parts.objective import KL

A, B, C = methods.get("grpo"), methods.get("rloo"), methods.get("dapo@paper").replace(name="dapo")


def turns(method: Method, lines: list[Mapping[str, Any]], *, saved: bool = False) -> list[str]:
    """The names of the methods that iterations with these metrics use; `saved`: through a checkpoint each time."""
    names, progress = [], method.start()
    for done, line in enumerate(lines):
        names.append(method.at(Clock(done, {}, progress)).name)
        progress = method.advance(Clock(done + 1, {}, progress), line)
        if saved:
            progress = decode_state(encode_state(progress, {}), {})
    return names


def nothing(count: int) -> list[Mapping[str, Any]]:
    return [{} for _ in range(count)]


VALUES = [
    Phases(A.until(5), B),
    Phases(A.until(Plateau("reward", patience=2, by=0.1), 40), B.until(Reached("eval.pass@1", above=0.5)), C),
    Alternate(A, B, every=3),
    Phases(A.until(2), Alternate(B, C)),
    Phases(A.until(2), B, name="mine", summary="warm-up first", citation="me"),
]


@pytest.mark.parametrize("method", VALUES, ids=lambda m: m.name)
def test_methods_in_turn_are_values(method: Method) -> None:
    assert isinstance(method, Method)
    assert Method.from_yaml(method.to_yaml()) == method
    assert method.replace(name="other") != method
    assert method.replace(name="other").replace(name=method.name) == method
    assert eval(repr(method.replace(name="x", summary="", citation="")), vars(podium) | _names()) is not None


def _names() -> dict[str, Any]:
    from podium.core.value import REGISTRY

    return dict(REGISTRY)


def test_it_prints_as_it_is_written() -> None:
    assert repr(Phases(Method("a").until(5, Reached("reward", above=1.0)), Method("b"))) == (
        "Phases(Method(name='a').until(5, Reached(name='reward', above=1.0)), Method(name='b'))"
    )
    assert (
        repr(Alternate(Method("a"), Method("b"), every=2)) == "Alternate(Method(name='a'), Method(name='b'), every=2)"
    )


def test_phases_follow_each_other_and_the_last_one_stays() -> None:
    assert turns(Phases(A.until(2), B.until(1), C), nothing(6)) == ["grpo", "grpo", "rloo", "dapo", "dapo", "dapo"]


def test_a_last_phase_goes_on_after_its_end() -> None:
    assert turns(Phases(A.until(1), B.until(1)), nothing(4)) == ["grpo", "rloo", "rloo", "rloo"]


def test_alternating_methods_take_turns() -> None:
    assert turns(Alternate(A, B), nothing(4)) == ["grpo", "rloo"] * 2
    assert turns(Alternate(A, B, every=2), nothing(5)) == ["grpo", "grpo", "rloo", "rloo", "grpo"]


def test_an_alternation_inside_a_phase_begins_with_its_first_method() -> None:
    assert turns(Phases(C.until(3), Alternate(A, B)), nothing(6)) == ["dapo"] * 3 + ["grpo", "rloo", "grpo"]


def test_a_goal_ends_a_phase_when_it_has_been_held() -> None:
    lines = [{"reward": r} for r in (0.9, 0.1, 0.9, 0.9, 0.0)]
    assert turns(Phases(A.until(Reached("reward", above=0.8)), B), lines) == ["grpo"] + ["rloo"] * 4
    assert turns(Phases(A.until(Reached("reward", above=0.8, times=2)), B), lines) == ["grpo"] * 4 + ["rloo"]
    assert turns(Phases(A.until(Reached("reward", below=0.1)), B), lines) == ["grpo"] * 2 + ["rloo"] * 3


def test_a_plateau_counts_measurements_without_progress() -> None:
    rising = [{"eval.pass@1": x} for x in (0.1, 0.2, 0.2, 0.2, 0.9)]
    assert turns(Phases(A.until(Plateau("eval.pass@1", patience=2)), B), rising) == ["grpo"] * 4 + ["rloo"]
    between = [{"eval.pass@1": 0.2}, {}, {}, {}, {"eval.pass@1": 0.2}, {}]  # measured now and then
    assert turns(Phases(A.until(Plateau("eval.pass@1", patience=1)), B), between) == ["grpo"] * 5 + ["rloo"]
    falling = [{"entropy": x} for x in (3.0, 2.0, 2.0, 1.0)]
    assert turns(Phases(A.until(Plateau("entropy", patience=1, falling=True)), B), falling) == ["grpo"] * 3 + ["rloo"]
    small = [{"reward": x} for x in (0.1, 0.15, 0.19, 0.5)]
    assert turns(Phases(A.until(Plateau("reward", patience=2, by=0.1)), B), small) == ["grpo"] * 3 + ["rloo"]


def test_the_first_of_several_conditions_ends_a_phase() -> None:
    lines = [{"reward": 0.0}] * 3
    assert turns(Phases(A.until(Reached("reward", above=1.0), 2), B), lines) == ["grpo", "grpo", "rloo"]


def test_a_condition_may_follow_a_scalar_of_a_memory() -> None:
    method = Phases(A.until(Reached("tracker.mean", above=0.5)), B)
    progress = method.advance(Clock(1, {"tracker.mean": 0.7}, method.start()), {})
    assert method.at(Clock(1, {}, progress)).name == "rloo"


@pytest.mark.parametrize("method", VALUES, ids=lambda m: m.name)
def test_progress_survives_a_checkpoint(method: Method) -> None:
    lines = [{"reward": 0.1 * (i % 4), "eval.pass@1": 0.1 * i} for i in range(12)]
    assert turns(method, lines, saved=True) == turns(method, lines)


def test_the_clock_of_a_phase_begins_at_zero() -> None:
    warm = B.with_(objective=KL(coefficient=Linear(1.0, 0.0, over=10)))
    method = Phases(A.until(4), warm)
    progress = method.start()
    for done in range(1, 5):
        progress = method.advance(Clock(done, {}, progress), {})
    assert method.at(Clock(4, {}, progress)).objective[0].coefficient == 1.0
    assert method.at(Clock(9, {}, progress)).objective[0].coefficient == 0.5


def test_roles_and_memories_are_the_union() -> None:
    tracked = C | SuccessTracker()
    method = Phases(A.until(2), Alternate(B, tracked))
    assert [r.name for r in method.roles] == ["ref"]
    assert method.memories == (SuccessTracker(),)
    with pytest.raises(PodiumError, match="two memories SuccessTracker with different settings"):
        Phases((A | SuccessTracker()).until(2), B | SuccessTracker(half_life=1.0))


def test_every_phase_is_checked_by_name() -> None:
    method = Phases(A.until(2), B.set("advantage.of", "rollout.nowhere"))
    assert any("rloo: " in f.message and "rollout.nowhere" in f.message for f in method.check())


def test_changes_reach_every_method_or_one() -> None:
    method = Phases(A.until(2), B)
    assert [m.updates.epochs for m in method.set("updates.epochs", 3).leaves()] == [3, 3]
    assert [m.updates.epochs for m in method.set("1.updates.epochs", 3).leaves()] == [1, 3]
    assert all(SuccessTracker() in m.memories for m in (method | SuccessTracker()).leaves())
    with pytest.raises(PodiumError, match="methods 0 to 1"):
        method.set("2.updates.epochs", 3)


def test_description_has_every_method() -> None:
    text = Phases(A.until(7), B).describe()
    assert "until 7 iterations" in text
    assert A.citation in text
    assert B.citation in text


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Phases(), "at least one method"),
        (lambda: Phases(A, B), "'grpo' has no end"),
        (lambda: Alternate(A), "at least two methods"),
        (lambda: Alternate(A, B, every=0), "every"),
        (lambda: A.until("soon"), "number of iterations"),
        (lambda: A.until(0), "Iterations.count"),
        (lambda: Phase(3), "made of a method"),
        (lambda: Reached("reward"), "one goal"),
        (lambda: Reached("reward", above=1, below=0), "one goal"),
        (lambda: Plateau("reward", patience=0), "patience"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, words: str) -> None:
    with pytest.raises(PodiumError, match=words):
        make()


def test_a_metric_that_is_not_measured_gets_its_nearest_name() -> None:
    with pytest.raises(PodiumError, match="'reward'"):
        turns(Phases(A.until(Reached("rewrad", above=1.0)), B), [{"reward": 0.1}])


def test_a_number_stands_for_iterations() -> None:
    assert A.until(3).until == (Iterations(3),)


def test_a_fresh_phase_prints_and_keeps_its_mark() -> None:
    method = Phases(Method("a").until(5), Phase(Method("b"), (Iterations(3),), fresh=True), Method("c"))
    assert "Phase(Method(name='b'), (3,), fresh=True)" in repr(method)
    assert eval(repr(method), {"Phases": Phases, "Phase": Phase, "Method": Method}) == method
    assert [phase.fresh for phase in method.set("updates.epochs", 2).phases] == [False, True, False]
    assert "until 3 iterations, with a fresh optimiser" in method.describe()
    assert [method.begins_fresh({"phase": number}) for number in range(3)] == [False, True, False]
    assert not Method("a").begins_fresh({})
