"""Freeze claims that are new or have a new number: `python -m tools.freeze_claims` appends their hashes to frozen.json.

What is frozen stays: a claim that has changed without a new number and a reason is refused.
"""

from __future__ import annotations

import json
import sys

from podium.claims import CLAIMS
from podium.claims.claim import fingerprint, frozen_problems
from podium.claims.frozen import FROZEN, read_frozen


def main() -> int:
    frozen = {slug: list(entries) for slug, entries in read_frozen().items()}
    for slug, claim in CLAIMS.items():
        known = frozen.setdefault(slug, [])
        if claim.number == len(known) + 1:
            known.append({"number": claim.number, "hash": fingerprint(claim), "because": claim.because})
    problems = frozen_problems(list(CLAIMS.values()), frozen)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        FROZEN.write_text(json.dumps(frozen, indent=1, sort_keys=True) + "\n", "utf-8")
        print(f"{len(frozen)} claims are frozen.")
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main())
