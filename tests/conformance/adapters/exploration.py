"""Many turns: credit for what a turn finds out, and for how sure the policy was in it."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core import Clock
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.policy.head.passage import reduced
from tests.conformance.case import Case
from tests.conformance.helpers import by_rollout, configured, differentiate, episodes, in_row_order
from tests.conformance.registry import adapter


def one_turn_after_another(count: int, width: int = 0) -> Batch:
    """A rollout of so many turns."""
    return Batch.from_rollouts([Rollout(0, [Turn((0,) * width)] * count, columns={"reward": 0.0})], dtype=torch.float64)


@adapter("igpo", aside=("prefix_probability",))
def igpo(case: Case) -> dict[str, Any]:
    if "answer_token_logprobs_after_each_prefix" in case:
        (part,) = methods.igpo().reward
        answers = [torch.tensor(x, dtype=torch.float64) for x in case["answer_token_logprobs_after_each_prefix"]]
        scores = reduced(answers, "mean")
        batch = one_turn_after_another(len(scores)).with_columns({part.needs[1]: scores})
        return {"information_gain": part(batch)["turn.reward.gain"][:-1]}
    over = {"joint": "joint", "separate": "apart"}[case.hyper["norm_mode"]]
    method = methods.igpo(
        over=over, scale="std" if case.hyper["divide_by_std"] else "none", **case.given(gamma="gamma")
    )
    paths = {"epsilon": "advantage.epsilon", "var_epsilon": "advantage.variance_epsilon"}
    advantage = configured(case, method, paths).advantage.replace(outcome="turn.outcome")
    batch = episodes(case, {"turn.reward.gain": "turn_reward", "turn.outcome": "is_outcome_turn"})
    return {
        "normalized_reward": in_row_order(batch, advantage.normalized(batch)),
        "advantage": in_row_order(batch, advantage(batch)["turn.advantage"]),
    }


@adapter("infopo")
def infopo(case: Case) -> dict[str, Any]:
    if "next_action_logp_with_feedback" in case:
        (part,), seen = methods.infopo().annotate, case.tensor("next_action_logp_with_feedback")
        blind = reduced([case.tensor("next_action_logp_masked_feedback")], "mean")
        batch = one_turn_after_another(2, len(seen)).with_columns(
            {
                part.needs[0]: torch.cat([torch.zeros_like(seen), seen]),
                part.needs[1]: torch.cat([torch.zeros_like(blind), blind]),
                "turn.informed": torch.tensor([False, True]),
            }
        )
        return {"turn_information_gain": part(batch)["turn.gain"][0]}
    settings = case.given(weight="intrinsic_weight", decay="intrinsic_decay_rate", tau="gate_temperature")
    method = methods.infopo(**settings, **case.given(cap="baseline_std"))
    method = configured(case, method, {"epsilon": "advantage.epsilon"}).at(Clock(case.hyper["epoch"]))
    rollouts = []
    for prompt, outcome, gains, lengths in zip(
        case["prompt_id"],
        case["outcome_reward"],
        case["turn_information_gain"],
        case["turn_action_tokens"],
        strict=True,
    ):
        turns = [Turn((0,) * k, columns={"gain": float(gain)}) for gain, k in zip(gains, lengths, strict=True)]
        rollouts.append(Rollout(prompt, turns, columns={"reward": float(outcome)}))
    batch, advantage = Batch.from_rollouts(rollouts, dtype=torch.float64), method.advantage
    return {
        "outcome_advantage": advantage.extrinsic(batch),
        "intrinsic_advantage": by_rollout(batch, advantage.intrinsic(batch)),
        "gate": advantage.gate(batch),
        "magnitude_ratio": advantage.magnitude(batch)[0],
        "advantage": by_rollout(batch, advantage(batch)["turn.advantage"]),
    }


@adapter("empg")
def empg(case: Case) -> dict[str, Any]:
    method = methods.empg(**case.given(k="k", k_future="k_future", zeta="zeta"))
    (part,) = configured(case, method, {"epsilon": "shape.EntropyModulation.epsilon"}).shape
    rollouts = [
        Rollout(number, [Turn((0,), tokens={"sampler.entropy": [h]}) for h in steps], columns={"advantage": float(a)})
        for number, (steps, a) in enumerate(zip(case["step_entropy"], case["rollout_advantage"], strict=True))
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    return {
        "scale": by_rollout(batch, part.factor(batch)),
        "modulated": by_rollout(batch, part.modulated(batch)),
        "advantage": by_rollout(batch, part(batch)["turn.advantage"]),
    }


@adapter("epo")
def epo(case: Case) -> dict[str, Any]:
    settings = case.given(low="min_ratio", high="max_ratio", penalty="penalty", turns="max_steps", over="max_epochs")
    test = {"token": "token", "seq": "turn"}[case.hyper["mask_mode"]]
    method = methods.epo(test=test, kl=0.0, **settings, **case.given(bonus="entropy_coef", smooth="smooth_coef"))
    clock = Clock(case.hyper["epoch"])
    phase = method.objective[2].phase.number(clock)
    if not case.hyper["phase_weighting"]:
        method = method.set("objective.BandPenalty.phase", 1.0)
    method = method.at(clock)
    (band,), (_, bonus, penalty), (memory,) = method.shape, method.objective, method.memories
    state = memory.initial()
    for means in case["entropy_history_per_turn"]:  # an iteration with a token of that entropy in each turn
        turns = [Turn((0,), tokens={"sampler.entropy": [mean]}) for mean in means]
        state = memory.observe(state, Batch.from_rollouts([Rollout(0, turns)], dtype=torch.float64))
    batch = _rows(case).with_columns(memory.recall(state, []))
    batch = batch.with_columns(band(batch))
    # In the release the mean of a row runs over its padding, whose tokens are the policy's here; the means of the loss
    # do not.
    bonus, penalty = (term.replace(where="token.inside") for term in (bonus, penalty))
    return {
        "phase_weight": phase,
        "penalty_per_token": penalty.loss(batch).reshape(len(batch), -1),
        "mean_entropy": bonus.replace(coefficient=-1.0)(batch),  # its loss is −H
        "mean_penalty": penalty.replace(coefficient=1.0)(batch),
        "loss_term": differentiate([bonus, penalty], batch).step.loss,
    }


def _rows(case: Case) -> Batch:
    """Each row as the last turn of a rollout, with what is not padding marked."""
    rollouts = []
    for h, mask, place in zip(case["entropy"], case["action_mask"], case["turn_index"], strict=True):
        row = Turn((0,) * len(h), tokens={"now.entropy": h, "inside": [bool(m) for m in mask]})
        nothing = Turn((), tokens={"now.entropy": (), "inside": ()})
        rollouts.append(Rollout(0, [nothing] * place + [row], columns={"reward": 0.0}))
    return Batch.from_rollouts(rollouts, dtype=torch.float64)
