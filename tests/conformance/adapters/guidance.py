"""Answers that the policy would not have found alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.term import Term
from podium.core.value import Clock
from podium.parts.keep import InjectTeachers
from podium.parts.reward import PseudoLabel, RankTruncated
from podium.parts.shape import MatchTrajectories
from podium.parts.shape.trajectories import trajectory_similarity
from podium.policy.head.passage import reduced
from podium.protocols.world import Criterion
from podium.strategies import Rectified, Refine, RubricShown
from podium.strategies.requests import Play, Request
from podium.worlds import Task, World
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate, marked, padded
from tests.conformance.plans import collected, made
from tests.conformance.registry import adapter


@adapter("ampo")
def ampo(case: Case) -> dict[str, Any]:
    settings = case.given(
        known="teachers",
        most="max_injected",
        format_share="format_coefficient",
        gamma="gamma",
        clip="clip",
        dual="dual_clip",
        max_length="length_constant",
    )
    method = methods.ampo(entropy=0.0, **settings)
    inject = method.keep[0]
    assert isinstance(inject, InjectTeachers)
    teachers = _beside_teachers(case)
    order = inject.order(teachers)[len(case["on_policy_correct"]) :]
    chosen = sorted((place, number) for number, place in enumerate(order.tolist()) if 0 <= place < inject.most)

    columns = {"token.now.logp": "logp", "token.old.logp": "old_logp", "rollout.reward": "rewards_after_injection"}
    batch = padded(case, columns, group=[0] * len(case["mask"]))
    writers = [int(Origin.expert if injected else Origin.policy) for injected in case["injected_mask"]]
    origin = batch.spread(torch.tensor(writers, dtype=torch.int8), "rollout", "token")
    batch = batch.with_columns({"token.origin": origin})
    batch = credited(method.with_(annotate=(), reward=()), batch.with_columns(method.keep[1](batch)))
    return {
        "comprehension_scores": inject.understood(teachers)[len(case["on_policy_correct"]) :],
        "teachers_chosen_in_order": [number for _, number in chosen],
        "advantages": batch["rollout.advantage"],
        "loss": differentiate(method.objective, batch).step.loss,
    }


def _beside_teachers(case: Case) -> Batch:
    """The own rollouts of a case with 1 or 0 as reward, and its teachers' answers as candidates."""
    own, read = case["on_policy_correct"], case["teacher_answer_token_probs"]
    guided = marked(len(own) + len(read), len(own))
    read = [row or [0.0] for row in read]
    probabilities = reduced([torch.tensor(row, dtype=torch.float64) for row in read], "mean").tolist() if read else []
    columns = {
        "rollout.guided": guided,
        "rollout.correct": torch.tensor([*map(bool, own), *([False] * len(read))]),
        "rollout.purpose": torch.tensor([int(Purpose.train)] * len(own) + [int(Purpose.probe)] * len(read)),
        "rollout.format": torch.tensor([0.0] * len(own) + list(case["teacher_format_ok"]), dtype=torch.float64),
        InjectTeachers().needs[-1]: torch.tensor([0.0] * len(own) + probabilities, dtype=torch.float64),
    }
    rewards = torch.tensor([*map(float, own), *([0.0] * len(read))], dtype=torch.float64)
    return Batch.from_rewards(rewards, [0] * len(rewards)).with_columns(columns)


@adapter("r3")
def r3(case: Case) -> dict[str, Any]:
    if case["part"] == "replay_advantage":
        advantage = methods.r3(**case.given(alpha="alpha", epsilon="lambda")).advantage
        current, replayed = case["current_rewards"], case["replayed_rewards"]
        rewards = torch.tensor([*current, *replayed], dtype=torch.float64)
        marks = {"rollout.replayed": marked(len(rewards), len(current))}
        assert advantage is not None
        return {"advantages": advantage(Batch.from_rewards(rewards, [0] * len(rewards), marks))["rollout.advantage"]}
    rank = methods.r3(**case.given(top="top_fraction", highest="r_max")).reward[0]
    assert isinstance(rank, RankTruncated)
    known = {"reward": 0.0, "truncated": True, "replayed": False}
    rollouts = [
        Rollout("task", [Turn((1,) * len(row), tokens={"sampler.entropy": row})], columns=known)
        for row in case["token_entropy"]
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    after = rank(batch)
    return {
        "peak": rank.peak(batch),
        "global": rank.mean(batch),
        "dominance": after["rollout.dominates"],
        "rewards": after["rollout.reward.rank"],
    }


class Judged(World):
    """A world whose criteria and verdicts come with a case."""

    points: tuple[float, ...] = ()
    verdicts: tuple[tuple[bool, ...], ...] = ()

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        return tuple(Criterion(str(number), points) for number, points in enumerate(self.points))

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        return self.verdicts[int(text.rpartition(" ")[2])]


@adapter("rgr-grpo")
def rgr_grpo(case: Case) -> dict[str, Any]:
    if case["part"] == "shape":
        method = methods.rgr_grpo(**case.given(gamma="gamma"))
        logp = case.tensor("logp")[None]
        batch = Batch.from_padded(torch.ones_like(logp), [0], {"token.now.logp": logp})
        credit = torch.full_like(batch["token.now.logp"], case["advantage"])
        return {"token_loss": method.objective[1].loss(batch.with_columns({"token.advantage": credit}))}
    if case["part"] == "mix":
        return _mixed(case)
    points, verdicts = case["weights"], [[bool(v) for v in row] for row in case["verdicts"]]
    world = Judged(points=tuple(map(float, points)), verdicts=tuple(map(tuple, verdicts)))
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [0.0] * request.n) if request.wave == 0 else []

    method = methods.rgr_grpo(n=len(verdicts))
    collected(method.rollout, answers, world)
    rows = {"rollout.points": [tuple(points)] * len(verdicts), "rollout.met": list(map(tuple, verdicts))}
    batch = Batch.from_rewards(torch.zeros(len(verdicts), dtype=torch.float64), [0] * len(verdicts), rows)
    rewards = method.reward[0](batch)["rollout.reward"]
    refined = len(asked) > 1
    shown = asked[-1].context if refined else None
    values = rewards.tolist()
    best = int(shown.attempt.rpartition(" ")[2]) if refined else values.index(max(values))  # type: ignore[union-attr]
    failed = [int(text) for text in shown.hint.split()] if refined else []  # type: ignore[union-attr]
    return {"rewards": rewards, "best": best, "refine": refined, "failed_criteria": failed}


def _mixed(case: Case) -> dict[str, Any]:
    """Rollouts of known values, and a rewrite of one."""
    own, refined = case["on_policy_rewards"], case["refined_reward"]
    method = methods.rgr_grpo(n=len(own), **case.given(epsilon="eps"))

    class Valued(Refine):
        def value(self, task: Any, rollout: Rollout) -> float:
            return float(rollout.columns["reward"])

    strategy = Valued(**method.rollout.settings())
    world = Judged(points=(1.0,), verdicts=((False,),) * (len(own) + 1))

    def answers(request: Request) -> Sequence[Rollout]:
        assert isinstance(request, Play)
        return made(request, own if request.wave == 0 else [refined])

    group = [r for r in collected(strategy, answers, world) if r.columns["purpose"] == Purpose.train]
    batch = Batch.from_rollouts(group, dtype=torch.float64)
    return {
        "refined_used": any(batch["rollout.guided"].tolist()),
        "advantages": method.advantage(batch)["rollout.advantage"],
    }


@adapter("scope")
def scope(case: Case) -> dict[str, Any]:
    if case["part"] == "locate":
        help_ = methods.scope(**case.given(threshold="error_threshold", prefix="min_prefix_fraction")).rollout.help
        assert isinstance(help_, Rectified)
        scores = case["step_scores"]
        return {
            "first_error": help_.first_error(scores),
            "prefix_fraction": help_.share(scores),
            "salvage": help_.salvages(scores, bool(case["correct"])),
        }
    method = methods.scope(**case.given(clip="clip", gamma="gamma"))
    logp = case.tensor("logp")[None]
    own, written = case["on_policy_tokens"], len(case["logp"])
    columns = {
        "token.now.logp": logp,
        "token.old.logp": case.tensor("old_logp")[None],
        "token.advantage": torch.full_like(logp, case["advantage"]),
        "token.origin": torch.tensor([[int(Origin.policy)] * own + [int(Origin.expert)] * (written - own)]).to(
            torch.int8
        ),
    }
    batch = Batch.from_padded(torch.ones_like(logp), [0], columns)
    batch = batch.with_columns(method.keep[0](batch))
    return {
        "token_loss": _token_loss(method.objective, batch),
        "loss": differentiate(method.objective, batch).step.loss,
    }


def _token_loss(terms: Sequence[Term], batch: Batch) -> torch.Tensor:
    """[token] the loss of each token by the term that it is in."""
    found = torch.zeros(batch.size("token"), dtype=batch.dtype)
    for term in terms:
        inside = term.members(batch)
        found[inside] = term.loss(batch)[inside]
    return found


@adapter("icpo")
def icpo(case: Case) -> dict[str, Any]:
    settings = case.given(
        bonus="bonus",
        steps="total_steps",
        clip_low="clip_low",
        clip_high="clip_high",
        dual="dual_clip",
        gamma="gamma",
        epsilon="eps",
    )
    correct, guided = torch.tensor(case["correct"]).bool(), torch.tensor(case["expert_guided"]).bool()
    columns = {"token.now.logp": "logp", "token.old.logp": "old_logp", "rollout.reward": "correct"}
    marks = {
        "rollout.correct": correct,
        "rollout.guided": guided,
        "rollout.plain": torch.tensor([not g for g in case["expert_guided"]]),
    }
    batch = padded(case, columns, group=[0] * len(correct)).with_columns(marks)

    def trained(reject: bool) -> tuple[Batch, float]:
        method = methods.icpo(n=len(correct), guided=0, reject=reject, kl=0.0, **settings).at(Clock(case["step"]))
        after = batch
        for part in (*method.annotate, *method.reward, *method.keep):
            after = after.with_columns(part(after))
        after = after.with_columns(method.advantage(after))
        return after, differentiate(method.objective, after).step.loss

    after, loss = trained(reject=False)
    return {
        "rewards": after["rollout.reward"],
        "advantages": after["rollout.advantage"],
        "loss": loss,
        "loss_with_reject_sampling": trained(reject=True)[1],
    }


@adapter("ruscarl")
def ruscarl(case: Case) -> dict[str, Any]:
    if case["part"] == "reward":
        columns = {"rollout.points": [tuple(case["points"])], "rollout.met": [tuple(case["met"])]}
        batch = Batch.from_rewards(torch.zeros(1, dtype=torch.float64), [0], columns)
        (rubric,) = methods.ruscarl().reward
        return {"score": rubric(batch)["rollout.reward"][0]}
    rule = case.hyper.get("rule", "sigmoid")
    fade = "none" if rule == "linear" else rule.removeprefix("step_")  # along the group alone, or along training too
    settings = case.given(steps="total_steps", midpoint="midpoint", steepness="steepness", power="power")
    method = methods.ruscarl(n=case["group_size"], fade=fade, **settings)

    def at(step: int) -> RubricShown:
        strategy = method.at(Clock(step - 1)).rollout
        assert isinstance(strategy, RubricShown)
        return strategy

    if case["part"] == "schedule_variant":
        return {"ratio": at(case["step"]).ratios()}
    return {
        "by_step": {
            str(step): {"ratio": at(step).ratios(), "criteria_shown": at(step).shown(case["criteria"])}
            for step in case["steps"]
        }
    }


@adapter("trapo")
def trapo(case: Case) -> dict[str, Any]:
    if case["part"] == "pseudo_label":
        given = case["answers"]
        answers = ["" if answer is None else str(answer) for answer in given]
        (reward,) = methods.trapo(labelled=0.0).reward
        assert isinstance(reward, PseudoLabel)
        zeros = torch.zeros(len(answers), dtype=torch.float64)
        batch = Batch.from_rewards(zeros, [0] * len(answers), {"rollout.answer": answers})
        chosen = reward.favourite(batch).tolist()
        label = next((answer for answer, own in zip(given, chosen, strict=True) if own), None)
        return {"label": label, "rewards": reward(batch)["rollout.reward"]}
    match = methods.trapo(**case.given(tau="tau", top="top_fraction")).shape[0]
    assert isinstance(match, MatchTrajectories)
    curves, references = case.tensor("unlabeled_pass_rates"), case.tensor("labeled_pass_rates")
    alike = trajectory_similarity(curves, references)
    top, selected = match.chosen(alike)
    return {"similarity": alike, "top": top, "selected": selected}
