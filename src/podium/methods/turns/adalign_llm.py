"""AdAlign-LLM: advantage alignment with a group-relative baseline."""

from __future__ import annotations

from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import AlignedReturns
from podium.parts.objective import Entropy, PolicyGradient
from podium.parts.shape import SamplerCorrection
from podium.strategies import SelfPlay

__all__ = ["adalign_llm"]


@recipe(
    summary="Advantage alignment in self-play: after a good past, what is good for the other agent is reinforced.",
    citation="Learning Robust Social Strategies with Large Language Models, https://github.com/dereckpiche/AdAlignLLM",
    tags=("self-play", "multi-agent", "multi-turn", "opponent shaping", "turn-level"),
    presets={
        "paper": {},
        "naive": {"beta": 0.0},
        "sum": {"beta": 0.0, "reward": "sum"},
        "split": {"beta": 1.0, "scale": 100.0},
        "trust-and-split": {"beta": 2.0, "gamma": 0.96, "discount": 0.96, "scale": 100.0},
    },
    protocol=Protocol(
        model="Qwen/Qwen2.5-7B-Instruct",
        clip=1.0,
        source="AdAlignLLM, mllm/training/credit_methods.py: adapters (LoRA), gradient clip 1",
    ),
    home=Home("dilemma", level=1, iterations=12, tasks=8, model="podium/tiny2"),
)
def adalign_llm(
    n: int = 8,
    beta: float = 0.5,
    gamma: float = 0.9,
    discount: float = 0.9,
    scale: float = 5.0,
    reward: str = "own",
    share: float = 0.25,
    refresh: int = 5,
    keep: int = 4,
    entropy: float = 0.01,
    cap: float = 2.0,
) -> Method:
    """A turn's credit is C_t = A_t + beta · W_t · A'_t: A is the discounted return less the mean of the other games of
    the task at the same turn, A' that of the other agent, W_t = discount · Σ_{k<t} discount^(t−k) · A_k one's own past.
    Loss = −C · log π · min(π / π_sampler, cap), the mean over the tokens of the batch, with an entropy bonus.

    beta = 0 (`adalign-llm@naive`) is leave-one-out REINFORCE by turns, which ends in mutual defection;
    `adalign-llm@sum` gives both agents the sum of their rewards. The factor `discount` before the sum is that of the
    authors' code and not of their formula. How often a past self plays, and how often it is made, is ours.

    Args:
        n: Games per task (the group size), which share their random conditions.
        beta: Weight of the alignment: 0.5 in the prisoner's dilemma, 1 for splits, 2 for splits after a message.
        gamma: Discount factor of rewards per turn (0.96 for splits after a message).
        discount: Discount factor of one's own past (0.96 for splits after a message).
        scale: What rewards are divided by: the largest of a turn.
        reward: Whose rewards: `own`, or the `sum` of both agents'.
        share: Share of the groups in which a past self plays one agent; 0 keeps no past selves.
        refresh: Iterations between two copies of the policy.
        keep: Past selves that are kept, one of which is drawn for a group.
        entropy: Coefficient of the entropy bonus.
        cap: Largest importance weight of a token between sampler and trainer.
    """
    method = Method(
        rollout=SelfPlay(n=n, share=share),
        advantage=AlignedReturns(beta, discount, gamma, scale, reward),
        shape=(SamplerCorrection(cap=cap),),
        objective=(PolicyGradient(ratio="none"), Entropy(coefficient=entropy)),
    )
    return method | Role("past", refresh=refresh, keep=keep)
