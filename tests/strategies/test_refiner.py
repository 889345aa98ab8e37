"""A refiner: what it asks, what it keeps, cuts and trains, and a run that resumes to the bit."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.strategies import Refiner
from podium.strategies.choices import options_among
from podium.strategies.requests import Encode, Play, Recite, Request, Resume, Score
from tests.conformance.plans import collected, made
from tests.sessions.test_train import numbers

TOKENS = {"accept": (1, 0), "reject": (2, 0), **{f"cut: {k}": (3, 10 + k, 0) for k in range(1, 5)}}
ACCEPTED = (0.7, 0.2, 0.4)  # the probability that each of three trajectories is accepted
CUT = 2  # the step at which all cuts are made


def trajectory(rollout: Rollout, steps: int = 3) -> Rollout:
    """A rollout as an episode of several turns."""
    number = rollout.columns["index"]
    turns = [
        Turn((5,), (4,), columns={"action": f"step {k} of {number}", "observation": f"reply {k}"}, tokens=TURN)
        for k in range(steps)
    ]
    return dataclasses.replace(rollout, turns=turns, columns={**rollout.columns, "prompt": "question"})


TURN = {"sampler.logp": (-1.0,)}


def refined(refiner: Refiner, too_long: str = "nothing") -> tuple[list[Rollout], list[Request]]:
    """What a refiner makes of three trajectories, of which revisions are right, and what it asked for."""
    asked: list[Request] = []

    def answers(request: Request) -> Sequence[Any]:
        asked.append(request)
        if isinstance(request, Play):
            return [trajectory(r) for r in made(request, [0.0] * request.n)]
        if isinstance(request, Resume):
            return [trajectory(r) for r in made(request.play, [1.0])]
        if isinstance(request, Encode):
            return TOKENS[request.text]
        if isinstance(request, Recite):
            assert request.begun is not None
            (rollout,) = made(request, [0.0])
            signals = {"sampler.logp": request.begun.logp or ()}
            turn = Turn(request.begun.ids, (4,), columns={"action": "", "observation": ""}, tokens=signals)
            return [dataclasses.replace(rollout, turns=[turn], columns={**rollout.columns, "prompt": "question"})]
        assert isinstance(request, Score)
        return () if too_long in str(request.context) else scored(request)

    return collected(refiner, answers), asked


def scored(request: Score) -> Sequence[float]:
    """Half of the probability lies outside of the options."""
    if request.ids[0] == 3:
        return -0.1, -0.2 if request.ids[1] == 10 + CUT else -40.0, -0.3
    (number,) = (n for n in range(6) if f"of {n}" in str(request.context))
    accept = ACCEPTED[number % 3]
    return math.log(0.5 * (accept if request.ids[0] == 1 else 1 - accept)), -0.5


def test_rejected_trajectories_are_cut_and_go_on() -> None:
    rollouts, asked = refined(Refiner(n=3))
    resumed = [request for request in asked if isinstance(request, Resume)]
    assert [request.play.first for request in resumed] == [4, 5]
    assert [len(request.turns) for request in resumed] == [CUT - 1] * 2
    assert [request.chance for request in resumed] == [(0, 1), (0, 2)]
    final = [r.columns for r in rollouts if r.columns["purpose"] == Purpose.train]
    assert [c["index"] for c in final] == [0, 4, 5]
    assert [c["accepted"] for c in final] == pytest.approx(ACCEPTED)
    assert [c["revised"] for c in final] == [False, True, True]
    assert [c["gained"] for c in final] == [0.0, 1.0, 1.0]
    assert [r.columns["index"] for r in rollouts if r.columns["purpose"] == Purpose.replaced] == [1, 2]


def test_verdicts_and_cuts_are_trained_and_count_nowhere() -> None:
    rollouts, _ = refined(Refiner(n=3))
    said = [r for r in rollouts if r.columns["purpose"] == Purpose.demo]
    words = [next(text for text, ids in TOKENS.items() if ids == r.turns[0].ids) for r in said]
    assert words == ["accept", "reject", "cut: 2", "reject", "cut: 2"]
    assert [r.columns["parent"] for r in said] == [0, 4, 4, 5, 5]
    assert said[0].turns[0].tokens["sampler.logp"] == pytest.approx([math.log(0.7), 0.0])
    batch = Batch.from_rollouts(rollouts)
    assert batch.counted("rollout").tolist() == [True] * 3 + [False] * 7  # type: ignore[union-attr]
    assert batch.trained("rollout").tolist() == [True] * 8 + [False] * 2
    assert len(set(batch["rollout.index"].tolist())) == 10
    assert batch["rollout.allowed"][3] == ("+\x01\x02", "+\x00")  # accept or reject, then the end


def test_the_threshold_and_the_number_of_revisions() -> None:
    everything, _ = refined(Refiner(n=3, threshold=0.0))
    assert [r.columns["purpose"] for r in everything] == [Purpose.train] * 3 + [Purpose.demo] * 3
    plain, _ = refined(Refiner(n=3).neutral)
    assert [r.columns["purpose"] for r in plain] == [Purpose.train] * 3
    twice, _ = refined(Refiner(n=3, revisions=2))
    assert [r.columns["index"] for r in twice[:3]] == [0, 7, 8]
    assert [r.columns["index"] for r in twice if r.columns["purpose"] == Purpose.replaced] == [1, 4, 2, 5]


def test_what_is_too_long_to_be_read_is_accepted_or_starts_again() -> None:
    unread, _ = refined(Refiner(n=3), too_long="accept or reject?")
    assert [r.columns["accepted"] for r in unread] == [1.0] * 3
    uncut, asked = refined(Refiner(n=3), too_long="cut where?")
    assert [request.turns for request in asked if isinstance(request, Resume)] == [(), ()]
    assert len(uncut) == 3 + 3 + 2


def test_options_have_the_probabilities_that_they_have_among_themselves() -> None:
    ids = [(1, 0), (1, 2, 0), (3, 0)]
    logp = [[math.log(0.2), math.log(0.1), 0.0][:2], [math.log(0.2), math.log(0.3), 0.0], [math.log(0.2), -1.0]]
    options = options_among(ids, logp)
    assert [option.probability for option in options] == pytest.approx([0.125, 0.375, 0.5])
    assert options[1].allowed == ("+\x01\x03", "+\x00\x02", "+\x00")
    with pytest.raises(PodiumError, match="Option 0 of 2 begins another"):
        options_among([(1,), (1, 0)], [[0.0], [0.0, 0.0]])


@pytest.mark.parametrize("settings", [{"n": 0}, {"revisions": -1}, {"threshold": 1.5}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(PodiumError, match=f"Refiner.{next(iter(settings))}"):
        Refiner(**settings)


def test_a_run_revises_and_resumes_to_the_bit(tmp_path: Path) -> None:
    method = methods.get("search-r2", n=3, threshold=0.55, mini_batches=1)
    sizes = {"tasks": 2, "iterations": 2, "eval_tasks": 1, "eval_samples": 1, "checkpoint_every": 1, "seed": 3}
    config = configure(method, world="lookup", model="podium/tiny2", **sizes)
    whole = train(config, out=tmp_path / "whole")
    lines = [line for line in whole.metrics if line["iteration"]]
    assert all(line["sampler_gap"] < 1e-5 for line in lines)  # verdicts and cuts among what is compared
    assert max(line["watched.revised"] for line in lines) > 0
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for checkpoint in RunDirectory(tmp_path / "cut").checkpoints()[1:]:
        shutil.rmtree(checkpoint)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
