"""Values, schedules and the clock: frozen, printable as code, checked when made."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

import podium
from podium import methods
from podium.core.errors import PodiumError
from podium.core.schedule import Cosine, Follow, Linear, Steps
from podium.core.signal import Signal
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.core.value import REGISTRY, Clock, Value
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Draw, Sample


def test_values_are_frozen_compare_by_value_and_hash() -> None:
    a, b = Normalize(scale="none"), Normalize(scale="none")
    assert a == b
    assert hash(a) == hash(b)
    assert a != Normalize()
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.scale = "std"  # type: ignore[misc]


def test_lists_are_kept_as_tuples_so_that_values_stay_comparable() -> None:
    assert Normalize(key=["group", "turn.state"]) == Normalize(key=("group", "turn.state"))  # type: ignore[arg-type]
    assert hash(Steps([1.0, 2.0], [0, 5])) == hash(Steps((1.0, 2.0), (0, 5)))  # type: ignore[arg-type]


def test_every_recipe_prints_as_the_code_that_makes_it() -> None:
    for slug in methods.RECIPES:
        method = methods.get(slug)  # the classes of its parts are registered when they are first imported
        assert eval(repr(method), REGISTRY | {"Signal": Signal, "inf": math.inf}) == method


def test_a_value_prints_the_settings_that_differ_from_their_defaults() -> None:
    assert repr(Clip(0.2, 0.28)) == "Clip(high=0.28)"
    assert repr(KL("k1", coefficient=Linear(1.0, 0.0, over=5))) == (
        "KL(coefficient=Linear(start=1.0, end=0.0, over=5), estimator='k1')"
    )
    assert repr(Signal("entropy", top_p=0.8, grad=True)) == "Signal('entropy', of='now', grad=True, top_p=0.8)"


def test_replace_changes_one_setting_and_checks_it_again() -> None:
    assert Clip().replace(high=0.3) == Clip(high=0.3)
    with pytest.raises(PodiumError, match=r"Clip has no setting 'hihg'. Did you mean 'high'"):
        Clip().replace(hihg=0.3)
    with pytest.raises(PodiumError, match=r"Clip.high = -0.3 is out of range \[0, inf\]"):
        Clip().replace(high=-0.3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sample(n=0), r"Sample.n = 0 is out of range \[1, inf\]"),
        (lambda: Sample(n=2.5), "Sample.n = 2.5 must be a whole number"),
        (lambda: Draw(temperature="hot"), "Draw.temperature = 'hot' must be a number"),
        (lambda: Draw(top_p=1.5), r"Draw.top_p = 1.5 is out of range \(0, 1\]"),
        (lambda: Draw(temprature=1.0), "Draw has no setting 'temprature'. Did you mean 'temperature'"),
        (lambda: Sample(temperature=1.0), "Sample has no setting 'temperature'. Did you mean 'draw.temperature'"),
        (lambda: Updates(epochs=True), "Updates.epochs = True must be a number"),
        (lambda: Updates(unit="token"), "Updates.unit = 'token' is not one of 'group', 'rollout'"),
        (lambda: PolicyGradient(ratio="none", clip=Clip()), "has nothing to clip: set clip=None"),
        (lambda: PolicyGradient(ratio="group"), "PolicyGradient.ratio = 'group' is wider than a rollout"),
        (lambda: Clip(dual=1.0), r"Clip.dual = 1.0 is out of range \(1, inf\]"),
        (lambda: KL("k4"), "KL.estimator = 'k4' is not one of"),
        (lambda: KL(coefficient=Linear(0.1, -0.1, over=3)).replace(limit=-1.0), "KL.limit = -1.0 is out of range"),
        (lambda: podium.advantage.GAE(lam=Linear(0.9, 1.1, over=9)), r"GAE.lam = Linear.* is out of range \[0, 1\]"),
        (lambda: Linear(1.0, 0.0, over=0), r"Linear.over = 0 is out of range \[1, inf\]"),
        (lambda: Steps((1.0, 2.0), (0,)), "Steps needs one start for each value"),
        (lambda: Steps((1.0, 2.0), (1, 2)), "the first 0"),
        (lambda: Steps((1.0, 2.0, 3.0), (0, 5, 4)), "must not decrease"),
        (lambda: Follow("x", low=1.0, high=0.0), "low must be below"),
        (lambda: Aggregate("token maen"), "'token maen' is not 'LEVEL mean' or 'LEVEL sum'"),
        (lambda: Aggregate("token sum / 0"), "divides by '0': give a number above 0"),
        (lambda: Aggregate("token sum / 1e"), "divides by '1e': give a number above 0"),
        (
            lambda: PolicyGradient(aggregate=Aggregate("rollout mean")),
            "its aggregate must start there, not with 'rollout'",
        ),
    ],
)
def test_settings_out_of_range_name_the_field_the_value_and_the_range(make: Any, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        make()


def test_a_clip_bound_may_be_a_column_but_other_numbers_may_not() -> None:
    assert PolicyGradient(clip=Clip(low="token.low")).needs[-1] == "token.low"
    with pytest.raises(PodiumError, match="must be a number"):
        Clip(dual="token.dual")


# -- schedules -------------------------------------------------------------------------------------------------------


def at(schedule: Any, iteration: int, **values: float) -> float:
    return schedule.number(Clock(iteration, {name.replace("__", "."): x for name, x in values.items()}))


def test_a_line_a_cosine_and_steps_at_their_ends_and_between() -> None:
    line, curve, steps = Linear(1.0, 0.0, over=10), Cosine(1.0, 0.0, over=10), Steps((1.0, 0.5, 0.1), (0, 5, 8))
    assert [at(line, i) for i in (0, 5, 10, 99)] == [1.0, 0.5, 0.0, 0.0]
    assert [at(curve, i) for i in (0, 5, 10, 99)] == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert at(curve, 2) == pytest.approx(0.5 * (1 + math.cos(0.2 * math.pi)))
    assert [at(steps, i) for i in (0, 4, 5, 7, 8, 99)] == [1.0, 1.0, 0.5, 0.5, 0.1, 0.1]


def test_follow_scales_and_holds_what_a_memory_exposes() -> None:
    follow = Follow("controller.kl", scale=2.0, offset=0.1, low=0.0, high=1.0, initial=0.2)
    assert at(follow, 0) == pytest.approx(0.5)
    assert at(follow, 0, controller__kl=0.3) == pytest.approx(0.7)
    assert at(follow, 0, controller__kl=9.0) == 1.0
    assert at(follow, 0, controller__kl=-9.0) == 0.0


def test_a_method_at_a_clock_has_plain_numbers_however_deep_the_schedule_is() -> None:
    method = methods.grpo() | KL(coefficient=Linear(0.1, 0.0, over=10))
    method = method.set("objective.PolicyGradient.clip.high", Linear(0.2, 0.4, over=10))
    now = method.at(Clock(5))
    assert now.objective[0].clip.high == pytest.approx(0.3)  # type: ignore[attr-defined]
    assert now.objective[1].coefficient == pytest.approx(0.05)
    assert method.objective[1].coefficient == Linear(0.1, 0.0, over=10)  # the method itself is unchanged
    assert methods.grpo().at(Clock(5)) == methods.grpo()


def test_a_followed_number_that_leaves_its_range_is_refused_when_it_does() -> None:
    part = podium.advantage.GAE(lam=Follow("x"))
    assert part.at(Clock(0, {"x": 0.5})).lam == 0.5
    with pytest.raises(PodiumError, match=r"GAE.lam = 1.5 is out of range \[0, 1\]"):
        part.at(Clock(0, {"x": 1.5}))


def test_names_of_values_are_unique() -> None:
    assert all(cls.__name__ == name and issubclass(cls, Value) for name, cls in REGISTRY.items())
