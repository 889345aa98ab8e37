"""Record the metrics of short runs for the tests of `podium doctor`: python -m tools.record_runs SET [NAME …]

`tuning` are healthy runs at which thresholds may be looked at; `healthy` are others, which no threshold has seen; in
`ill` each run has a planted illness, after which it is named. A run counts as healthy if every part acted and held-out
pass@1 rose beyond its interval; the others of the two lists are printed and left out.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import podium
from podium.core.activity import activity
from podium.sessions.doctor import history_of

FOLDER = Path(__file__).parents[1] / "tests" / "analysis" / "health"
USUAL = {"iterations": 16, "eval_every": 8, "eval_samples": 1}
Planned = tuple[str, Mapping[str, Any]]  # a method, and the settings of its run

TUNING: Sequence[Planned] = (
    ("grpo", {"world": "sums", "level": 2}),
    ("grpo", {"world": "sums", "level": 1, "seed": 1}),
    ("rloo", {"world": "countdown", "level": 2}),
    ("dapo", {"world": "sums", "level": 3}),
    ("ppo", {"world": "sums", "level": 2}),
    ("gspo", {"world": "echo", "level": 2}),
    ("reinforce", {"world": "rules", "level": 1}),
    ("gigpo", {"world": "keydoor", "level": 1}),
    ("cispo", {"world": "sums", "level": 1}),
    ("grpo", {"world": "tools", "level": 1}),
    ("dr-grpo", {"world": "clarify", "level": 1}),
    ("sft", {"world": "sums", "level": 2}),
    ("scalerl", {"world": "sums", "level": 2}),  # its clip acts late
    ("ngrpo", {"world": "sums", "level": 3}),  # what it drops comes late
)
HEALTHY: Sequence[Planned] = (
    ("grpo", {"world": "sums", "level": 2, "seed": 7}),
    ("grpo", {"world": "echo", "level": 2}),
    ("grpo", {"world": "countdown", "level": 2, "seed": 1}),
    ("grpo", {"world": "rules", "level": 1, "seed": 2}),
    ("grpo", {"world": "keydoor", "level": 2}),
    ("grpo", {"world": "sums", "level": 3, "iterations": 32, "eval_every": 16}),
    ("rloo", {"world": "sums", "level": 2}),
    ("rloo", {"world": "echo", "level": 1}),
    ("dr-grpo", {"world": "sums", "level": 2}),
    ("dr-grpo", {"world": "tools", "level": 1}),
    ("dapo", {"world": "sums", "level": 1}),
    ("gspo", {"world": "sums", "level": 2}),
    ("gpg", {"world": "sums", "level": 2}),
    ("opo", {"world": "countdown", "level": 2}),
    ("cispo", {"world": "rules", "level": 1}),
    ("reinforce-plus-plus", {"world": "sums", "level": 2}),
    ("remax", {"world": "sums", "level": 1}),
    ("lite-ppo", {"world": "sums", "level": 2}),
    ("gmpo", {"world": "sums", "level": 2}),
    ("maxrl", {"world": "countdown", "level": 2}),
    ("sapo", {"world": "sums", "level": 2}),
    ("ppo", {"world": "echo", "level": 2}),
    ("gigpo", {"world": "keydoor", "level": 2}),
    ("hgpo", {"world": "keydoor", "level": 1}),
    ("mc-grpo", {"world": "sums", "level": 1}),
    ("high-entropy-tokens", {"world": "sums", "level": 2}),
)
SHORT = {"iterations": 12, "eval_every": 4}
ILL: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "every answer wrong in one way": ("no-signal", "grpo", {"world": "lookup", "level": 4, "eval_tasks": 32}),
    "a learning rate of 0.01": ("learning-rate-high", "grpo", {"world": "sums", "level": 2, "lr": 1e-2}),
    "a learning rate of 0.003 without KL": ("diverged", "rloo", {"world": "sums", "level": 2, "lr": 3e-3}),
    "a learning rate of 1e-8": ("learning-rate-low", "grpo", {"world": "sums", "level": 2, "lr": 1e-8, **USUAL}),
    "answers cut off": ("truncation", "grpo", {"world": "sums", "level": 3, "max_tokens": 24}),
    "six held-out tasks": ("noisy-evaluation", "grpo", {"world": "countdown", "level": 1, "eval_tasks": 6, "lr": 2e-5}),
    "one task again and again": ("memorised", "grpo", {"world": "rules", "level": 3, "pool": 2, "tasks": 2, **USUAL}),
    "two turns for a long walk": ("turn-limit", "grpo", {"world": "keydoor", "level": 3, "max_turns": 2}),
    "a learning rate of 1e-7 without KL": (
        "learning-rate-low",
        "dapo",
        {"world": "sums", "level": 1, "lr": 1e-7, **USUAL},
    ),
    "a penalty for length where nothing is long": ("idle-part", "dapo", {"world": "sums", "level": 1, **USUAL}),
}


def record(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train, and return what the doctor reads of the run, column by column."""
    folder = Path(tempfile.mkdtemp())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            podium.train(method, out=folder / "run", **settings)
        history = history_of(folder / "run")
    finally:
        shutil.rmtree(folder)
    left_out = ("check", "seconds", "tokens.encoded")
    lines = [{k: v for k, v in line.items() if k not in left_out} for line in history.lines]
    names = dict.fromkeys(name for line in lines for name in line)
    columns = {name: [_short(line.get(name)) for line in lines] for name in names}
    settled = {k: v for k, v in vars(history.setting).items() if k != "run"}
    return {"method": method, "settings": dict(settings), "setting": settled, "columns": columns}


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _is_healthy(run: Mapping[str, Any]) -> bool:
    columns = run["columns"]
    low, high = ([v for v in columns[f"eval.pass@1.{edge}"] if v is not None] for edge in ("low", "high"))
    counts = activity([{"acted": acted} for acted in columns["acted"] if acted])
    return low[-1] > high[0] and all(acted for acted, _ in counts.values())


def main(name: str, only: Sequence[str]) -> None:
    planned = {
        "tuning": {f"{m} on {s['world']} {s['level']}": ("", m, {**USUAL, **s}) for m, s in TUNING},
        "healthy": {f"{m} on {s['world']} {s['level']}": ("", m, {**USUAL, **s}) for m, s in HEALTHY},
        "ill": {label: (rule, m, {**SHORT, **s}) for label, (rule, m, s) in ILL.items()},
    }[name]
    file = FOLDER / f"{name}.json"
    runs = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for label, (rule, method, settings) in planned.items():
        if label in runs if not only else label not in only:
            continue
        run = record(method, settings)
        if name != "ill" and not _is_healthy(run):
            print(f"{label}: left out", flush=True)
            continue
        runs[label] = {"rule": rule, **run} if rule else run
        file.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in runs.items()) + "\n}\n")
        print(f"{label}: recorded", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
