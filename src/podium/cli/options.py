"""Options that several commands have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

__all__ = ["At", "Device", "Level", "Methods", "Model", "Trust", "World", "expand_lists"]

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
Methods = Annotated[
    list[str] | None,
    typer.Option("--methods", help="Methods to apply, such as --methods grpo gspo cispo. [default: that of the run]"),
]
At = Annotated[
    str,
    typer.Option(
        "--at",
        help="The current policy: sampled (the one that wrote the rollouts, every importance ratio is 1) or checkpoint "
        "(the newest one, which has moved since).",
    ),
]


def expand_lists(arguments: Sequence[str], name: str) -> list[str]:
    """The arguments as the parser takes them: `--methods a b` becomes `--methods a --methods b`."""
    expanded: list[str] = []
    within = False
    for number, word in enumerate(arguments):
        if word.startswith("-"):
            within = word == name
        elif within and arguments[number - 1] != name:
            expanded.append(name)
        expanded.append(word)
    return expanded
