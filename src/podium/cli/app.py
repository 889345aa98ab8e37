"""The `podium` command: its subcommands, and how errors and warnings are printed."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from podium import __version__
from podium.cli import (
    adapt,
    bench,
    claims,
    compare,
    data,
    doctor,
    evaluate,
    export,
    lab,
    merge,
    methods,
    replay_batches,
    rewards,
    rollouts,
    train,
    values,
    view,
    worlds,
    xray,
)
from podium.cli.commands import RootCommands
from podium.cli.console import error, line, warning
from podium.cli.options import expand_lists
from podium.core.errors import PodiumError, Unfinished
from podium.core.printable import printable

__all__ = ["app", "main", "run"]

# Typer may bring its own copy of click: this is the base of its usage errors in either case.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
PACKAGE = Path(__file__).parents[1]
INTERRUPTED = 130  # the exit code after Ctrl-C, as shells report it

app = typer.Typer(
    cls=RootCommands,
    add_completion=False,
    rich_markup_mode=None,
    help="Reinforcement-learning post-training of language models, as small composable parts.",
)
app.command()(train.train)
app.command("eval")(evaluate.evaluate)
app.command()(compare.compare)
app.command()(rollouts.rollouts)
app.command()(doctor.doctor)
app.command()(replay_batches.replay)
app.command()(xray.xray)
app.command()(view.view)
app.command()(adapt.adapt)
app.command()(lab.lab)
app.command()(values.values)
app.command()(merge.merge)
app.command()(export.export)
app.add_typer(methods.app, name="methods")
app.add_typer(worlds.app, name="worlds")
app.add_typer(data.app, name="data")
app.add_typer(rewards.app, name="rewards")
app.add_typer(bench.app, name="bench")
app.add_typer(claims.app, name="claims")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        line(f"podium {__version__}")
    elif context.invoked_subcommand is None:
        line(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. After one line of explanation, this is 2 for input that is refused
    and 75 for work that the system has interrupted and that can be resumed."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    if typed[:1] == ["eval"]:
        typed = evaluate.expand_options(typed)
    if typed[:1] in (["replay"], ["xray"]):
        typed = expand_lists(typed, "--methods")
    with _short_warnings():
        try:
            code: int = app(typed, prog_name="podium", standalone_mode=False) or 0
            if code == INTERRUPTED:
                error("Stopped at once. To continue a run from its last checkpoint: podium train --resume RUN")
            return code
        except PodiumError as problem:
            error(str(problem))
            return problem.exit_code
        except UsageError as problem:
            error(" ".join(problem.format_message().split()))  # type: ignore[attr-defined]
        return 2


def _preempted(number: int, _: object) -> None:
    """Handle a signal while no run does: before it begins, when imports take seconds, or after it has ended."""
    name = signal.Signals(number).name
    error(f"Stopped by {name}. The same command starts again; podium train --resume RUN continues a run.")
    os._exit(Unfinished.exit_code)  # an exception could end in a library that takes it for a failed import


def run() -> None:
    """The `podium` command: call `main` and end the process.

    A thread cannot be stopped from outside. If one of a world still runs, the process ends without waiting for it.
    """
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, _preempted)
    code = main()
    acting = sys.modules.get("podium.collect.acting")
    busy = acting.busy_worlds() if acting is not None else 0
    if busy:
        warning(
            f"Actions of the world that have not ended: {busy}. They end with this process; isolation=process would "
            "have stopped them."
        )
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        atexit._run_exitfuncs()  # other processes and temporary files end here too
        os._exit(code)
    sys.exit(code)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Podium's warnings are one line each, without the line of code that gave them."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], filename: str, *rest: Any, **named: Any) -> None:
            if issubclass(category, UserWarning) and Path(filename).is_relative_to(PACKAGE):
                warning(str(message))
            else:
                usual(printable(str(message)), category, filename, *rest, **named)

        warnings.showwarning = show
        yield
