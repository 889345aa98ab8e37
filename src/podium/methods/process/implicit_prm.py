"""Implicit PRM (PRIME): free process rewards without process labels."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import TwoSources
from podium.parts.annotate import MarkPattern
from podium.parts.keep import KeepWithin
from podium.parts.metric.process import BestChoice, BestOfN, PairwiseAccuracy
from podium.parts.objective import Clip, PolicyGradient, RolloutLogistic
from podium.parts.reward import LogRatio, StepRewards
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["implicit_prm"]


ENDS = "token.step_end"  # the tokens at which a step of an answer ends


@recipe(
    summary="Implicit process reward model: a log-ratio trained online on outcomes gives dense token rewards.",
    citation="Free Process Rewards without Process Labels, https://github.com/PRIME-RL/ImplicitPRM; PRIME",
    extends="rloo",
    tags=("process reward", "reward model", "credit assignment", "token-level", "baseline"),
    protocol=Protocol(
        model="Eurus-2-7B-SFT",
        lr=5e-7,
        weight_decay=0.01,
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=256,
        max_tokens=3072,
        max_turns=1,
        source="PRIME-RL/PRIME: training/examples/run_prime_main.sh",
    ),
    home=Home("sums", level=2),
    presets={"step": {"granularity": "step"}, "whole": {"granularity": "whole"}},
)
def implicit_prm(
    n: int = 4,
    beta: float = 0.05,
    coefficient: float = 5.0,
    gamma_process: float = 1.0,
    gamma_outcome: float = 1.0,
    low: float = 0.2,
    high: float = 0.8,
    clip: float = 0.2,
    granularity: str = "token",
    step: str = r"\n",
    bounded: bool = True,
    model_rate: float = 2.0,
    mini_batches: int = 4,
) -> Method:
    """q_t = log π_model − log π_ref; token rewards coefficient · q_t and the outcome at the last token, each minus the
    group's mean (leave-one-out), summed over what is still to come and whitened over the batch's tokens; PPO's clip; 4
    updates per batch. The process rewards of a batch are first divided by their largest sum over what is to come.

    coefficient = 0 is RLOO on outcomes, whitened. The reward model starts as the policy, scores the batch, and is then
    trained on it: cross-entropy of sigmoid(beta · Σ q) against the outcome. Groups with a mean reward outside [low,
    high] are resampled. Q values are partial sums of q, so the rewards of steps add up to the reward of the answer
    however it is split: by token, by the lines of the answer (`@step`), or not at all (`@whole`).

    Each iteration also reports what the reward model is worth for choosing among the n answers to a task: how often the
    answer with the best score is right (`best_of_n.right`), and how often the vote is in which answers weigh by the
    sigmoid of their scores (`best_of_n.vote`). The score is the least partial sum at the end of a line, times 0.001.

    Args:
        n: Rollouts per task (the group size).
        beta: Scale of the log-ratio in the reward model's loss.
        coefficient: Weight of the process rewards.
        gamma_process: Discount factor per token of the process rewards.
        gamma_outcome: Discount factor per token of the outcome.
        low: Least mean reward of a group that is trained.
        high: Largest mean reward of a group that is trained.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        granularity: Where process rewards stand: at every `token`, at the last token of each `step`, or at that of the
            `whole` answer.
        step: Pattern (regular expression) at which a step ends.
        bounded: Whether process rewards are divided by their largest sum over what is to come in the batch.
        model_rate: Learning rate of the reward model relative to the policy's.
        mini_batches: Optimiser steps per batch.
    """
    if n < 2:
        raise PodiumError(
            f"implicit-prm: n = {n}: a rollout is compared with the others of its group; take two or more."
        )
    if granularity not in ("token", "step", "whole"):
        raise PodiumError(f"implicit-prm: granularity = {granularity!r} is not 'token', 'step' or 'whole'.")
    margin = 1e-6  # the bounds themselves are kept
    moved = {"token": (), "step": (StepRewards(ends=ENDS),), "whole": (StepRewards(),)}[granularity]
    return Method(
        rollout=Sample(n=n),
        annotate=(MarkPattern(step, into=ENDS),) if granularity == "step" else (),
        reward=(LogRatio("reward_model", coefficient=coefficient), *moved),
        keep=(KeepWithin(low=low - margin, high=high + margin),),
        advantage=TwoSources(gamma_process=gamma_process, gamma_outcome=gamma_outcome, bounded=bounded),
        shape=(Whiten(),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip)),
            RolloutLogistic(1 / beta, "sum", "ref", groups="all", trains="reward_model"),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(PairwiseAccuracy(), BestOfN(pattern=step), BestChoice()),
        roles=(Role("reward_model", lr_ratio=model_rate), Role("ref")),
    )
