"""A value of the wrong kind is refused where it is given, in words."""

from __future__ import annotations

from typing import Any

import pytest

from podium import methods
from podium.core.errors import PodiumError
from podium.core.schedule import Linear, Number
from podium.core.term import Aggregate
from podium.core.value import Value
from podium.method import Method
from podium.parts.objective import KL, Clip, PolicyGradient


class Every(Value):
    number: float = 0.5
    schedule: Number = 0.5
    count: int = 1
    switch: bool = False
    word: str = "a"
    words: tuple[str, ...] = ()
    pair: tuple[float, float] = (0.0, 1.0)
    column: Number | str = 0.2
    clip: Clip | None = None
    careless: int = None  # type: ignore[assignment]
    unknown: NotThere = 3  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"number": "x"}, "Every.number = 'x' must be a number."),
        ({"number": True}, "Every.number = True must be a number."),
        ({"number": None}, "Every.number = None must be a number."),
        ({"schedule": "x"}, "Every.schedule = 'x' must be a number."),
        ({"count": 1.5}, "Every.count = 1.5 must be a whole number."),
        ({"switch": 1}, "Every.switch = 1 must be true or false."),
        ({"word": 3}, "Every.word = 3 must be text."),
        ({"words": "abc"}, "Every.words = 'abc' must be a list, each text."),
        ({"words": ("a", 3)}, "Every.words = ('a', 3) must be a list, each text."),
        ({"pair": (1.0,)}, "Every.pair = (1.0,) must be a list of 2."),
        ({"column": None}, "Every.column = None must be a number or text."),
        ({"clip": 0.2}, "Every.clip = 0.2 must be a Clip or None."),
    ],
)
def test_a_wrong_kind_is_named_with_what_would_do(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(PodiumError) as refusal:
        Every(**settings)
    assert str(refusal.value) == said
    with pytest.raises(PodiumError, match="must be"):
        Every().replace(**settings)


def test_what_fits_is_left_alone() -> None:
    ramp = Linear(0.0, 1.0, over=3)
    made = Every(
        number=1, schedule=ramp, words=["a", "b"], pair=(0, 1), column="token.low", clip=Clip(), unknown="anything"
    )
    assert (made.words, made.schedule, made.column) == (("a", "b"), ramp, "token.low")
    assert made.replace(count=2).careless is None  # a default may be whatever its author made it


def test_parts_and_methods_refuse_it_too() -> None:
    expected = r"PolicyGradient.clip = 'abc' must be a TrustRegion \(Bounds, SoftGate, DivergenceMask\) or None"
    with pytest.raises(PodiumError, match=expected):
        PolicyGradient(clip="abc")
    with pytest.raises(PodiumError, match=r"KL.coefficient = 'abc' must be a number"):
        methods.grpo().set("objective.KL.coefficient", "abc")
    with pytest.raises(PodiumError, match=r"KL.aggregate = 'token mean' must be an Aggregate"):
        KL(aggregate="token mean")
    assert KL(aggregate=Aggregate("token mean")).aggregate.path == "token mean"
    with pytest.raises(PodiumError, match="is not a part of the stage 'advantage'"):
        Method("x", advantage="Normalize")
