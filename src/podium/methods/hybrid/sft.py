"""SFT: supervised fine-tuning on demonstrations."""

from __future__ import annotations

from podium.core.part import Strategy
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.objective import Likelihood
from podium.strategies import Demonstrate, Recorded

__all__ = ["sft"]


@recipe(
    summary="Imitates demonstrations, from a file or the world's own solutions: maximum likelihood of their tokens.",
    citation="Ouyang et al. 2022, Training language models to follow instructions, https://arxiv.org/abs/2203.02155",
    tags=("sft", "imitation", "demonstrations", "supervised"),
    protocol=Protocol(
        lr=2e-5,
        schedule="linear",
        source="huggingface/trl 1.9, SFTConfig: its defaults, for no authors' run defines SFT",
    ),
    home=Home(level=2),
)
def sft(source: str = "", styles: tuple[str, ...] = ("short",), epochs: int = 1, mini_batches: int = 1) -> Method:
    """loss = −log π, the mean over all tokens of the demonstrations. Nothing is sampled, except to evaluate.

    An iteration takes as many tasks as the run says, and the demonstrations of each. A file of JSON lines, with a
    prompt and a completion in each, is read in a new order in every pass; a run's directory gives the rollouts that it
    logged. Without a file the world's solutions are imitated, one in each style.

    Args:
        source: File of JSON lines, or directory of a run; empty: the world's own solutions.
        styles: Which of the world's solutions to take, by their styles (`short`, …).
        epochs: Passes over the demonstrations of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    strategy: Strategy = Recorded(source) if source else Demonstrate(len(styles), styles)
    return Method(
        rollout=strategy,
        objective=(Likelihood(),),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
    )
