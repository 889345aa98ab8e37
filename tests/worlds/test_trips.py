"""Plans of a trip: a hidden quality by a rubric, and a judge who squeezes single scores and errs."""

from __future__ import annotations

import random
from random import Random
from statistics import mean, stdev

import pytest

from podium.core.errors import PodiumError
from podium.protocols.world import Task
from podium.worlds import get
from podium.worlds.checker import check_world
from podium.worlds.trips import Trips, plan_quality, plan_text, trip_question

DATA = {
    "stops": 2,
    "pay": 5,
    "walk": 7,
    "likes": ("fish", "gold"),
    "places": {"rome": (2, "fish", 3), "lima": (7, "gold", 2), "cairo": (4, "fish", 6), "tokyo": (9, "lamp", 0)},
    "plan": ("rome", "lima"),
}
TASK = Task("trips/0", trip_question(DATA), data=DATA)


def world(**settings: object) -> Trips:
    made = get("trips", **settings)
    assert isinstance(made, Trips)
    return made


def test_the_question_is_the_wish_and_the_map() -> None:
    assert trip_question(DATA).splitlines() == [
        "trip: 2 stops, pay 5, walk 7, likes fish gold",
        "2 rome fish 3",
        "7 lima gold 2",
        "4 cairo fish 6",
        "9 tokyo lamp 0",
    ]


@pytest.mark.parametrize(
    ("text", "path", "final"),
    [
        ("go rome fish 3\ngo lima gold 2\nanswer: rome lima", 1, 1),
        # Told wrongly: one of two details.
        ("go rome fish 4\ngo lima gold 2\nanswer: rome lima", (1 + 1 + 0.5) / 3, 1),
        # Back and forth: 7 + 5 = 12 to walk instead of 7.
        ("go lima gold 2\ngo rome fish 3\nanswer: lima rome", 1, (7 / 12 + 1 + 1) / 3),
        # Twice fish, no gold; 9 to pay instead of 5.
        ("go rome fish 3\ngo cairo fish 6\nanswer: rome cairo", (0.5 + 0.5 + 1) / 3, (1 + 5 / 9 + 1) / 3),
        # Nothing told, and one stop missing.
        ("answer: rome", (0.5 + 0.5 + 0) / 3, (0.5 + 1 + 0) / 3),
        # The summary has another order.
        ("go rome fish 3\ngo lima gold 2\nanswer: lima rome", 1, (7 / 12 + 1 + 0.5) / 3),
        # The same place again and again is one stop.
        ("go rome fish 3\ngo rome fish 3\nanswer: rome rome", (0.5 + 0.5 + 0.5) / 3, (0.5 + 1 + 1) / 3),
        ("", 0, 0),
        ("answer:", 0, 0),
        ("answer: nowhere", 0, 0),
        ("go rome fish 3", 0, 0),
    ],
)
def test_quality_is_the_mean_of_its_items(text: str, path: float, final: float) -> None:
    assert plan_quality(DATA, text) == pytest.approx((path, final))
    assert world().quality(TASK, text) == pytest.approx(0.6 * path + 0.4 * final)


def test_listing_more_places_than_wanted_costs() -> None:
    everything = "go rome fish 3\ngo cairo fish 6\ngo lima gold 2\ngo tokyo lamp 0\nanswer: rome cairo lima tokyo"
    assert world().quality(TASK, everything) < 0.8


def test_more_care_makes_better_demonstrations() -> None:
    trips = world(level=2)
    tasks = [trips.task(i) for i in range(60)]
    by_care = [
        mean(trips.quality(task, plan_text(task.data, Random(i), care)) for i, task in enumerate(tasks))
        for care in (0.0, 0.5, 0.8, 1.0)
    ]
    assert by_care == sorted(by_care)
    assert by_care[0] < 0.65
    assert by_care[-1] == pytest.approx(1.0)


def test_attempts_are_faultless_as_often_as_asked() -> None:
    trips = world(level=3)
    quality = [trips.quality(t, trips.attempt(t, right=0.3)) for t in map(trips.task, range(200))]
    assert 0.22 < mean(q > 0.999 for q in quality) < 0.4
    assert min(quality) < 0.6


def test_a_judge_of_single_plans_squeezes_what_a_judge_of_pairs_sees() -> None:
    good, bad = "go rome fish 3\ngo lima gold 2\nanswer: rome lima", "answer: rome"
    exact = world(band=1.0, noise=0.0)
    assert exact.rate(TASK, good) == 1.0
    # 1/3 and 1/2 in whole points out of ten.
    assert exact.rate(TASK, bad) == pytest.approx(0.6 * 0.3 + 0.4 * 0.5)
    assert exact.compare(TASK, good, bad) == (exact.rate(TASK, good), exact.rate(TASK, bad))
    squeezed = world(band=0.1, noise=0.0)
    assert squeezed.rate(TASK, good) - squeezed.rate(TASK, bad) == pytest.approx(0.0)  # 0.73 and 0.66 are 7 points
    assert squeezed.compare(TASK, good, bad) == exact.compare(TASK, good, bad)


def test_noise_depends_on_the_seed_and_bias_on_the_order() -> None:
    text = "go rome fish 3\ngo tokyo lamp 0\nanswer: rome tokyo"
    noisy = world(noise=0.2, band=1.0)
    scores = [noisy.rate(TASK, text, seed) for seed in range(200)]
    assert scores == [noisy.rate(TASK, text, seed) for seed in range(200)]
    assert 0.05 < stdev(scores) < 0.2
    assert all(0 <= score <= 1 for score in scores)
    partial = world(noise=0.0, bias=0.05).compare(TASK, text, text)
    assert partial[0] - partial[1] == pytest.approx(0.05)


def test_the_reward_is_one_judgement_and_never_the_quality() -> None:
    trips = world(level=1)
    task = trips.task(0)
    text = trips.solve(task)
    fed = trips.reset(task, seed=5).act(text)
    assert fed.reward == trips.rate(task, text, 5)
    assert fed.info["quality"] == pytest.approx(1.0)
    assert fed.info["correct"]
    assert not trips.reset(task, seed=5).act("").info["correct"]


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_the_world_checks_out(level: int) -> None:
    assert check_world(world(level=level)) == []


def test_settings_out_of_range_are_refused() -> None:
    for setting in ("band", "noise", "bias"):
        with pytest.raises(PodiumError, match=f"Trips.{setting} = 1.5 is out of range"):
            world(**{setting: 1.5})


class Hasty(Trips):
    """A judge that gives points out of ten to pairs, and another mood each time it is asked about one."""

    def compare(self, task: Task, left: str, right: str, seed: int = 0) -> tuple[float, float]:
        return 7.0, 4.0

    def rate(self, task: Task, text: str, seed: int = 0) -> float:
        return random.random()


def test_the_check_of_a_world_knows_judges() -> None:
    findings = check_world(Hasty(level=1), tasks=1)
    assert "task 0 of train: the judge's verdict is (7.0, 4.0), not 2 numbers in [0, 1]." in findings
    assert "task 0 of train: the judge gives other scores to the same texts with the same seed." in findings
