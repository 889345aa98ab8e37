"""A world that raises, hangs or returns nonsense: the episode gets 0 and a reason, it is counted, the run goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from podium import methods
from podium.cli import main
from podium.sessions.train import configure, train

WORLD = """
import time
from podium.protocols.world import Answer, Feedback, Task

class Mine(Answer):
    name = "mine"

    def task(self, index, split="train"):
        return Task(f"{{split}}/{{index}}", f"echo: {{index % 7}}")

    def grade(self, task, text):
        if len(text) % 3 == 0 and task.key != "train/0":
            return Feedback(1.0, info={{"correct": True, "answer": text}})
        {fault}
"""


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise RuntimeError('no verdict')", "the world raised RuntimeError: no verdict"),
        ("time.sleep(1.5)", "the world did not answer within 0.2 s"),
        ("return Feedback(float('nan'))", "the world's reward is nan"),
        ("return Feedback('1.0')", "the world's reward is '1.0', not a number"),
        ("return 'good'", "the world answered 'good', not a Feedback"),
    ],
    ids=["raises", "hangs", "nan", "text", "no-feedback"],
)
def test_a_failing_world_is_counted_and_the_run_goes_on(tmp_path: Path, fault: str, reason: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WORLD.format(fault=fault))
    settings = {"tasks": 2, "eval_tasks": 1, "eval_samples": 1, "iterations": 2, "act_limit_s": 0.2}
    config = configure(methods.get("grpo", n=4), world=f"{file}:Mine", **settings)
    result = train(config, out=tmp_path / "run")
    assert result.finished
    rows = [
        row for i in (1, 2) for row in pq.read_table(tmp_path / f"run/rollouts/iteration-{i:06d}.parquet").to_pylist()
    ]
    failed = [row for row in rows if row["failure"]]
    assert failed
    assert {row["failure"] for row in failed} == {reason}
    assert {row["reward"] for row in failed} == {0.0}
    assert sum(line.get("failures", 0) for line in result.metrics) == len(failed)
    assert {line["failure"] for line in result.metrics if "failures" in line} == {reason}


def test_the_command_ends_though_a_thread_of_its_world_does_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WORLD.format(fault="while True: time.sleep(0.001)"))
    sizes = [f"--set={size}" for size in ("tasks=2", "n=4", "eval_tasks=1", "act_limit_s=0.2", "isolation=thread")]
    command = [sys.executable, "-m", "podium.cli", "train", "--world", f"{file}:Mine", "--iterations", "1", "--quiet"]
    ended = subprocess.run([*command, *sizes, "--out", str(tmp_path / "run")], capture_output=True, timeout=120)
    assert ended.returncode == 0
    assert b"Actions of the world that have not ended: " in ended.stderr
    assert b"isolation=process" in ended.stderr
    assert (tmp_path / "run" / "report.html").is_file()


def test_the_command_says_why_a_world_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WORLD.format(fault="raise RuntimeError('no verdict')"))
    small = ["--iterations", "2", "--set", "tasks=2", "--set", "n=4", "--set", "eval_tasks=1"]
    assert main(["train", "--world", f"{file}:Mine", *small, "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.count("rollouts: the world raised RuntimeError: no verdict.") == 1
