"""The state of memories: a table by task, and its way to a checkpoint and back."""

from __future__ import annotations

import json

import pytest
import torch

from podium.core.errors import PodiumError
from podium.core.memory import Table, decode_state, encode_state


def test_a_table_is_a_value_keyed_by_task() -> None:
    empty = Table(default=(0.5, 0.5))
    table = empty.write(["a", "b"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert table.read(["b", "new", "a"]).tolist() == [[3, 4], [0.5, 0.5], [1, 2]]
    assert len(empty) == 0
    assert table == Table({"a": (1.0, 2.0), "b": (3.0, 4.0)}, default=(0.5, 0.5))
    assert table.write(torch.tensor([7, 7]), torch.tensor([[1.0, 1.0], [9.0, 9.0]])).read([7]).tolist() == [[9, 9]]
    assert empty.read([]).shape == (0, 2)


def test_a_state_survives_json_and_a_file_of_tensors() -> None:
    state = {
        "counts": Table({"a": (1.0, 2.0), ("b", 3): (0.1, 0.2)}, default=(0.5, 0.5)),
        "quantiles": torch.tensor([0.25, float("nan")], dtype=torch.float64),
        "best": {"a": [1, None, "x", (True, 2.5)]},
    }
    tensors: dict[str, torch.Tensor] = {}
    back = decode_state(json.loads(json.dumps(encode_state(state, tensors))), tensors)
    assert back["counts"] == state["counts"]
    assert back["best"] == state["best"]
    torch.testing.assert_close(back["quantiles"], state["quantiles"], equal_nan=True)


def test_a_state_that_cannot_be_saved_is_refused_by_its_place() -> None:
    with pytest.raises(PodiumError, match="holds a set at '/seen'"):
        encode_state({"seen": {1, 2}}, {})
