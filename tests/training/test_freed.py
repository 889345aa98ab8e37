"""What is over leaves memory at once: models in a circle of references would wait for the garbage collector, which
counts objects and not gigabytes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import podium
from podium.sampler.local import LocalSampler
from podium.sessions import train as session
from podium.training.run import Run
from tests.policy import tiny
from tests.sampler.test_local import ending, requests


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("method", ["grpo", "ppo", "likelihood-reward", "deepsearch"])
def test_a_run_leaves_no_model_behind(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[weakref.ref[Any]] = []
    build = session.build_run

    def watched(*given: Any) -> Run:
        run = build(*given)
        models.append(weakref.ref(run.policy.model))
        models.append(weakref.ref(run.driver.sampler))
        return run

    monkeypatch.setattr(session, "build_run", watched)
    podium.train(method, iterations=2, tasks=2, out=tmp_path / "run")
    assert models
    assert all(model() is None for model in models)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_sampler_leaves_no_keys_behind(family: str, paged: bool) -> None:
    sampler = LocalSampler(ending(tiny.policy(family)), paged=paged)
    sampler.generate(requests())
    held = [weakref.ref(sampler.engine), weakref.ref(sampler.state), weakref.ref(sampler.policy.model)]
    del sampler
    assert [x() for x in held] == [None, None, None]
