"""Methods as single files: the same advantages, losses and gradients as Podium's parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.cli.app import main
from podium.core import Batch
from podium.core.build import from_padded
from podium.core.errors import PodiumError
from podium.core.shares import scaled
from podium.method import Method
from podium.methods.standalone import standalone
from tests.conformance.helpers import credited, differentiate

NAMES = (
    *(
        "grpo",
        "grpo@trl",
        "grpo@verl",
        "grpo@openrlhf",
        "grpo@slime",
        "grpo@skyrl",
        "grpo@paper",
        "grpo@prime-rl",
        "dr-grpo",
        "gspo",
    ),
    *("cispo", "gmpo", "opo", "reinforce", "luspo", "lite-ppo", "maxrl", "prefix-grouper"),
    *("invisible-leash", "sapo", "dppo", "gpg", "two-stage-negative"),
)


def batch_of(method: Method, seed: int) -> tuple[dict[str, torch.Tensor], Batch]:
    """Random groups, one of equal rewards and one of a single rollout, as tensors and as a batch."""
    random = torch.Generator().manual_seed(seed)
    sizes = [4, 3, 4, *([] if method.advantage.singleton == "error" else [1])]  # type: ignore[union-attr]
    group = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    rows, width = len(group), 7
    lengths = torch.randint(1, width + 1, (rows,), generator=random)
    mask = torch.arange(width) < lengths[:, None]
    reward = torch.rand(rows, generator=random, dtype=torch.float64).round(decimals=1)
    reward[group == 2] = 1.0
    logp, old, ref = (-3 * torch.rand(rows, width, generator=random, dtype=torch.float64) for _ in range(3))
    old = logp + 0.6 * (old - logp)
    tensors = {"reward": reward, "group": group, "mask": mask, "logp": logp, "old_logp": old, "ref_logp": ref}
    signals = {"token.now.logp": logp, "token.old.logp": old, "token.sampler.logp": old, "token.ref.logp": ref}
    columns: dict[str, Any] = {**signals, "rollout.reward": reward, "rollout.length": lengths.double()}
    return tensors, from_padded(mask, group, columns)


def loaded(method: Method) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(standalone(method), "exported", "exec"), names)
    return names


def exported() -> list[str]:
    """Every name that can be written as one file."""
    found = []
    for name in methods.RECIPES:
        try:
            standalone(methods.get(name))
        except PodiumError:
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_single_file_gives_the_same_numbers(name: str) -> None:
    method = scaled(methods.get(name), {"max_tokens": 1024})
    file = loaded(method)
    for seed in range(3):
        tensors, batch = batch_of(method, seed)
        advantage = file["advantages"](tensors["reward"], tensors["group"], tensors["mask"])
        batch = credited(method, batch)
        torch.testing.assert_close(advantage, batch["rollout.advantage"], rtol=1e-9, atol=1e-12)
        logp = tensors["logp"].clone().requires_grad_()
        loss = file["objective"](logp, tensors["old_logp"], tensors["ref_logp"], advantage, tensors["mask"])
        loss.backward()
        outcome = differentiate(method.objective, batch)
        assert float(loss.detach()) == pytest.approx(outcome.step.loss, rel=1e-9, abs=1e-12)
        torch.testing.assert_close(logp.grad, batch.to_padded(outcome.grad_logp), rtol=1e-9, atol=1e-12)


def test_what_can_be_written_is_tested() -> None:
    assert {name for name in NAMES if "@" not in name} >= set(exported())


def test_a_file_trains_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    assert main(["methods", "export", "grpo", "--set", "kl=0.001", "--out", str(file)]) == 0
    assert "import podium" not in file.read_text()
    done = subprocess.run([sys.executable, "-I", str(file)], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, last = (float(word) for word in done.stdout.replace(",", "").split() if "." in word)
    assert last > first + 0.4
    assert main(["methods", "export", "grpo", "--out", str(file)]) == 2
    assert main(["methods", "export", "ppo"]) == 2
    assert "cannot be written as one file" in capsys.readouterr().err
