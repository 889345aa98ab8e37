"""`python -m podium.testing [Part | my_file.py:MyPart …]`: the battery, by default on all parts of Podium."""

from __future__ import annotations

import sys

from podium.core.errors import PodiumError
from podium.core.serial import load_class
from podium.testing import examine, registered_parts


def main(targets: list[str]) -> int:
    """Print one line per part and return the exit code."""
    try:
        parts = [load_class(target) for target in targets] if targets else registered_parts()
    except PodiumError as error:
        print(error, file=sys.stderr)
        return 1
    reports = []
    for part in parts:
        reports.append(examine(part))
        print(reports[-1], flush=True)
    failed = [report for report in reports if not report.ok]
    seconds = sum(report.seconds for report in reports)
    print(f"total: {len(reports) - len(failed)}/{len(reports)} parts passed in {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
