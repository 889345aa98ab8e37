"""Regular expressions and devices as automata over tokens."""

from __future__ import annotations

import json
import re

import pytest

from podium.core.errors import PodiumError
from podium.protocols.grammar import Pattern, Routed, Vocabulary, json_pattern
from podium.protocols.pattern import compiled

WORDS = Vocabulary(("", "", "a", "b", "ab", "1", "12", "<"), 9, (1,), {"<open>": 0, "<end>": 1})


@pytest.mark.parametrize(
    "pattern", ["a|bc", "(a|b)*c", "[a-c]+1?", "[^a]{2,3}", "a{2}", r"\(\.\)", "x(y|)z", "a.b", "(ab{1,2}){2}", "a{1,}"]
)
def test_expressions_match_as_python_reads_them(pattern: str) -> None:
    texts = ["", "a", "bc", "c", "abac", "ab1", "xx", "xxx", "aa", "aaa", "(.)", "xyz", "xz", "a-b", "abab", "abbab"]
    for text in texts:
        assert compiled(pattern).matches(text) == (re.fullmatch(pattern, text) is not None), text


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "*a", "a{x}", "a{3,2}", "a\\"])
def test_an_expression_that_cannot_be_read_says_where(pattern: str) -> None:
    with pytest.raises(PodiumError, match=r"cannot be read: .* at character \d"):
        Pattern(pattern)


def allowed(table: object, state: int) -> list[int]:
    return [token for token, after in enumerate(table[state]) if after >= 0]  # type: ignore[index]


def test_a_token_is_allowed_where_all_of_its_characters_are() -> None:
    table = Pattern("ab?1").table(WORDS)
    assert allowed(table, 0) == [2, 4]
    assert allowed(table, int(table[0, 2])) == [3, 5]
    assert allowed(table, int(table[0, 4])) == [5]
    assert allowed(table, int(table[int(table[0, 4]), 5])) == [1]  # the end alone


def test_what_cannot_be_finished_in_these_tokens_is_not_begun() -> None:
    assert allowed(Pattern("a1|b2").table(WORDS), 0) == [2]
    with pytest.raises(PodiumError, match="No text in the model's tokens matches"):
        Pattern("b2").table(WORDS)


def test_a_special_token_opens_a_device() -> None:
    table = Routed((("<open>", "1|12"),)).table(WORDS)
    assert allowed(table, 0) == list(range(9))
    assert set(table[0, 1:].tolist()) == {0}
    assert allowed(table, int(table[0, 0])) == [5, 6]
    assert allowed(table, int(table[int(table[0, 0]), 6])) == [1]
    with pytest.raises(PodiumError, match="no special token of this name"):
        Routed((("<shut>", "1"),)).table(WORDS)


def test_calls_of_tools_are_json() -> None:
    automaton = compiled(json_pattern({"look": {"place": "string", "times": "integer"}, "wait": {}}))
    for call in ({"name": "look", "arguments": {"place": "hall", "times": -3}}, {"name": "wait", "arguments": {}}):
        assert automaton.matches(json.dumps(call))
    for text in ('{"name": "look", "arguments": {}}', '{"name": "wait", "arguments": {}', '{"name": "go"}'):
        assert not automaton.matches(text)
    with pytest.raises(PodiumError, match="kind 'date'"):
        json_pattern({"look": {"day": "date"}})
