"""Podium against verl's own functions, on random batches in float64.

Tolerances: 1e-12 where both do the same arithmetic. verl adds 1e-8 to the counts under its means (the token mean of a
sequence, and the mean and variance of whitening), so those agree to 1e-7 only; ours divide by the count itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.method import Method
from podium.parts.advantage import GAE, Normalize, Returns
from podium.parts.objective import KL, Clip, PolicyGradient, ValueLoss
from podium.parts.shape import Whiten
from tests.parity.batches import LAYOUTS, SAME, Padded, agree, credited, loss_and_gradient, random_padded

algos = pytest.importorskip(
    "verl.trainer.ppo.core_algos",
    reason="verl is not installed: `make parity` runs these tests in an environment with it",
)
from verl.trainer.config import AlgoConfig  # noqa: E402
from verl.workers.config import ActorConfig  # noqa: E402
from verl.workers.config.actor import PolicyLossConfig  # noqa: E402

GUIDE = Path(__file__).parents[2] / "docs/guide/neighbours.md"
COUNT_EPSILON = 1e-7  # where verl adds 1e-8 to a count
SEEDS = range(5)

# verl's aggregation modes in Podium's words; `norm` divides by the width of the padded batch unless told otherwise.
MODES = {
    "token-mean": "token mean",
    "token-sum": "token sum",
    "seq-mean-token-sum": "token sum, rollout mean",
    "seq-mean-token-mean": "token mean, rollout mean",
    "seq-mean-token-sum-norm": "token sum / 9, rollout mean",
}


@pytest.fixture(params=[(seed, layout) for seed in SEEDS for layout in LAYOUTS], ids=lambda p: f"{p[1]}-{p[0]}")
def padded(request: pytest.FixtureRequest) -> Padded:
    return random_padded(*request.param)


def tolerance(mode: str) -> float:
    return COUNT_EPSILON if mode == "seq-mean-token-mean" else SAME


def ids(padded: Padded) -> Any:
    return np.array(padded.group, dtype=object)


def actor(policy_loss: dict[str, Any] | None = None, **settings: Any) -> Any:
    """verl's settings of the actor, with its own defaults."""
    return ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        use_dynamic_bsz=True,
        policy_loss=PolicyLossConfig(**(policy_loss or {})),
        **settings,
    )


def their_loss(
    function: Callable[..., Any], padded: Padded, config: Any, mode: str = "token-mean", **extra: Any
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    now = padded.now.clone().requires_grad_()
    loss, metrics = function(padded.old, now, padded.advantage, padded.mask, loss_agg_mode=mode, config=config, **extra)
    return loss.detach(), torch.autograd.grad(loss, now)[0], metrics


def by_terms(*terms: Term) -> Method:
    return Method("terms", objective=terms)


# -- advantages ----------------------------------------------------------------------------------------------------


def test_grpo_advantage(padded: Padded) -> None:
    theirs, _ = algos.compute_grpo_outcome_advantage(padded.outcome(), padded.mask, ids(padded))
    ours = credited(methods.get("grpo@verl"), padded.batch())
    shared = torch.tensor([padded.group.count(name) > 1 for name in padded.group])
    agree(ours[shared], theirs[shared])
    agree(ours, theirs, 1e-7)  # the scale of a group of one is 1 + 1e-6, which verl adds in float32


def test_dr_grpo_advantage(padded: Padded) -> None:
    theirs, _ = algos.compute_grpo_outcome_advantage(
        padded.outcome(), padded.mask, ids(padded), norm_adv_by_std_in_grpo=False
    )
    agree(credited(methods.get("dr-grpo"), padded.batch()), theirs)


def test_rloo_advantage(padded: Padded) -> None:
    theirs, _ = algos.compute_rloo_outcome_advantage(padded.outcome(), padded.mask, ids(padded))
    agree(credited(methods.get("rloo", kl=0.0), padded.batch()), theirs)


def test_the_estimator_of_the_guide_is_one_of_verl_s(padded: Padded) -> None:
    names: dict[str, Any] = {"Batch": Batch, "methods": methods}
    [code] = [
        code for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "def estimator" in code
    ]
    exec(code, names)
    algos.ADV_ESTIMATOR_REGISTRY.pop("podium_rloo", None)
    algos.register_adv_est("podium_rloo")(names["estimator"])
    estimator = algos.get_adv_estimator_fn("podium_rloo")
    given = {"token_level_rewards": padded.outcome(), "response_mask": padded.mask, "index": ids(padded)}
    theirs, _ = algos.compute_rloo_outcome_advantage(**given)
    agree(estimator(**given, config=None)[0] * padded.mask, theirs)


def test_vectorised_rloo_gives_a_lone_rollout_nothing(padded: Padded) -> None:
    """verl's two versions differ there: its plain one keeps the raw reward. Both are a setting here."""
    theirs, _ = algos.compute_rloo_vectorized_outcome_advantage(padded.outcome(), padded.mask, ids(padded))
    method = methods.get("rloo", kl=0.0).set("advantage.singleton", "zero")
    agree(credited(method, padded.batch()), theirs)


def test_opo_advantage(padded: Padded) -> None:
    theirs, _ = algos.compute_opo_outcome_advantage(padded.outcome(), padded.mask, ids(padded))
    agree(credited(methods.get("opo"), padded.batch()), theirs)


def test_gpg_advantage(padded: Padded) -> None:
    assert (padded.reward == 0).any(), "without a zero reward verl's factor would be 1"
    theirs, _ = algos.compute_gpg_outcome_advantage(padded.outcome(), padded.mask, ids(padded))
    # verl holds the factor in float32, since it divides two integer counts.
    agree(credited(methods.get("gpg@verl"), padded.batch()), theirs, 1e-6)


def test_remax_advantage_and_returns(padded: Padded) -> None:
    number = {name: float(i) for i, name in enumerate(sorted(set(padded.group)))}
    baseline = torch.tensor([number[name] for name in padded.group], dtype=torch.float64)
    theirs, returns = algos.compute_remax_outcome_advantage(padded.token_reward, baseline, padded.mask)
    batch = padded.batch()
    batch = batch.with_columns(
        {
            "group.baseline": torch.tensor([number[name] for name in batch["group.task"]], dtype=torch.float64),
            "token.reward": padded.batch(padded.token_reward)["token.now.logp"],
        }
    )
    part = methods.get("remax@verl").advantage
    assert part is not None
    ours = part(batch)
    # verl leaves the return standing at masked tokens between the model's, where no loss reads it.
    agree(batch.to_padded(ours["token.advantage"]), theirs * padded.mask)
    agree(batch.to_padded(ours["token.return"]), returns * padded.mask)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_reinforce_plus_plus_advantage(padded: Padded, gamma: float) -> None:
    theirs, _ = algos.compute_reinforce_plus_plus_outcome_advantage(
        padded.outcome(), padded.mask, config=AlgoConfig(gamma=gamma)
    )
    method = methods.get("reinforce-plus-plus", kl=0.0, gamma=gamma)
    agree(credited(method, padded.batch()), theirs, COUNT_EPSILON)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("given", [False, True], ids=["tokens left out", "tokens given"])
def test_returns_step_over_the_worlds_tokens(padded: Padded, gamma: float, given: bool) -> None:
    """In verl 0.9 the return passes over them unchanged; `given="stop"` is what it did before."""
    _, theirs = algos.compute_reinforce_plus_plus_outcome_advantage(
        padded.token_reward, padded.mask, config=AlgoConfig(gamma=gamma)
    )
    batch = Batch.from_padded(padded.mask, padded.group, {"token.reward": padded.token_reward}, given=given)
    ours = Returns(gamma=gamma, given="pass")(batch)["token.return"]
    agree(batch.to_padded(ours) * padded.mask, theirs)


def test_reinforce_plus_plus_baseline_advantage(padded: Padded) -> None:
    theirs, _ = algos.compute_reinforce_plus_plus_baseline_outcome_advantage(padded.outcome(), padded.mask, ids(padded))
    agree(credited(methods.get("reinforce-plus-plus@baseline"), padded.batch()), theirs, COUNT_EPSILON)


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.99, 0.95), (0.9, 0.0)])
@pytest.mark.parametrize("given", [False, True], ids=["tokens left out", "tokens given"])
def test_gae(padded: Padded, gamma: float, lam: float, given: bool) -> None:
    """The world's tokens may be left out of the batch or be part of it: the model's see no difference."""
    advantage, returns = algos.compute_gae_advantage_return(
        padded.token_reward, padded.value, padded.mask, gamma=gamma, lam=lam
    )
    columns = {"token.reward": padded.token_reward, "token.old.value": padded.value}
    batch = Batch.from_padded(padded.mask, padded.group, columns, given=given)
    batch = batch.with_columns(GAE(gamma=gamma, lam=lam)(batch))
    ours = batch.to_padded(batch["token.return"]) * padded.mask
    agree(ours, returns * padded.mask)
    whitened = batch.to_padded(Whiten()(batch)["token.advantage"]) * padded.mask
    agree(whitened, advantage * padded.mask, COUNT_EPSILON)


# -- losses and their gradients ------------------------------------------------------------------------------------


def test_batches_reach_every_branch_of_the_clip() -> None:
    """Without this the tests below might compare unclipped losses only."""
    padded = random_padded(0, "ragged")
    seen = PolicyGradient(clip=Clip(0.2, 0.28, dual=1.5)).diagnostics(padded.batch(padded.now))
    for name in ("clip_fraction", "dual_clip_fraction"):
        assert 0 < seen[name].double().mean() < 1


@pytest.mark.parametrize("dual", [3.0, 1.5])
@pytest.mark.parametrize("mode", MODES)
def test_vanilla_loss(padded: Padded, mode: str, dual: float) -> None:
    config = actor(clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=dual)
    loss, gradient, _ = their_loss(algos.compute_policy_loss_vanilla, padded, config, mode)
    ours = loss_and_gradient(
        by_terms(PolicyGradient(clip=Clip(0.2, 0.28, dual=dual), aggregate=Aggregate(MODES[mode]))), padded
    )
    agree(ours[0], loss, tolerance(mode))
    agree(ours[1], gradient, tolerance(mode))


def test_vanilla_diagnostics(padded: Padded) -> None:
    """The shares of clipped tokens, which verl keeps in float32."""
    config = actor(clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=1.5)
    *_, metrics = their_loss(algos.compute_policy_loss_vanilla, padded, config)
    seen = PolicyGradient(clip=Clip(0.2, 0.28, dual=1.5)).diagnostics(padded.batch(padded.now))
    ours = {name: float(x.double().mean()) for name, x in seen.items()}
    assert ours["clip_fraction"] == pytest.approx(metrics["actor/pg_clipfrac"], rel=1e-6)
    assert ours["dual_clip_fraction"] == pytest.approx(metrics["actor/pg_clipfrac_lower"], rel=1e-6)
    assert ours["approx_kl"] == pytest.approx(metrics["actor/ppo_kl"], rel=1e-6)


def test_rollout_importance_weights_are_a_weight_column(padded: Padded) -> None:
    weight = (padded.old - padded.ref).exp().clamp(max=2.0)
    config = actor(clip_ratio_low=0.2, clip_ratio_high=0.28)
    loss, gradient, _ = their_loss(algos.compute_policy_loss_vanilla, padded, config, rollout_is_weights=weight)
    now = padded.now.clone().requires_grad_()
    batch = padded.batch(now)
    batch = batch.with_columns({"token.weight.truncated": padded.batch(weight)["token.now.logp"]})
    ours = PolicyGradient(clip=Clip(0.2, 0.28, dual=3.0))(batch)
    agree(ours.detach(), loss)
    agree(torch.autograd.grad(ours, now)[0], gradient)


def test_gspo_loss(padded: Padded) -> None:
    config = actor(clip_ratio_low=0.05, clip_ratio_high=0.08)
    loss, gradient, metrics = their_loss(algos.compute_policy_loss_gspo, padded, config, "seq-mean-token-mean")
    method = methods.get("gspo@verl", clip_low=0.05, clip_high=0.08)
    ours = loss_and_gradient(method, padded)
    assert 0 < metrics["actor/pg_clipfrac"] < 1
    agree(ours[0], loss, COUNT_EPSILON)
    agree(ours[1], gradient, COUNT_EPSILON)


@pytest.mark.parametrize("low", [0.2, 1.0])
@pytest.mark.parametrize("mode", MODES)
def test_cispo_loss(padded: Padded, mode: str, low: float) -> None:
    config = actor(clip_ratio_low=low, clip_ratio_high=0.28)
    loss, gradient, _ = their_loss(algos.compute_policy_loss_cispo, padded, config, mode)
    method = methods.get("cispo", clip_low=low, clip_high=0.28)
    method = method.set("objective.PolicyGradient.aggregate", Aggregate(MODES[mode]))
    ours = loss_and_gradient(method, padded)
    agree(ours[0], loss, tolerance(mode))
    agree(ours[1], gradient, tolerance(mode))


def test_gpg_loss(padded: Padded) -> None:
    loss, gradient, _ = their_loss(algos.compute_policy_loss_gpg, padded, actor())
    ours = loss_and_gradient(methods.get("gpg@verl"), padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


def test_reinforce_loss(padded: Padded) -> None:
    loss, gradient, _ = their_loss(algos.compute_policy_loss_reinforce, padded, actor(), "seq-mean-token-sum")
    ours = loss_and_gradient(methods.get("reinforce"), padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


@pytest.mark.parametrize("share", [0.0002, 0.2])
def test_kl_cov_loss(padded: Padded, share: float) -> None:
    config = actor({"kl_cov_ratio": share, "ppo_kl_coef": 0.7})
    loss, gradient, _ = their_loss(algos.compute_policy_loss_kl_cov, padded, config)
    ours = loss_and_gradient(methods.get("clip-cov-kl-cov", variant="kl_cov", share=share, kl=0.7), padded)
    agree(ours[0], loss)
    agree(ours[1], gradient)


def test_clip_cov_loss_where_chance_plays_no_part(padded: Padded) -> None:
    """A share of 1 drops every candidate."""
    config = actor(
        {"clip_cov_ratio": 1.0, "clip_cov_lb": 0.1, "clip_cov_ub": 1.5}, clip_ratio_low=0.2, clip_ratio_high=0.2
    )
    loss, gradient, metrics = their_loss(algos.compute_policy_loss_clip_cov, padded, config)
    method = methods.get("clip-cov-kl-cov", variant="clip_cov", share=1.0, low=0.1, high=1.5, clip=0.2)
    ours = loss_and_gradient(method, padded)
    assert 0 < metrics["actor/pg_clipfrac"] < 1
    agree(ours[0], loss)
    agree(ours[1], gradient)


def test_clip_cov_drops_as_many_tokens(padded: Padded) -> None:
    """Which ones is left to chance, and drawn differently."""
    config = actor(
        {"clip_cov_ratio": 0.05, "clip_cov_lb": 0.1, "clip_cov_ub": 1.5}, clip_ratio_low=0.2, clip_ratio_high=0.2
    )
    *_, metrics = their_loss(algos.compute_policy_loss_clip_cov, padded, config)
    method = methods.get("clip-cov-kl-cov", variant="clip_cov", share=0.05, low=0.1, high=1.5, clip=0.2)
    batch = padded.batch(padded.now)
    weight = method.shape[0](batch)["token.weight.covariance"]
    assert float((weight == 0).double().mean()) == pytest.approx(metrics["actor/pg_clipfrac"], rel=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_value_loss(padded: Padded, mode: str) -> None:
    new = padded.new_value.clone().requires_grad_()
    theirs, _ = algos.compute_value_loss(
        vpreds=new,
        returns=padded.returns,
        values=padded.value,
        response_mask=padded.mask,
        cliprange_value=0.5,
        loss_agg_mode=mode,
    )
    mine = padded.new_value.clone().requires_grad_()
    batch = padded.batch(mine)
    batch = batch.with_columns({Signal("value", of="now"): batch["token.now.logp"]})
    ours = ValueLoss(0.5, aggregate=Aggregate(MODES[mode]))(batch)
    agree(ours.detach(), theirs.detach(), tolerance(mode))
    agree(torch.autograd.grad(ours, mine)[0], torch.autograd.grad(theirs, new)[0], tolerance(mode))


# -- aggregation and KL --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_aggregation(padded: Padded, mode: str) -> None:
    theirs = algos.agg_loss(padded.value, padded.mask, mode)
    batch = padded.batch()
    c = Aggregate(MODES[mode]).coefficients(batch, batch.trained("token"))
    agree((c * batch["token.old.value"]).sum(), theirs, tolerance(mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "abs"])
def test_kl(padded: Padded, kind: str, mode: str) -> None:
    now = padded.now.clone().requires_grad_()
    theirs = algos.agg_loss(algos.kl_penalty(now, padded.ref, kind), padded.mask, mode)
    limit = 10.0 if kind == "k3" else None  # verl holds k3, and only k3, within ±10
    ours = loss_and_gradient(by_terms(KL(kind, limit=limit, aggregate=Aggregate(MODES[mode]))), padded)
    agree(ours[0], theirs.detach(), tolerance(mode))
    agree(ours[1], torch.autograd.grad(theirs, now)[0], tolerance(mode))


def test_k3_is_held_within_ten() -> None:
    padded = random_padded(0, "ragged")
    far = Padded(**(vars(padded) | {"ref": padded.now + 4}))
    theirs = algos.agg_loss(algos.kl_penalty(far.now, far.ref, "k3"), far.mask, "token-mean")
    agree(loss_and_gradient(by_terms(KL("k3", limit=10.0)), far)[0], theirs)
    assert loss_and_gradient(by_terms(KL("k3")), far)[0] > theirs


# -- the preset ----------------------------------------------------------------------------------------------------


def test_preset_gives_verls_number_for_one_success_in_four() -> None:
    reward = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    theirs, _ = algos.compute_grpo_outcome_advantage(reward[:, None], torch.ones(4, 1), np.array(["a"] * 4))
    part = methods.get("grpo@verl").advantage
    assert isinstance(part, Normalize)
    ours = part(Batch.from_rewards(reward, ["a"] * 4))["rollout.advantage"]
    agree(ours, theirs[:, 0])
    assert float(ours[0]) == pytest.approx(1.5, abs=1e-5)


def test_preset_gives_verls_loss(padded: Padded) -> None:
    """verl's own defaults: clip, dual clip, aggregation, and the kind and size of the KL once it is switched on."""
    config = actor()
    now = padded.now.clone().requires_grad_()
    policy, _ = algos.compute_policy_loss_vanilla(
        padded.old, now, padded.advantage, padded.mask, loss_agg_mode=config.loss_agg_mode, config=config
    )
    kl = algos.agg_loss(algos.kl_penalty(now, padded.ref, config.kl_loss_type), padded.mask, config.loss_agg_mode)
    theirs = policy + config.kl_loss_coef * kl
    ours = loss_and_gradient(methods.get("grpo@verl"), padded)
    agree(ours[0], theirs.detach())
    agree(ours[1], torch.autograd.grad(theirs, now)[0])
