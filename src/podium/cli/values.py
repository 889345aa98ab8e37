"""`podium values`: a value model from logged runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium.cli.console import line, table
from podium.core.errors import PodiumError

__all__ = ["values"]


def values(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Directories of runs.")],
    out: Annotated[Path, typer.Option(help="A new directory for the model.")],
    model: Annotated[str, typer.Option(help="What it starts from.")] = "podium/tiny",
    support: Annotated[int, typer.Option(help="Scores of other tasks that it reads.", min=1)] = 8,
    steps: Annotated[int, typer.Option(help="Optimiser steps.", min=1)] = 200,
    alpha: Annotated[float, typer.Option(help="The share of the loss on pairs.", min=0, max=1)] = 0.25,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 3e-4,
    seed: Annotated[int, typer.Option(help="Of the order of contexts.")] = 0,
) -> None:
    """Train a model on logged runs that says, before anything is sampled, how likely a task is solved."""
    from podium.sessions.value_model import fit

    if out.exists():
        raise PodiumError(f"{out} is there already: choose another --out.")
    found = fit(runs, out, model=model, support=support, steps=steps, alpha=alpha, lr=lr, seed=seed)
    rows = [
        ["contexts trained on", str(found.contexts)],
        ["loss at the end", f"{found.loss:.3f}"],
        ["AUC", f"{found.auc:.3f}"],
        ["AUC within a context", f"{found.auc_within:.3f}"],
        ["pair accuracy", f"{found.pair_accuracy:.3f}"],
    ]
    table(["held out", ""], rows)
    line(f"podium train v0 --set value={out}")
