"""Every method of the catalogue trains, and survives batches from which there is little to learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.method import Method
from podium.worlds import World
from tests.methods.catalogue import (
    NAMES,
    SLUGS,
    Laps,
    Right,
    RightLaps,
    Wrong,
    WrongLaps,
    errors,
    finite,
    fitting,
    has_signal,
    in_words,
    lines,
    silent,
    small,
    wide,
)

PLAIN = small("grpo")
# Presets whose small runs with podium/tiny carry no signal, and why.
WITHOUT_SIGNAL = {
    "ikea@paper": "podium/tiny writes no tags, so that every rollout has the reward of a wrong format",
    **dict.fromkeys(("knowrl@paper", "knowrl@votes"), "most votes of podium/tiny cannot be read, the others are alike"),
    "oni@reward-free": "captions are labelled once they were seen, and three iterations bring too few of them back",
    "read@filter": "the policy stays as it is, and its critic sees no reward in three iterations",
    "read@paper": "podium/tiny delivers no box in three iterations",
    "rgr-grpo@judge": "podium/tiny2 says the same of so few answers; at home three groups of four differ",
}
# podium/tiny reads no pictures.
BLIND = ("earl-video", "earl-video@fixed", "earl-video@unconditional", "earl-video@paper")
TURNS = Laps(level=2)  # for methods that need what no embedded world has: several turns, and states


def test_the_world_of_two_turns_is_one() -> None:
    assert finite(lines(PLAIN, TURNS))


@pytest.mark.parametrize("slug", NAMES)
def test_three_iterations_have_finite_metrics_a_gradient_and_what_the_method_watches(slug: str) -> None:
    method = small(slug)
    world = fitting(method, [TURNS])
    if world is None:
        for name in worlds.EMBEDDED:
            assert errors(method, worlds.get(name))
        with pytest.raises(PodiumError, match="cannot run on"):
            lines(method, worlds.get("sums"))
        return
    for seed in range(3):  # with some seeds all answers to these few tasks may be alike
        found = lines(method, world, iterations=3, seed=seed, **wide(method))
        assert finite(found)
        if has_signal(found) or not method.main().objective:
            break
    else:
        assert slug in {*WITHOUT_SIGNAL, *BLIND}, f"{slug} has no gradient in three runs of three iterations"
    named = {name for line in found for name in line}
    assert not _own_columns(method) or named - _general(), f"{slug} reports nothing of its own"


@cache
def _general() -> frozenset[str]:
    """What a run of GRPO reports."""
    return frozenset(name for line in lines(PLAIN, worlds.get("sums", level=2)) for name in line)


def _own_columns(method: Method) -> bool:
    """Whether a part that GRPO has in no setting writes anything beside the credit itself, which every run reports.

    What live parts write lasts for one update, and is not kept.
    """
    plain = {type(part) for part in PLAIN.parts()}
    own = [part for part in method.parts() if type(part) not in plain and not part.live]
    return any(
        column.partition(".")[2] not in ("advantage", "reward")
        for part in (*own, *method.memories)
        for column in part.provides
    )


@pytest.mark.parametrize("slug", SLUGS)
def test_batches_with_little_to_learn_from_give_no_nan(slug: str) -> None:
    method = small(slug, n=2)
    one_turn: tuple[World, ...] = (Right(), Wrong(), worlds.get("sums"))
    right, wrong, plain = one_turn if not errors(method, Right()) else (RightLaps(), WrongLaps(), Laps())
    if errors(method, plain):
        return  # refused, as the test above has seen
    short = {"tasks": 1, "max_tokens": 12}
    cases: dict[str, Callable[[], list[dict[str, object]]]] = {
        "all right": lambda: lines(method, right, **short),
        "all wrong": lambda: lines(method, wrong, **short),
        "one rollout a group": lambda: lines(small(slug, n=1), right, **short),
        "empty answers": lambda: lines(method, plain, policy=silent(), **short),
        "all truncated": lambda: lines(method, plain, tasks=1, max_tokens=1),
    }
    for name, case in cases.items():
        assert in_words(case), name
