"""ONI trains, asks its annotator, and goes on to the bit after a stop."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from podium import methods
from podium.core.errors import PodiumError
from podium.sessions.train import resume
from podium.store.run_directory import RunDirectory
from tests.methods.support import short_run
from tests.sessions.test_train import numbers

SMALL = {
    "tasks": 2,
    "max_tokens": 12,
    "world": "keydoor",
    "world_settings": {"level": 1, "progress": True},
    "pool": 2,
    "iterations": 3,
}


@pytest.mark.parametrize("form", ["retrieval", "classification", "ranking"])
def test_every_form_resumes_to_the_bit(form: str, tmp_path: Path) -> None:
    method = methods.oni(n=2, form=form, steps=2, width=4, delay=int(form == "retrieval"))
    result = short_run(method, tmp_path / "run", checkpoint_every=2, keep_checkpoints=9, **SMALL)
    whole = numbers(result.path)
    last = RunDirectory(result.path).metrics()[-1]
    assert last["captions.labelled"] > 0
    assert last["reward.intrinsic"] != 0
    shutil.rmtree(result.path / "checkpoints" / "iteration-000003")
    resume(result.path)
    assert numbers(result.path) == whole


def test_a_role_annotates(tmp_path: Path) -> None:
    method = methods.oni(n=2, annotator="podium/tiny2", calls=4)
    assert [role.name for role in method.roles] == ["critic", "judge"]
    result = short_run(method, tmp_path / "run", **{**SMALL, "iterations": 2})
    lines = RunDirectory(result.path).metrics()
    assert [line["judge.calls"] for line in lines if "judge.calls" in line] == [4, 4]


def test_an_annotator_that_does_not_exist_is_named() -> None:
    with pytest.raises(PodiumError, match="'written' or 'options'"):
        methods.oni(annotator="podium/tiny2", way="aloud")
