"""Methods that select tokens, or weigh them by what they do to the entropy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.analysis import dynamics
from podium.core import Signal
from podium.core.batch import Batch
from podium.core.value import Clock
from podium.parts.shape.heterogeneous import normalised_entropy
from podium.parts.shape.scores import SCORES, Tokens
from podium.policy.head.functionals import FUNCTIONALS, HeadRows
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_COLUMNS, aggregate, credited, differentiate, mask, padded
from tests.conformance.registry import adapter

COLUMNS = LOSS_COLUMNS | {"token.advantage": "advantages"}
CLIP = {"clip_low": "clip_low", "clip_high": "clip_high"}


def rows_of(logits: Tensor, tokens: Tensor) -> HeadRows:
    """The head at the positions of a case: [..., V] logits and the ids that follow."""
    return HeadRows(logits.flatten(0, -2), tokens.long().flatten(), lambda known: known)


def functional(name: str, logits: Tensor, tokens: Tensor, **settings: Any) -> Tensor:
    """A functional of the head at every position, in the shape of the tokens."""
    temperature = settings.pop("temperature", 1.0)
    return FUNCTIONALS[name](rows_of(logits, tokens).at(temperature), **settings).reshape(tokens.shape)


def numbers(batch: Batch, x: Tensor) -> Tensor:
    """A value per token as [B, T], yes and no as 1 and 0."""
    return batch.to_padded(x.to(batch.dtype))


def together(case: Case) -> list[int]:
    """All rows in one group: equal scores then fall to the earlier row, as in a sort of the padded array."""
    return [0] * len(mask(case))


@adapter("high-entropy-tokens")
def high_entropy_tokens(case: Case) -> dict[str, Any]:
    rules = {"quantile": "quantile", "top_k": "floor"}
    method = methods.high_entropy_tokens(
        share=case.hyper["fraction"],
        rule=rules[case.hyper["rule"]],
        over={"all": "all", "selected": "where"}[case.hyper["denominator"]],
        dual=None,
        **case.given(**CLIP),
    )
    batch = padded(case, COLUMNS | {"token.now.entropy": "entropy"}, group=together(case))
    outcome = differentiate(method.objective, batch, live=method.shape)
    (select,) = method.shape
    return {
        "selected": numbers(batch, select(batch)["token.selected"]),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


@adapter("steer")
def steer(case: Case) -> dict[str, Any]:
    settings = case.given(low="weight_min", high="weight_max", mapping="mapping", dual="dual_clip", **CLIP)
    method = methods.steer(**settings)
    if "aggregation" in case.hyper:
        method = method.set("objective.PolicyGradient.aggregate", aggregate(case))
    batch = padded(case, COLUMNS | {"token.old.entropy": "entropy"})
    outcome = differentiate(method.objective, batch, live=method.shape)
    (spare,) = method.shape
    return {
        "weights": batch.to_padded(spare(batch)["token.weight.entropy"]),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


@adapter("d3s")
def d3s(case: Case) -> dict[str, Any]:
    if "step" in case:
        shares = {"rollouts": ("n_init", "n_final"), "tokens": ("k_init", "k_final")}
        settings = {name: tuple(case.hyper[x] for x in ends) for name, ends in shares.items()}
        method = methods.d3s(over=case.hyper["total_steps"], **settings)
        parts = [method.at(Clock(step)).shape for step in case["step"]]
        return {"sample_fraction": [p[0].share for p in parts], "token_fraction": [p[1].share for p in parts]}
    rollouts, tokens = methods.d3s().shape
    if "entropy" in case:
        columns = {"rollout.advantage": "advantage", "token.old.entropy": "entropy"}
        batch = padded(case, columns, group=together(case))
        select = tokens.replace(share=case.hyper["token_fraction"])
        return {"token_mask": numbers(batch, select(batch)["token.selected"])}
    advantage = case.tensor("advantage")
    batch = Batch.from_rewards(advantage, [0] * len(advantage), {"rollout.advantage": advantage})
    kept, from_bottom, variance = rollouts.subset(batch, torch.tensor([case.hyper["keep"]]))
    return {"selected": kept.nonzero().reshape(-1), "from_bottom": from_bottom[0], "variance": variance[0]}


@adapter("earl-rtl")
def earl_rtl(case: Case) -> dict[str, Any]:
    if case.hyper["kind"] == "cascade_reward":
        rows, levels = case.tensor("rows"), case.hyper["levels"]
        columns = {f"rollout.{name}": x for name, x in zip(case.hyper["columns"], rows.unbind(1), strict=True)}
        batch = Batch.from_rewards(rows[:, 0], range(len(rows)), columns)
        (part,) = methods.earl_rtl(cascade=True).reward
        part = part.replace(
            checks=("rollout.parses", "rollout.interface_matches"),
            levels=(levels["fail"], levels["parses"], levels["interface"]),
            tests="rollout.fraction_tests_passed",
            partial=levels["tests"],
            complete="rollout.equivalent",
            full=levels["equivalent"],
        )
        return {"reward": part(batch)["rollout.reward"]}
    method = methods.earl_rtl(share=case.hyper["fraction"], kl=case.hyper["kl_weight"], **case.given(**CLIP))
    (select,) = (part.replace(scope=case.hyper["scope"]) for part in method.shape)
    batch = padded(case, COLUMNS | {"token.sampler.entropy": "entropy"})
    batch = batch.with_columns(select(batch))
    outcome = differentiate(method.objective, batch)
    return {
        "threshold": select.threshold(batch),
        "selected": numbers(batch, batch["token.selected"]),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


@adapter("entropy-discriminator-clip", aside=("fraction_clipped",))
def entropy_discriminator_clip(case: Case) -> dict[str, Any]:
    variant = case.hyper["variant"]
    if variant == "identity":
        return _identity(case)
    norm = {"clip_b": "batch", "clip_v": "vocabulary"}[variant]
    method = methods.entropy_discriminator_clip(norm=norm, mu=case.hyper["mu"], at_most=case.hyper["max_fraction"])
    columns = {
        "token.old.logp": "logp",
        "token.old.entropy": "entropy",
        "token.old.expected_discriminator": "expected_discriminator",
        "rollout.reward": "rewards",
    }
    batch = credited(method, padded(case, columns, group=case["groups"]))
    kept = batch["token.keep.disruptive"].to(batch.dtype)
    return {
        "discriminator": batch.to_padded(SCORES["discriminator"].value(Tokens(batch, "old"))),
        "advantages": batch.to_padded(batch["token.advantage"]),
        "kept": batch.to_padded(kept),
    }


def _identity(case: Case) -> dict[str, Any]:
    methods.entropy_discriminator_clip()  # whose scores the analysis explains
    z, action = case.tensor("logits"), case["action"]
    s, _ = dynamics.discriminators(z)
    logit = dynamics.entropy_after_logit(z, action, case.hyper["logit_step"])
    step = dynamics.entropy_after_step(z, action, case.hyper["advantage"], case.hyper["policy_step"])
    everywhere = rows_of(z.expand(1, -1), torch.tensor([action]))
    return {
        "entropy": FUNCTIONALS["entropy"](everywhere)[0],
        "discriminator": s,
        "expected_discriminator": FUNCTIONALS["expected_discriminator"](everywhere)[0],
        "entropy_change_single_logit": logit[0],
        "first_order_single_logit": logit[1],
        "entropy_change_policy_gradient": step[0],
        "first_order_policy_gradient": step[1],
    }


@adapter("lp-reg")
def lp_reg(case: Case) -> dict[str, Any]:
    if case.hyper["kind"] == "proxy":
        anchors = methods.lp_reg(min_p=case.hyper["min_p"]).objective[1].needs
        (anchor,) = (need for need in anchors if isinstance(need, Signal) and need.of == "old")
        return {"proxy_logp": functional("logp", case.tensor("logits"), case.tensor("tokens"), **dict(anchor.settings))}
    method = methods.lp_reg(share=case.hyper["fraction"], beta=case.hyper["coefficient"], **case.given(**CLIP))
    (anchor,) = (need for need in method.objective[1].needs if isinstance(need, Signal) and need.of == "old")
    batch = padded(case, COLUMNS | {anchor.column: "proxy_logp"}, group=together(case))
    outcome = differentiate(method.objective, batch, live=method.shape)
    return {"loss": outcome.step.loss, "grad_logp": batch.to_padded(outcome.grad_logp)}


@adapter("hapo-heterogeneous")
def hapo_heterogeneous(case: Case) -> dict[str, Any]:
    variant = case.hyper["variant"]
    if variant == "token_group_average":
        advantage = methods.hapo_heterogeneous().advantage.replace(epsilon=case.hyper["epsilon"])
        # The reference also gives a value to padding: what a token of the world gets.
        batch = padded(case, {"rollout.reward": "rewards"}, group=case["groups"], given=True)
        batch = batch.with_columns(advantage(batch))
        return {"advantages": batch.to_padded(batch["token.advantage"])}
    settings = case.given(alpha="clip_alpha", beta="adv_beta", pivot="pivot", dual="dual_clip", **CLIP)
    sign = {"as_coded": "released", "intended": "intended"}[variant]
    method = methods.hapo_heterogeneous(sign=sign, **settings)
    batch = padded(case, COLUMNS | {"token.now.entropy": "entropy"})
    outcome = differentiate(method.objective, batch, live=method.shape)
    (part,) = method.shape
    shaped = part(batch)
    return {
        "h": batch.to_padded(normalised_entropy(batch, batch["token.now.entropy"], part.pivot, sign)),
        "clip_low": batch.to_padded(shaped["token.clip_low"]),
        "clip_high": batch.to_padded(shaped["token.clip_high"]),
        "shaped_advantages": batch.to_padded(shaped["token.advantage"]),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }
