"""How often the grader agrees with people: `python -m tools.grader` prints the share for the answers that it was tuned
on and for those set apart, with false accepts and false rejects. `--show tuning` prints the disagreements of a set."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from podium.worlds.grading import grade_answer
from podium.worlds.jsonl import Jsonl

FILE = Path(__file__).parents[1] / "tests" / "worlds" / "grader_answers.jsonl"


def answers(chosen: str) -> list[dict[str, Any]]:
    """The answers of a set, `tuning` or `apart`."""
    rows = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    return [row for row in rows if row["set"] == chosen]


def disagreements(rows: list[dict[str, Any]], grader: str = "auto") -> Iterator[tuple[dict[str, Any], str]]:
    """The answers that the grader decides otherwise, and the reason that it gives."""
    world = Jsonl(file="none", grader=grader)
    for row in rows:
        grade = grade_answer(row["gold"], row["text"], world.equal, row.get("choices"))
        if grade.correct != row["right"]:
            yield row, grade.why
    world.close()


def main() -> None:
    shown = sys.argv[2] if sys.argv[1:2] == ["--show"] else ""
    for name in ("tuning", "apart"):
        rows = answers(name)
        wrong = list(disagreements(rows))
        accepted = sum(not row["right"] for row, _ in wrong)
        share = 1 - len(wrong) / len(rows)
        print(
            f"{name}: {len(rows)} answers, {sum(r['right'] for r in rows)} right; agreement {share:.1%}, "
            f"false accepts {accepted}, false rejects {len(wrong) - accepted}"
        )
        for row, why in wrong if name == shown else ():
            print(f"  {'accepted' if not row['right'] else 'rejected'}: {row['gold']!r} | {row['text']!r} | {why}")


if __name__ == "__main__":
    main()
