"""Combining methods: what it means, what stands in the way, and that whatever is accepted trains."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from podium import methods
from podium.core.errors import PodiumError
from podium.method import STAGES, Method, Phases, Role
from podium.methods.combination import changed_stages, combine
from podium.methods.matrix import matrix
from podium.parts.reward import SequenceKL
from podium.parts.shape import Whiten
from tests.methods.catalogue import SLUGS, Laps, errors, fitting, in_words, lines, small

# How many random compositions are trained: more where there is time, such as PODIUM_COMPOSITIONS=500.
COMPOSITIONS = int(os.environ.get("PODIUM_COMPOSITIONS", "12"))
BASE = methods.get("grpo", kl=0.0)
PLACES = (*STAGES, "memories", "roles")
IN_TURN = [slug for slug in SLUGS if len(list(methods.get(slug).leaves())) > 1]  # several methods: these stand first


def held(method: Method) -> dict[str, object]:
    return {place: getattr(method, place) for place in PLACES}


def both(first: str, second: str) -> Method:
    found = combine(methods.get(first), methods.get(second))
    assert found.method is not None, found.conflicts
    return found.method


# -- what it means -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug", SLUGS)
def test_a_method_keeps_what_it_has_beside_the_base_and_beside_itself(slug: str) -> None:
    method = methods.get(slug)
    for other in (BASE, method) if slug not in IN_TURN else (BASE,):
        found = combine(method, other)
        assert found.verdict == "yes"
        assert held(found.method) == held(method)  # type: ignore[arg-type]


@pytest.mark.parametrize("slug", [slug for slug in SLUGS if slug not in IN_TURN])
def test_the_base_with_a_method_is_that_method_on_the_sizes_of_the_base(slug: str) -> None:
    method = small(slug, n=4)
    found = combine(small(BASE, n=4), method).method
    assert found is not None
    assert set(changed_stages(found)) == set(changed_stages(method))


def test_parts_of_both_stand_in_the_order_of_the_two() -> None:
    method = both("ace", "steer")
    assert [type(part).__name__ for part in method.shape] == ["OverconfidentErrors", "SpareEntropy"]
    assert method.name == "ace+steer"


def test_changes_of_the_same_part_are_joined_setting_by_setting() -> None:
    method = both("dr-grpo", "dapo")
    assert method.advantage.scale == "none"  # type: ignore[union-attr]
    assert method.objective[0].clip.high == 0.28  # type: ignore[attr-defined]


def test_of_a_number_that_both_set_the_first_is_kept_and_said() -> None:
    higher = methods.get("dapo").set("objective.PolicyGradient.clip.high", 0.3)
    found = combine(higher, methods.get("steer"))
    assert found.method.objective[0].clip.high == 0.3  # type: ignore[union-attr,attr-defined]
    assert found.verdict == "care"
    assert any("objective.PolicyGradient.clip.high" in choice for choice in found.choices)


def test_roles_and_memories_come_along() -> None:
    method = both("spo-single-stream", "grpo")
    assert [role.name for role in method.roles] == ["ref"]
    assert method.memories == methods.get("spo-single-stream").memories


def test_metrics_of_both_are_reported() -> None:
    method = both("steer", "earl-rtl")
    assert len(method.metric) == 2


def test_what_comes_of_two_methods_is_a_method_like_any_other() -> None:
    method = methods.get("dapo+steer")
    assert Method.from_yaml(method.to_yaml()) == method
    assert methods.get("dapo+steer+ace") == combine(method, methods.get("ace")).method


# -- what stands in the way --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("gigpo", "ppo", "the stage 'advantage'"),
        ("refine", "remax", "the stage 'rollout'"),
        ("real", "gspo", "PolicyGradient at the stage 'objective'"),
        ("gspo", "likelihood-reward", "objective.PolicyGradient.ratio"),
        ("ppo", "two-stage-negative", "needs the column 'rollout.advantage'"),
    ],
)
def test_methods_that_decide_the_same_thing_do_not_combine(first: str, second: str, reason: str) -> None:
    found = combine(methods.get(first), methods.get(second))
    assert found.verdict == "no"
    assert any(reason in conflict for conflict in found.conflicts)


def test_a_name_of_methods_that_do_not_combine_is_refused_with_the_reason() -> None:
    with pytest.raises(PodiumError, match=r"gigpo and ppo do not combine\. Both decide the stage 'advantage'"):
        methods.get("gigpo+ppo")
    with pytest.raises(PodiumError, match="name a part's setting"):
        methods.get("dapo+steer", n=4)


def test_a_coupled_objective_where_groups_are_split_does_not_combine() -> None:
    split = methods.get("grpo", kl=0.0).set("updates.unit", "rollout")
    [conflict] = combine(split, methods.get("real")).conflicts
    assert "set updates.unit='group'" in conflict


def test_what_may_be_meant_twice_combines_with_a_warning() -> None:
    whitened = combine(methods.get("gigpo", scale="std"), BASE | Whiten())
    assert whitened.verdict == "care"
    assert whitened.warnings[0].startswith("advantages are divided by a spread twice")
    held = combine(methods.get("ttrl"), BASE | SequenceKL(0.05) | Role("ref"))
    assert held.warnings[0].startswith("the policy is held to its reference twice")


def test_methods_in_turn_are_changed_all_and_cannot_come_second() -> None:
    turns = Phases(methods.get("grpo").until(2), methods.get("dapo"))
    first = combine(turns, methods.get("steer")).method
    assert all(type(leaf.shape[-1]).__name__ == "SpareEntropy" for leaf in first.leaves())  # type: ignore[union-attr]
    assert combine(methods.get("steer"), turns).conflicts == (
        f"{turns.name} is several methods in turn: put it first.",
    )


def test_two_methods_in_phases_do_not_combine() -> None:
    with pytest.raises(PodiumError, match="Both are several methods in turn"):
        methods.get("cure+hiper")


def test_the_matrix_has_every_ordered_pair_with_a_reason_where_they_do_not_combine() -> None:
    few = SLUGS[::6]
    found = matrix(few)
    assert set(found.pairs) == {(a, b) for a in few for b in few if a != b}
    assert all(pair.conflicts for pair in found.pairs.values() if pair.verdict == "no")
    assert sum(found.counts().values()) == len(found.pairs)
    assert set(found.data()) == set(few)


# -- whatever is accepted trains ---------------------------------------------------------------------------------------


@settings(
    max_examples=COMPOSITIONS, deadline=None, derandomize=COMPOSITIONS <= 12, suppress_health_check=list(HealthCheck)
)
@given(st.lists(st.sampled_from(SLUGS), min_size=2, max_size=4, unique=True))
def test_a_random_composition_that_the_check_accepts_trains(slugs: list[str]) -> None:
    method = small(slugs[0])
    for slug in slugs[1:]:  # those that do not combine with what there is are left out
        method = combine(method, small(slug)).method or method
    assume("+" in method.name)
    world = fitting(method, [Laps(level=2)])
    assume(world is not None)
    assert world is not None
    assert not errors(method, world)
    assert in_words(lambda: lines(method, world, iterations=2)), method.name
