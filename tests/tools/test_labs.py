"""Several labs at once: what a seed came to is kept, and read together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import podium
from podium.core.errors import PodiumError
from podium.labs import LABS
from tools.checks.labs import PLAN, findings_of, measure, sized

TINY = LABS["simpo"].size.replace(iterations=1, tasks=2, n=2, seeds=2, points=1, eval_tasks=2, samples=2)


def test_seeds_that_are_kept_are_the_findings_of_the_lab(tmp_path: Path) -> None:
    for seed in (0, 1):
        measure("simpo", TINY, seed, tmp_path / "kept")
    found = findings_of("simpo", TINY, tmp_path / "kept")
    assert found is not None
    assert found.as_dict() == podium.lab("simpo", out=tmp_path / "lab", **TINY.settings()).as_dict()
    begun = (tmp_path / "kept/simpo/seed-0.json").read_bytes()
    measure("simpo", TINY, 0, tmp_path / "kept")
    assert (tmp_path / "kept/simpo/seed-0.json").read_bytes() == begun  # it is not run again
    (tmp_path / "kept/simpo/seed-0.json").unlink()
    assert findings_of("simpo", TINY, tmp_path / "kept") is None  # seeds count from 0 on
    with pytest.raises(PodiumError, match="was measured with another size"):
        findings_of("simpo", TINY.replace(tasks=3), _moved(tmp_path / "kept"))


def _moved(out: Path) -> Path:
    (out / "simpo/seed-1.json").rename(out / "simpo/seed-0.json")
    return out


def test_a_trial_is_finished_with_its_last_arm(tmp_path: Path) -> None:
    size = LABS["power-dl-bandit"].quick.replace(seeds=1)
    measure("power-dl-bandit", size, 0, tmp_path)
    found = findings_of("power-dl-bandit", size, tmp_path)
    assert found is not None
    assert found.size.seeds == 1
    file = tmp_path / "power-dl-bandit/seed-0.json"
    stored = json.loads(file.read_text())
    stored["values"].popitem()
    file.write_text(json.dumps(stored))
    assert findings_of("power-dl-bandit", size, tmp_path) is None


def test_the_plan_names_labs_and_their_sizes() -> None:
    assert all(sized(slug).settings()["seeds"] == plan["seeds"] for slug, plan in PLAN.items())
