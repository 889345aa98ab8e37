"""Runs for the tests of pages: one that was trained, and many that are copies of its metrics."""

from __future__ import annotations

import shutil
from pathlib import Path

import podium

__all__ = ["folder_of_runs", "small_run"]


def small_run(path: Path) -> Path:
    """A run of three iterations in which some groups have a difference in reward."""
    settings = {"world": "sums", "level": 1, "iterations": 3, "tasks": 4, "eval_tasks": 4, "eval_every": 1}
    podium.train("grpo", out=path, **settings)
    return path


def folder_of_runs(run: Path, folder: Path, count: int) -> Path:
    """A folder with copies of a run's configuration and metrics, each with another seed."""
    for seed in range(count):
        copy = folder / f"run-{seed:03d}"
        copy.mkdir(parents=True)
        text = (run / "config.yaml").read_text("utf-8").replace("\nseed: 0\n", f"\nseed: {seed}\n")
        (copy / "config.yaml").write_text(text, "utf-8")
        shutil.copy(run / "metrics.jsonl", copy)
    return folder
