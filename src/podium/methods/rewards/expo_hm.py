"""ExPO-HM: explain, then detect, with the entropy of the decision as a reward."""

from __future__ import annotations

from podium.core.part import Annotate
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Iterations, Method, Phases, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import FirstTokenEntropy, MarkPattern, OptionEntropy
from podium.parts.metric import DecisionCertainty
from podium.parts.objective import KL, Clip, Likelihood, PolicyGradient
from podium.parts.reward import DecisiveReward
from podium.parts.select import EasierTiers
from podium.strategies import Demonstrate, OptionScores, Sample

__all__ = ["expo_hm"]

ANSWER = r"(?<=answer: )\S+"  # of a few classes, after the mark


@recipe(
    summary="Imitates fine-grained labels, then GRPO on them, then on yes or no; sure pays if right, unsure if wrong.",
    citation="ExPO-HM: Learning to Explain-then-Detect for Hateful Meme Detection, "
    "https://github.com/JingbiaoMei/ExPO-HM",
    tags=("vision", "multimodal", "explanations", "entropy", "curriculum", "calibration"),
    protocol=Protocol(
        model="Qwen2.5-VL-7B",
        lr=1e-6,
        tasks=512,
        source="JingbiaoMei/ExPO-HM, scripts/grpo/train/run_qwen2_5_vl-7b_cde_paper.sh: 3 epochs of either stage",
    ),
    home=Home("badges", level=3, iterations=12, tasks=16, pool=128, model="podium/tiny2"),
    presets={
        "defaults": {"low": 0.15, "high": 0.6, "high_wrong": 0.85, "penalty": 0.0},
        "binary": {"imitate": 0, "first": 0},
    },
)
def expo_hm(
    n: int = 5,
    weight: float = 0.2,
    low: float = 0.1,
    high: float = 0.5,
    high_wrong: float = 0.5,
    penalty: float = 0.25,
    format: float = 0.1,
    k: int = 50,
    imitate: Count = ShareOfRun(0.2),
    first: Count = ShareOfRun(0.4),
    fine: str = "labels",
    binary: str = "banned",
    style: str = "long",
    clip: float = 0.2,
    kl: float = 0.01,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """r = 0.9 · accuracy + 0.1 · [reasoning, then an answer] + c(h), h the normalised entropy of the answer given the
    reasoning: of yes or no, or over the k likeliest first tokens of fine-grained labels, whose accuracy is the share of
    labels in common. c rewards being sure when right and unsure when wrong (`DecisiveReward`). Three stages: imitation
    of fine-grained labels, GRPO on them, GRPO on the binary question, each with its first policy as the reference.

    weight = 0 is GRPO on accuracy and format. Any right answer with reasoning earns more than any wrong one. The
    release looks for yes and no among the 50 likeliest tokens; here they are found whatever their rank.
    `expo-hm@defaults` has the settings of its function instead of its launch script, `expo-hm@binary` the last stage
    alone.

    Args:
        n: Rollouts per task (the group size).
        weight: w, the most that the entropy adds.
        low: Up to this entropy a decision is sure.
        high: From this entropy on a right decision earns nothing more.
        high_wrong: From this entropy on a wrong decision earns w.
        penalty: What being sure and wrong costs, as a share of w.
        format: Share of the format in the reward.
        k: First tokens over which the entropy of fine-grained labels is taken.
        imitate: Iterations that imitate the world's solutions of fine-grained questions; 0: none.
        first: Iterations of GRPO on fine-grained questions; 0: none.
        fine: The domain of the world's fine-grained questions.
        binary: The domain of its binary questions.
        style: Which of the world's solutions to imitate, by its style.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the policy at the start of the stage; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    reward = DecisiveReward(weight, low, high, high_wrong, penalty, format)

    def stage(domain: str, *annotate: Annotate) -> Method:
        method = Method(
            domain,
            select=EasierTiers((domain,)),
            rollout=OptionScores(strategy=Sample(n=n), asks=domain == binary),
            annotate=annotate,
            reward=(reward,),
            advantage=Normalize(epsilon=epsilon),
            objective=(PolicyGradient(clip=Clip(clip, clip)),),
            updates=Updates(mini_batches=mini_batches),
            metric=(DecisionCertainty(),),
        )
        return method | KL("k3", coefficient=kl) | Role("ref", source="phase") if kl else method

    imitation = Method(
        "imitate",
        select=EasierTiers((fine,)),
        rollout=Demonstrate(styles=(style,)),
        objective=(Likelihood(),),
        updates=Updates(mini_batches=mini_batches),
    )
    marked = MarkPattern(ANSWER, "token.decision"), FirstTokenEntropy(k)
    return Phases(
        *(() if imitate == 0 else (imitation.until(Iterations(imitate)),)),
        *(() if first == 0 else (stage(fine, *marked).until(Iterations(first)),)),
        stage(binary, OptionEntropy()),
    )
