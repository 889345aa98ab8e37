"""The world of scans: crops cover a volume, screening pays, and what is kept decides the score."""

from __future__ import annotations

from statistics import mean

import numpy as np
import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.worlds.scans import CROPS, crops_of
from podium.worlds.volumes import blurred, lesion_scan, organ_scan


def test_the_checker_finds_nothing() -> None:
    assert worlds.check_world(worlds.get("scans"), tasks=2) == []


def test_crops_cover_a_volume_once() -> None:
    volume = np.arange(24**3).reshape(24, 24, 24)
    crops = crops_of(volume)
    assert crops.shape == (CROPS, 8, 8, 8)
    assert np.array_equal(np.sort(crops, axis=None), volume.reshape(-1))
    assert np.array_equal(crops[1], volume[:8, :8, 8:16])


def test_a_scan_depends_on_its_seed_alone_and_blurring_keeps_the_mean_of_a_constant() -> None:
    for make in (lesion_scan, organ_scan):
        one, same, other = (make(np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert np.array_equal(one.grey, same.grey)
        assert np.array_equal(one.truth, same.truth)
        assert not np.array_equal(one.grey, other.grey)
    assert np.allclose(blurred(np.full((4, 4, 4), 2.5)), 2.5)
    spot = np.zeros((5, 5, 5))
    spot[2, 2, 2] = 8.0
    assert blurred(spot)[2, 2, 2] == pytest.approx(1.0)
    assert blurred(spot)[1, 2, 2] == pytest.approx(0.5)


def test_keeping_what_is_found_scores_higher_than_keeping_all() -> None:
    world, gained = worlds.get("scans"), []
    for index in range(12):
        task = world.task(index)
        wise, greedy = (world.reset(task) for _ in range(2))
        kept = [wise.act(text) for text in world.demonstrate(task)][-1]
        whole = [greedy.act("1") for _ in range(CROPS)][-1]
        assert kept.info["correct"]
        assert not whole.info["correct"]
        assert (whole.info["kept"], kept.info["false"] <= whole.info["false"]) == (1.0, True)
        gained.append(kept.reward - whole.reward)
    assert min(gained) >= 0
    assert mean(gained) > 0.2


def test_what_is_no_choice_keeps_the_crop_and_is_marked() -> None:
    world = worlds.get("scans", shown=2)
    episode = world.reset(world.task(0))
    first, last = episode.act("2"), episode.act("0")
    assert not first.info["valid"]
    assert not first.done
    assert last.info["kept"] == 0.5
    with pytest.raises(PodiumError, match="shown"):
        worlds.get("scans", shown=0)


@pytest.mark.parametrize("level", [1, 2])
def test_some_lesions_are_found_at_every_level(level: int) -> None:
    world = worlds.get("scans", level=level)
    found = [max(world.task(n).data["shared"]) > 0 for n in range(20)]
    assert 0.2 < mean(found) < 1
