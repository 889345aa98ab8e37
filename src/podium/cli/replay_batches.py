"""`podium replay`: what any methods would have done with the batches that a run has recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli.console import line, table
from podium.cli.options import At, Methods, Trust
from podium.cli.preflight import check_typed

__all__ = ["replay"]

HEADER = ("method", "gradient norm", "effective rollouts", "tokens touched", "flat groups rescued")


def replay(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    methods: Methods = None,
    batches: Annotated[int, typer.Option(min=1, help="How many of the newest recorded batches to replay.")] = 50,
    at: At = "sampled",
    trust: Trust = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, batch by batch.")] = False,
) -> None:
    """Run methods over recorded batches of a run, and compare their gradients.

    Each batch is one update, and the newest checkpoint says how log-probabilities depend on the weights. Printed are
    the cosine between the gradients of every two methods, how many rollouts carry the gradient, the share of tokens
    that get one, and how many groups without a difference in reward still do.
    """
    check_typed(methods or [])
    from podium.sessions.replay_batches import replay as session

    figures = session(run, methods or [], batches=batches, at=at, trust=trust)
    if as_json:
        line(json.dumps(figures, indent=1))
        return
    count, last = len(figures["iterations"]), figures["iterations"]
    line(f"{run}: {count} batches, iterations {last[0]} to {last[-1]}")
    table(HEADER, [_cells(name, row) for name, row in figures["methods"].items()])
    if figures["cosines"]:
        line()
        line("Cosine between gradients, mean over batches:")
        table(("method", *list(figures["methods"])[1:]), _matrix(figures))


def _cells(name: str, row: dict[str, float]) -> list[str]:
    size = f"{row['effective_size']:.1f} of {row['rollouts']:.0f}"
    return [name, f"{row['norm']:.3g}", size, f"{row['touched']:.3f}", f"{row['rescued']:.1f} of {row['flat']:.1f}"]


def _matrix(figures: dict[str, Any]) -> list[list[str]]:
    """The upper triangle: each pair once."""
    names = list(figures["methods"])
    mean = {tuple(row["methods"]): row["mean"] for row in figures["cosines"]}
    shown = {pair: "undefined" if value is None else f"{value:.3f}" for pair, value in mean.items()}
    return [[one, *(shown.get((one, other), "") for other in names[1:])] for one in names[:-1]]
