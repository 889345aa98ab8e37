"""Every file of a run, damaged in random ways: one sentence and an exit code, or healed with a sentence; and a run that
says that it has finished has the weights that it would have had."""

from __future__ import annotations

import io
import os
import shutil
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from podium.cli.app import main
from podium.report.run_page import write_report
from podium.sessions.train import train
from podium.store.run_directory import RunDirectory
from podium.training.config import Config
from tests.store.damage import DAMAGES, damage

RECORDED = Path(__file__).parents[1] / "migrations/runs_1"
LAST = "checkpoints/iteration-000004"
ROLLOUTS = "rollouts/iteration-000004.parquet"
# Every kind of file, and the commands that read it before the run is resumed.
KINDS: dict[str, tuple[str, ...]] = {
    "config.yaml": ("rollouts", "eval"),
    **dict.fromkeys(("metrics.jsonl", ".lock", "report.html", "rollouts/iteration-000001.parquet"), ()),
    ROLLOUTS: ("rollouts",),
    f"{LAST}/manifest.json": ("eval",),
    f"{LAST}/state.json": (),
    **dict.fromkeys(
        (f"{LAST}/config.yaml", f"{LAST}/memories.safetensors", f"{LAST}/policy.optimizer.safetensors"), ()
    ),
    **dict.fromkeys((f"{LAST}/policy/model.safetensors", f"{LAST}/policy/config.json"), ("eval",)),
    **dict.fromkeys((f"{LAST}/policy/tokenizer.json", f"{LAST}/policy/generation_config.json"), ()),
    "checkpoints/iteration-000003/state.json": (),
}
ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "1"))  # how often each kind is damaged in each way
OFTEN = ("config.yaml", "metrics.jsonl", f"{LAST}/manifest.json")  # text with most ways to go wrong
CASES = [
    (kind, time * len(DAMAGES) + way)
    for kind in KINDS
    for time in range(ROUNDS * (2 if kind in OFTEN else 1))
    for way in range(len(DAMAGES))
]
CHANGED = "in the last checkpoint and is"  # a setting that may be changed in config.yaml, and was


@dataclass(frozen=True)
class Whole:
    """A run that nothing happened to."""

    path: Path
    weights: dict[str, torch.Tensor]
    metrics: list[dict[str, Any]]
    shown: str  # by `podium rollouts`


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Four iterations of a method with a memory, on a model that is 16 numbers wide."""
    config = Config.from_yaml((RECORDED / "spear/config.yaml").read_text("utf-8"))
    config = config.replace(model=str(RECORDED / "model"), checkpoint_every=1, keep_checkpoints=2)
    config = config.replace(tasks=2, eval_tasks=1, eval_every=0, max_tokens=8)
    path = tmp_path_factory.mktemp("whole") / "run"
    train(config, out=path)
    write_report(path)
    weights = _weights(path)
    before = load_file(path / "checkpoints/iteration-000003/policy/model.safetensors")
    assert any((weights[name] != before[name]).any() for name in weights)  # or falling back could not show
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert main(["rollouts", str(path)]) == 0
    return Whole(path, weights, _numbers(path), shown.getvalue())


def _weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(RunDirectory(run).checkpoints()[-1] / "policy/model.safetensors")


def _numbers(run: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in RunDirectory(run).metrics()]


class Spoken:
    """A command in this process: its exit code and its sentences."""

    def __init__(self, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
        capsys.readouterr()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.code = main(words)
        captured = capsys.readouterr()
        self.out, errors = captured.out, captured.err.splitlines()
        self.sentences = list(dict.fromkeys([*(str(w.message) for w in caught), *errors]))
        assert all(len(sentence.splitlines()) == 1 and len(sentence) < 900 for sentence in self.sentences), (
            self.sentences
        )
        assert len(self.sentences) <= 4, self.sentences
        assert self.code in (0, 2)
        if self.code:
            assert [line for line in errors if line.startswith("Error: ")] == errors[-1:], errors
            assert "Traceback" not in captured.err


def _check(run: Path, whole: Whole, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Read the damaged run with every command, and resume it."""
    original = whole.path / kind
    same = (run / kind).is_file() and (run / kind).read_bytes() == original.read_bytes()
    if "rollouts" in KINDS[kind]:
        shown = Spoken(capsys, ["rollouts", str(run)])
        assert shown.code == 2 or shown.out == whole.shown or not (run / kind).exists()
    if "eval" in KINDS[kind]:
        evaluated = Spoken(capsys, ["eval", str(run), "--k", "1", "--tasks", "1"])
        assert evaluated.code == 2 or kind == "config.yaml" or same or "is damaged" in evaluated.sentences[0]
    resumed = Spoken(capsys, ["train", "--resume", str(run), "--quiet"])
    if resumed.code == 0:
        final = _weights(run)
        if not any(CHANGED in sentence for sentence in resumed.sentences):
            assert all((final[name] == weight).all() for name, weight in whole.weights.items())
            assert _numbers(run) == whole.metrics or resumed.sentences
        if kind.startswith(LAST) and not same:
            assert "iteration-000004 is damaged" in resumed.sentences[0]


@pytest.mark.parametrize(("kind", "seed"), CASES, ids=[f"{k.rpartition('/')[2]}-{s}" for k, s in CASES])
def test_damage_is_named_or_healed(
    kind: str, seed: int, whole: Whole, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole.path, run)
    others = [file for file in whole.path.rglob("*") if file.is_file()]
    damage(run / kind, others, seed)
    _check(run, whole, kind, capsys)
