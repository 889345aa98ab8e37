"""Studies: metrics and control runs."""

from __future__ import annotations

from typing import Any

from podium import methods
from podium.analysis.dynamics import advantage_lost_to_noise
from podium.analysis.support import answer_entropy, detectability, support_change
from podium.evaluation.passk import pass_at_k
from tests.conformance.adapters.tokens import COLUMNS, numbers
from tests.conformance.case import Case
from tests.conformance.helpers import padded
from tests.conformance.registry import adapter


@adapter("invisible-leash")
def invisible_leash(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "pass_at_k":
        columns = [dict(zip(case.hyper["columns"], row, strict=True)) for row in case["rows"]]
        return {"value": [pass_at_k(**row) for row in columns]}
    if kind == "answer_entropy_and_threshold":
        return {
            "answer_entropy": answer_entropy(case["answers"]),
            "detectability_threshold": detectability(case["samples"], case["zeta"]),
        }
    found = support_change(case["base_correct"], case["trained_correct"])
    names = ("preserved", "expanded", "shrunk", "out_of_support")
    rates = ("retention", "discovery", "dynamic_score", "net_change")
    return {name: getattr(found, name) for name in (*names, *rates)}


@adapter("clip-bias-spurious")
def clip_bias_spurious(case: Case) -> dict[str, Any]:
    if case.hyper["kind"] == "misalignment":
        rows = dict(zip(case.hyper["columns"], case.tensor("rows").unbind(1), strict=True))
        return {"expected_advantage_loss": advantage_lost_to_noise(rows["group_size"], rows["correct_rollouts"])}
    (metric,) = methods.clip_bias_spurious().metric
    metric = metric.replace(**case.given(low="clip_low", high="clip_high"))
    batch = padded(case, COLUMNS)
    up, down = metric.clipped(batch)
    found = {name.rpartition(".")[2]: x[0] for name, x in metric(batch).items()}
    return {
        "clipped_up": numbers(batch, up),
        "clipped_down": numbers(batch, down),
        "fraction_up": found["up"],
        "fraction_down": found["down"],
        "surrogate": found["surrogate"],
        "clipped_surrogate": found["clipped_surrogate"],
        "clip_bias": found["bias"],
    }
