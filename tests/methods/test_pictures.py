"""Methods on worlds with pictures: what they show the model, and what they do in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.sessions.train import configure
from podium.strategies import Demonstrate
from podium.training.build import build_run
from podium.training.loop import iterate
from tests.methods.support import short_run

ZOOM = {"world": "zoom", "level": 2, "model": "podium/tiny2", "tasks": 2}


@pytest.mark.parametrize("blind", [True, False])
def test_ap_grpo_answers_from_the_regions_alone_unless_all_is_shown(blind: bool) -> None:
    run = build_run(configure(methods.ap_grpo(n=2, blind=blind, first=1), iterations=2, **ZOOM))
    batch, _ = iterate(run)
    seen = [run.policy.tokenizer.decode(context) for context in batch["turn.context"]]
    later = [text for text, place in zip(seen, batch.position("turn", "rollout").tolist(), strict=True) if place == 1]
    assert later
    assert any("small:" in text for text in later) != blind


def test_fine_tuning_shows_the_whole_picture() -> None:
    world = worlds.get("zoom", level=2)
    shown = Demonstrate(dials={"whole": True})._shown(world)
    assert shown is not None
    assert shown.whole


def test_a_world_without_the_whole_picture_refuses_it_before_anything_is_sampled(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="whole"):
        short_run(methods.ap_grpo(n=2), tmp_path / "run", world="clips", model="podium/tiny2")
