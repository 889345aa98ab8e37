"""`podium adapt`: adaptation to one held-out task at a time."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli.console import line, table
from podium.cli.options import AnswerField, Data, Device, Level, Model, PromptField, Trust, World, data_settings
from podium.cli.preflight import check_config, check_setting_names, check_typed
from podium.cli.train import configured
from podium.core.errors import PodiumError

__all__ = ["adapt"]


def adapt(
    method: Annotated[
        str, typer.Argument(help="A method that reads no right answers: rlcf, rlcf@entropy, ttrl, ttrv.")
    ] = "rlcf",
    world: World = None,
    level: Level = None,
    data: Data = None,
    prompt_field: PromptField = None,
    answer_field: AnswerField = None,
    model: Model = None,
    tasks: Annotated[int, typer.Option(help="The number of held-out tasks.", min=1)] = 32,
    steps: Annotated[int, typer.Option(help="Iterations on each task.", min=1)] = 3,
    seed: Annotated[int | None, typer.Option(help="The seed of all random numbers. [default: 0]")] = None,
    out: Annotated[Path | None, typer.Option(help="A new JSON file for the answers. [default: none]")] = None,
    device: Device = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a setting: k=5, world.shift=blur, optimizer.lr=1e-3."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Adapt a model to one held-out task at a time, let it answer, and put its weights back.

    No right answer is read before the answer is given.
    """
    world, of_world = data_settings(world, data, prompt_field, answer_field, None)
    check_typed([method], world=world, device=device, model=model)
    if out is not None and out.exists():
        raise PodiumError(f"{out} exists already: choose another --out.")
    check_setting_names(method, changes or [])
    typed = {"world": world, "model": model, "seed": seed, "device": device}
    settings: dict[str, Any] = {k: v for k, v in typed.items() if v is not None}
    if level is not None:
        of_world["level"] = level
    if of_world:
        settings["of_world"] = of_world
    config = configured(None, method, settings, changes or [], [], trust)
    check_config(config)
    from podium.sessions.adapt import AdaptedTask
    from podium.sessions.adapt import adapt as session
    from podium.store.files import atomic_text

    def told(task: AdaptedTask) -> None:
        marks = {True: "right", False: "wrong"}
        verdicts = f"{task.before!r} ({marks[task.right_before]}) -> {task.after!r} ({marks[task.right_after]})"
        line(f"{task.key}: {verdicts}")

    found = session(config, tasks=tasks, steps=steps, progress=told)
    line()
    shares = {"before": found.before, "after": found.after, "gain": found.gain}
    table(["accuracy", "95 % interval"], [[name, str(measure)] for name, measure in shares.items()])
    line("Weights after each task: those of before, bit for bit." if found.restored else "Weights were not restored.")
    if out is not None:
        written = {name: measure.as_dict() for name, measure in shares.items()}
        atomic_text(out, json.dumps({**written, "tasks": [asdict(task) for task in found.tasks]}, indent=1))
        line(f"Answers: {out}")
