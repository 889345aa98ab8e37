"""What a world and a run send each other is what arrives."""

from __future__ import annotations

from typing import Any

import pytest

from podium.protocols.world import Task
from podium.worlds import ModelTokens, Picture, Pieces
from podium.worlds.hosting import task_to_wire
from podium.worlds.wire import Unsendable, from_wire, to_wire


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 1 << 200, -1.5, "a\ud800", b"ab", [1, (2, "x")], {1, 2}, frozenset("a"), {("a", 1): {"b": [None]}}],
)
def test_values_come_back_as_they_were_sent(value: Any) -> None:
    assert from_wire(to_wire(value)) == value
    assert type(from_wire(to_wire(value))) is type(value)


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(Unsendable, match="the world's info holds a object"):
        to_wire([object()], "info")
    for nonsense in ({}, {"tuple": 3}, {"call": []}, {"mapping": [[{"mapping": []}, 1]]}, {"bytes": "x"}):
        with pytest.raises(ValueError, match="is no value of a world"):
            from_wire(nonsense)
    with pytest.raises(Exception, match=r"task.data\['x'\]"):
        task_to_wire(Task("k", "p", data={"x": object()}))


def test_control_tokens_of_a_world_stay_control_tokens() -> None:
    observation = Pieces("Found: ", ModelTokens("<|tool|>", 7), Picture("map.png"))
    arrived = from_wire(to_wire(observation))
    assert isinstance(arrived, Pieces)
    assert arrived.pieces == observation.pieces
    assert not isinstance(from_wire(to_wire(str(observation))), Pieces)  # text that looks like them is text
