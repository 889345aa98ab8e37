"""Methods on worlds with pictures: what they show the model, and what they do in a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.strategies import Demonstrate
from podium.training.build import build_run
from podium.training.loop import iterate
from tests.methods.support import short_run
from tests.sessions.test_train import numbers, weights

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


BADGES = {"world": "badges", "world_settings": {"level": 2, "ask": "banned"}, "model": "podium/tiny2", "tasks": 4}


def test_a_listener_sees_the_reasoning_and_not_the_answer() -> None:
    """Its probabilities are those of the options after the task and the reasoning, by the model's own forward."""
    run = build_run(configure(methods.listener_reward(n=2), iterations=1, **BADGES))
    listener = run.policy.copy()
    batch, _ = iterate(run)
    tokenizer = run.policy.tokenizer
    contexts = batch["turn.context"]
    checked = 0
    for context, text, found in zip(contexts, batch["rollout.text"], batch["rollout.options"], strict=True):
        reasoning, mark, _ = text.rpartition("\nanswer:")
        if not mark:
            continue
        scores = []
        for option, _ in found:
            rest = tokenizer.encode(f"{reasoning}\nanswer: {option}", add_special_tokens=False)
            with torch.no_grad():
                logits = listener.model(torch.tensor([[*context, *rest]])).logits[0].log_softmax(-1)
            own = [float(logits[len(context) + i - 1, token]) for i, token in enumerate(rest)]
            scores.append(sum(own))
        assert scores[0] - scores[1] == pytest.approx(found[0][1] - found[1][1], abs=1e-3)
        checked += 1
    assert checked


def test_tasks_without_a_choice_are_not_put_to_the_listener() -> None:
    settings = {**BADGES, "world_settings": {"level": 2, "ask": "labels"}}
    run = build_run(configure(methods.listener_reward(n=2), iterations=1, **settings))
    batch, _ = iterate(run)
    assert batch["rollout.options"] == ((),) * len(batch)
    assert batch["rollout.heard"].tolist() == [0.0] * len(batch)


SCENES = {"world": "scenes", "level": 2, "model": "podium/tiny2", "tasks": 3, "pool": 8}


def test_doge_hides_the_question_from_the_analysis_and_trains_no_answer_of_the_solver() -> None:
    run = build_run(configure(methods.doge(n=2, answers=3, first=1, second=1), iterations=2, **SCENES))
    batch, _ = iterate(run)
    assert len(batch) == 6
    for context in batch["turn.context"]:
        shown = run.policy.tokenizer.decode(context)
        assert "see" not in shown
        assert not any(word in shown for word in ("count", "which", "colour", "what"))
    thirds = {0.0, 1 / 3, 2 / 3, 1.0}
    assert all(min(abs(rate - share) for share in thirds) < 1e-6 for rate in batch["rollout.solver.rate"].tolist())


def test_doge_goes_on_to_the_bit_where_it_was_stopped_between_its_stages(tmp_path: Path) -> None:
    method = methods.doge(n=2, answers=2, n_second=2, cycles=2, first=1, second=1)
    settings = {**SCENES, "iterations": 4, "eval_tasks": 1, "eval_samples": 1, "eval_every": 0}
    config = configure(method, **settings, checkpoint_every=1, keep_checkpoints=9)
    train(config, out=tmp_path / "whole")
    for done in (1, 3):
        shutil.copytree(tmp_path / "whole", tmp_path / f"cut-{done}")
        for later in RunDirectory(tmp_path / f"cut-{done}").checkpoints()[done:]:
            shutil.rmtree(later)
        resume(tmp_path / f"cut-{done}", config=config)
        assert numbers(tmp_path / f"cut-{done}") == numbers(tmp_path / "whole")
        whole, cut = weights(tmp_path / "whole"), weights(tmp_path / f"cut-{done}")
        assert all((whole[k] == cut[k]).all() for k in whole)


def test_a_task_without_a_context_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="shown without their question"):
        short_run(methods.doge(), tmp_path / "run", world="sums")
