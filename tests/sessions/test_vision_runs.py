"""Runs of vision-language models on data with pictures: offline, resumed exactly, with pictures in the report."""

import base64
import json
from pathlib import Path

import pytest
import torch

from podium import methods, policy
from podium.cli.app import main
from podium.sessions.train import resume, train
from podium.store.pictures import shown_file
from tests.policy.vision.models import picture_file, qwen_tiny, smol_tiny

SMALL = {"tasks": 2, "max_tokens": 6, "eval_tasks": 2, "eval_samples": 1, "checkpoint_every": 1, "lr": 1e-3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = []
    for n in range(8):
        file = picture_file(16 + 8 * (n % 2), 16, seed=n)
        (folder / f"{n}.png").write_bytes(file)
        image = f"{n}.png" if n % 2 else base64.b64encode(file).decode()
        rows.append({"image": image, "question": "which one?", "answer": str(n)})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "rows.jsonl"


def weights(path: Path, iteration: int):
    (checkpoint,) = (path / "checkpoints").glob(f"*{iteration:06d}")
    return dict(policy.load(str(checkpoint / "policy")).named_parameters())


def loud(model, data, out, iterations):
    """A run whose every rollout counts, whatever it says: rewards by chance."""
    method = methods.get("grpo", n=4, mini_batches=1)
    return train(method, model=str(model), data=str(data), spurious="random", out=out, iterations=iterations, **SMALL)


@pytest.mark.parametrize("make", [qwen_tiny, smol_tiny])
def test_a_resumed_run_is_the_same_to_the_bit(make, data, tmp_path):
    model = make(tmp_path / "model")
    whole = loud(model, data, tmp_path / "whole", 3)
    loud(model, data, tmp_path / "part", 2)
    resume(tmp_path / "part", iterations=3)
    one, other = weights(tmp_path / "whole", 3), weights(tmp_path / "part", 3)
    start = dict(policy.load(str(model)).named_parameters())
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(not torch.equal(one[name], start[name]) for name in one if "vis" in name)  # pictures are learnt from
    gaps = [line["sampler_gap"] for line in whole.metrics if "sampler_gap" in line]
    assert gaps
    assert max(gaps) < 1e-5


def test_the_command_trains_and_its_report_shows_pictures(data, tmp_path, capsys):
    model, out = qwen_tiny(tmp_path / "model"), tmp_path / "run"
    words = ["train", "grpo", "--model", str(model), "--data", str(data), "--iterations", "1", "--out", str(out)]
    settings = [w for k, v in SMALL.items() if k != "lr" for w in ("--set", f"{k}={v}")]
    assert main([*words, *settings, "--quiet"]) == 0
    assert any((out / "pictures").glob("*.png"))
    assert 'alt="&lt;picture' in (out / "report.html").read_text()
    name = f"<picture {data.parent / '1.png'}>"
    assert shown_file(out, name).parent == out / "pictures"


def test_a_text_model_refuses_the_pictures(data, tmp_path, capsys):
    words = ["train", "grpo", "--data", str(data), "--iterations", "1", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "cannot see <picture" in capsys.readouterr().err
