"""Several agents: prefixes of joint actions, and teams with one baseline."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.shares import scaled
from podium.core.signal import Signal
from podium.core.value import Clock
from podium.strategies import AdvantageFilter
from tests.conformance.case import Case
from tests.conformance.helpers import credited
from tests.conformance.registry import adapter


@adapter("read", aside=("sum_of_local",))
def read(case: Case) -> dict[str, Any]:
    method = methods.read(
        imitate=0,
        warmup=0,
        gamma=case.hyper["gamma"],
        threshold=case.hyper["threshold"],
        temperature=case.hyper["awr_temperature"],
    )
    filtering = method.rollout
    assert isinstance(filtering, AdvantageFilter)
    q = case["q_of_prefix"]
    turns = [Turn([0, 0]) for _ in q[1:]]
    batch = Batch.from_rollouts([Rollout(0, turns)], dtype=torch.float64)
    around = [value for pair in itertools.pairwise(q) for value in pair]
    batch = batch.with_columns({Signal("value", of="old"): torch.tensor(around, dtype=torch.float64)})
    batch = credited(method, batch)
    local = batch["turn.advantage"]
    return {
        "local_advantages": local,
        "value": filtering.value(q[0]),
        "joint_advantage": filtering.joint_advantage(q[-1], q[0]),
        "accepted": [filtering.accepts(score, filtering.threshold) for score in local.tolist()],
        "awr_weights": batch["turn.awr"],
    }


@adapter("advevo-marl")
def advevo_marl(case: Case) -> dict[str, Any]:
    if "returns" not in case:
        return _rewarded(case)
    method = methods.advevo_marl(imitate=0).set("advantage.epsilon", case.hyper["epsilon"])
    part = method.advantage
    assert part is not None
    rows = list(zip(case["prompt"], case["team"], case["returns"], strict=True))
    rollouts = []
    for prompt in dict.fromkeys(case["prompt"]):
        own = [(team, reward) for key, team, reward in rows if key == prompt]
        turns = [
            Turn([0], columns={"reward": reward, "role": team, "agent": f"{number}"})
            for number, (team, reward) in enumerate(own)
        ]
        rollouts.append(Rollout(prompt, turns))
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    found = part(batch)
    return {
        "baselines": found["turn.baseline"],
        "advantages": part.replace(scaled=False)(batch)["turn.advantage"],
        "advantages_batch_normalized": found["turn.advantage"],
    }


def _rewarded(case: Case) -> dict[str, Any]:
    (safety, task), (late_safety, late_task) = (case.hyper[f"{time}_weights_safety_task"] for time in ("early", "late"))
    weights = {"safety": safety, "task": task, "late_safety": late_safety, "late_task": late_task}
    method = methods.advevo_marl(imitate=0, form=case.hyper["w_format"], **weights)
    (part,) = scaled(method, {"iterations": 100}).at(Clock(int(100 * case["training_progress"]))).reward
    rollouts = []
    for unsafe, right, formed in zip(case["unsafe"], case["task_correct"], case["format_ok"], strict=True):
        judged = {"unsafe": unsafe, "right": right, "formed": formed}
        turns = [Turn([0], columns={**judged, "attacks": attacks}) for attacks in (True, False)]
        rollouts.append(Rollout(0, turns, columns={**judged, "attacked": True}))
    reward = part(Batch.from_rollouts(rollouts, dtype=torch.float64))["turn.reward"].reshape(-1, 2)
    return {"attacker_reward": reward[:, 0], "defender_reward": reward[:, 1]}
