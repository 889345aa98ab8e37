"""How rollouts are drawn: a value that strategies hold, and the flat settings of earlier versions."""

from __future__ import annotations

import pytest

from podium import methods
from podium.core.errors import PodiumError
from podium.core.part import Strategy
from podium.core.value import Clock
from podium.method import Method
from podium.protocols.grammar import Pattern
from podium.protocols.sampling import Sampling, Warmth
from podium.strategies import (
    BudgetedTurns,
    Continuations,
    Draw,
    Fork,
    LearnToHint,
    NextTurn,
    ReplayAndReflect,
    Sample,
    TopEntropy,
)


def read(strategy: str) -> Strategy | None:
    return Method.from_yaml(f"format: 1\nMethod: {{name: x, rollout: {strategy}}}").rollout


def test_flat_settings_of_earlier_versions_become_a_draw() -> None:
    assert read("{Sample: {n: 4, temperature: 0.7, room: 0.5}}") == Sample(
        n=4, draw=Draw(temperature=0.7, token_share=0.5)
    )
    assert read("{Windowed: {n: 2, window: 8, top_p: 0.9}}").draw.top_p == 0.9  # type: ignore[union-attr]
    assert read("{Continuations: {temperature: 0.5, places: uniform}}") == Continuations(
        temperature=0.5, positions="uniform"
    )


def test_a_draw_of_today_is_left_alone() -> None:
    assert read("{Sample: {n: 4, draw: {Draw: {top_k: 3}}}}") == Sample(n=4, draw=Draw(top_k=3))
    assert read("{Sample: {n: 4, top_p: 0.5, draw: {Draw: {top_k: 3}}}}") == Sample(n=4, draw=Draw(top_p=0.5, top_k=3))


def test_inherited_settings_that_had_no_effect_are_dropped() -> None:
    inherited = "greedy_baseline: false, trained: null, demonstrations: [], demonstrate_as: demo"
    assert read(f"{{Fork: {{n: 2, {inherited}, places: {{TopEntropy: {{points: 3}}}}}}}}") == Fork(
        n=2, fork_points=TopEntropy(3)
    )
    assert read("{LearnToHint: {search: at once, tries: null, worth: {HintWorth: {}}}}") == LearnToHint()
    assert read("{ReplayAndReflect: {help: {Stored: {most: 3}}, most: 3}}") == ReplayAndReflect(most=3)


@pytest.mark.parametrize(
    ("strategy", "setting"),
    [
        ("{Fork: {greedy_baseline: true}}", "greedy_baseline"),
        ("{ReplayAndReflect: {when: some wrong}}", "when"),
        ("{RubricShown: {help: {WorkedExamples: {count: 2}}}}", "help"),
    ],
)
def test_inherited_settings_that_had_an_effect_are_refused(strategy: str, setting: str) -> None:
    with pytest.raises(PodiumError, match=f"no longer has the setting '{setting}'"):
        read(strategy)


def test_a_setting_of_the_draw_is_named_by_its_path() -> None:
    with pytest.raises(PodiumError, match=r"Did you mean 'rollout\.draw\.temperature'"):
        methods.grpo().set("rollout.temperature", 0.7)
    with pytest.raises(PodiumError, match=r"Did you mean 'draw\.temperature'"):
        Sample(temperature=0.7)  # type: ignore[call-arg]
    assert methods.grpo().set("rollout.draw.temperature", 0.7).rollout.temperature == 0.7  # type: ignore[union-attr]


def test_the_loop_asks_a_strategy_only_for_what_it_declares() -> None:
    assert Strategy().n is None
    assert Strategy().temperature == 1.0
    assert Strategy().draw_shift is None
    assert Strategy().writers == ()
    assert LearnToHint().writers == ("hinter",)
    assert Continuations(temperature=0.5).temperature == 0.5


def test_a_warmth_shifts_the_distribution() -> None:
    assert Sample(draw=Draw(warmth=Warmth())).draw_shift is not None
    assert Sample(draw=Draw(temperature=0.5)).at(Clock()).draw_shift is None


@pytest.mark.parametrize("draw", [Draw(top_p=0.9), Draw(top_k=5), Draw(min_p=0.1), Draw(grammar=Pattern("[0-9]+"))])
def test_truncation_and_grammars_restrict_what_can_be_drawn(draw: Draw) -> None:
    assert Sample(draw=draw).restricts
    assert Sample(draw=draw).draw_shift is None
    assert not Sample(draw=Draw(temperature=0.5)).restricts


def test_a_draw_keeps_the_limits_of_the_run() -> None:
    limits = Sampling(max_tokens=30, stop=("x",))
    assert Draw(temperature=0.5, token_share=0.5).sampling(limits) == Sampling(
        temperature=0.5, max_tokens=15, stop=("x",)
    )
    assert Draw(token_share=0.001).sampling(limits).max_tokens == 1


def test_strategies_refuse_settings_of_the_draw_that_they_decide_themselves() -> None:
    for strategy in (BudgetedTurns, NextTurn):
        with pytest.raises(PodiumError, match=r"decides on max_turns itself: leave draw\.max_turns out"):
            strategy(draw=Draw(max_turns=2))
