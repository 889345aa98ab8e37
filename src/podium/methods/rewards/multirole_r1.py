"""MultiRole-R1: reasoning through several roles, with a reward for the diversity of the text."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Likelihood, PolicyGradient
from podium.parts.reward import TextDiversity
from podium.strategies import Demonstrate, Sample

__all__ = ["multirole_r1"]

# The learning rate of the imitation, 1e-4 on adapters of rank 8, beside 5e-6 of the reinforcement learning on all
# weights, for which a tenth of an adapter's rate is usual.
COLD_START = 1e-5


@recipe(
    summary="Opinion questions reasoned through several roles: imitates role chains, then adds text diversity to GRPO.",
    citation="Diversity-Enhanced Reasoning for Subjective Questions, https://arxiv.org/abs/2507.20187",
    tags=("diversity", "subjective questions", "roles", "reward shaping", "zero-variance groups"),
    protocol=Protocol(
        model="DeepSeek-R1-Distill-Qwen-7B",
        lr=5e-6,
        schedule="cosine",
        iterations=1000,
        max_tokens=4096,
        source="arXiv 2507.20187: GRPO in TRL, after imitation with LoRA of rank 8",
    ),
    home=Home("opinions", level=1, iterations=10, model="podium/tiny2"),
    presets={"printed-yule": {"yule_scale": 1.0}, "paper": {"imitate": 0}},
)
def multirole_r1(
    n: int = 8,
    accuracy: float = 0.9,
    diversity: float = 0.1,
    yule_scale: float = 100.0,
    imitate: Count = ShareOfRun(0.4),
    chains: tuple[str, ...] = ("varied", "long"),
    epsilon: float = 1e-4,
    mini_batches: int = 1,
) -> Method:
    """R = accuracy · r + diversity · D, A = (R − mean) / (std + 1e-4). r: the share of the roles whose answer is right
    (divergent questions), or whether most of the answers are the right one (convergent). D: the mean of eight scores of
    the text: different words, entropy of words, spread of sentence lengths, kinds of sentence, unlike neighbours,
    Yule's K turned round, different bigrams, entropy of function words.

    diversity = 0 is GRPO on accuracy. A right answer always earns more than a wrong one; where all are right or all
    wrong, D alone decides. The paper calls this shaping by a potential that keeps the optimum; D at the end of the text
    is not of that form. It prints 1 / (1 + K) for Yule's score, about 0.01 for ordinary text, where its tables show 0.2
    to 0.9, so K is divided by 100 here (`multirole-r1@printed-yule`); the kinds of sentence and the cap of the third
    score are ours too. Its code was not read.

    It begins with imitation of chains that go through the three roles of a question, in place of chains that the
    authors' model writes and filters by majority.

    Args:
        n: Rollouts per task (the group size); the paper does not give it.
        accuracy: Weight of the world's score.
        diversity: Weight of the diversity of the text.
        yule_scale: What Yule's K is divided by in its score; 1 as printed.
        imitate: Iterations that imitate role chains, before everything else; 0: none.
        chains: Styles of the world's solutions that are imitated.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(TextDiversity(accuracy, diversity, yule_scale),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(),),
        updates=Updates(mini_batches=mini_batches),
    )
    if imitate == 0:
        return method
    chain = Method(
        "role chains",
        rollout=Demonstrate(n=len(chains), styles=chains),
        objective=(Likelihood(),),
        updates=Updates(epochs=4, mini_batches=8),
        protocol=Protocol(lr=COLD_START),
    )
    return Phases(chain.until(imitate), method)
