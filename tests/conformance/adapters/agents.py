"""Many turns: seats, kernels, lessons, blueprints, and groups that are replaced."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.memories.lesson_writing import Lesson, Library, admit, duplicate
from podium.parts.reward import ProgressiveReward
from podium.parts.reward.stages import length_aware_bleu
from podium.strategies.sample.blueprint import mean_log_probability
from tests.conformance.adapters.states import COLUMNS, OUTCOME, SCALES
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, episodes, in_row_order, only
from tests.conformance.registry import adapter

CENTRES = {None: "none", "identity": "none", "mean": "mean", "mean_std": "mean_std", "asym_clip": "asymmetric"}


@adapter("mars")
def mars(case: Case) -> dict[str, Any]:
    method = methods.mars(
        game="rollout.game",
        agent="rollout.agent" if case.hyper.get("separate_by_agent", True) else None,
        reward_centre=CENTRES[case.hyper["reward_norm"]],
        advantage_centre=CENTRES[case.hyper["advantage_norm"]],
        **case.given(whiten_rewards="whiten_rewards", whiten_advantages="whiten_advantages", gamma="gamma"),
    )
    method = method.set("advantage.rounding", 1e-30)  # the reference takes values apart that differ by rounding
    batch = credited(method, _seated(case))
    part, width = method.advantage, len(case["action_mask"][0])
    ends = torch.tensor(case["turn_end"]).bool().reshape(-1)
    centred = torch.zeros(len(ends), dtype=batch.dtype)
    centred[ends] = batch.spread(part.rewards(batch), "turn", "token")[ends]
    return {
        "normalized_token_reward": centred.reshape(-1, width),
        "return_to_go": batch["token.return"].reshape(-1, width),
        "advantage": batch["token.advantage"].reshape(-1, width),
    }


def _seated(case: Case) -> Batch:
    """Rollouts cut into turns after each turn's end; what follows the last belongs to it."""
    rollouts = []
    rows = zip(case["token_reward"], case["action_mask"], case["turn_end"], strict=True)
    for row, (reward, action, end) in enumerate(rows):
        places = [i for i, last in enumerate(end) if last]
        cuts = [0, *(i + 1 for i in places[:-1]), len(end)]
        turns = []
        for start, stop, place in zip(cuts[:-1], cuts[1:], places, strict=True):
            origin = [(Origin.policy if a else Origin.given).name for a in action[start:stop]]
            turns.append(Turn([0] * (stop - start), origin=origin, columns={"reward": float(reward[place])}))
        columns = {"game": case["game"][row], "agent": case["agent_id"][row]}
        rollouts.append(Rollout(row, turns, columns=columns))
    return Batch.from_rollouts(rollouts, dtype=torch.float32)  # as the reference: rounding shows in its values


@adapter("dr-kernel")
def dr_kernel(case: Case) -> dict[str, Any]:
    if "completed" in case:
        return _paid(case)
    if "time_coverage" in case:
        lazy = methods.dr_kernel(mismatch=None).shape[0]
        part = lazy.replace(**case.given(threshold="threshold", factor="factor"))
        batch = _steps({"coverage": case.tensor("time_coverage"), "correct": torch.tensor(case["correct"])})
        return {"keep_probability": part.probability(batch)}
    method = methods.dr_kernel(profiled=False, mismatch=None, **case.given(gamma="gamma"))
    (comparison,) = method.advantage.comparisons
    comparison = comparison.replace(where="step.valid")
    rollouts = []
    for prompt, rewards, valid in zip(case["prompt_id"], case["turn_reward"], case["turn_valid"], strict=True):
        pairs = zip(rewards, valid, strict=True)
        # A turn that is missing adds nothing to what comes before it.
        turns = [Turn((), columns={"reward": float(r) if v else 0.0, "valid": bool(v)}) for r, v in pairs]
        rollouts.append(Rollout(prompt, turns))
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    shape = torch.tensor(case["turn_valid"]).shape
    returns = only(comparison.values(batch), batch["turn.valid"])
    return {"turn_return": returns.reshape(shape), "turn_advantage": comparison.compared(batch).reshape(shape)}


def _paid(case: Case) -> dict[str, Any]:
    part = (
        methods.dr_kernel()
        .reward[0]
        .replace(
            **case.given(
                correct_weight="correct_weight",
                speed_weight="performance_weight",
                upper="speedup_upper",
                lower="speedup_lower",
                coverage_weight="coverage_weight",
                penalty="penalty",
            )
        )
    )
    columns = {name: torch.tensor(case[name]) for name in ("completed", "correct")}
    columns |= {"speedup": case.tensor("speedup"), "coverage": case.tensor("time_coverage")}
    return {"turn_reward": part(_steps(columns))["step.reward"]}


def _steps(columns: dict[str, Tensor]) -> Batch:
    """One rollout with these steps."""
    count = len(next(iter(columns.values())))
    batch = Batch.from_rollouts([Rollout(0, [Turn(())] * count, columns={"reward": 0.0})], dtype=torch.float64)
    return batch.with_columns({f"turn.{name}": x for name, x in columns.items()})


@adapter("slea-rl")
def slea_rl(case: Case) -> dict[str, Any]:
    if "additions" in case:
        return _admitted(case)
    if "existing" in case:
        return _novel(case)
    settings = case.given(gamma="gamma", omega="step_weight")
    method = methods.slea_rl(scale=SCALES[case.hyper["mode"]], invalid=0.0, **settings)
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    batch = credited(method, episodes(case, COLUMNS | OUTCOME))
    return {
        "step_return": in_row_order(batch, method.advantage.returns(batch)),
        "episode_advantage": in_row_order(batch, method.advantage.episode(batch)),
        "advantage": in_row_order(batch, batch["step.advantage"]),
    }


def _admitted(case: Case) -> dict[str, Any]:
    levels: dict[str, tuple[Lesson, ...]] = {}
    admitted = []
    for new in case["additions"]:
        lesson = Lesson(new["name"], new["level"], new["score"])
        levels[lesson.level], got_in = admit(levels.get(lesson.level, ()), lesson, case.hyper["capacity_per_level"])
        admitted.append(got_in)
    final = {level: [lesson.text for lesson in lessons] for level, lessons in levels.items() if lessons}
    return {"admitted": admitted, "final": final}


def _novel(case: Case) -> dict[str, Any]:
    settings = case.given(threshold="similarity_threshold", characters="truncate_chars")
    lessons = tuple(Lesson(e["text"], "method", e["score"]) for e in case["existing"])
    novel = []
    for new in case["candidates"]:
        novel.append(duplicate(lessons, new["text"], **settings) is None)
        if not novel[-1]:  # a new one would be stored
            library, _ = Library({"method": lessons}).add(Lesson(new["text"], "method", new["score"]), 0, **settings)
            lessons = library.levels["method"]
    return {"novel": novel, "existing_scores_after": [lesson.score for lesson in lessons]}


@adapter("himac")
def himac(case: Case) -> dict[str, Any]:
    if "blueprint_token_logp" in case:
        logp = case["blueprint_token_logp"]
        choice = "first" if case.hyper.get("selection") == "first" else "confident"
        _, micro = methods.himac(n=max(len(logp), 1), choice=choice, imitate=0).leaves()
        chosen = micro.rollout.chosen(logp)  # type: ignore[union-attr]
        return {"confidence": [mean_log_probability(row) for row in logp], "chosen": chosen}
    macro, micro = methods.himac(imitate=0).leaves()
    method = configured(case, macro, {"epsilon": "advantage.epsilon"})
    if case.hyper["phase"] == "micro":
        method = configured(case, micro, {"epsilon": "advantage.epsilon"})
    rollouts = []
    for row, (blueprint, action) in enumerate(zip(case["blueprint_mask"], case["action_mask"], strict=True)):
        first = max((i + 1 for i, b in enumerate(blueprint) if b), default=0)
        # In the micro phase the blueprint is a draft, which stands in the context.
        macros = case.hyper["phase"] != "micro"
        own = [(b and macros) or a for b, a in zip(blueprint, action, strict=True)]
        origin = [(Origin.policy if o else Origin.given).name for o in own]
        turns = [Turn([0] * len(part), origin=part) for part in (origin[:first], origin[first:])]
        rollouts.append(Rollout(case["group_id"][row], turns, columns={"reward": float(case["outcome_reward"][row])}))
    batch = credited(method, Batch.from_rollouts(rollouts, dtype=torch.float64))
    trained = only(batch["token.advantage"], batch.trained("token"))
    return {"rollout_advantage": batch["rollout.advantage"], "token_advantage": trained.reshape(len(batch), -1)}


@adapter("vspo-prs", aside=("advantage_per_copy",))
def vspo_prs(case: Case) -> dict[str, Any]:
    if "prediction" in case:
        return _staged(case)
    method = methods.vspo_prs(stages=False, **case.given(smoothing="smoothing_power"))
    method = configured(case, method, {"epsilon": "advantage.epsilon", "max_reward": "shape.ReplaceFlat.max_reward"})
    groups = case["group_rewards"]
    flat = [float(r) for rewards in groups for r in rewards]
    batch = Batch.from_rewards(torch.tensor(flat, dtype=torch.float64), [g for g, r in enumerate(groups) for _ in r])
    replace, smooth = method.shape
    copied = batch.with_columns({"group.copies": case.tensor("copies_after_replacement")})
    return {
        "is_zero_variance": replace.flat(batch),
        "task_value": replace.values(batch),
        "resample_probability": replace.probabilities(batch),
        "advantage_multiplier": smooth.multiplier(copied),
    }


def _staged(case: Case) -> dict[str, Any]:
    pairs = zip(case["prediction"], case["reference"], strict=True)
    quality = [length_aware_bleu(said.split(), wanted.split()) for said, wanted in pairs]
    part = next(part for part in methods.vspo_prs().reward if isinstance(part, ProgressiveReward))
    part = part.replace(**case.given(parse="parse_reward", format="format_reward", quality="quality_weight"))
    flags = {"rollout.parsed": "tool_call_parsed", "rollout.formatted": "format_ok"}
    columns = {column: torch.tensor(case[name]) for column, name in flags.items()}
    batch = Batch.from_rewards(torch.tensor(quality, dtype=torch.float64), [0] * len(quality), columns)
    return {"length_aware_bleu": quality, "reward": part(batch)["rollout.reward"]}


@adapter("adalign-llm")
def adalign_llm(case: Case) -> dict[str, Any]:
    settings = {"beta": "beta", "discount": "gamma_align", "gamma": "gamma_return", "scale": "reward_scale"}
    method = methods.adalign_llm(**case.given(**settings)).with_(shape=())  # weights of tokens are no part of credits
    options = {"sign": "use_sign", "bound": "clipping", "by_time": "use_time_regularization"}
    options |= {"trusting": "force_coop_first_step"}
    for setting, value in case.given(**options).items():
        method = method.set(f"advantage.{setting}", value)
    method = method.set("advantage.include_now", not case.hyper.get("exclude_k_equals_t", True))
    rollouts = []
    for group, own, other in zip(case["group"], case["own_turn_rewards"], case["other_turn_rewards"], strict=True):
        turns = [
            Turn([0], columns={"reward": float(reward), "agent": agent})
            for both in zip(own, other, strict=True)
            for agent, reward in zip(("own", "other"), both, strict=True)
        ]
        rollouts.append(Rollout(group, turns, columns={"reward": 0.0}))
    batch = credited(method, Batch.from_rollouts(rollouts, dtype=torch.float64))
    names = {"own_advantages": "centred.own", "other_advantages": "centred.other", "turn_credits": "advantage"}
    width = 2 * len(case["own_turn_rewards"][0])
    return {name: batch[f"turn.{column}"].reshape(-1, width)[:, ::2] for name, column in names.items()}
