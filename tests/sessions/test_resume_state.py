"""What methods remember from iteration to iteration is in their checkpoints: each resumes to the bit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.method import Method
from podium.sessions.train import configure, resume, train
from podium.training.preemption import StopRequest
from podium.worlds import World
from tests.methods.catalogue import NAMES, errors, fitting, small
from tests.sessions.test_preemption import signalled
from tests.sessions.test_train import numbers, weights
from tests.store.damage import as_without_manifest


def remembers(method: Method) -> bool:
    """Whether an iteration leaves something behind beside the weights: a memory, waiting groups, a moving average."""
    return bool(
        method.memories or any(k.carry_over for k in method.keep) or any(r.decay is not None for r in method.roles)
    )


def kinds(name: str) -> set[str]:
    """What a method remembers by."""
    return {type(memory).__name__ for memory in methods.get(name).memories}


def fits(method: Method, world: World) -> bool:
    """Whether the method can run there."""
    with suppress(PodiumError):
        for leaf in method.leaves():
            if leaf.rollout is not None:
                leaf.rollout.prepare(world)
        return not errors(method, world)
    return False


PLAIN = [slug for slug, e in methods.RECIPES.items() if e.kind == "method" and remembers(methods.get(slug))]
KNOWN = {kind for slug in PLAIN for kind in kinds(slug)}
STATEFUL = [*PLAIN, *(name for name in NAMES if "@" in name and kinds(name) - KNOWN)]  # and presets of their own


@pytest.mark.parametrize("slug", STATEFUL)
def test_a_method_that_remembers_resumes_to_the_bit(slug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = small(slug)
    world = next(w for w in (worlds.get("echo", level=3), fitting(method)) if w is not None and fits(method, w))
    few = {"tasks": 2, "max_tokens": 16, "eval_tasks": 1, "eval_samples": 1}
    config = configure(method, world=world, iterations=3, lr=3e-4, **few)
    train(config, out=tmp_path / "whole")
    with monkeypatch.context() as patched:
        signalled(patched, StopRequest, "forbid", 4)  # in the second iteration, before its first update
        assert train(config, out=tmp_path / "cut").saved == 1
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all((whole[k] == cut[k]).all() for k in whole)


def test_the_memories_of_another_method_are_refused_with_what_to_do(tmp_path: Path) -> None:
    few = {"world": "sums", "tasks": 2, "max_tokens": 8, "eval_tasks": 1, "eval_samples": 1, "checkpoint_every": 1}
    train(configure(methods.vade(n=2), iterations=1, **few), out=tmp_path / "run")
    other = configure(methods.rulereasoner(n=2), iterations=2, **few)
    (tmp_path / "run/config.yaml").write_text(other.to_yaml())
    with pytest.raises(PodiumError, match=r"made with: method differs. Put back .*iteration-000001/config.yaml"):
        resume(tmp_path / "run")
    as_without_manifest(tmp_path / "run")  # and so without a copy of its configuration
    with pytest.raises(PodiumError, match=r"not written by rulereasoner: it remembers BetaBeliefs.*Put back") as no:
        resume(tmp_path / "run")
    assert "DomainRewards, PassRates" in str(no.value)
