"""`podium values`: a value model trained on logged runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line, table
from podium.core.errors import PodiumError

__all__ = ["values"]


def values(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The directories of runs.")],
    out: Annotated[Path, typer.Option(help="A new directory for the value model.")],
    model: Annotated[str, typer.Option(help="The model that training starts from.")] = "podium/tiny",
    support: Annotated[int, typer.Option(help="How many scores of other tasks the model reads as context.", min=1)] = 8,
    steps: Annotated[int, typer.Option(help="The number of optimiser steps.", min=1)] = 200,
    alpha: Annotated[float, typer.Option(help="The weight of the pairwise loss.", min=0, max=1)] = 0.25,
    lr: Annotated[float, typer.Option(help="The learning rate.")] = 3e-4,
    seed: Annotated[int, typer.Option(help="The seed of the order of contexts.")] = 0,
) -> None:
    """Train a value model on logged runs.

    It predicts, before anything is sampled, how likely a task is to be solved.
    """
    from podium.sessions.value_model import fit

    if out.exists():
        raise PodiumError(f"{out} exists already: choose another --out.")
    fitted = fit(runs, out, model=model, support=support, steps=steps, alpha=alpha, lr=lr, seed=seed)
    rows = [
        ["contexts trained on", str(fitted.contexts)],
        ["loss at the end", f"{fitted.loss:.3f}"],
        ["AUC", f"{fitted.auc:.3f}"],
        ["AUC within a context", f"{fitted.auc_within:.3f}"],
        ["pair accuracy", f"{fitted.pair_accuracy:.3f}"],
    ]
    table(["held out", ""], rows)
    line(f"To train with it: podium train v0 --set value={out}")
