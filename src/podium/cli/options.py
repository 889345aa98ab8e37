"""Options that several commands have in common."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Device", "Level", "Model", "Trust", "World"]

World = Annotated[
    str | None,
    typer.Option(help="A world: sums, keydoor, jsonl:FILE, gym:NAME, file.py:MyWorld. podium worlds lists them."),
]
Level = Annotated[int | None, typer.Option(help="The difficulty of the world's tasks.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="podium/tiny or podium/tiny2, a Hugging Face directory or name, or a GGUF file. [default: podium/tiny]"
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N. [default: cpu]")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run code that a file names (file.py:Class, package.module:Class) wherever it is, not only here.",
    ),
]
