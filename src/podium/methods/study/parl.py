"""PARL: reward design with the gradient through the policy that the reward induces."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Bilevel reward learning: the preference loss is taken on the policy that the reward induces.",
    citation="Chakraborty et al. 2024, PARL: A Unified Framework for Policy Alignment in Reinforcement Learning from "
    "Human Feedback, https://arxiv.org/abs/2308.02585",
    kind="study",
    run="podium lab parl",
    tags=("preference", "reward model", "bilevel", "theory"),
    notes="""
    The agent solves θ*(ν) = argmax V(ν, θ), its return under the reward r_ν with an entropy bonus. The designer wants
    the best G(ν) = E_{τ ~ π_θ*(ν)}[U_ν(τ)], where U is a utility or the preference loss of two episodes. Then

    dG/dν = ∇_ν G − ∇²_{νθ} V · [∇²_{θθ} V]⁻¹ · ∇_θ G.

    Learning a reward model on given pairs has the first term alone; the second is that the data move with the reward.
    For one state with a reward per action, θ* = ν / α and dG/dν = (diag π − π πᵀ) U / α.

    `podium.analysis.bilevel.hypergradient` takes it for any two functions by products with second derivatives and
    conjugate gradients. `podium lab parl` learns a reward from a judge's preferences in houses of `keydoor`, whose
    tables are exact, with the term, without it, and from the first policy's pairs alone. A language model's return has
    no second derivatives that a run could take, so this is a study and not a method.

    The authors' constants and continuous-control tasks are not reproduced: the direction is what is compared.
    """,
)
