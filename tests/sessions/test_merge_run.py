"""A run's largest changes, merged back into its base model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from podium import policy as policies
from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.sessions.merge_run import merge_run
from tests.methods.support import short_run


def test_a_quarter_of_each_tensor_moves_by_seven_tenths(tmp_path: Path) -> None:
    run = short_run("grpo", tmp_path / "run", iterations=1).path
    assert main(["merge", str(run), "--out", str(tmp_path / "merged")]) == 0
    checkpoint = sorted((run / "checkpoints").iterdir())[-1]
    base, tuned, found = (
        policies.load(str(name)).model.state_dict()
        for name in ("podium/tiny", checkpoint / "policy", tmp_path / "merged")
    )
    for name, weight in base.items():
        change, learnt = found[name] - weight, tuned[name] - weight
        chosen = change != 0
        assert int(chosen.sum()) <= max(round(0.25 * weight.numel()), 1)
        torch.testing.assert_close(change[chosen], 0.7 * learnt[chosen], atol=1e-6, rtol=0)
        assert not bool(chosen.all()) or weight.numel() == 1
        if bool(chosen.any()) and not bool(chosen.all()):
            assert float(learnt[chosen].abs().min()) >= float(learnt[~chosen].abs().max()) - 1e-9
    with pytest.raises(PodiumError, match="exists already"):
        merge_run(run, tmp_path / "merged")
    with pytest.raises(PodiumError, match="no checkpoint"):
        merge_run(tmp_path / "nothing", tmp_path / "other")
    with pytest.raises(PodiumError, match="keep"):
        merge_run(run, tmp_path / "other", keep=0.0)
