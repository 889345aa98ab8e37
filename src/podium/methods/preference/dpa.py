"""DPA: directional preference alignment."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.annotate import ModelScores, ScoreVector
from podium.parts.keep import KeepBest
from podium.parts.metric import Steering
from podium.parts.objective import Likelihood
from podium.parts.reward import DirectionalReward
from podium.strategies import Directed, Draw
from podium.strategies.sample.directed import PAPER_TEXT

__all__ = ["dpa"]


@recipe(
    summary="One policy for many wishes: a direction in reward space, told in the prompt, and best-of-N fine-tuning.",
    citation="Wang et al. 2024, Arithmetic Control of LLMs for Diverse User Preferences: Directional Preference "
    "Alignment with Multi-Objective Rewards, https://arxiv.org/abs/2402.18571",
    tags=("multi-objective", "reward model", "rejection sampling", "best-of-n", "sft", "steerable"),
    protocol=Protocol(
        model="HuggingFaceH4/mistral-7b-sft-beta",
        source="RLHFlow/Directional-Preference-Alignment, README: the training code is not released",
    ),
    home=Home("sums", level=2, iterations=12),
    presets={"paper": {"text": PAPER_TEXT, "temperature": 0.7}},
)
def dpa(
    n: int = 16,
    low: float = -45.0,
    high: float = 45.0,
    text: str = "weights: {first} {second}\n{question}",
    temperature: float = 1.0,
    rm: str = "",
    first: Count = ShareOfRun(0.35),
    styles: tuple[str, ...] = ("short", "long"),
    epochs: int = 2,
    mini_batches: int = 4,
) -> Method:
    """A direction v = (cos φ, sin φ), φ uniform in [low, high] degrees, stands in the prompt as round(100 v). Of n
    answers the one with the largest v · r is kept, r = (r_1, r_2) its vector of rewards on a scale of 0 to 100, and the
    policy is fine-tuned on it, −log π(y | x, v); then the next iteration samples from the new policy.

    φ = 0 selects by r_1 alone; n = 1 is conditional SFT. r is what a reward model of two heads says (`rm`, from `podium
    rewards fit --ratings`), or correctness and length. The kept answer is a corner of the convex hull of the
    candidates, so what lies inside a concave front is never reached.

    The first iterations are the authors' iteration 0: candidates are given answers, here the world's solutions in
    several styles. It also teaches the form of the prompt. The release has no training code: n, the range of angles,
    epochs and the length of stages are ours.

    Args:
        n: Answers sampled for each prompt and direction.
        low: Smallest angle, in degrees from the first reward towards the second; negative: less of the second.
        high: Largest angle.
        text: The prompt, with {first} and {second} for the weights and {question}.
        temperature: Of sampling (the authors' example: 0.7).
        rm: Directory of a reward model with two heads and the policy's tokenizer; empty: correctness and length.
        first: Iterations on given answers; 0: none.
        styles: Styles of the world's solutions that these choose from.
        epochs: Passes over the kept answers of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    scores = ModelScores() if rm else ScoreVector(full=(1.0, ShareOfTokens(1.0)))
    sampled = Directed(n, low, high, text, draw=Draw(temperature=temperature))
    method = Method(
        "sampled",
        rollout=sampled,
        annotate=(scores,),
        reward=(DirectionalReward(),),
        keep=(KeepBest(),),
        objective=(Likelihood(),),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
        metric=(Steering(),),
        roles=(Role("rm", source=rm),) if rm else (),
    )
    if first == 0:
        return method
    if not styles:
        raise PodiumError("dpa: the first stage chooses among given answers: name styles of solutions, or set first=0.")
    given = method.with_(
        name="given",
        rollout=sampled.replace(styles=styles),
        updates=Updates(epochs=8, mini_batches=8),
        metric=(),
    )
    return Phases(given.until(first), method)
