"""Rewards as labels: the policy's own log-probabilities classify the rollouts of a group, or predict their credit."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import (
    KL,
    GroupContrast,
    GroupSoftmax,
    RolloutLogistic,
    RolloutRegression,
    StayWithin,
    Term,
    Updates,
)
from podium.rollout import Augmented, Sample, TaskDifficulty

__all__ = ["drpo", "pacs", "real", "reg_grpo"]

CENTRES = {"rloo": ("leave_one_out", "none"), "grpo": ("mean", "std"), "naive": ("none", "none")}


@recipe(
    "real",
    summary="Rewards as labels: each group is a classification of its rollouts by their mean log-ratio.",
    citation="REAL: Rewards as Labels, https://github.com/Red-RL/REAL",
    family="objectives",
)
def real(
    n: int = 8, tau: float = 0.5, variant: str = "softmax", temperature: float = 0.6, mini_batches: int = 4
) -> Method:
    """s_k = mean token log-ratio of rollout k; per group with both classes
    log(1 + Σ_right e^{−s/τ}) + log(1 + Σ_wrong e^{s/τ}), over the number of all groups. No advantage, clip or KL.

    Variants: `bce` (cross-entropy of each rollout of such groups), `product` (the classes against each other only).
    The gradient in s is bounded by 1/τ and largest where a rollout is still on the wrong side; GRPO's grows like e^s.
    """
    terms: dict[str, Term] = {
        "softmax": GroupSoftmax(tau),
        "product": GroupSoftmax(tau, anchor=False),
        "bce": RolloutLogistic(tau),
    }
    if variant not in terms:
        raise PodiumError(f"real: variant = {variant!r} is not one of {', '.join(terms)}.")
    return Method(
        "real",
        rollout=Sample(n=n, temperature=temperature),
        objective=(terms[variant],),
        updates=Updates(mini_batches=mini_batches),
    )


@recipe(
    "pacs",
    summary="Predict each outcome from the rollout's own log-ratio within its group: actor and critic in one.",
    citation="PACS: Implicit Actor Critic Coupling via a Supervised Learning Framework, https://github.com/ritzz-ai/PACS",
    family="objective",
)
def pacs(
    n: int = 8,
    beta: float = 1.0,
    estimator: str = "rloo",
    weights: str = "balanced",
    score: str = "log_ratio",
    mini_batches: int = 4,
) -> Method:
    """r_i = beta · Σ_t (log π − log π_old); psi_i = r_i − mean of the others' r (`rloo`), standardised in the group
    (`grpo`, with the gradient through mean and std) or r_i itself (`naive`); the loss is the mean over all rollouts of
    w_i · cross-entropy(sigmoid(psi_i), reward), w balancing the classes of each group that has both. No clip, no KL.

    `score="logp"` takes r_i = beta · mean log π instead; `weights` may be `equal`, or `right` or `wrong` for one class.
    At psi = 0 the gradient is that of RLOO with balanced classes; a rollout that is already predicted has none.
    """
    if estimator not in CENTRES or score not in ("log_ratio", "logp"):
        raise PodiumError(
            f"pacs: estimator = {estimator!r} is one of {', '.join(CENTRES)}; score = {score!r} is log_ratio or logp."
        )
    centre, scale = CENTRES[estimator]
    term = RolloutLogistic(1 / beta, "sum", "old", centre, scale, groups="all", weights=weights)
    if score == "logp":
        term = term.replace(score="mean", against=None)
    return Method("pacs", rollout=Sample(n=n), objective=(term,), updates=Updates(mini_batches=mini_batches))


@recipe(
    "drpo",
    summary="Raise right answers against wrong ones; length only decides which right answer is raised most.",
    citation="DRPO: Efficient Reasoning via Decoupled Reward Policy Optimization, https://github.com/Optimization-AI/DRPO",
    family="objective",
)
def drpo(
    n: int = 8,
    length_temperature: float = 0.1,
    tau: float = 10.0,
    max_length: int = 8192,
    delta: float = 1e-4,
    beta: float = 1e3,
    estimator: str = "k1",
    temperature: float = 0.6,
    mini_batches: int = 4,
    shown: str = "constant",
) -> Method:
    """s_i = mean log π of rollout i; per group with both classes −Σ_right w_i s_i + τ log Σ_wrong e^{s_j/τ}, with
    w ∝ exp((1 − n_i/max_length)/length_temperature) summing to 1, over the number of all groups; plus a constraint with
    the gradient of beta/2 · max(K − delta, 0)², K the mean distance to the old policy. No advantage, clip or reference.

    The release shows τ in place of the log-sum-exp, whose gradient is the same; `shown="value"` shows its value.
    length_temperature → ∞ weighs all right answers alike. Groups of one class only have a part in the divisor.
    """
    contrast = GroupContrast(tau, max_length=max_length, length_temperature=length_temperature, shown=shown)
    return Method(
        "drpo",
        rollout=Sample(n=n, temperature=temperature),
        objective=(contrast, StayWithin(delta, beta, estimator)),
        updates=Updates(mini_batches=mini_batches),
    )


@recipe(
    "reg-grpo",
    summary="Regress the standardised log-ratio of each rollout on its standardised reward: no clip, no minimum.",
    citation="DeepVideo-R1: Difficulty-aware Regressive GRPO, https://github.com/mlvlab/DeepVideoR1",
    family="objective",
    presets={"plain": {"augment": False}},
)
def reg_grpo(
    n: int = 8,
    augment: bool = True,
    window: int = 16,
    kl: float = 0.04,
    epsilon: float = 1e-4,
    scale: float | None = None,
    epochs: int = 1,
    mini_batches: int = 1,
) -> Method:
    """rho_i = Σ_t (log π − log π_old); (A_i − (rho_i − mean rho)/(std rho + epsilon))², A_i the standardised reward of
    the group; mean over rollouts; k3 to the reference is added. The std of rho is held fixed: on-policy it is 0 and has
    no gradient. Groups in which all rewards are equal are left out.

    On-policy the first gradient is divided by epsilon alone: it is large, and rests on the clipped gradient norm; a
    number as `scale` stands in for std rho + epsilon instead. The loss is 0 for rho any increasing affine function of
    the rewards, so nothing but the KL and the few updates bound a step.

    With `augment`, a task whose mean reward at its last visit was d below that of the last `window` iterations is shown
    the first share d of a solution's lines, one that was above it a question with that share of its words masked.
    `reg-grpo@plain` does without.
    """
    term = RolloutRegression(
        1.0 if scale is None else scale,
        "sum",
        centre="mean",
        scale="held" if scale is None else "none",
        epsilon=epsilon,
    )
    method = Method(
        "reg-grpo",
        rollout=Augmented(n=n) if augment else Sample(n=n),
        memories=(TaskDifficulty(window),) if augment else (),
        advantage=Normalize(epsilon=epsilon, singleton="zero"),
        objective=(term,),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl))
