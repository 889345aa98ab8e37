"""What a resumed run came to, read from the files of its directory, and where two such outcomes differ."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file

import podium

__all__ = ["check_goes_on", "machine", "outcome"]

MODEL = Path(__file__).parent / "runs_1/model"  # that of all recorded runs

STATE = ("iteration", "learners", "memories", "progress")  # what every version has written
MIDDLE, END = 2, 4  # the iterations at which the recorded runs were interrupted, and at which they ended


def check_goes_on(recorded: Path, place: Path) -> None:
    """Resume a copy of a recorded run in `place`, the current directory: it ends as it did when it was recorded."""
    shutil.copytree(MODEL, place / "model")
    shutil.copytree(recorded, place / recorded.name, ignore=shutil.ignore_patterns("expected.*"))
    podium.resume(recorded.name)
    expected = json.loads((recorded / "expected.json").read_text("utf-8"))
    same_machine = expected.pop("machine") == machine()
    actual, policy = outcome(place / recorded.name)
    if not same_machine:  # another CPU rounds otherwise, and hashes say nothing of small differences
        for side in (expected, actual):
            del side["sha256"], side["state"]["sha256"]
            for iteration in side["rollouts"].values():
                del iteration["columns"]
    tolerance = 0.0 if same_machine else 1e-5
    assert differences(expected, actual, tolerance) == []
    weights = load_file(recorded / "expected.safetensors")
    assert weights.keys() == policy.keys()
    assert max(float((weights[k] - policy[k]).abs().max()) for k in weights) <= tolerance


def outcome(run: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The metrics, rollouts and hashes of a finished run from MIDDLE on, and the final weights of the policy."""
    tensors = _tensors(run, END)
    kinds = sorted({name.partition("/")[0] for name in tensors})
    state = json.loads((run / "checkpoints" / f"iteration-{END:06d}" / "state.json").read_text("utf-8"))
    data = {
        "metrics": _metrics(run, MIDDLE),
        "rollouts": {str(i): _rollouts(run, i) for i in range(MIDDLE + 1, END + 1)},
        "sha256": {kind: _digest({n: t for n, t in tensors.items() if n.startswith(f"{kind}/")}) for kind in kinds},
        "state": {
            "iteration": state["iteration"],
            "learners": state["learners"],
            "sha256": _sha(_text(_in_order({name: state[name] for name in STATE})).encode()),
        },
    }
    return data, {name: tensor for name, tensor in tensors.items() if name.startswith("policy/")}


def differences(expected: Any, actual: Any, tolerance: float, place: str = "") -> list[str]:
    """Where two trees of plain data differ; floats may differ by `tolerance`, relative above 1."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        alone = sorted(expected.keys() ^ actual.keys())
        both = [differences(expected[k], actual[k], tolerance, f"{place}/{k}") for k in expected if k in actual]
        return [f"{place}/{name} is on one side only" for name in alone] + [line for lines in both for line in lines]
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return [f"{place} has {len(actual)} entries, not {len(expected)}"]
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, tolerance, f"{place}/{i}")]
    numbers = isinstance(expected, float) and isinstance(actual, int | float)
    if tolerance and numbers and abs(expected - actual) <= tolerance * max(1.0, abs(expected)):
        return []
    return [] if _text(expected) == _text(actual) else [f"{place} is {actual!r}, not {expected!r}"]


def machine() -> dict[str, str]:
    """What decides the last bits: the CPU, its vector instructions and torch."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    named = ("vendor_id", "cpu family", "model", "model name", "stepping")
    return {
        "cpu": " / ".join(f"{key} {cpu.get(key, '?')}" for key in named),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


def _metrics(run: Path, after: int) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    left_out = ("seconds", "check", "acted")
    return [{k: v for k, v in line.items() if k not in left_out} for line in lines if line["iteration"] > after]


def _rollouts(run: Path, iteration: int) -> dict[str, Any]:
    """The token ids of an iteration's rollouts, and a hash of each column."""
    table = pq.read_table(run / "rollouts" / f"iteration-{iteration:06d}.parquet")
    columns = {name: table[name].to_pylist() for name in table.column_names}
    hashes = {name: _sha(_text(values).encode())[:16] for name, values in columns.items()}
    return {"ids": columns["token.id"], "columns": hashes}


def _tensors(run: Path, iteration: int) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint: `policy/NAME`, `critic/NAME`, `policy.optimizer/0.exp_avg`, `memories/…`."""
    folder = run / "checkpoints" / f"iteration-{iteration:06d}"
    tensors = {}
    for file in sorted(folder.rglob("*.safetensors")):
        place = file.relative_to(folder)
        prefix = str(place.parent) if place.parent != Path() else place.name.removesuffix(".safetensors")
        tensors |= {f"{prefix}/{name}": value for name, value in load_file(file).items()}
    return tensors


def _digest(tensors: dict[str, torch.Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        x = tensors[name].contiguous()
        total.update(f"{name} {x.dtype} {tuple(x.shape)}\n".encode())
        total.update(x.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _in_order(state: Any) -> Any:
    """A state without the order in which columns were written: a dictionary is stored as a list of pairs."""
    if isinstance(state, dict):
        if set(state) == {"dict"}:
            return {"dict": sorted(([k, _in_order(v)] for k, v in state["dict"]), key=_text)}
        return {key: _in_order(value) for key, value in state.items()}
    return [_in_order(item) for item in state] if isinstance(state, list) else state


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _text(value: Any) -> str:
    """JSON that is equal for equal numbers to the bit: the repr of a float is exact."""
    return json.dumps(value, sort_keys=True)
