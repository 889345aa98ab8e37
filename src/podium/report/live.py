"""Progress at the terminal: a live line, or plain lines when nobody watches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from podium.report.outcomes import troubles
from podium.training.run import Run

__all__ = ["Live"]


class Live:
    """Called after each iteration with its metrics: a terminal gets one line that moves, a file some lines."""

    def __init__(self, console: Console, every: int = 10) -> None:
        self.console, self.every = console, every
        self.begun: float | None = None
        self.first = 0
        self.told: list[str] = []  # troubles that have been named
        self.status = console.status("") if console.is_terminal else None

    def __enter__(self) -> Live:
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def tell(self, note: str) -> None:
        """A line that stays."""
        self.console.print(note, highlight=False, markup=False, soft_wrap=True)

    def __call__(self, run: Run, line: Mapping[str, Any]) -> None:
        if self.begun is None:
            self.begun, self.first = time.monotonic(), int(line["iteration"])
        for reason, note in troubles(line):
            if reason not in self.told and len(self.told) < 4:  # they may differ each time
                self.told.append(reason)
                self.console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
        text = self._text(run, line)
        held_out = "eval.pass@1" in line
        if self.status is not None:
            self.status.update(text)
        if held_out or (self.status is None and line["iteration"] % self.every == 0):
            self.console.print(text, highlight=False, soft_wrap=True)

    def _text(self, run: Run, line: Mapping[str, Any]) -> str:
        done, total = int(line["iteration"]), run.config.iterations
        parts = [f"iteration {done}/{total}"]
        for name, label in (("reward", "reward"), ("pass@1", "pass@1"), ("entropy", "entropy")):
            if name in line:
                parts.append(f"{label} {line[name]:.3f}")
        if "flat_groups" in line:
            parts.append(f"no signal {100 * line['flat_groups']:.0f} %")
        if line.get("failures"):
            parts.append(f"failed {line['failures']:.0f}")
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
