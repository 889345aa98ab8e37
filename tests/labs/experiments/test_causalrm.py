"""The trial of reward models from feedback."""

from __future__ import annotations

import pytest
import torch

from podium.labs.experiments.causalrm import ALPHA, NOISE, STUDY, FeedbackTrialSize, Users


def test_users_react_and_err_at_the_stated_rates() -> None:
    users = Users(0, 20_000)
    o, r = users.react()
    liked = users.y > 0.5
    assert bool(o[liked].all())
    assert float(o[~liked].double().mean()) == pytest.approx(ALPHA, abs=0.02)
    assert float(r[liked].mean()) == pytest.approx(1 - NOISE[0], abs=0.02)
    assert float(r[~liked].mean()) == pytest.approx(NOISE[1], abs=0.02)
    assert not torch.equal(users.x, users.new_x)


def test_arms_of_a_seed_meet_the_same_answers_and_return_what_is_read() -> None:
    size = FeedbackTrialSize(seeds=1, answers=400, draws=200, steps=20)
    found = {name: arm(0, size) for name, arm in STUDY.arms.items()}
    assert all(set(values) == {"bias", "r2"} for values in found.values())
    assert found["ips"]["bias"] < found["naive"]["bias"]
    assert found["dr"]["bias"] < found["naive"]["bias"]
