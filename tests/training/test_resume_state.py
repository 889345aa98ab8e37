"""What methods remember from iteration to iteration is in their checkpoints: each resumes to the bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from podium import Method, methods, worlds
from podium.store.run import RunDirectory
from podium.training.session import configure, resume, train
from tests.methods.catalogue import errors, fitting, small
from tests.training.test_session import numbers, weights


def remembers(method: Method) -> bool:
    """Whether an iteration leaves something behind beside the weights: a memory, waiting groups, a moving average."""
    return bool(
        method.memories or any(k.carry_over for k in method.keep) or any(r.decay is not None for r in method.roles)
    )


STATEFUL = [slug for slug, e in methods.CATALOGUE.items() if e.kind == "method" and remembers(methods.get(slug))]


@pytest.mark.parametrize("slug", STATEFUL)
def test_a_method_that_remembers_resumes_to_the_bit(slug: str, tmp_path: Path) -> None:
    method = small(slug)
    world = next(w for w in (worlds.get("echo", level=3), fitting(method)) if w is not None and not errors(method, w))
    few = {"tasks": 2, "max_tokens": 16, "eval_tasks": 1, "eval_samples": 1}
    kept = {"checkpoint_every": 1, "keep_checkpoints": 3}
    train(configure(method, world=world, iterations=3, lr=3e-4, **few, **kept), out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[1:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all((whole[k] == cut[k]).all() for k in whole)
