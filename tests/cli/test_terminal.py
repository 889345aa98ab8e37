"""On a terminal everything fits the width, and no word is broken."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from podium.cli import console, main
from podium.cli.console import wrapped
from podium.report.live import Live
from podium.sessions.train import train
from tests.sessions.test_train import small

Capture = pytest.CaptureFixture[str]
WIDTHS = (60, 80, 120)


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A terminal of this many columns."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setattr(console, "_is_terminal", lambda stream: True)
    return int(request.param)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mine"
    train(small(iterations=1), out=out)
    return out


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-zA-Z]{3,}", text))


def printed(capsys: Capture, line: str) -> str:
    capsys.readouterr()
    main(line.split())
    return plain(capsys.readouterr().out)


def whole(capsys: Capture, monkeypatch: pytest.MonkeyPatch, line: str) -> str:
    """What a pipe gets."""
    with monkeypatch.context() as patch:
        patch.setattr(console, "_is_terminal", lambda stream: False)
        return printed(capsys, line)


@pytest.mark.parametrize(
    "line",
    [
        "methods",
        "methods --search curriculum",
        "methods show grpo",
        "methods show gigpo --all",
        "methods show drive",
        "methods show confucius3-math --all",
        "methods compare grpo",
        "methods compare rloo ppo real",
        "methods matrix grpo",
        "methods matrix dapo steer",
        "methods matrix gigpo ppo",
        "methods check grpo",
        "worlds",
        "lab",
        "eval podium/tiny --world echo --tasks 2 --k 1 2",
        "eval podium/tiny --world echo --tasks 2 --k 1 2 --compare podium/tiny",
        "eval podium/tiny --world sums --tasks 2 --thinking 0,4",
        "rollouts RUN",
    ],
)
def test_everything_fits_and_no_word_is_broken(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, directory: Path, width: int, line: str
) -> None:
    line = line.replace("RUN", str(directory))
    shown = printed(capsys, line)
    assert shown
    assert max(map(len, shown.splitlines())) <= width
    unbroken = whole(capsys, monkeypatch, line)
    long = {word for token in unbroken.split() if len(token) > width - 12 for word in words(token)}
    broken = words(shown) - words(unbroken) - {fragment for fragment in words(shown) if _part_of(fragment, long)}
    assert broken == set()


def _part_of(fragment: str, tokens: set[str]) -> bool:
    """Whether it may be left of a token, such as a path, that is wider than the screen."""
    return any(fragment in token for token in tokens)


def test_the_matrix_of_all_methods_fits(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(console, "_is_terminal", lambda stream: True)
    assert max(map(len, printed(capsys, "methods matrix").splitlines())) <= 60


@pytest.mark.parametrize(
    "line", ["--help", "train --help", "eval --help", "compare --help", "methods --help", "methods show --help"]
)
def test_help_fits(capsys: Capture, width: int, line: str) -> None:
    assert max(map(len, printed(capsys, line).splitlines())) <= width


def test_an_error_is_broken_between_words_too(capsys: Capture, width: int) -> None:
    main(["methods", "show", "xyzzy-xyzzy"])
    shown = plain(capsys.readouterr().err)
    assert max(map(len, shown.splitlines())) <= width
    assert "There is no method" in shown


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one  two", 20, ["one  two"]),
        ("objective.PolicyGradient.clip", 12, ["objective.", "PolicyGradie", "nt.clip"]),
        ("a/long/path/of/a/file", 12, ["a/long/path/", "of/a/file"]),
        ("", 5, [""]),
    ],
)
def test_words_are_broken_only_where_they_are_wider_than_a_line(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width) == lines


def test_colour_is_left_out_where_the_environment_asks_for_that(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    main(["methods", "--family", "base"])
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["methods", "--family", "base"])
    assert "\x1b[" not in capsys.readouterr().out


# -- progress ------------------------------------------------------------------------------------------------------


def test_a_long_wait_says_what_it_is_for(capsys: Capture) -> None:
    terminal = Console(file=sys.stdout, force_terminal=True, width=80)
    with Live(terminal) as live:
        live.stage("Loading podium/tiny [1]")
    assert "Loading podium/tiny [1] …" in plain(capsys.readouterr().out)


def test_a_file_gets_no_line_for_a_wait(capsys: Capture) -> None:
    with Live(Console(file=sys.stdout, force_terminal=False)) as live:
        live.stage("Loading podium/tiny")
        live.tell("A note.")
    assert capsys.readouterr().out == "A note.\n"
