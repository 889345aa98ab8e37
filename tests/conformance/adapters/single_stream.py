"""One rollout a task, with a tracked success rate as baseline."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core import Table
from podium.core.batch import Batch
from podium.memories.success import policy_shift
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_COLUMNS, configured, credited, padded
from tests.conformance.registry import adapter


@adapter("spo-single-stream")
def spo_single_stream(case: Case) -> dict[str, Any]:
    settings = case.given(half_life="half_life", rho_min="rho_min", rho_max="rho_max", explore="explore")
    method = configured(case, methods.spo_single_stream(offline=0, **settings), {"epsilon": "shape.Whiten.epsilon"})
    _, tracker = method.memories
    if "stored_logp" in case:
        shift = policy_shift(padded(case, LOSS_COLUMNS | {"token.stored.logp": "stored_logp"}))
        return {"policy_shift": shift, "rho": tracker.keep_rate(shift)}
    if "offline_samples" in case:
        return _initial(case, tracker)
    tasks = list(range(len(case["rewards"])))
    state = {"counts": Table(dict(zip(tasks, zip(case["alpha"], case["beta"], strict=True), strict=True)))}
    known = tracker.recall(state, tasks)
    shift = case.tensor("policy_shift")
    batch = Batch.from_rewards(case.tensor("rewards"), tasks, known | {"group.policy_shift": shift})
    alpha, beta = tracker.observe(state, batch)["counts"].read(tasks, batch.dtype).unbind(1)
    return {
        "value": known["group.tracker.value"],
        "advantage_raw": credited(method.with_(shape=()), batch)["rollout.advantage"],
        "advantage": credited(method, batch)["rollout.advantage"],
        "rho": tracker.keep_rate(shift),
        "new_alpha": alpha,
        "new_beta": beta,
        "sampling_probability": method.select(known),
    }


def _initial(case: Case, tracker: Any) -> dict[str, Any]:
    """The state of tasks at the first visit, after offline samples or without."""
    state = tracker.initial()
    tasks = list(range(len(case["offline_successes"]) if "offline_successes" in case else 1))
    if case["offline_samples"]:
        counts = tracker.prior(case.tensor("offline_successes"), case["offline_samples"])
        state = {"counts": state["counts"].write(tasks, torch.stack(counts, dim=1))}
    found = {k.rpartition(".")[2]: x for k, x in tracker.recall(state, tasks).items()}
    return found if "offline_successes" in case else {k: x[0] for k, x in found.items()}
