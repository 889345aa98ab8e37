"""Many turns: critics of several time scales."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.term import Aggregate
from tests.conformance.case import Case
from tests.conformance.helpers import Weights, differentiate, in_row_order
from tests.conformance.registry import adapter


@adapter("hiper")
def hiper(case: Case) -> dict[str, Any]:
    settings = case.given(keep="keep_penalty", mode="keep_penalty_mode", invalid="invalid_action_penalty")
    settings |= case.given(gamma="gamma", lam_turn="lambda_turn", lam_stretch="lambda_segment")
    settings |= case.given(bootstrap="bootstrap_truncated", normalize="normalize_advantages")
    method = methods.hiper(imitate=0, success=1.0, reworded=0.0, **settings).set(
        "advantage.switch", "value_switch" in case
    )
    (prices,), part = method.reward, method.advantage
    names = {"reward": "turn_reward", "low.value": "value_low", "switch.value": "value_switch"}
    names["high.value"] = "value_high" if "value_high" in case else "value_low"
    marks = {"done": "done", "switch": "switch", "valid": "action_valid"}
    found: dict[Any, list[int]] = {}
    for row, rollout in enumerate(case["rollout_id"]):
        found.setdefault(rollout, []).append(row)
    rollouts = []
    for rollout, rows in found.items():
        turns = []
        for row in sorted(rows, key=lambda row: case["turn_index"][row]):
            columns = {column: float(case[name][row]) for column, name in names.items() if name in case}
            columns |= {column: bool(case[name][row]) for column, name in marks.items()}
            turns.append(Turn((), columns=columns | {"row": row}))
        rollouts.append(Rollout(rollout, turns))
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    batch = batch.with_columns(prices(batch))
    made = {name: in_row_order(batch, x) for name, x in part(batch).items()}
    return {
        "action_advantage": made["turn.action.advantage"],
        "subgoal_advantage": made["turn.subgoal.advantage"],
        "switch_advantage": made["turn.switch.advantage"],
        "low_return": made["turn.low.return"],
        "high_return": made["turn.high.return"],
    }


@adapter("archer")
def archer(case: Case) -> dict[str, Any]:
    if "target_param" in case:
        target = Weights(case.tensor("target_param"))
        decay = methods.archer(tau=case.hyper["tau"]).roles[1].decay
        target.average(Weights(case.tensor("online_param")), decay)  # type: ignore[arg-type]
        return {"new_target": target.weights}
    settings = case.given(gamma="gamma", token_baseline="token_baseline")
    method = methods.get("archer@light", warmup=0, critic_epochs=None, **settings)  # the losses without a schedule
    (critic,), advantage = method.annotate, method.advantage
    turns = Batch.from_rollouts([Rollout(i, [Turn((0,))]) for i in range(len(case["q1"]))], dtype=torch.float64)
    turns = turns.with_columns({"turn.reward": case.tensor("reward"), "turn.done": case.tensor("done").bool()})
    targets = {f"q{j}": critic.targets(turns, case.tensor(f"target_v{j}_next")) for j in (1, 2)}
    targets |= {f"v{j}": case.tensor(f"target_q{j}_policy_action") for j in (1, 2)}
    turns = turns.with_columns({f"turn.{name}.target": x for name, x in targets.items()})
    turns = turns.with_columns({f"token.now.value[head={i}]": case.tensor(n) for i, n in enumerate(heads())})
    errors = differentiate([method.objective[1]], turns).step.diagnostics
    action, logp = case.tensor("token_mask"), case.tensor("token_logp")
    actor = Batch.from_padded(action, list(range(len(action))), {"token.now.logp": logp})
    actor = actor.with_columns({f"turn.{name}": case.tensor(f"actor_{name}") for name in heads()})
    actor = actor.with_columns(advantage(actor))
    made = {
        **{f"{name}_target": targets[name] for name in ("q1", "q2")},
        **{f"{name}_loss": errors[f"critic.{name}"] for name in heads()},
        "advantage": actor["turn.advantage"],
    }
    if case.hyper["token_baseline"]:
        baseline = case.tensor("token_baseline")[action.bool()]
        actor = actor.with_columns({f"token.{of}.value[head=4]": baseline for of in ("old", "now")})
        actor = actor.with_columns(method.shape[0](actor))
        # The release divides by all positions, padding included.
        made["baseline_loss"] = method.objective[2].replace(aggregate=Aggregate(f"token sum / {action.numel()}"))(actor)
    return made | {"actor_loss": method.objective[0](actor)}


def heads() -> tuple[str, ...]:
    """The heads in their order."""
    return ("q1", "q2", "v1", "v2")
