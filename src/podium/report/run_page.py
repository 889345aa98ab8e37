"""The report of a run: one self-contained HTML file with curves, rollouts before and after, and the method."""

from __future__ import annotations

import html
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from podium.analysis.health import diagnose
from podium.core import serial
from podium.core.activity import activity
from podium.core.errors import PodiumError
from podium.core.named_code import would_execute
from podium.core.yaml_text import dump
from podium.report.conversation import Conversation, conversation, conversation_page, read_rollouts
from podium.report.inline import data_block, page_style, script_block
from podium.report.outcomes import section
from podium.report.rollout_tree import forest
from podium.report.run_curves import curve_charts, curve_data, measured_lines
from podium.sessions.doctor import history_of
from podium.sessions.xray import recorded_view
from podium.store.files import atomic_text
from podium.store.held_out import held_out_examples
from podium.store.metrics_log import read_log
from podium.store.retention import kept_text
from podium.store.run_directory import RunDirectory
from podium.store.tables import read_rows, rollout_files
from podium.training.config import Config
from podium.training.stored_config import StoredConfig, stored_config

__all__ = ["document", "write_report"]

TOKEN_GROUPS, TOKEN_ROLLOUTS = 3, 8  # whose tokens are in the report: a group costs some ten kilobytes


def document(title: str, body: str) -> str:
    """A whole page, with its style inside."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{page_style()}</style></head><body>{body}</body></html>"
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
        _findings(directory),
        f'<h2>Curves</h2><div class="charts" id="curves">{curve_charts(metrics)}</div>',
        data_block("metrics", curve_data(metrics)),
        _or_damage(lambda: section(directory, metrics)),
        _or_damage(lambda: _before_and_after(directory)),
        _or_damage(lambda: _trees(directory)),
        _tokens(directory),
        _activity(metrics),
        f'<h2>Method</h2><pre class="code">{html.escape(method)}</pre>',
        "<details><summary>config.yaml</summary>",
        f'<pre class="code">{html.escape(stored.text)}</pre></details>',
        script_block("charts.js", "xray.js", "report.js", call="drawReport();"),
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
    measured = measured_lines(metrics)
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


def _findings(directory: RunDirectory) -> str:
    """What the doctor finds; nothing where nothing is wrong."""
    found = diagnose(history_of(directory.path))
    shown = "".join(
        f'<div class="finding"><b>{html.escape(each.rule)}</b><p>{html.escape(each.seen)}</p>'
        f'<p class="muted">{html.escape(each.matters)}</p><code>{html.escape(each.mend)}</code></div>'
        for each in found
    )
    return f"<h2>To be mended</h2>{shown}" if found else ""


def _before_and_after(directory: RunDirectory) -> str:
    """The same held-out tasks before and after training, or else rollouts of the first and last iteration."""
    measured = held_out_examples(directory.path)
    if len(measured) > 1:
        numbers = (min(measured), max(measured))
        pages = [
            [conversation_page(conversation(row), directory.path) for row in measured[number]] for number in numbers
        ]
        what = f"The same held-out tasks, one answer each, before training and after iteration {numbers[1]}. "
        what += _kept(directory)
    else:
        pages = [_rollouts(directory, first=True), _rollouts(directory, first=False)]
        what = f"The first and the last iteration of training, one answer per task. {_kept(directory)}"
    rows = "".join(f"<div>{a}</div><div>{b}</div>" for a, b in zip_longest(*pages, fillvalue=""))
    return (
        f"<h2>Rollouts before and after</h2><p>{html.escape(what)}</p>"
        f'<div class="columns"><h3>before</h3><h3>after</h3>{rows}</div>'
    )


def _kept(directory: RunDirectory) -> str:
    """A sentence on which rollouts the run has kept."""
    return f"Rollouts that are kept: {kept_text(rollout_files(directory.path))}."


def _rollouts(directory: RunDirectory, *, first: bool, count: int = 6) -> list[str]:
    files = rollout_files(directory.path)
    if not files:
        return ["<p>None.</p>"]
    chosen: dict[str, Conversation] = {}
    for shown in read_rollouts(files[min(files) if first else max(files)]):
        chosen.setdefault(shown.task, shown)
    return [conversation_page(shown, directory.path) for shown in list(chosen.values())[:count]]


def _tokens(directory: RunDirectory) -> str:
    """Some groups of the last whole iteration, token by token."""
    try:
        view = recorded_view(directory.path, groups=TOKEN_GROUPS)
    except (PodiumError, KeyError, TypeError, ValueError, IndexError):  # nothing whole is kept, or it is damaged
        return ""
    for group in view["groups"]:
        group["rollouts"] = group["rollouts"][:TOKEN_ROLLOUTS]
    return (
        f"<h2>Token by token</h2><p>Iteration {view['iteration']}: the credit of each token, and what else is recorded "
        'of it. <code>podium xray</code> shows what other methods would do with it.</p><div id="tokens"></div>'
        f"{data_block('xray', view)}"
    )


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
