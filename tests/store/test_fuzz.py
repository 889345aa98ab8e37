"""Every file of a run, damaged in random ways: one sentence and an exit code, or healed with a sentence; and a run that
says that it has finished has the weights that it would have had."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
from safetensors.torch import load_file

from podium.cli.app import main
from podium.sessions.train import configure, train
from tests.store.damage import as_without_manifest, copied, damage

MODEL = Path(__file__).parents[1] / "migrations/runs_1/model"
PER_KIND = 14
COMMANDS = ("resume", "eval", "rollouts", "report")
KINDS = (
    *("config.yaml", "metrics.jsonl", ".lock", "report.html", "rollouts/iteration-000004.parquet"),
    *(f"checkpoints/iteration-000004/{name}" for name in ("manifest.json", "state.json", "config.yaml")),
    *(f"checkpoints/iteration-000004/{name}.safetensors" for name in ("policy.optimizer", "memories", "policy/model")),
    *(f"checkpoints/iteration-000004/policy/{name}.json" for name in ("config", "tokenizer", "generation_config")),
    "checkpoints/iteration-000002/state.json",
)
