"""Many turns: ratios of whole turns, and turns updated one after another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate
from tests.conformance.registry import adapter


@adapter("st-ppo")
def st_ppo(case: Case) -> dict[str, Any]:
    method = methods.st_ppo(
        ratio=case.hyper["ratio_level"],
        **case.given(clip="clip", floor="norm_floor"),
    )
    (damp,), corrected = method.shape, case.hyper["clip_bias_correction"]
    term, names = method.objective[0], {"now.logp": "logp", "old.logp": "old_logp", "advantage": "advantage"}
    action = case.tensor("action_mask")
    columns = {f"token.{column}": case.tensor(name) for column, name in names.items()}
    turn = torch.tensor([[max(number, 0) for number in row] for row in case["turn_id"]])
    batch = Batch.from_padded(action, list(range(len(action))), columns, turn=turn)
    outcome = differentiate([term], batch, live=method.shape if corrected else ())
    return {
        "ratio": batch.to_padded(term.diagnostics(batch)["ratio"]),
        "clipped": batch.to_padded(damp.clipped(batch).double()),
        "clip_bias_norm": damp.removed(batch)[0],
        "scale": damp.scale(batch)[0] if corrected else 1.0,
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


@adapter("seeupo")
def seeupo(case: Case) -> dict[str, Any]:
    settings = case.given(order="update_order", ratio_clip="ratio_clip", limit="advantage_clip")
    method = methods.seeupo(batch_scale=case.hyper["batch_normalize"], magnify=False, **settings)
    changes, active = case["token_log_ratio_after_turn_update"], case["turn_active"]
    rollouts = [
        Rollout(
            prompt,
            [Turn((0,) * len(x) if on else ()) for x, on in zip(change, turns, strict=True)],
            columns={"reward": float(r)},
        )
        for prompt, r, change, turns in zip(case["prompt_id"], case["outcome_reward"], changes, active, strict=True)
    ]
    batch = credited(method, Batch.from_rollouts(rollouts, dtype=torch.float64))
    moved = torch.tensor(
        [
            x
            for row, on in zip(changes, active, strict=True)
            for turn, yes in zip(row, on, strict=True)
            if yes
            for x in turn
        ]
    )
    logp = torch.zeros(batch.size("token"), dtype=torch.float64)

    def score(asked: Batch) -> Tensor:
        return logp.clone()

    width = len(active[0])
    carried, credit = torch.zeros(len(batch), width).double(), torch.zeros(len(batch), width).double()
    order = range(width)[::-1] if case.hyper["update_order"] == "reverse" else range(width)
    for place, update in zip(order, method.updates(batch, score), strict=True):
        trained = update.trained("token")
        carried[:, place] = update["rollout.carried"]
        rows = update.link("token", "rollout")[trained]
        credit[rows, place] = update["token.advantage"][trained]
        logp[trained] = moved.double()[trained]
    return {"carried_ratio": carried, "turn_advantage": credit}
