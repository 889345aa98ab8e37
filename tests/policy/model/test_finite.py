"""Weights that are NaN or infinite are refused by everything that loads or saves weights, naming the tensor."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from podium import policy as policies
from podium.core.errors import PodiumError
from podium.policy.model.finite import NonFiniteWeights, check_finite

MODEL = Path(__file__).parents[2] / "migrations/runs_1/model"
NAME = "model.layers.0.mlp.up_proj.weight"


def spoiled(path: Path, value: float, name: str = NAME, file: str = "model.safetensors") -> Path:
    tensors: dict[str, Any] = load_file(path / file)
    tensors[name].view(-1)[3] = value
    save_file(tensors, path / file, metadata={"format": "pt"})
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MODEL, tmp_path / "model"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("value", "kind"), [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite")])
def test_one_entry_is_found_in_every_precision(dtype: torch.dtype, value: float, kind: str) -> None:
    tensor = torch.randn(3, 1000, dtype=dtype)
    check_finite("x", [("sound", tensor), ("whole", torch.arange(3)), ("empty", tensor[:0])])
    tensor[1, 501] = value
    with pytest.raises(NonFiniteWeights, match=rf"^x has weights that are not finite: b holds {kind} entries"):
        check_finite("x", [("a", torch.ones(2, dtype=dtype)), ("b", tensor)])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_directory_is_refused(model: Path, value: float) -> None:
    with pytest.raises(PodiumError, match=rf"not finite: {NAME}"):
        policies.load(spoiled(model, value))


def test_weights_taken_into_a_model_are_refused_and_leave_it_as_it_was(model: Path) -> None:
    policy = policies.load(model)
    before = {name: p.clone() for name, p in policy.named_parameters()}
    with pytest.raises(PodiumError, match=rf"not finite: {NAME}"):
        policy.load(spoiled(model, math.nan))
    assert all((p == before[name]).all() for name, p in policy.named_parameters())


def test_a_value_head_is_refused(model: Path, tmp_path: Path) -> None:
    policies.critic(policies.load(model)).save(tmp_path / "critic")
    (name,) = [n for n in load_file(tmp_path / "critic/podium.safetensors") if n.endswith("0.weight") or "weight" in n][
        :1
    ]
    with pytest.raises(PodiumError, match=f"not finite: {name}"):
        policies.read_critic(spoiled(tmp_path / "critic", math.nan, name, "podium.safetensors"))


def test_adapters_are_refused(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    policy = policies.load(model, lora={"r": 2})
    policy.save(tmp_path / "adapted")
    name = next(n for n in load_file(tmp_path / "adapted/podium.safetensors") if "lora_A" in n)
    with pytest.raises(PodiumError, match=r"not finite: .*lora_A"):
        policy.load(spoiled(tmp_path / "adapted", math.inf, name, "podium.safetensors"))


def test_nothing_is_saved(model: Path, tmp_path: Path) -> None:
    policy = policies.load(model)
    next(policy.parameters()).data.view(-1)[0] = math.nan
    with pytest.raises(PodiumError, match=r"not finite"):
        policy.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
