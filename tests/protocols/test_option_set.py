"""Sets of options as texts and as integers, and the choices that they allow."""

from __future__ import annotations

import pytest

from podium.core.errors import PodiumError
from podium.protocols.option_set import (
    ALONE,
    EACH,
    LINKS,
    ONE,
    PAIRS,
    OptionRow,
    OptionSet,
    choice_of,
    decode_set,
    encode_set,
    read_set,
)

ROWS = (
    OptionRow("reader", (1.0, 0.25)),
    OptionRow("far away: 3", (-0.125, 2.0), "shown"),
    OptionRow("solver", (0.001, 0.0)),
)
HOST = (*ROWS, OptionRow("exit", (0.0, 0.0), "final"), OptionRow("placed", (0.5, 0.5), "source"))


@pytest.mark.parametrize("kind", [ONE, EACH, PAIRS, LINKS])
def test_a_set_survives_text_and_integers(kind: str) -> None:
    options = OptionSet(kind, HOST)
    assert read_set(f"query: find 3 7\n{options}") == options
    decoded = decode_set(encode_set(options))
    assert [(row.numbers, row.mark) for row in decoded.rows] == [(row.numbers, row.mark) for row in options.rows]
    assert decoded.kind == kind


def test_what_is_decided_by_yes_or_no() -> None:
    assert OptionSet(EACH, ROWS).decided() == ((0, ALONE), (2, ALONE))
    assert OptionSet(PAIRS, ROWS).decided() == ((0, 2),)
    assert OptionSet(ONE, ROWS).decided(0) == ()
    assert OptionSet(LINKS, HOST).decided(0) == ((4, 0),)
    assert OptionSet(LINKS, HOST).decided(3) == ()  # a final option takes no links


@pytest.mark.parametrize(
    ("kind", "text", "choice"),
    [
        (ONE, "2", (2,)),
        (ONE, "1", None),  # masked
        (ONE, "7", None),
        (ONE, "", None),
        (ONE, "2 1", None),
        (EACH, "0 1", (0, 1)),
        (EACH, "0 2", None),
        (EACH, "yes", None),
        (LINKS, "0 1", (0, 1)),
        (LINKS, "0", None),
        (LINKS, "3", (3,)),
        (LINKS, "3 0", None),
    ],
)
def test_only_what_a_set_allows_is_a_choice(kind: str, text: str, choice: tuple[int, ...] | None) -> None:
    assert choice_of(text, OptionSet(kind, HOST if kind == LINKS else ROWS)) == choice


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("What is 2 + 3?", "is no set of options. Take a world that offers options"),
        ("choose one", "is empty"),
        ("choose one\n- a: 1\n- b: 2", "None of the 2 options can be chosen"),
        ("choose one\na: 1 2\nb: 1", "'b' has 1 numbers, the first one 2"),
        ("choose two\na: 1", "not for 'two'"),
        ("choose one\na: x", "no name, colon and numbers"),
        ("choose pairs\na: 1", "no pair to choose"),
    ],
)
def test_what_is_no_set_gets_a_sentence(text: str, message: str) -> None:
    with pytest.raises(PodiumError, match=message.replace("?", r"\?").replace("+", r"\+")):
        read_set(text)
