"""Hints for tasks that are too hard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium import Rollout, methods
from podium.rollout import HintTiers, SelfWritten, SolutionShares
from podium.rollout.plan import Play, Recite, Request
from tests.conformance.case import Case
from tests.conformance.helpers import credited
from tests.conformance.plans import collected, made, rows
from tests.conformance.registry import adapter


@adapter("ghpo")
def ghpo(case: Case) -> dict[str, Any]:
    ratios = case.hyper["ratios"]
    settings = case.given(format_weight="format_weight", epsilon="eps")
    accuracy = case["accuracy_by_stage"]
    method = methods.ghpo(n=len(accuracy[0]), shares=tuple(ratios[1:]), **settings)
    hints = [""]

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            return made(request, [1.0], text=[case["solution"]])
        assert isinstance(request, Play)
        if request.wave:
            hints.append(request.context.hint)  # type: ignore[union-attr]
        stage = request.wave
        return made(request, accuracy[stage], format=[float(x) for x in case["format_by_stage"][stage]])

    group = rows(collected(method.rollout, answers))
    batch = credited(method.with_(reward=method.reward[1:]), group)  # the format comes with the case
    stage = int(group["rollout.help.level"][0])
    assert isinstance(method.rollout.help, SolutionShares)
    return {
        "stage_used": stage,
        "hint_text": hints[stage],
        "rewards": batch["rollout.reward"],
        "advantages": batch["rollout.advantage"],
    }


@adapter("scaf-grpo")
def scaf_grpo(case: Case) -> dict[str, Any]:
    rewards, by_level = case["rewards"], case["hint_rewards_by_level"]
    method = methods.scaf_grpo(n=len(rewards), **case.given(after="warmup_steps", epsilon="eps"))
    help_ = HintTiers(("solution",), len(by_level), levels=case.hyper.get("levels"))
    method = method.set("rollout.help", help_).at(methods_clock(case["step"]))

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            return made(request, [1.0], text=["\n".join(map(str, range(len(by_level))))])
        assert isinstance(request, Play)
        return made(request, rewards if request.wave == 0 else [by_level[request.wave - 1]])

    batch = credited(method, rows(collected(method.rollout, answers)))
    guided = batch["rollout.guided"].tolist()
    level = int(batch["rollout.help.level"].max())
    return {
        "hint_level_used": level or None,
        "replaced_row": guided.index(True) if any(guided) else None,
        "rewards_after": batch["rollout.reward"],
        "advantages": batch["rollout.advantage"],
    }
