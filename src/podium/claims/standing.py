"""Where a claim stands, from its results alone: what is to be run next, or what has been found.

So any process can go on with any claim: nothing is remembered but the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.claims.claim import Cell, MethodArm, MethodClaim, fingerprint
from podium.claims.decision import LOOKS, PairedEvidence, paired_evidence, settled
from podium.claims.metrics import metric_value
from podium.claims.results import Results, RunKey
from podium.sessions.probe import APART

__all__ = ["RATES", "TUNING_SEEDS", "Due", "ClaimStanding", "stand", "tuned_rate"]

RATES = (3e-5, 1e-4, 3e-4, 1e-3)
TUNING_SEEDS = (100, 101, 102)  # never used for a test
COLLAPSED = 0.5  # a run whose pass@1 ends below this share of what it was at best


@dataclass(frozen=True)
class Due:
    """A run that is to be made."""

    cell: Cell
    arm: MethodArm
    key: RunKey
    baseline: MethodArm | None = None  # of what is measured of two


@dataclass(frozen=True)
class ClaimStanding:
    """A claim's state: a word, what it rests on, and what would take it further."""

    claim: MethodClaim
    state: str  # not run, tuning, inert, insensitive, testing or measured
    why: str = ""
    due: tuple[Due, ...] = ()
    found: PairedEvidence | None = None
    rates: tuple[float | None, float | None] = (None, None)  # learning rates of arm and baseline
    sensitivity: float | None = None  # best less worst rate of the arm, in its mean pass@1 in tuning
    cost: Mapping[str, float] | None = None  # of a run of the arm, as a multiple of one of the baseline
    collapses: tuple[int, int] = (0, 0)
    distance: float | None = None
    noise: float | None = None  # the share of the differences' variance that measuring pass@1 adds


def tuned_rate(cell: Cell, arm: MethodArm, results: Results) -> tuple[float | None, float, list[Due]]:
    """The learning rate with the best mean held-out pass@1, how far the worst is below, and what is missing to know."""
    if cell.lr is not None or not arm.trains:
        return cell.lr, 0.0, []
    runs = results.runs(cell, arm)
    keys = {rate: [RunKey("tune", seed, rate) for seed in TUNING_SEEDS] for rate in RATES}
    missing = [Due(cell, arm, key) for row in keys.values() for key in row if key not in runs]
    if missing:
        return None, 0.0, missing
    means = {rate: float(np.mean([runs[key]["final"]["pass@1"] for key in row])) for rate, row in keys.items()}
    best = max(means, key=lambda rate: means[rate])
    return best, means[best] - min(means.values()), []


def stand(claim: MethodClaim, results: Results, looks: tuple[int, ...] = LOOKS) -> ClaimStanding:
    """Gates first: active, then present; then the test, look by look."""
    cell = claim.cell
    gate = RunKey("apart", TUNING_SEEDS[0], RATES[2], fingerprint(claim.baseline))
    runs = results.runs(cell, claim.arm)
    if gate not in runs:
        return ClaimStanding(claim, "not run", due=(Due(cell, claim.arm, gate, claim.baseline),))
    distance = float(runs[gate]["distance"])
    if distance <= APART:
        why = f"after {runs[gate]['iterations']} iterations the arms are {distance:.2%} of the update apart"
        return ClaimStanding(claim, "inert", why, distance=distance)
    tuned = {arm: tuned_rate(cell, arm, results) for arm in dict.fromkeys((*claim.arms, claim.control))}
    missing = [due for _, _, dues in tuned.values() for due in dues]
    if missing:
        return ClaimStanding(claim, "tuning", due=tuple(dict.fromkeys(missing)), distance=distance)
    rates = {arm: rate for arm, (rate, _, _) in tuned.items()}
    insensitive, missing = _present(claim, results, rates)
    shared: dict[str, Any] = {
        "rates": (rates[claim.arm], rates[claim.baseline]),
        "sensitivity": tuned[claim.arm][1],
        "distance": distance,
    }
    if missing:
        return ClaimStanding(claim, "tuning", due=tuple(missing), **shared)
    if insensitive:
        lacks = f"; it lacks {claim.dial}" if claim.dial else ""
        return ClaimStanding(claim, "insensitive", insensitive + lacks, **shared)
    return _tested(claim, results, rates, looks, shared)


def _gate_records(
    cell: Cell, arm: MethodArm, results: Results, rate: float | None
) -> tuple[list[dict[str, Any]], list[Due]]:
    """The runs of an arm with its own learning rate on the seeds of tuning. They are those of tuning where it was."""
    kind = "tune" if cell.lr is None and arm.trains else "gate"
    keys = [RunKey(kind, seed, rate) for seed in TUNING_SEEDS]
    runs = results.runs(cell, arm)
    return [runs[k] for k in keys if k in runs], [Due(cell, arm, k) for k in keys if k not in runs]


def _present(claim: MethodClaim, results: Results, rates: Mapping[MethodArm, float | None]) -> tuple[str, list[Due]]:
    """Why the claim cannot be seen in its cell, if so: the baseline does not show the phenomenon, or what must move the
    metric does not."""
    start = MethodArm("base")
    known: dict[str, list[dict[str, Any]]] = {}
    missing: list[Due] = []
    for name, arm in (("baseline", claim.baseline), ("control", claim.control), ("start", start)):
        known[name], due = _gate_records(claim.cell, arm, results, rates.get(arm))
        missing += due
    if missing:
        return "", missing
    for condition in claim.present:
        of = "start" if not claim.baseline.trains else "baseline"
        value = float(np.mean([metric_value(condition.metric, r, r) for r in known[of]]))
        if condition.since_start:
            value -= float(np.mean([metric_value(condition.metric, r, r) for r in known["start"]]))
        if not condition.holds(value):
            return f"the baseline does not show it: {condition.text()}, but it is {value:.3g}", []
    pairs = zip(known["control"], known["baseline"], strict=True)
    moved = claim.sign * float(
        np.mean([metric_value(claim.metric, a, b) - metric_value(claim.metric, b, a) for a, b in pairs])
    )
    if moved < claim.smallest:
        return f"the positive control {claim.control.text()} moves {claim.metric} by {moved:.3g} only", []
    return "", []


def _tested(
    claim: MethodClaim,
    results: Results,
    rates: Mapping[MethodArm, float | None],
    looks: tuple[int, ...],
    shared: dict[str, Any],
) -> ClaimStanding:
    runs = [results.runs(claim.cell, arm) for arm in claim.arms]
    keys = [[RunKey("test", seed, rates[arm]) for seed in range(looks[-1])] for arm in claim.arms]
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for one, other in zip(*keys, strict=True):
        if one not in runs[0] or other not in runs[1]:
            break
        pairs.append((runs[0][one], runs[1][other]))
    differences = [claim.sign * (metric_value(claim.metric, a, b) - metric_value(claim.metric, b, a)) for a, b in pairs]
    found = paired_evidence(differences, claim.null, claim.bar, looks) if len(pairs) >= looks[0] else None
    if pairs:
        shared |= {
            "cost": _cost(pairs),
            "collapses": tuple(sum(map(_collapsed, side)) for side in zip(*pairs, strict=True)),
        }
    if claim.metric == "pass@1" and len(pairs) > 1 and "rate_noise" in pairs[0][0]["final"]:
        added = np.mean([a["final"]["rate_noise"] + b["final"]["rate_noise"] for a, b in pairs])
        shared["noise"] = float(added / max(np.var(differences, ddof=1), 1e-12))
    if found is not None and settled(found, looks):
        return ClaimStanding(claim, "measured", found=found, **shared)
    upto = next(n for n in looks if n > (found.pairs if found else 0))
    due = [
        Due(claim.cell, arm, key)
        for arm, row, known in zip(claim.arms, keys, runs, strict=True)
        for key in row[:upto]
        if key not in known
    ]
    return ClaimStanding(claim, "testing", due=tuple(due), found=found, **shared)


def _cost(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, float]:
    """The arm's mean cost over the baseline's, in four currencies; 0 where the baseline costs nothing."""
    ratios = {}
    for name in pairs[0][0]["cost"]:
        one, other = (float(np.mean([pair[side]["cost"][name] for pair in pairs])) for side in (0, 1))
        ratios[name] = one / other if other else 0.0
    return ratios


def _collapsed(record: Mapping[str, Any]) -> bool:
    curve = record["curve"]["pass@1"]
    return bool(curve) and float(record["final"]["pass@1"]) < COLLAPSED * max(curve)
