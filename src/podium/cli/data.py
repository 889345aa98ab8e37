"""`podium data`: look at data of your own before training on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from podium.cli.commands import Commands
from podium.cli.console import line
from podium.cli.options import AnswerField, PromptField, Reward
from podium.core.errors import PodiumError

__all__ = ["app"]

app = typer.Typer(cls=Commands, rich_markup_mode=None, help="Check data of your own before training on it.")


@app.callback()
def data() -> None:
    """Check data of your own before training on it."""


@app.command()
def check(
    file: Annotated[
        str, typer.Argument(help="JSON lines, JSON, CSV, parquet, a saved data set, or OWNER/NAME of the hub.")
    ],
    prompt_field: PromptField = None,
    answer_field: AnswerField = None,
    reward: Reward = None,
    system: Annotated[str, typer.Option(help="A system prompt for rows that have none.")] = "",
    test: Annotated[str, typer.Option(metavar="FILE", help="The file of held-out rows.")] = "",
    model: Annotated[
        str | None, typer.Option(help="Show prompts as this model sees them, and measure them in its tokens.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows to show.")] = 2,
    count: Annotated[int, typer.Option(help="The largest number of problems to print.")] = 20,
) -> None:
    """Show rows as the model will see them, lengths, duplicates, and rows that cannot be read or graded."""
    from podium.worlds.data_report import report_on
    from podium.worlds.dataset import Dataset

    world = Dataset(
        file=file,
        test_file=test,
        prompt_field=prompt_field or "",
        answer_field=answer_field or "",
        reward_functions=tuple(reward or ()),
        system=system,
    )
    shown, length = _rendering(model)
    report = report_on(world, length, rows)
    sizes = ", ".join(f"{size:,} {split}" for split, size in report.rows.items())
    line(f"{file}: {sizes} rows that can be used. {report.fields or 'No field was recognised'}.", style="bold")
    if report.unused:
        line(f"Not read: {', '.join(report.unused)}. Reward functions get every field.")
    if "test" not in report.rows:
        line(f"There is no test split: {world.held_out:.0%} of the rows are held out, chosen by a hash of the prompt.")
    if report.lengths:
        unit = "characters" if model is None else f"tokens of {model}"
        median, high, longest = report.lengths
        line(f"Prompts have {median:,} {unit} (median), {high:,} (95 %), at most {longest:,} ({report.longest_at}).")
    for prompt, answer in report.shown:
        line()
        line(shown(prompt))
        line(f"→ {answer}" if answer else "→ (graded by the reward)", style="dim")
    line()
    _list("warning", report.warnings, count)
    _list("problem", report.problems, count)
    if report.problems:
        some = len(report.problems)
        raise PodiumError(f"{file} has {some} row{'s' * (some > 1)} that cannot be used.")
    line("All rows can be used.")


def _rendering(model: str | None) -> tuple[Callable[[str], str], Callable[[str], int]]:
    """How prompts are shown and measured: as they stand, or as a model sees them."""
    if model is None:
        return str, len
    from podium.policy import load

    policy = load(model)

    def encoded(prompt: str) -> tuple[int, ...]:
        return policy.encode([{"role": "user", "content": prompt}])

    return (lambda prompt: policy.tokenizer.decode(list(encoded(prompt)))), lambda prompt: len(encoded(prompt))


def _list(kind: str, notes: Sequence[str], count: int) -> None:
    for note in notes[:count]:
        line(f"{kind}: {note}", style="yellow" if kind == "warning" else "red")
    if len(notes) > count:
        line(f"({len(notes) - count} more: --count {len(notes)})", style="dim")
