"""SPARKLE: hard problems with scaffolded starts."""

from __future__ import annotations

from podium.core.schedule import Number
from podium.core.shares import ShareOfRun
from podium.method import Home, Iterations, Method, Phases, Protocol
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.reward import HierarchicalReward
from podium.strategies import Draw, Sample, Scaffolded

__all__ = ["sparkle"]


@recipe(
    summary="Two stages of GRPO: then hard problems begin with 0 to 4 quarters of a solution, which is not trained.",
    citation="Beyond Accuracy: Dissecting Mathematical Reasoning for LLMs Under RL, "
    "https://github.com/sparkle-reasoning/sparkle",
    tags=("hints", "curriculum", "partial solutions", "analysis"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=128,
        max_tokens=3000,
        source="sparkle-reasoning/sparkle scripts/train",
    ),
    home=Home("sums", level=3, iterations=12, tasks=16),
    presets={"paper": {"n": 32, "temperature": 0.6, "unit": "text"}},
)
def sparkle(
    n: int = 8,
    first: Number = ShareOfRun(0.34),
    levels: int = 4,
    unit: str = "lines",
    temperature: float = 1.0,
    clip: float = 0.2,
    kl: float = 0.01,
    mini_batches: int = 2,
    style: str = "short",
) -> Method:
    """Stage 1 is GRPO; in stage 2 each group begins its answer with the first ℓ of `levels` segments of a solution, ℓ
    drawn evenly from 0 to their number; only what the model writes after them is trained. The reward is 2 if answer and
    format are right, 1 if only the answer is, −1 otherwise.

    At the highest level the whole reasoning is given: an easy group on purpose. A task without a solution has level 0;
    with level 0 alone it is GRPO with that reward. The authors' stage 2 holds the problems that the model of stage 1
    cannot answer; here a world's level decides how hard they are. The release has two KL penalties, in the loss (0.01)
    and in the reward (0.001): here the first. Its format check counts tags; without tags the format is right if the
    answer has ended.

    Args:
        n: Rollouts per task (the group size).
        first: Iterations of stage 1.
        levels: Segments of a solution.
        unit: How solutions are cut: `lines`, or `text` as in the release (paragraphs, items, headings, sentences).
        temperature: Sampling temperature.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    draw = Draw(temperature=temperature)
    plain = grpo(n=n, clip=clip, kl=kl, mini_batches=mini_batches).with_(reward=(HierarchicalReward(),))
    scaffolded = Scaffolded(n=n, levels=levels, unit=unit, style=style, draw=draw)
    return Phases(
        plain.with_(rollout=Sample(n=n, draw=draw)).until(Iterations(first)),
        plain.with_(rollout=scaffolded),
    )
