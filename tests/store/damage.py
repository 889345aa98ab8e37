"""Ways in which the files of a run are damaged, each decided by a seed; and a run as an earlier version wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

__all__ = ["DAMAGES", "as_without_manifest", "damage"]

HUGE = (b"9" * 5000, b"1e999", b"-99999999999999999999", b'"text"', b"[]", b"{}", b"null", b"true", b"NaN", b"0.5")


def damage(file: Path, others: list[Path], seed: int) -> str:
    """Damage a file in a way that the seed decides; returns the way's name."""
    random = Random(seed)
    way = DAMAGES[seed % len(DAMAGES)]
    way(file, others, random)
    return way.__name__


def flip_bit(file: Path, others: list[Path], random: Random) -> None:
    content = bytearray(file.read_bytes() or b"\0")
    for _ in range(random.choice((1, 1, 1, 8))):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    file.write_bytes(content)


def truncate(file: Path, others: list[Path], random: Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: random.randrange(len(content) + 1) if random.random() < 0.8 else 0])


def delete(file: Path, others: list[Path], random: Random) -> None:
    file.unlink()


def fill_with_zeros(file: Path, others: list[Path], random: Random) -> None:
    content = bytearray(file.read_bytes())
    start = random.randrange(len(content) + 1)
    end = random.choice((len(content), min(len(content), start + 64)))
    content[start:end] = bytes(end - start)
    file.write_bytes(content)


def swap(file: Path, others: list[Path], random: Random) -> None:
    file.write_bytes(random.choice(others).read_bytes())


def change_value(file: Path, others: list[Path], random: Random) -> None:
    """Put a value of another type, or a huge one, in the place of a number or a word."""
    content = file.read_bytes()
    places = [
        i for i in range(1, len(content)) if content[i - 1 : i] in (b" ", b":", b"[") and content[i : i + 1] > b" "
    ]
    start = random.choice(places or [0])
    end = next((i for i in range(start, len(content)) if content[i : i + 1] in (b",", b"}", b"]", b"\n")), len(content))
    file.write_bytes(content[:start] + random.choice(HUGE) + content[end:])


def replace_by_random(file: Path, others: list[Path], random: Random) -> None:
    file.write_bytes(random.randbytes(random.choice((0, 1, 100, file.stat().st_size))))


def duplicate(file: Path, others: list[Path], random: Random) -> None:
    content = file.read_bytes()
    lines = content.splitlines(keepends=True)
    if len(lines) > 1 and random.random() < 0.7:
        lines.insert(random.randrange(len(lines)), random.choice(lines))
        content = b"".join(lines)
    else:
        content *= 2
    file.write_bytes(content)


def replace_by_json(file: Path, others: list[Path], random: Random) -> None:
    file.write_bytes(
        random.choice((b"[]", b"[1, 2]", b"{}", b"3", b'"a"', b"null", b"[" * 5000, b'{"a": ' + HUGE[0] + b"}"))
    )


def spoil_encoding(file: Path, others: list[Path], random: Random) -> None:
    content = file.read_bytes()
    place = random.randrange(len(content) + 1)
    file.write_bytes(content[:place] + b"\xff\xfe\xc3(" + content[place:])


def replace_by_folder(file: Path, others: list[Path], random: Random) -> None:
    file.unlink()
    (file / "inside").mkdir(parents=True)


DAMAGES: tuple[Callable[[Path, list[Path], Random], None], ...] = (
    *(flip_bit, truncate, delete, fill_with_zeros, swap, change_value, replace_by_random, duplicate),
    *(replace_by_json, spoil_encoding, replace_by_folder),
)


def as_without_manifest(run: Path) -> None:
    """Turn a run's checkpoints and metrics into what versions before manifests wrote."""
    for checkpoint in (run / "checkpoints").iterdir():
        (checkpoint / "manifest.json").unlink()
        (checkpoint / "config.yaml").unlink()
        state = json.loads((checkpoint / "state.json").read_text())
        del state["manifest"], state["tokens"]
        (checkpoint / "state.json").write_text(json.dumps(state))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    plain = [{name: value for name, value in line.items() if name != "check"} for line in lines]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in plain))
