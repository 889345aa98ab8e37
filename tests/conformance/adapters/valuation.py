"""Methods that fit values of actions with the policy itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.policy.head.functionals import FUNCTIONALS, HeadRows
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate, mask, only
from tests.conformance.registry import adapter
from tests.conformance.rounding import less_log_sum


@adapter("rover")
def rover(case: Case) -> dict[str, Any]:
    scale = "std" if case.hyper["normalize_by_std"] else "none"
    method = methods.rover(scale=scale, **case.given(rho="rho", beta="beta"))
    ids = case.tensor("tokens").long()
    columns: dict[str, Tensor] = {"rollout.reward": case.tensor("rewards")}
    for of, name in (("now", "logits"), ("old", "old_logits")):
        logits = case.tensor(name).flatten(0, 1)
        rows = HeadRows(logits, ids.flatten(), lambda known: known)
        logp, mean = (FUNCTIONALS[functional](rows) for functional in ("logp", "mean_logp"))
        # The reference takes log-probabilities in float64, and their means over the vocabulary in float32.
        columns[f"token.{of}.logp"] = logp.reshape(ids.shape)
        columns[f"token.{of}.mean_logp"] = less_log_sum(mean, logits).reshape(ids.shape)
    batch = credited(method, Batch.from_padded(mask(case), case["group"], columns, given=True))
    (term,), outcome = method.objective, differentiate(method.objective, batch)

    def shown(x: Tensor) -> Tensor:
        return batch.to_padded(only(x, batch.action))

    return {
        "q_value": shown(term.q(batch)),
        "next_value": shown(term.next_value(batch)),
        "centered_reward": shown(batch["token.advantage"]),
        "target": shown(term.target(batch)),
        "loss": outcome.step.loss,
    }
