"""CPL: contrastive preference learning."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Phase, Phases, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.objective import Likelihood, Preference
from podium.parts.reward import WeightedSum
from podium.strategies import WalkedSegments

__all__ = ["cpl"]


@recipe(
    summary="Preferences over segments of many turns follow regret: log-probabilities are fitted to them, without RL.",
    citation="Hejna et al. 2023, Contrastive Preference Learning: Learning from Human Feedback without RL, "
    "https://arxiv.org/abs/2310.13639",
    tags=("preference", "offline", "multi-turn", "regret", "imitation", "stages"),
    protocol=Protocol(
        lr=1e-4,
        warmup=0,
        schedule="constant",
        tasks=96,
        iterations=500_000,
        source="jhejna/cpl, configs/cpl, for networks of MetaWorld; its rate says little about language models",
    ),
    home=Home("keydoor", level=2),
    presets={
        "bc": {"bias": 1.0, "imitation": 1.0},
        "kl": {"alpha": 0.2, "bias": 0.75, "against": "ref"},
        "return": {"labels": "return"},
    },
)
def cpl(
    n: int = 4,
    alpha: float = 0.1,
    bias: float = 0.5,
    labels: str = "regret",
    against: str | None = None,
    imitation: float = 0.0,
    first: Count = ShareOfRun(0.4),
    turns: int | None = 4,
    strength: float = 0.5,
    gamma: float = 0.9,
    epochs: int = 2,
    mini_batches: int = 4,
) -> Method:
    """loss = log(1 + exp(−(A⁺ − bias · A⁻))), A = alpha · Σ log π over the tokens of all turns of a segment; the mean
    over all pairs of a group in which one segment is preferred. First all segments are imitated; then CPL begins with a
    fresh optimiser, and adds imitation · (−mean log π) if that is above 0.

    In maximum-entropy RL the optimal advantage is alpha · log π, so a preference by regret is a statement about the
    policy's own log-probabilities. bias < 1 keeps the policy near the segments that are preferred. Preferences are made
    from exact values of the world: by regret, or, to compare, by what a segment has earned, which says nothing of two
    segments that have earned the same. `cpl@bc` is CPL-BC for states (bias 1, imitation 1), `cpl@kl` CPL-KL: log π −
    log π_ref, with the policy after the imitation as reference; on one turn that is DPO with beta = alpha.

    Loss, alpha, bias and the two stages are the authors', for networks whose actions are vectors. Ours are segments of
    a language model's turns, exact values in place of a trained critic's, and the length of stages and segments.

    Args:
        n: Segments per task; all pairs among them are compared (rank mode). 2: a pair.
        alpha: Temperature of maximum-entropy RL.
        bias: Weight λ of the worse segment, in (0, 1].
        labels: What decides which segment is preferred: `regret`, or `return`.
        against: Role whose log-probabilities are subtracted; None: CPL, `ref`: CPL-KL.
        imitation: Weight of the imitation of all segments in the second stage.
        first: Iterations of the first stage; the authors' 200k of 500k for states.
        turns: Turns of a segment at most; None: whole episodes. The authors' segments have 64 steps.
        strength: How good the walks are that segments are cut from; 0: random among sensible actions.
        gamma: Discount of the exact values.
        epochs: Passes over the segments of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    if labels not in ("regret", "return"):
        raise PodiumError(f"cpl: labels = {labels!r} is not 'regret' or 'return'.")
    walks = WalkedSegments(n, turns=turns, strength=strength, gamma=gamma)
    updates = Updates(epochs=epochs, mini_batches=mini_batches)
    imitate = Method("imitate", rollout=walks, objective=(Likelihood(),), updates=updates)
    term = Preference(temperature=1 / alpha, against=against, bias=bias)
    contrast = imitate.with_(name="contrast", objective=(term,))
    if labels == "regret":
        contrast = contrast.with_(reward=WeightedSum((("rollout.regret", -1.0),)))
    if imitation:
        contrast = contrast.with_(objective=(term, Likelihood(coefficient=imitation)))
    if against is not None:
        contrast = contrast | Role(against, source="phase")
    if first == 0:
        return contrast
    return Phases(imitate.until(first), Phase(contrast, fresh=True))
