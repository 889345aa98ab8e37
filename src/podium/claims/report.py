"""The table of claims, as rows and as a page."""

from __future__ import annotations

from collections.abc import Sequence

from podium.claims.claim import MethodClaim, fingerprint
from podium.claims.decision import decide
from podium.claims.metrics import METRICS
from podium.claims.standing import ClaimStanding

__all__ = ["HEADER", "claims_page", "claims_table"]

HEADER = (
    "method",
    "claim",
    "cell",
    "metric",
    "verdict",
    "effect",
    "middle half",
    "pairs ahead",
    "worst pair",
    "collapses",
    "active",
    "cost",
    "hash",
)

INTRODUCTION = """# Claims

What papers say of their methods, each held to one metric in one small world, against a baseline that differs by the
mechanism alone. `podium claims page` writes this page from the results under `evidence/`, and `podium claims run
SLUG` measures a claim or goes on with it. Claims are frozen before they are measured: their hashes stand in the
last column, and those of earlier versions below.

- **Gates.** *inert*: within five iterations of parting, if they part at all, the weights of both arms are within 1
  % of the update of each other, so there is nothing to measure. *insensitive*: the baseline does not show the
  phenomenon, or a positive control (imitation, an entropy bonus, more rollouts) does not move the metric, so that a
  null result would say nothing.
- **Tuning.** Both arms get the best of four learning rates by held-out pass@1 on seeds that are not used again.
  Sensitivity is how far the worst of the four is below the best.
- **Decision.** Pairs of runs share tasks, random numbers and the perturbation of the start. Looks at 8, 12 and 16
  pairs spend 5 % (O'Brien–Fleming); verdicts are at a false discovery rate of 5 % over all claims that were
  measured, a star means that they survive Holm's correction. *shown*: the effect is above 0 (above minus the
  margin, for claims of no less); *refuted*: it is below the smallest that matters; else *not shown*, with the
  effect that so many pairs would find in four of five repetitions.
- Effects of tokens, updates, lengths and entropies are differences of logarithms: 0.1 is about 10 %. Positive is
  what was claimed. The interval is that of the look at which measuring stopped.
"""


def _number(x: float) -> str:
    return f"{x:+.3f}"


def claims_table(standings: Sequence[ClaimStanding]) -> list[list[str]]:
    """A row for each claim."""
    verdicts = decide({s.claim.slug: s.found for s in standings if s.state == "measured" and s.found is not None})
    return [_row(s, verdicts.get(s.claim.slug, s.state)) for s in standings]


def _row(standing: ClaimStanding, verdict: str) -> list[str]:
    claim, found = standing.claim, standing.found
    effect = middle = ahead = worst = cost = ""
    if found is not None:
        effect = f"{_number(found.mean)} [{_number(found.low)}, {_number(found.high)}] of {found.pairs} pairs"
        worst, middle, ahead = _number(found.worst), _number(found.middle), f"{found.ahead:.0%}"
        if verdict == "not shown":
            effect += f"; detectable {found.detectable:.3f}"
    if standing.cost is not None:
        cost = ", ".join(f"{name} × {ratio:.2f}" for name, ratio in standing.cost.items() if ratio)
    sides = " and ".join(map(str, standing.collapses)) if found is not None else ""
    active = "" if standing.distance is None else f"{standing.distance:.0%}"
    said = "not yet measured" if standing.due else verdict if not standing.why else f"{verdict}: {standing.why}"
    direction = {"more": "more", "less": "less", "not less": f"no less by {claim.smallest:g}"}[claim.direction]
    metric = f"{METRICS[claim.metric].text}: {direction}"
    return [
        claim.slug,
        claim.says,
        claim.cell.name,
        metric,
        said,
        effect,
        middle,
        ahead,
        worst,
        sides,
        active,
        cost,
        fingerprint(claim),
    ]


def claims_page(standings: Sequence[ClaimStanding], earlier: Sequence[tuple[str, int, str, str]]) -> str:
    """The page in Markdown; `earlier` are slug, number, hash and the reason of what came after it."""
    lines = [INTRODUCTION, "| " + " | ".join(HEADER) + " |", "| " + " | ".join("---" for _ in HEADER) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in claims_table(standings)]
    lines += [
        "",
        "## Minimal pairs",
        "",
        "| method | arm | baseline | smallest effect | rates | sensitivity | evaluation | command |",
    ]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |", *map(_pair_row, standings)]
    if earlier:
        lines += ["", "## Changed claims", ""]
        lines += [f"- {slug}, number {number} ({mark}) was given up: {why}" for slug, number, mark, why in earlier]
    return "\n".join(lines) + "\n"


def _pair_row(standing: ClaimStanding) -> str:
    claim: MethodClaim = standing.claim
    rates = " and ".join("" if rate is None else f"{rate:g}" for rate in standing.rates)
    sensitivity = "" if standing.sensitivity is None else f"{standing.sensitivity:.3f}"
    cells = (
        claim.slug,
        f"`{claim.arm.text()}`",
        f"`{claim.baseline.text()}`",
        f"{claim.smallest:g}",
        rates if rates != " and " else "",
        sensitivity,
        "" if standing.noise is None else f"{standing.noise:.0%} of the variance",
        f"`podium claims run {claim.slug}`",
    )
    return "| " + " | ".join(cells) + " |"
