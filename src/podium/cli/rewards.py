"""`podium rewards`: reward models fitted to runs, files and worlds, and simulated feedback to fit them to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podium.cli.commands import Commands
from podium.cli.console import line, table
from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.sessions.reward_data import RewardData

__all__ = ["app"]

app = typer.Typer(cls=Commands, help="Fit reward models to runs, files and worlds.", rich_markup_mode=None)

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The directory of a run, a file of JSON lines, or the name of a world.")
]
Ratings = Annotated[
    str,
    typer.Option(
        help="Columns of a run or fields of a file that rate an answer, as in reward,length: a head each. Of a world: "
        "reward, length, or step (the lines of its attempts, for a process reward model)."
    ),
]
Level = Annotated[int | None, typer.Option(help="The difficulty of the world's tasks.")]
Tasks = Annotated[int, typer.Option(help="Tasks of the world, with four attempts each.", min=1)]
Noise = Annotated[
    str, typer.Option(help="How often a label of 1 and a label of 0 is inverted, as in .2,.1. [default: estimated]")
]


@app.command()
def fit(
    source: Source,
    out: Annotated[Path, typer.Option(help="A new directory for the reward model.")],
    estimator: Annotated[
        str,
        typer.Option(
            help="bt (pairs), regression (ratings); for feedback of 0 and 1: naive, surrogate (corrects errors), ips "
            "(and who reacts), dr (doubly robust). [default: bt for pairs, dr for feedback, else regression]"
        ),
    ] = "",
    model: Annotated[str, typer.Option(help="The model that training starts from.")] = "podium/tiny",
    ratings: Ratings = "",
    frozen: Annotated[bool, typer.Option("--frozen", help="Train only a small network on the model's states.")] = False,
    noise: Noise = "",
    steps: Annotated[int, typer.Option(help="The number of optimiser steps.", min=1)] = 300,
    batch: Annotated[int, typer.Option(help="Pairs or answers of a step.", min=1)] = 32,
    lr: Annotated[float, typer.Option(help="The learning rate.")] = 3e-4,
    held_out: Annotated[float, typer.Option(help="The share of prompts that the model is measured on.")] = 0.2,
    level: Level = None,
    tasks: Tasks = 1000,
    seed: Annotated[int, typer.Option(help="The seed of the order of items.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="Of the computation: float32, bfloat16 or float16.")] = "float32",
    lora: Annotated[int | None, typer.Option(help="Train adapters of this rank. [default: all weights]")] = None,
) -> None:
    """Fit a reward model, and measure it on held-out prompts.

    A file has pairs (prompt, chosen, rejected), ratings (prompt, answer, rating) or feedback (prompt, answer,
    feedback: 0, 1 or null).
    """
    from podium.training.preflight import check_resources

    if out.exists():
        raise PodiumError(f"{out} exists already: choose another --out.")
    check_resources(out=out, device=device, model=model)
    from podium.sessions.reward_model import fit_reward

    data = _read(source, ratings, level, tasks)
    fitted = fit_reward(
        data,
        out,
        estimator=estimator,
        model=model,
        steps=steps,
        batch=batch,
        lr=lr,
        frozen=frozen,
        noise=_rates(noise),
        held_out=held_out,
        seed=seed,
        device=device,
        dtype=dtype,
        lora=lora,
    )
    rows = [["trained on", str(fitted.trained)], ["held out", str(fitted.held_out)]]
    rows += [["loss at the end", f"{fitted.loss:.4f}"]]
    if fitted.noise is not None and fitted.estimator != "naive":
        rows += [["noise rates", "{:.3f}, {:.3f}".format(*fitted.noise)]]
    rows += [[name, str(measure)] for name, measure in fitted.measures.items()]
    table([fitted.estimator, ""], rows)
    squash = "" if fitted.estimator in ("bt", "regression") else ", squash: sigmoid"
    head = ", head: 0" if len(fitted.heads) > 1 else ""
    line(
        f"To train with it: podium train grpo --with 'Role: {{name: rm, source: {out}}}' "
        f"--with 'ModelReward: {{role: rm{head}{squash}}}'"
    )


@app.command()
def observe(
    source: Source,
    out: Annotated[Path, typer.Option(help="A new file of JSON lines.")],
    noise: Noise = ".2,.1",
    alpha: Annotated[float, typer.Option(help="Users react with probability alpha^(max - rating).")] = 0.5,
    ratings: Ratings = "",
    level: Level = None,
    tasks: Tasks = 1000,
    seed: Annotated[int, typer.Option(help="The seed of who reacts, and who errs.")] = 0,
) -> None:
    """Simulate users who react to answers: selectively, and sometimes wrongly.

    The file has the feedback, and the rating and the true label, which only the measure on held-out prompts reads.
    """
    from podium.sessions.reward_data import observe as simulate

    if out.exists():
        raise PodiumError(f"{out} exists already: choose another --out.")
    rates = _rates(noise)
    if rates is None:
        raise PodiumError("--noise needs two rates, as in .2,.1.")
    reacted, every = simulate(_read(source, ratings, level, tasks), out, noise=rates, alpha=alpha, seed=seed)
    line(f"{out}: users reacted to {reacted} of {every} answers.")
    if reacted < every / 100:
        line("These are few: where ratings span a wide range, take an --alpha nearer to 1.")
    line(f"To fit a reward model to it: podium rewards fit {out} --estimator dr --out DIR")


def _read(source: str, ratings: str, level: int | None, tasks: int) -> RewardData:
    from podium import worlds
    from podium.sessions.reward_data import read_file, read_run, read_world

    names = tuple(name.strip() for name in ratings.split(",") if name.strip())
    path = Path(source)
    if level is not None and path.exists():
        raise PodiumError(f"--level {level} is for a world, and {source} is a file or a run: leave it out.")
    if path.is_file():
        return read_file(path, names)
    if path.is_dir():
        return read_run(path, names or ("reward",))
    if path.suffix in (".jsonl", ".json") or "/" in source:
        raise PodiumError(f"There is no file or run {source!r} (looked in {Path.cwd()}).")
    world = worlds.get(source, **({} if level is None else {"level": level}))
    return read_world(world, tasks, names or ("reward",))


def _rates(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    try:
        first, second = map(float, text.split(","))
    except ValueError:
        raise PodiumError(f"--noise {text!r} must be two rates, as in .2,.1.") from None
    return first, second
