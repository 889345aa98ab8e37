"""Hints for tasks that are too hard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.value import Clock
from podium.memories import HintLevels
from podium.parts.shape import BySetting, HintConsistency
from podium.strategies import HintPrefix, HintReward, HintTiers, ItemResponse
from podium.strategies.hints.item_response import Curve
from podium.strategies.requests import Play, Recite, Request
from tests.conformance.case import Case
from tests.conformance.helpers import credited
from tests.conformance.plans import collected, made, rows
from tests.conformance.registry import adapter


@adapter("ghpo")
def ghpo(case: Case) -> dict[str, Any]:
    settings = case.given(format_weight="format_weight", epsilon="eps", shares="ratios")
    if "shares" in settings:
        settings["shares"] = tuple(settings["shares"][1:])
    accuracy = case["accuracy_by_stage"]
    method = methods.ghpo(n=len(accuracy[0]), **settings)
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
    batch = credited(method.with_(annotate=()), group)  # the format comes with the case
    stage = int(group["rollout.help.level"][0])
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
    method = method.set("rollout.help", help_).at(Clock(case["step"] - 1))

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


LEVELS = ("no_hint", "level_1", "level_2", "level_3")


@adapter("sage")
def sage(case: Case) -> dict[str, Any]:
    if case["part"] == "sage_light":
        return _remembered(case)
    by_level = case["rewards_by_level"]
    method = methods.sage(n=len(by_level[0]), ask="", levels=len(by_level) - 1, **case.given(epsilon="eps"))

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite) or request.wrap is not None:  # the solution, and hints that can be read
            return made(request, [1.0], text=["one\ntwo\nthree\nfour"])
        assert isinstance(request, Play)
        return made(request, by_level[request.wave])

    batch = credited(method, rows(collected(method.rollout, answers)))
    return {
        "level_used": LEVELS[int(batch["rollout.help.level"].max())],
        "rewards": batch["rollout.reward"],
        "advantages": batch["rollout.advantage"],
    }


def _remembered(case: Case) -> dict[str, Any]:
    """Visits of one task, each with the share of successes that the one before had."""
    memory, *_ = methods.sage(light=True, **case.given(low="low", high="high")).memories
    assert isinstance(memory, HintLevels)
    state, levels = memory.initial(), []
    for accuracy in case["accuracy_previous_epoch"]:
        if accuracy is None:  # never seen
            state = memory.initial()
        else:
            before = state["visits"].read(["task"], torch.float64)
            seen = torch.stack([memory.level(*before.unbind(1)), torch.tensor([accuracy], dtype=torch.float64)], 1)
            state = {"visits": state["visits"].write(["task"], seen)}
        levels.append(LEVELS[int(memory.recall(state, ["task"])["group.hint.level"][0])])
    return {"levels": levels}


@adapter("hill")
def hill(case: Case) -> dict[str, Any]:
    rewards, mask = case["rewards"], case.tensor("mask")
    settings = case.given(penalty="gate_penalty", success="positive_threshold")

    def worth(base: str, temperature: float | None) -> HintReward:
        return HintReward(base, temperature, **settings)

    def means(name: str) -> list[float]:
        batch = Batch.from_padded(mask, [0] * len(rewards), {"token.logp": case.tensor(name)})
        return batch.reduce(batch["token.logp"], "token", "rollout", "mean").tolist()

    temperature = case.hyper.get("transfer_temperature", HintReward().temperature)
    reliance = worth("mixed", temperature).reliance(rewards, means("logp_without_hint"), means("logp_with_hint"))

    def reward(base: str, temperature: float | None) -> float:
        return worth(base, temperature)(rewards, reliance, case["gate_passed"])

    return {
        "mean_reliance_correct": reliance,
        "hint_reward_variance": reward("variance", None),
        "hint_reward_non_deg": reward("mixed", None),
        "hint_reward_transfer_weighted_variance": reward("variance", temperature),
        "hint_reward_transfer_weighted_non_deg": reward("mixed", temperature),
    }


@adapter("seele")
def seele(case: Case) -> dict[str, Any]:
    if case["part"] == "advantage":
        rewards = [reward for row in case["rewards_by_round"] for reward in row]
        batch = Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), [0] * len(rewards))
        return {"advantages": credited(methods.seele(), batch)["rollout.advantage"]}
    curve = Curve(case["k"], case["mu"], case["b"])
    if case["part"] == "inverse":
        rate = curve.inverse(case["target"])
        units = round(rate * case["solution_units"])
        return {"hint_rate": rate, "hint_units": units, "accuracy_at_rate": curve(rate)}
    rounds = [tuple(pair) for pair in case["rate_accuracy_pairs"]]
    return {
        "points_used": [list(point) for point in ItemResponse().points(rounds)],
        "sum_squared_error": ItemResponse().error(rounds, curve),
    }


@adapter("adhint")
def adhint(case: Case) -> dict[str, Any]:
    if case["part"] == "hint_ratio":
        method = methods.adhint(**case.given(least="w_min", most="w_max"))
        assert isinstance(method.rollout, HintPrefix)
        difficulty = method.rollout.difficulty(case["naive_rewards"])
        share = method.rollout.share(difficulty, case["noise"])
        tokens = method.rollout.tokens(share, case["trajectory_length"])
        return {"difficulty": difficulty, "hint_ratio": share, "hint_tokens": tokens}
    method = methods.adhint(**case.given(epsilon="eps"))
    by_setting, consistency = method.shape
    assert isinstance(by_setting, BySetting)
    assert isinstance(consistency, HintConsistency)
    if case["part"] == "hint_gradient":
        hint, own = case["hint_entropy"], case["continuation_entropy"]
        origin = [Origin.hint.name] * len(hint) + [Origin.policy.name] * len(own)
        turn = Turn((1,) * len(origin), origin=origin, tokens={"old.entropy": [*hint, *own]})
        rollout = Rollout("task", [turn], columns={"advantage": float(case["advantage"])})
        batch = Batch.from_rollouts([rollout], dtype=torch.float64)
        return {"hint_weights": consistency(batch)["token.weight.hint"][: len(hint)]}
    naive, hinted = case["naive_rewards"], case["hint_rewards"]
    rewards = torch.tensor([*naive, *hinted], dtype=torch.float64)
    marks = torch.arange(len(rewards)) >= len(naive)
    batch = Batch.from_rewards(rewards, [0] * len(rewards), {"rollout.hinted": marks})
    base = batch.with_columns(method.advantage(batch))
    plain, helped = by_setting.difficulty(base)
    after = by_setting(base)
    return {
        "base_advantages": base["rollout.advantage"],
        "difficulty_naive_hint": [float(plain[0]), float(helped[0])],
        "weights": after["rollout.setting_factor"],
        "advantages": after["rollout.advantage"],
    }
