"""YAML from elsewhere: whatever it holds, the answer is one sentence, at once, with the line."""

from __future__ import annotations

import time

import pytest

from podium.core.errors import PodiumError
from podium.core.yaml_text import LONGEST_TEXT, dump, from_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"the alias \*a is not read: repeat what it stands for \(line 2\)"),
        ("a: &a [*a]", r"the alias \*a is not read"),
        ("\nx: " + "[" * 90_000, r"nested more than 100 levels deep \(line 2\)"),
        ("- " * 45_000 + "x", "nested more than 100 levels deep"),
        ("".join(f"{' ' * n}a:\n" for n in range(300)), r"nested more than 100 levels deep \(line 100\)"),
        ("{" * 90_000, "nested more than 100 levels deep"),
        (f"\nseed: {'9' * 5000}", r"a number has 5000 characters \(line 2\)"),
        (f"seed: 0x{'f' * 90_000}", "a number has 90002 characters"),
        (f"seed: {'1:' * 40_000}1", "a number has 80001 characters"),  # to base 60
        (f"lr: {'1:' * 40_000}1.0", "a number has 80003 characters"),
        ("lr: 1\nlr: 2", r"the key 'lr' occurs twice \(line 2\)"),
        ("a:\n  b: {c: 1, 'c': 2}", r"the key 'c' occurs twice \(line 2\)"),
        ("<<: {a: 1}\n<<: {b: 1}", r"the key '<<' occurs twice \(line 2\)"),
        ("when: 2026-99-99", r"no value of the type timestamp \(line 1\)"),
        ("x: !!int ''", "no value of the type int"),
        ("x: !!bool maybe", "no value of the type bool"),
        ("x: !!timestamp soon", "no value of the type timestamp"),
        ("x: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("x: !!python/name:os.system", "could not determine a constructor"),
        ("x: !mine 3", "could not determine a constructor"),
        ("? [a, b]\n: 1", "unhashable key"),
        ("a: 1\n---\nb: 2", r"expected a single document|another document"),
        ("x: \x1b[31m", "special characters are not allowed"),
        ("x: \ud800", "special characters are not allowed"),
        ("x" * (LONGEST_TEXT + 1), "100,001 characters; at most 100,000 are read"),
    ],
)
def test_hostile_yaml_is_refused_at_once(text: str, message: str) -> None:
    began = time.process_time()
    with pytest.raises(PodiumError, match=message) as refusal:
        from_yaml(text)
    assert time.process_time() - began < 1.5
    assert "\n" not in str(refusal.value)


def test_ordinary_yaml_is_read() -> None:
    text = "a: 1e-6\nb: [1, 2.5, .inf, null, true]\nc: {d: text, e: '007'}\nf: 1_000\ng: 0x1F\n"
    values = {"a": 1e-6, "b": [1, 2.5, float("inf"), None, True], "c": {"d": "text", "e": "007"}, "f": 1000, "g": 31}
    assert from_yaml(text) == values


def test_data_used_in_several_places_is_written_without_aliases_and_read_again() -> None:
    shared = {"deep": [1, 2]}
    data = {"a": shared, "b": [shared, shared]}
    assert "*" not in dump(data)
    assert from_yaml(dump(data)) == data


def test_long_numbers_are_read_as_long_as_they_are_finite_as_floats() -> None:
    assert from_yaml(f"x: {10**299}")["x"] == 10**299


def test_settings_that_could_not_be_read_again_are_not_written() -> None:
    with pytest.raises(PodiumError, match="keep large data in a file"):
        dump({"rows": ["x" * 50] * 2000})
