"""The report of a run: one self-contained HTML file with curves, rollouts before and after, and the method."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from podium.report.chart import Series, chart
from podium.report.conversation import conversation, conversation_page, read_rollouts
from podium.report.outcomes import section
from podium.report.rollout_tree import forest
from podium.store.files import atomic_text
from podium.store.retention import kept_text, rollout_files
from podium.store.run_directory import RunDirectory
from podium.training.config import Config

__all__ = ["document", "write_report"]

# What is drawn, where a run has it: (title, metric).
CURVES = (
    ("reward", "reward"),
    ("entropy", "entropy"),
    ("length (tokens)", "length"),
    ("turns", "turns"),
    ("actions that are not valid", "invalid"),
    ("groups without signal", "flat_groups"),
    ("clipped tokens", "clip_fraction"),
    ("gradient norm", "grad_norm.policy"),
)


def document(title: str, body: str) -> str:
    """A whole page, with its style inside."""
    style = resources.files("podium.report").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head><body>{body}</body></html>"
    )


def write_report(path: Path | str) -> Path:
    """Write `report.html` of a run; returns its path."""
    directory = RunDirectory(path)
    config = Config.from_yaml(directory.read_config())
    target = directory.path / "report.html"
    text = document(f"{config.method.name} on {config.world}", _body(directory, config))
    atomic_text(target, text)
    return target


def _body(directory: RunDirectory, config: Config) -> str:
    metrics = directory.metrics()
    settings = ", ".join(f"{k} {v}" for k, v in (config.world_settings or {}).items())
    title = f"{config.method.name} on {config.world}" + (f" ({settings})" if settings else "")
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{html.escape(config.method.summary)}</p>",
        _lead(metrics, config),
        f'<h2>Curves</h2><div class="charts">{_charts(metrics)}</div>',
        section(directory, metrics),
        "<h2>Rollouts before and after</h2>",
        "<p>The first and the last iteration of training, one answer per task.</p>"
        f'<p>{html.escape(_kept(directory))}</p><div class="columns">',
        f"<div><h3>before</h3>{_rollouts(directory, first=True)}</div>",
        f"<div><h3>after</h3>{_rollouts(directory, first=False)}</div></div>",
        _trees(directory),
        f'<h2>Method</h2><pre class="code">{html.escape(config.method.describe())}</pre>',
        f'<details><summary>config.yaml</summary><pre class="code">{html.escape(config.to_yaml())}</pre></details>',
    ]
    return "".join(parts)


def _lead(metrics: Sequence[Mapping[str, Any]], config: Config) -> str:
    measured = [m for m in metrics if "eval.pass@1" in m]
    if not measured:
        return ""
    first, last = measured[0], measured[-1]

    def interval(m: Mapping[str, Any]) -> str:
        return f"{m['eval.pass@1']:.3f} [{m['eval.pass@1.low']:.3f}, {m['eval.pass@1.high']:.3f}]"

    trained = [m for m in metrics if "rollouts" in m]
    rollouts, tokens = sum(m["rollouts"] for m in trained), sum(m["tokens"] for m in trained)
    return (
        f'<p class="lead">Held-out pass@1 went from <b>{interval(first)}</b> to <b>{interval(last)}</b> over '
        f"{last['iteration']} iterations ({rollouts:,} rollouts, {tokens:,} sampled tokens; {config.model}, "
        f"seed {config.seed}; 95 % intervals over {config.eval_tasks} tasks).</p>"
    )


def _charts(metrics: Sequence[Mapping[str, Any]]) -> str:
    drawn = []
    measured = [m for m in metrics if "eval.pass@1" in m]
    if measured:
        keys = ("eval.pass@1", "eval.pass@1.low", "eval.pass@1.high")
        y, low, high = ([m[k] for m in measured] for k in keys)
        drawn.append(chart("held-out pass@1", [Series("pass@1", [m["iteration"] for m in measured], y, low, high)]))
    for title, key in CURVES:
        rows = [m for m in metrics if isinstance(m.get(key), (int, float))]
        if rows:
            drawn.append(chart(title, [Series(title, [m["iteration"] for m in rows], [float(m[key]) for m in rows])]))
    return "".join(f"<div>{svg}</div>" for svg in drawn if svg)


def _kept(directory: RunDirectory) -> str:
    """Which rollouts are in the run's directory."""
    return f"Rollouts that are kept: {kept_text(rollout_files(directory.path))}."


def _rollouts(directory: RunDirectory, *, first: bool, count: int = 6) -> str:
    files = rollout_files(directory.path)
    if not files:
        return "<p>None.</p>"
    chosen: dict[Any, Mapping[str, Any]] = {}
    for row in read_rollouts(files[0 if first else -1]):
        chosen.setdefault(row["task"], row)
    return "".join(conversation_page(conversation(row)) for row in list(chosen.values())[:count])


def _trees(directory: RunDirectory) -> str:
    """The rollouts of the last iteration that share beginnings."""
    files = rollout_files(directory.path)
    drawn = forest(pq.read_table(files[-1]).to_pylist()) if files else ""
    if not drawn:
        return ""
    return (
        "<h2>Rollouts that share beginnings</h2><p>Groups of the last iteration. A line is a segment of text, green "
        "where what follows is worth much and red where little; a dot is where rollouts part, the larger the less "
        "certain the model was. Behind each rollout are its reward and, where its last segment is trained, that "
        f"segment's advantage A.</p>{drawn}"
    )
