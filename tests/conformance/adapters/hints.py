"""Hints for tasks that are too hard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.value import Clock
from podium.memories import HintLevels
from podium.method import Method
from podium.parts.shape import BySetting, HintConsistency
from podium.strategies import HintPrefix, HintReward, HintTiers
from podium.strategies.hints.item_response import Curve
from podium.strategies.requests import Play, Recite, Request, Score
from tests.conformance.case import Case
from tests.conformance.helpers import credited, marked
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
    level = max(map(int, batch["rollout.help.level"].tolist()))
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
        "level_used": LEVELS[max(map(int, batch["rollout.help.level"].tolist()))],
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


@adapter("hill", aside=("mean_reliance_correct",))
def hill(case: Case) -> dict[str, Any]:
    temperature = case.hyper.get("transfer_temperature", HintReward().temperature)
    return {
        "hint_reward_variance": _hinted(case, "variance", None),
        "hint_reward_non_deg": _hinted(case, "mixed", None),
        "hint_reward_transfer_weighted_variance": _hinted(case, "variance", temperature),
        "hint_reward_transfer_weighted_non_deg": _hinted(case, "mixed", temperature),
    }


def _hinted(case: Case, base: str, temperature: float | None) -> float:
    """What a hint is worth: nothing succeeds without it, and with it what the case says."""
    rewards = case["rewards"]
    settings = case.given(penalty="gate_penalty")
    method = methods.get("hill@instruct", n=len(rewards), hints=1, base=base, transfer=temperature, **settings)
    worth = method.rollout.hint_reward.replace(**case.given(success="positive_threshold"))  # type: ignore[union-attr]
    lengths = [len([1 for m in row if m]) for row in case["mask"]]
    bare, shown = (2,), (3,)

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Score):
            row = request.ids[0]
            name = "logp_without_hint" if request.context == bare else "logp_with_hint"
            return case[name][row][: lengths[row]]
        if isinstance(request, Recite):
            return made(request, [1.0], text=["the solution"])
        assert isinstance(request, Play)
        if request.wrap is not None:
            return made(request, [0.0], text=["<hint>look</hint>" if case["gate_passed"] else "look"])
        if request.wave == 0:
            return made(request, [0.0] * len(rewards))
        turns = [Turn((row,) * length, context=shown) for row, length in enumerate(lengths)]
        pairs = zip(made(request, rewards), turns, strict=True)
        return [replace(rollout, turns=[turn]) for rollout, turn in pairs]

    *_, hint = collected(replace(method.rollout, hint_reward=worth), answers)
    return float(hint.columns["hint.worth"])


@adapter("seele")
def seele(case: Case) -> dict[str, Any]:
    if case["part"] == "advantage":
        rewards = [reward for row in case["rewards_by_round"] for reward in row]
        batch = Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), [0] * len(rewards))
        return {"advantages": credited(methods.seele(), batch)["rollout.advantage"]}
    curve = Curve(case["k"], case["mu"], case["b"])
    if case["part"] == "inverse":
        method = methods.seele(target=case["target"], n=1, rounds=1)
        rate = curve.inverse(method.rollout.response.target)  # type: ignore[union-attr]
        return {
            "hint_rate": rate,
            "hint_units": _lines(method, rate, case["solution_units"]),
            "accuracy_at_rate": curve(rate),
        }
    rounds = [tuple(pair) for pair in case["rate_accuracy_pairs"]]
    response = methods.seele().rollout.response  # type: ignore[union-attr]
    return {
        "points_used": [list(point) for point in response.points(rounds)],
        "sum_squared_error": response.error(rounds, curve),
    }


def _lines(method: Method, rate: float, units: int) -> int:
    """How many lines of a solution a task sees that begins with this share of it."""
    seen: list[int] = []

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            return made(request, [1.0], text=["\n".join(f"line {i}" for i in range(units))])
        assert isinstance(request, Play)
        hint = getattr(request.context, "hint", "")
        seen.append(len(hint.splitlines()))
        return made(request, [1.0] * request.n)

    collected(method.rollout, answers, recalled={"group.hint.rate": rate})
    return seen[0]


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
    marks = marked(len(rewards), len(naive))
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
