"""A sample of the claims, measured anew: every mechanism must act, as it did in the committed results.

python -m tools.checks.claims [SLUG …]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from podium.claims import CLAIMS
from podium.claims.frozen import check_frozen
from podium.claims.results import Results
from podium.claims.running import ClaimsRun, run_claims
from podium.claims.standing import stand

EVIDENCE = Path(__file__).parents[2] / "evidence"
SAMPLE = ("grpo", "dapo", "opo", "progrpo", "hpt")


def main() -> int:
    claims = [CLAIMS[slug] for slug in sys.argv[1:] or SAMPLE]
    check_frozen(claims)
    with tempfile.TemporaryDirectory() as folder:
        measured = run_claims(claims, ClaimsRun(Path(folder), active=True), print)
    committed = Results(EVIDENCE)
    wrong = [s for s in measured if s.distance is None or (s.state == "inert") != _inert(s.claim.slug, committed)]
    for standing in wrong:
        print(f"{standing.claim.slug}: {standing.state} {standing.why}")
    print(f"{len(claims) - len(wrong)} of {len(claims)} claims stand at their first gate as they did")
    return len(wrong) > 0


def _inert(slug: str, results: Results) -> bool:
    return stand(CLAIMS[slug], results).state == "inert"


if __name__ == "__main__":
    sys.exit(main())
