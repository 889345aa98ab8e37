"""Progress at the terminal: a line that is updated in place, or plain lines when the output is a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from podium.core.printable import printable
from podium.report.outcomes import troubles

if TYPE_CHECKING:
    from podium.training.run import Run

__all__ = ["Live"]

MOST_TROUBLES = 4  # that are printed: their reasons may differ in every iteration
STOPPED = ("timeout", "memory", "violation", "crash")  # programs that the sandbox has ended


class Live:
    """Called after each iteration with its metrics. A terminal gets one line that is updated, a file every tenth."""

    def __init__(self, console: Console, every: int = 10) -> None:
        self.console, self.every = console, every
        self.begun: float | None = None
        self.first = 0
        self.reported: list[str] = []  # reasons of troubles that have been printed
        self.status = console.status("") if console.is_terminal else None

    def __enter__(self) -> Live:
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def stage(self, text: str) -> None:
        """What is being done now, such as loading a model: shown on a terminal until something else is."""
        if self.status is not None:
            self.status.update(f"{escape(printable(text))} …")

    def tell(self, note: str) -> None:
        """Print a line that stays."""
        self._print(note)

    def __call__(self, run: Run, line: Mapping[str, Any]) -> None:
        if self.begun is None:
            self.begun, self.first = time.monotonic(), int(line["iteration"])
        for reason, note in troubles(line):
            if reason not in self.reported and len(self.reported) < MOST_TROUBLES:
                self.reported.append(reason)
                self._print(note, style="yellow")
        text = self._text(run, line)
        if self.status is not None:
            self.status.update(text)
        if "eval.pass@1" in line or (self.status is None and line["iteration"] % self.every == 0):
            self._print(text, markup=True)

    def _print(self, text: str, style: str | None = None, markup: bool = False) -> None:
        """A terminal breaks it between words; a file gets one line."""
        text = printable(text)
        self.console.print(text, style=style, highlight=False, markup=markup, soft_wrap=not self.console.is_terminal)

    def _text(self, run: Run, line: Mapping[str, Any]) -> str:
        done, total = int(line["iteration"]), run.config.iterations
        parts = [f"iteration {done}/{total}"]
        for name in ("reward", "pass@1", "entropy"):
            if name in line:
                parts.append(f"{name} {line[name]:.3f}")
        if "flat_groups" in line:
            parts.append(f"no signal {100 * line['flat_groups']:.0f} %")
        if line.get("failures"):
            parts.append(f"failed {line['failures']:.0f}")
        stopped = sum(line.get(f"outcome.{kind}", 0) for kind in STOPPED)
        if stopped:
            parts.append(f"stopped {stopped:.0f}")
        if "eval.pass@1" in line:
            parts.append(f"[bold]held-out pass@1 {line['eval.pass@1']:.3f}[/bold]")
        assert self.begun is not None
        elapsed, since = time.monotonic() - self.begun, done - self.first
        if since > 0:
            rate = line.get("rollouts", 0) * since / elapsed
            parts.append(f"{rate:.0f} rollouts/s")
            parts.append(f"{_clock((total - done) * elapsed / since)} left")
        return " · ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
