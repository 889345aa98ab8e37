"""A trained model in the plane of reward and KL divergence, as text and as a picture."""

from __future__ import annotations

from pathlib import Path

from podium.cli.console import line, table
from podium.evaluation.frontier import Frontier
from podium.report.chart import Series, chart, picture
from podium.store.files import atomic_text

__all__ = ["show_frontier"]


def show_frontier(plane: Frontier, folder: Path) -> None:
    """What best-of-N and the tilt reach, where the trained model lies, and `frontier.svg` in the folder."""
    best = plane.best_of([2**k for k in range(plane.base.shape[1].bit_length())])
    measured = plane.measures()
    table(
        ["policy", "KL from the base", "reward", "optimum at that KL"],
        [[f"best of {n}", f"{at:.3f}", f"{r:.3f}", f"{plane.height(at):.3f}"] for n, at, r in best],
    )
    line()
    table(
        ["measure", "mean", "95 % interval"],
        [[n, f"{m.mean:.3f}", f"[{m.low:.3f}, {m.high:.3f}]"] for n, m in measured.items()],
    )
    own, at = measured["reward of the trained"], measured["KL of the trained"]
    reached = sorted({*plane.curve()[0].tolist(), max(at.mean, 0.0)})
    series = [
        Series("optimum (tilt)", reached, [plane.height(x) for x in reached], style="thin"),
        Series("best of N", [x for _, x, _ in best], [y for _, _, y in best], style="dots"),
        Series("trained", [at.mean], [own.mean], style="dots", colour=2),
    ]
    drawn = chart("reward over KL divergence from the base", series, x_label="KL from the base (nats)")
    target = folder / "frontier.svg"
    atomic_text(target, picture([drawn], series, columns=1))
    line(_sentence(plane))
    line(f"Figure: {target}")


def _sentence(plane: Frontier) -> str:
    below = plane.measures()["below the frontier"]
    where = "lies below" if below.low > 0 else "lies above" if below.high < 0 else "cannot be told from"
    unseen = int((plane.base.max(1) < plane.trained.max(1)).sum())
    note = (
        f" In {unseen} of {len(plane.base)} tasks the trained model reaches a reward that none of the "
        f"{plane.base.shape[1]} base answers has: there the optimum is underestimated."
    )
    return f"The trained model {where} the frontier.{note if unseen else ''}"
