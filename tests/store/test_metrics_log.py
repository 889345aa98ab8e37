"""Lines of metrics carry a check: a damaged one is set aside and named, and all others stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podium.store.metrics_log import append_line, read_log, rewind_log


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for iteration in range(5):
        append_line(tmp_path / "metrics.jsonl", {"iteration": iteration, "reward": iteration / 4})
    return tmp_path / "metrics.jsonl"


def spoil(file: Path, old: bytes, new: bytes) -> None:
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new, 1))


def iterations(file: Path) -> list[int]:
    return [line["iteration"] for line in read_log(file).lines]


def test_a_line_is_plain_json_with_its_check_at_the_end(file: Path) -> None:
    line = json.loads(file.read_text().splitlines()[1])
    assert list(line) == ["iteration", "reward", "check"]
    assert read_log(file).lines[1] == {"iteration": 1, "reward": 0.25}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"0.25", b"0.35", "other characters than its check says"),
        (b'{"iteration": 1,', b'{"iteration" 1,', "other characters"),
        (b'"iteration": 1, "reward": 0.25, "check"', b'"iteration": 1, "reward": 0.25, "chexk"', "it has no check"),
        (b"0.25", b"\xff\xfe", "other characters"),
        (b'"iteration": 1, "reward": 0.25, "check": "', b"[" * 3000, "not JSON"),
    ],
)
def test_a_damaged_line_is_named_and_the_others_stay(file: Path, old: bytes, new: bytes, reason: str) -> None:
    spoil(file, old, new)
    damaged = [line for line in file.read_bytes().split(b"\n") if new in line]
    assert iterations(file) == [0, 2, 3, 4]
    note = rewind_log(file, 3)
    assert f"line 2 is damaged ({reason}" in note
    assert note.endswith(f"moved to metrics.damaged.jsonl. {file} has no metrics of iteration 1.")
    assert iterations(file) == [0, 2, 3]
    assert (file.parent / "metrics.damaged.jsonl").read_bytes().split(b"\n")[:-1] == damaged
    assert rewind_log(file, 3) == f"{file} has no metrics of iteration 1."  # said as long as it is so, set aside once
    assert (file.parent / "metrics.damaged.jsonl").read_bytes().split(b"\n")[:-1] == damaged


def test_a_sound_file_is_rewound_without_a_note(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    assert rewind_log(file, 2) == ""
    assert file.read_bytes() == b"".join(lines[:3])
    assert not (file.parent / "metrics.damaged.jsonl").exists()


def test_lines_out_of_order_are_put_in_order_and_second_ones_set_aside(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], lines[2], lines[1], lines[2], *lines[3:]]))
    assert iterations(file) == [0, 1, 2, 3, 4]
    assert "line 4 is damaged (another line of iteration 2)" in rewind_log(file, 4)
    assert file.read_bytes() == b"".join(lines)


def test_lines_of_earlier_versions_have_no_check(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b'{"iteration": 0}\n{"iteration": 1}\n' + b"".join(lines[2:]))
    assert rewind_log(file, 4) == ""
    assert iterations(file) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("text", ["[1]", "3", '{"a": 1}', '{"iteration": "x"}', '{"iteration": true}', "1" * 5000])
def test_other_json_is_damaged_too(file: Path, text: str) -> None:
    file.write_text(f"{text}\n")
    (line,) = read_log(file).damaged
    assert line.number == 1


def test_a_line_that_a_killed_process_did_not_finish_is_trained_again(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:-9])
    assert read_log(file).damaged == ()
    assert iterations(file) == [0, 1, 2, 3]
    file.write_bytes(content[:-1])  # only the end of the line is missing
    assert iterations(file) == [0, 1, 2, 3, 4]
