"""Likelihood rewards: the log-probability of the reference answer as reward."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import JensenGap, Normalize
from podium.parts.metric import AnswerPerplexity
from podium.parts.objective import KL, DirectLikelihood, PolicyGradient
from podium.parts.reward import AnswerLikelihood
from podium.strategies import Sample

__all__ = ["likelihood_reward"]


@recipe(
    summary="Verifier-free: the reward is the log-probability of the reference answer after the sampled reasoning.",
    citation="Likelihood-Based Reward Designs for General LLM Reasoning",
    tags=("likelihood reward", "verifier-free", "baseline", "policy gradient"),
    protocol=Protocol(
        model="Qwen2.5-3B-Instruct",
        lr=1e-5,
        warmup=20,
        schedule="cosine",
        clip=1.0,
        tasks=8,
        max_tokens=1024,
        max_turns=1,
        source="arXiv 2602.03979, section 3.1 and appendix B",
    ),
    home=Home("sums", level=2, tasks=8),
    presets={"long": {"n": 4, "kl": 0.0}, "jepo": {"kind": "jepo", "n": 4}},
)
def likelihood_reward(kind: str = "logprob", n: int = 32, kl: float = 0.001) -> Method:
    """R_i from log π(answer | prompt, reasoning_i), by `kind`: its sum (logprob) or mean (avg_logprob) over the
    answer's tokens, the probability (prob, as in VeriFree), the mean token probability (avg_prob, as in RLPR), or the
    log of the group's mean probability (jepo). Loss = −mean of [A · log π(reasoning) + R], where R carries a gradient
    of its own; A = R − mean of the others' (leave-one-out), for jepo what a sample adds to the group's reward. One
    update per batch.

    Only the tokens before the rollout's own answer are reasoning; the right answer is appended after a fixed mark. With
    answers of one token `prob` is the expected binary reward. `@long` is the setting for free-form answers.

    Args:
        kind: `logprob`, `avg_logprob`, `prob`, `avg_prob` or `jepo`.
        n: Rollouts per task (the group size).
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    advantage = JensenGap() if kind == "jepo" else Normalize(centre="leave_one_out", scale="none")
    whole = Aggregate("token sum, rollout mean of all")
    method = Method(
        rollout=Sample(n=n),
        reward=(AnswerLikelihood(kind),),
        advantage=advantage,
        objective=(PolicyGradient(ratio="none", where="token.reasoning", aggregate=whole), DirectLikelihood(kind)),
        metric=(AnswerPerplexity(),),
    )
    return anchored(method, KL("k3", coefficient=kl))
