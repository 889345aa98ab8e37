"""`python -m tests.conformance [DIR] [--only SLUG …] [--json FILE]`: one line per slug and a total.

The exit code is 1 if any case fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from podium.core.errors import nearest
from tests.conformance.runner import VECTORS, Report, read, run, summary

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=VECTORS, metavar="DIR", help="default: %(default)s")
    parser.add_argument("--only", nargs="+", action="extend", default=[], metavar="SLUG", help="run these alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    options = parser.parse_args(arguments)

    names = [slug for slug, _ in read(options.directory)]
    if not names:
        parser.error(f"{options.directory} is not a directory with *.json files.")
    for slug in options.only:
        if slug not in names:
            parser.error(f"{options.directory} has no vectors for {slug!r}. {nearest(slug, names)}")

    reports: list[Report] = []
    for report in run(options.directory, options.only):
        reports.append(report)
        print(f"{report.slug}: {report.passed}/{report.total}", flush=True)
        for failure in report.failures:
            print(f"    {report.slug}: {failure}", file=sys.stderr, flush=True)
    print(summary(reports))
    if options.json is not None:
        results = {"summary": summary(reports), "slugs": [report.as_json() for report in reports]}
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if all(report.ok for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
