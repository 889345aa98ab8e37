"""`python -m tools.numbers entry-points|check|mutate [FILE …]`

`entry-points` says how many entry points of parts, memories and strategies the reference vectors run, and with
`--write` lists the tests that run the others in `tests/entry_points.json`; `check` runs those tests and sees that they
do. `mutate` changes each entry point in every way that `mutants.py` knows, runs the vectors and tests that run
it, and lists the mutants that none of them notices.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.numbers.entry_points import Subject, entry_points, helpers
from tools.numbers.mutants import BENT, Mutant, bent, mutants
from tools.numbers.recording import TESTS, Check, Recording, in_session, record

REASONS = Path(__file__).with_name("unnoticed.json")  # mutants that nothing notices, and why that is right
LISTED = Path(__file__).parents[2] / "tests" / "entry_points.json"
BY_HAND = ("tests/parts", "tests/memories", "tests/strategies")
LEAST = 0.95
LIMIT = 20.0  # seconds after which a check that a mutant holds up counts as failed
MEMORY = 16 * 2**30


class HeldUp(BaseException):
    """A check takes too long."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("entry-points", "check", "mutate"))
    parser.add_argument("files", nargs="*", help="below src/podium, or the beginnings of their paths (all)")
    parser.add_argument("--helpers", action="store_true", help="mutate the functions beside entry points, too")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="folders and files of tests, beside the vectors")
    parser.add_argument("--json", type=Path, help="write the survivors there")
    parser.add_argument("--again", type=Path, help="only the survivors that such a file lists")
    parser.add_argument("--write", action="store_true", help="write the list of tests")
    given = parser.parse_args()
    if given.what == "check":
        given.tests = sorted(set(json.loads(LISTED.read_text("utf-8")).values()))
    work = {"entry-points": _covered, "check": _checked, "mutate": _mutate}[given.what]
    return in_session(lambda checks: work(checks, given), given.tests)


def _covered(checks: list[Check], given: argparse.Namespace) -> int:
    subjects = entry_points()
    recording = record(checks, subjects)
    others, nothing = {}, []
    for subject in subjects:
        running = recording.by_subject[str(subject)]
        if any(check.vector for check in running):
            continue
        by_hand = [check for check in running if check.name.startswith(BY_HAND)] or running
        if by_hand:
            others[str(subject)] = by_hand[0].name
        else:
            nothing.append(subject)
            print(f"nothing runs {subject}", flush=True)
    vectors = len(subjects) - len(others) - len(nothing)
    if given.write:
        LISTED.write_text(json.dumps(others, indent=0) + "\n", "utf-8")
    print(f"vectors run {vectors} of {len(subjects)} entry points, tests with numbers {len(others)} of the others")
    return 1 if nothing else 0


def _checked(checks: list[Check], given: argparse.Namespace) -> int:
    """Whether each entry point is run by a vector, or by the test that the list names for it."""
    subjects = entry_points()
    recording, listed = record(checks, subjects), json.loads(LISTED.read_text("utf-8"))
    faults = [f"{name} is listed, but is no entry point" for name in listed if name not in set(map(str, subjects))]
    for subject in map(str, subjects):
        running = {check.name for check in recording.by_subject[subject]}
        if subject in listed and listed[subject] not in running:
            faults.append(f"{subject} is not run by {listed[subject]}, which is listed for it")
        elif subject not in listed and not any(name.startswith("vector ") for name in running):
            faults.append(f"{subject} is run by no vector and is not listed")
    print("\n".join(faults))
    return 1 if faults else 0


def _mutate(checks: list[Check], given: argparse.Namespace) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chosen = [*entry_points(), *(helpers() if given.helpers else ())]
    chosen = [s for s in chosen if not given.files or s.file.startswith(tuple(given.files))]
    again = set(map(_key, json.loads(given.again.read_text("utf-8")))) if given.again else None
    chosen = [s for s in chosen if again is None or str(s) in {subject for subject, _, _ in again}]
    recording = record(checks, chosen)
    start, total, survivors = time.monotonic(), 0, []
    for subject in chosen:
        for mutant in mutants(subject):
            row = {"subject": str(subject), "at": mutant.at, "change": mutant.change}
            if again is not None and _key(row) not in again:
                continue
            seen = noticed(subject, mutant, recording)
            total += seen is not None
            if seen is False:
                survivors.append(row)
                print(f"survives: {subject.file}:{mutant.line} {subject.name}: {mutant.change}", flush=True)
    reasons = set(map(_key, json.loads(REASONS.read_text("utf-8"))))
    unexplained = [row for row in survivors if _key(row) not in reasons]
    share = 1 - len(survivors) / max(total, 1)
    if given.json:
        given.json.write_text(json.dumps(survivors, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for row in unexplained:
        print(f"without a reason: {row['subject']}: {row['change']}, in {row['at']}")
    print(f"{len(survivors) - len(unexplained)} of the {len(survivors)} others have a reason in {REASONS.name}")
    print(f"{total - len(survivors)} of {total} mutants are noticed ({share:.1%}), in {time.monotonic() - start:.0f} s")
    return 0 if share >= LEAST and not unexplained else 1


def _key(row: Mapping[str, str]) -> tuple[str, str, str]:
    """What names a mutant, wherever its line has moved to."""
    return row["subject"], row["at"], row["change"]


class _Bend:
    """`bent`, and whether there was anything to bend."""

    def __init__(self) -> None:
        self.met = self.changed = False

    def __call__(self, value: Any) -> Any:
        other = bent(value)
        self.met, self.changed = True, self.changed or other is not value
        return other


def noticed(subject: Subject, mutant: Mutant, recording: Recording) -> bool | None:
    """Whether any check that runs the function fails with the mutant in its place; None where the result is a plan or
    another object that `bent` leaves as it is, so that there is no mutant."""
    own, bend = subject.function.__code__, _Bend()
    subject.function.__globals__[BENT] = bend
    subject.function.__code__ = mutant.code
    try:
        seen = any(_fails(check) for check in recording.by_subject[str(subject)])
        return None if bend.met and not bend.changed and not seen else seen
    finally:
        subject.function.__code__ = own
        del subject.function.__globals__[BENT]


def _fails(check: Check) -> bool:
    def stop(signum: int, frame: Any) -> None:
        raise HeldUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        return not check.passes()
    except (Exception, HeldUp):
        gc.collect()
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
