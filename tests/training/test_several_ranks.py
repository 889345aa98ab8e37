"""Several processes train as one does: real processes over gloo on one machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import podium
from podium.core.launched import is_first, restarted
from podium.core.ranks import ALONE
from podium.sessions.train import resume
from podium.store.run_directory import RunDirectory

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
# A critic and live shapes; terms that couple an update; several turns; several models that learn; one plan
# for all tasks.
KINDS = ("st-ppo", "drpo", "gigpo", "advevo-marl", "xrpo")


def launch(size: int, *arguments: str, of_rank: dict[int, Sequence[str]] | None = None) -> list[subprocess.Popen[str]]:
    """Processes as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(size)}
    shared |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return [
        subprocess.Popen(
            [sys.executable, "-m", *arguments, *(of_rank or {}).get(rank, ())],
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def ended(processes: Sequence[subprocess.Popen[str]], timeout: float = 240) -> list[tuple[int, str, str]]:
    try:
        texts = [p.communicate(timeout=timeout) for p in processes]
    finally:
        for p in processes:
            p.kill()
    return [(p.returncode, *text) for p, text in zip(processes, texts, strict=True)]


def train_command(out: Path, iterations: int, *more: str) -> tuple[str, ...]:
    sizes = ("tasks=4", "rollout.n=4", "eval_every=0", "eval_tasks=4", "eval_samples=1", "checkpoint_every=1")
    settings = [text for pair in sizes for text in ("--set", pair)]
    named = ("podium", "train", "grpo", "--world", "sums", "--iterations", str(iterations), "--out", str(out))
    return (*named, *settings, *more)


@pytest.mark.parametrize(("size", "names"), [(2, KINDS), (4, ("ppo",))])
def test_tokens_are_the_same_and_gradients_those_of_one_process(size: int, names: Sequence[str]) -> None:
    # With four ranks and updates of a single rollout (ppo), three have nothing to do, and nobody waits for them.
    results = ended(launch(size, "tools.checks.ranks", *names))
    rows = [json.loads(line) for line in results[0][1].splitlines() if line.startswith("{")]
    assert [row["method"] for row in rows] == list(names), results
    assert all(row.get("fine") for row in rows), rows


def test_sigterm_to_one_rank_stops_all_and_the_run_goes_on_with_one_process(tmp_path: Path) -> None:
    out = tmp_path / "run"
    processes = launch(2, *train_command(out, 500, "--set", "shard=true"))  # its checkpoints hold all moments
    while not RunDirectory(out).checkpoints() and processes[0].poll() is None:
        time.sleep(0.1)
    processes[1].send_signal(signal.SIGTERM)
    (code, _, said), (_, *of_other) = ended(processes, 60)
    assert code == 75, said
    assert of_other == ["", ""], "only rank 0 speaks"
    directory = RunDirectory(out)
    last = directory.metrics()[-1]["iteration"]
    assert directory.checkpoints()[-1].name == f"iteration-{last:06d}"
    moments = load_file(directory.checkpoints()[-1] / "policy.optimizer.safetensors")
    assert {name.partition(".")[2] for name in moments} == {"exp_avg", "exp_avg_sq", "step"}
    result = resume(out, iterations=last + 1)
    assert result.finished
    assert [line["iteration"] for line in result.metrics] == list(range(last + 2))
    alone = podium.train(
        podium.methods.get("grpo", n=4),
        **{"world": "sums", "tasks": 4, "iterations": 1, "eval_every": 0, "eval_tasks": 4, "eval_samples": 1},
        out=tmp_path / "alone",
    )
    for mine, of_one in zip(result.metrics, alone.metrics, strict=False):
        assert (mine.get("reward"), mine.get("tokens")) == (of_one.get("reward"), of_one.get("tokens"))


def test_ranks_with_other_settings_are_refused_in_one_sentence(tmp_path: Path) -> None:
    results = ended(launch(2, *train_command(tmp_path / "run", 2), of_rank={1: ("--seed", "7")}))
    assert all(code for code, _, _ in results)
    said = "".join(text for _, _, text in results)
    assert said.count("Rank 1 was started with other settings than rank 0 (seed)") == 1, said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def test_a_killed_rank_is_noticed_and_the_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "run"
    processes = launch(2, *train_command(out, 500))
    checkpoints = RunDirectory(out).checkpoints
    deadline = time.monotonic() + 120
    while not checkpoints() and time.monotonic() < deadline and processes[0].poll() is None:
        time.sleep(0.1)
    processes[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    code, _, said = ended(processes[:1], 30)[0]
    assert time.monotonic() - killed < 10
    assert code == 1
    assert "Rank 1 was lost" in said
    assert "podium train --resume" in said
    saved = int(checkpoints()[-1].name.partition("-")[2])
    processes[1].wait()
    for stream in (processes[1].stdout, processes[1].stderr):
        assert stream is not None
        stream.close()
    assert resume(out, iterations=saved + 1).finished


def test_one_process_is_the_first_and_only_rank() -> None:
    assert is_first({})
    assert is_first({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"})
    assert not is_first({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"})
    assert is_first({"RANK": "1", "WORLD_SIZE": "2"})  # variables that another program has left
    assert restarted({"TORCHELASTIC_RESTART_COUNT": "1"})
    assert not restarted({})
    assert ALONE.share([1, 2]) == [1, 2]
    assert ALONE.spread([1, 2], lambda x: 2 * x) == [2, 4]
    weight = torch.nn.Parameter(torch.ones(2))
    ALONE.add_gradients([weight])
    assert weight.grad is None
