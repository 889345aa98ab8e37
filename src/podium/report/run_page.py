"""The report of a run: one self-contained HTML file with curves, rollouts before and after, and the method."""

from __future__ import annotations

import html
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from podium.core import serial
from podium.core.activity import activity
from podium.core.errors import PodiumError
from podium.core.named_code import would_execute
from podium.core.yaml_text import dump
from podium.report.chart import Series, chart
from podium.report.conversation import Conversation, conversation_page, read_rollouts
from podium.report.outcomes import section
from podium.report.rollout_tree import forest
from podium.store.files import atomic_text
from podium.store.metrics_log import read_log
from podium.store.retention import kept_text
from podium.store.run_directory import RunDirectory
from podium.store.tables import read_rows, rollout_files
from podium.training.config import Config
from podium.training.stored_config import StoredConfig, stored_config

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
    ("tasks with several best answers", "ties.share"),
    ("gap of the best to the second best answer", "ties.gap"),
    ("optimal policy moved by the extra reward", "ties.hard_tv"),
    ("correlation of reward and outcome", "proxy.correlation"),
)

PASS = ("eval.pass@1", "eval.pass@1.low", "eval.pass@1.high")


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
    stored, method = _read(directory)
    config = stored.config
    target = directory.path / "report.html"
    text = document(f"{config.method.name} on {config.world}", _body(directory, stored, method))
    atomic_text(target, text)
    return target


def _read(directory: RunDirectory) -> tuple[StoredConfig, str]:
    """The configuration of a run, and its method as text, without executing code that the configuration names.

    With such code, unless it has been loaded already, the method is described by its YAML.
    """
    stored = stored_config(directory, leave_out=("method", "world"))
    data = serial.read_data(Config, stored.text)
    if any(map(would_execute, serial.code_names(data))):
        (settings,) = data.values()
        return stored, dump(settings["method"])
    config = Config.from_yaml(stored.text, trust=True)
    return stored._replace(config=config), config.method.describe()


def _unchanged(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Says so where no iteration has updated the model."""
    trained = [line for line in metrics if line["iteration"]]
    unchanged = bool(trained) and all(line.get("weights_unchanged") for line in trained)
    return "<p>Weights unchanged: the method learns in its memories alone.</p>" if unchanged else ""


def _body(directory: RunDirectory, stored: StoredConfig, method: str) -> str:
    config = stored.config
    log = read_log(directory.metrics_file)
    metrics = log.lines
    settings = ", ".join(f"{k} {v}" for k, v in (config.world_settings or {}).items())
    title = f"{config.method.name} on {config.world}" + (f" ({settings})" if settings else "")
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{html.escape(config.method.summary)}</p>",
        _damage([log.note(directory.metrics_file)] if log.damaged else []),
        _lead(metrics, config),
        _unchanged(metrics),
        f'<h2>Curves</h2><div class="charts">{_charts(metrics)}</div>',
        _or_damage(lambda: section(directory, metrics)),
        "<h2>Rollouts before and after</h2>",
        "<p>The first and the last iteration of training, one answer per task.</p>"
        f'<p>{html.escape(_kept(directory))}</p><div class="columns">',
        f"<div><h3>before</h3>{_or_damage(lambda: _rollouts(directory, first=True))}</div>",
        f"<div><h3>after</h3>{_or_damage(lambda: _rollouts(directory, first=False))}</div></div>",
        _or_damage(lambda: _trees(directory)),
        _activity(metrics),
        f'<h2>Method</h2><pre class="code">{html.escape(method)}</pre>',
        "<details><summary>config.yaml</summary>",
        f'<pre class="code">{html.escape(stored.text)}</pre></details>',
    ]
    return "".join(parts)


def _or_damage(part: Callable[[], str]) -> str:
    """A part of the page; where a file that it shows is damaged, a sentence in its place."""
    try:
        return part()
    except PodiumError as error:
        return _damage([str(error).rstrip(".")])


def _damage(notes: Sequence[str]) -> str:
    """Sentences on what is damaged, on the page and as warnings."""
    for note in notes:
        warnings.warn(f"{note}: it is left out of the report.", stacklevel=2)
    return "".join(f"<p><b>{html.escape(note)}.</b></p>" for note in notes)


def _lead(metrics: Sequence[Mapping[str, Any]], config: Config) -> str:
    measured = _measured(metrics)
    if not measured:
        return ""
    first, last = measured[0], measured[-1]

    def interval(m: Mapping[str, Any]) -> str:
        return f"{m['eval.pass@1']:.3f} [{m['eval.pass@1.low']:.3f}, {m['eval.pass@1.high']:.3f}]"

    trained = [m for m in metrics if "rollouts" in m]
    rollouts, tokens = sum(m["rollouts"] for m in trained), sum(m["tokens"] for m in trained)
    return (
        f'<p class="lead">Held-out pass@1 went from <b>{interval(first)}</b> to <b>{interval(last)}</b> over '
        f"{html.escape(str(last['iteration']))} iterations ({rollouts:,} rollouts, {tokens:,} sampled tokens; "
        f"{html.escape(config.model)}, "
        f"seed {config.seed}; 95 % intervals over {config.eval_tasks} tasks).</p>"
    )


def _measured(metrics: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines with a held-out evaluation."""
    return [m for m in metrics if all(isinstance(m.get(k), (int, float)) for k in PASS)]


def _charts(metrics: Sequence[Mapping[str, Any]]) -> str:
    drawn = []
    measured = _measured(metrics)
    if measured:
        y, low, high = ([m[k] for m in measured] for k in PASS)
        drawn.append(chart("held-out pass@1", [Series("pass@1", [m["iteration"] for m in measured], y, low, high)]))
    for title, key in CURVES:
        rows = [m for m in metrics if isinstance(m.get(key), (int, float))]
        if rows:
            drawn.append(chart(title, [Series(title, [m["iteration"] for m in rows], [float(m[key]) for m in rows])]))
    return "".join(f"<div>{svg}</div>" for svg in drawn if svg)


def _activity(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Which parts of the method changed something, and in how many iterations."""
    counts = activity(metrics)
    if not counts:
        return ""
    elements: Counter[str] = Counter()
    for line in metrics:
        elements.update(line.get("acted", {}))
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{f'{acted} of {present}' if acted else '<b>never</b>'}</td>"
        f"<td>{elements[name]:,}</td></tr>"
        for name, (acted, present) in counts.items()
    )
    return (
        "<h2>What acted</h2><p>In how many iterations each part changed something, and how many elements (tokens, "
        "rollouts, groups, tasks) in all.</p><table><tr><th>part</th><th>acted in iterations</th><th>elements</th></tr>"
        f"{rows}</table>"
    )


def _kept(directory: RunDirectory) -> str:
    """A sentence on which rollouts the run has kept."""
    return f"Rollouts that are kept: {kept_text(rollout_files(directory.path))}."


def _rollouts(directory: RunDirectory, *, first: bool, count: int = 6) -> str:
    files = rollout_files(directory.path)
    if not files:
        return "<p>None.</p>"
    chosen: dict[str, Conversation] = {}
    for conversation in read_rollouts(files[min(files) if first else max(files)]):
        chosen.setdefault(conversation.task, conversation)
    return "".join(map(conversation_page, list(chosen.values())[:count]))


def _trees(directory: RunDirectory) -> str:
    """The rollouts of the last iteration that share beginnings."""
    files = rollout_files(directory.path)
    drawn = _forest(files[max(files)]) if files else ""
    if not drawn:
        return ""
    return (
        "<h2>Rollouts that share beginnings</h2><p>Groups of the last iteration. A line is a segment of text, green "
        "where what follows is worth much and red where little; a dot is where rollouts part, the larger the less "
        "certain the model was. Behind each rollout are its reward and, where its last segment is trained, that "
        f"segment's advantage A.</p>{drawn}"
    )


def _forest(file: Path) -> str:
    rows = read_rows(file)
    try:
        return forest(rows)
    except (TypeError, ValueError, KeyError, IndexError) as error:  # columns of unexpected types
        raise PodiumError(f"{file} is damaged: its columns do not fit together.") from error
