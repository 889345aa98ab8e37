"""Pieces: texts with tokens in them, which work wherever a text does."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pyarrow as pa
import pytest

from podium.core.errors import PodiumError
from podium.protocols.context import Context, Exchange, Full, History, Rebuild, Window, Wrote
from podium.protocols.pieces import ModelTokens, Picture, Pieces, filled, joined, pieces_of
from podium.protocols.scaffold import Scaffold

CALL = ModelTokens("<|call|>", 7)
SAID = Pieces("a ", CALL, " b")


def test_people_see_pieces_as_text() -> None:
    assert str(SAID) == "a <|call|><token 7> b"
    assert type(str(SAID)) is str
    assert str(Pieces(Picture("cat.png"))) == "<picture cat.png>"
    assert repr(SAID) == "Pieces('a ', ModelTokens('<|call|>', 7), ' b')"
    assert pa.array([SAID, "x"]).to_pylist() == [str(SAID), "x"]


def test_pieces_do_not_equal_the_text_that_people_see() -> None:
    """A cache of encoded texts must not mistake one for the other."""
    shown = str(SAID)
    assert shown != SAID
    assert shown != SAID
    assert {shown: 1}.get(SAID) is None
    assert {SAID: 1}[Pieces("a ", CALL, " ", "b")] == 1
    assert Pieces("a", "", "b") == "ab"
    assert {"ab": 1}[Pieces("a", "b")] == 1
    assert Pieces() == Pieces("") == ""


def test_neighbouring_texts_are_one() -> None:
    assert pieces_of("x" + SAID + "y" + Pieces("z")) == ("xa ", CALL, " byz")
    assert pieces_of(joined("\n", ["x", SAID, "y"])) == ("x\na ", CALL, " b\ny")
    assert pieces_of(filled("{{{n}}} {q}!", n="1", q=SAID)) == ("{1} a ", CALL, " b!")
    assert joined("\n", ["x", "y"]) == "x\ny"
    assert filled("{q}!", q="x") == "x!"
    said = Pieces("x")
    said += SAID
    assert pieces_of(said) == ("xa ", CALL, " b")


def test_copies_keep_the_pieces() -> None:
    for again in (copy.copy(SAID), copy.deepcopy(SAID), pickle.loads(pickle.dumps(SAID))):
        assert pieces_of(again) == pieces_of(SAID)


@pytest.mark.parametrize(
    ("context", "opening"),
    [
        (Full(), SAID),
        (Window(0), SAID + "\n" + Pieces(CALL)),
        (Rebuild(), SAID + "\nknown\n" + Pieces(CALL)),
        (Scaffold("h", attempt="t", above="x", below="y"), "x\n" + SAID + "\nattempt: t\nhint: h\ny"),
    ],
)
def test_contexts_keep_the_pieces(context: Context, opening: str) -> None:
    history = History(SAID, (Exchange(Wrote((1,)), "w", Pieces(CALL)),), "known")
    assert context(history)[0] == opening


@pytest.mark.parametrize("wrong", ["", -1, True, 1.5, None])
def test_what_is_no_token_is_refused(wrong: Any) -> None:
    with pytest.raises(PodiumError, match="names and ids of tokens"):
        ModelTokens(wrong)


def test_what_is_no_piece_is_refused() -> None:
    with pytest.raises(PodiumError, match="Pieces are texts, ModelTokens and Pictures, not 3"):
        Pieces("a", 3)  # type: ignore[arg-type]
