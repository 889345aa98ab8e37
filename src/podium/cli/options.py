"""Options that several commands have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from podium.core.errors import PodiumError

__all__ = [
    "AnswerField",
    "At",
    "Data",
    "Device",
    "Level",
    "Methods",
    "Model",
    "PromptField",
    "Reward",
    "Trust",
    "World",
    "data_settings",
    "expand_lists",
]

World = Annotated[
    str | None,
    typer.Option(help="A world: sums, keydoor, jsonl:FILE, gym:NAME, file.py:MyWorld. podium worlds lists them."),
]
Level = Annotated[int | None, typer.Option(help="The difficulty of the world's tasks.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="podium/tiny or podium/tiny2, a Hugging Face directory or name, a GGUF file, or a run, for its newest "
        "weights. [default: podium/tiny]"
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
Data = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Your own questions: JSON lines, CSV, parquet, a saved Hugging Face data set, or OWNER/NAME of the hub.",
    ),
]
PromptField = Annotated[
    str | None, typer.Option(metavar="FIELD", help="The field of the data that holds the prompt. [default: found]")
]
AnswerField = Annotated[
    str | None, typer.Option(metavar="FIELD", help="The field of the data that holds the answer. [default: found]")
]
Reward = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="Grade answers with your own function; FILE.py:FUNCTION=0.2 gives it a weight. May be repeated.",
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


def data_settings(
    world: str | None, data: str | None, prompt_field: str | None, answer_field: str | None, reward: list[str] | None
) -> tuple[str | None, dict[str, Any]]:
    """The world that is meant, and its settings, where data or rewards of one's own are named."""
    if data is not None and world is not None:
        raise PodiumError("--data names the tasks: leave out --world.")
    fields = {"prompt_field": prompt_field, "answer_field": answer_field}
    named = {name: field for name, field in fields.items() if field is not None}
    if named and data is None:
        option = f"--{next(iter(named)).replace('_', '-')}"
        raise PodiumError(f"{option} names a field of your own data: name the file with --data.")
    return (world if data is None else f"data:{data}"), named | ({"reward_functions": reward} if reward else {})
