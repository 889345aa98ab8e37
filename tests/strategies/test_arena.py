"""A tournament within each group: its rewards, its verdicts on pairs and its calls; a judge that fails; resuming."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.method.check import check_method
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.strategies import Arena
from podium.strategies.judged.tournament import TOPOLOGIES
from podium.strategies.requests import Compare, JudgeScores, PairJudge, Play, Rate, Request, SubPlan, TaskRequest
from podium.worlds import Trips, get
from tests.conformance.plans import collected, made, rows
from tests.sessions.test_train import numbers

QUALITY = (0.6, 0.9, 0.3, 0.7)


def judged(arena: Arena, quality: Sequence[float] = QUALITY) -> tuple[list[Rollout], list[Compare | Rate]]:
    """What an arena makes of rollouts of this quality, and what it asked for."""
    asked: list[Compare | Rate] = []

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Play):
            return made(request, [0.0] * request.n)
        assert isinstance(request, (Compare, Rate))
        asked.append(request)
        texts = (request.left, request.right) if isinstance(request, Compare) else (request.text,)
        return [JudgeScores(tuple(quality[int(text[-1])] for text in texts), request.calls)]

    return collected(arena, answers), asked


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_ranks_become_rewards_and_calls_are_booked(topology: str) -> None:
    rollouts, asked = judged(Arena(n=4, topology=topology))
    batch = rows(rollouts)
    assert batch["rollout.arena.reward"].argmax() == 1
    assert batch["rollout.arena.rank"][1] == 1
    assert float(batch["rollout.arena.calls"].sum()) == 2 * len(asked)
    pair = batch.relation("pair")
    assert len(pair.left) == len(asked)
    truth = torch.tensor(QUALITY, dtype=torch.float64)
    torch.testing.assert_close(pair["difference"], truth[pair.left] - truth[pair.right])
    assert len({request.seed for request in asked}) == len(asked)


def test_a_pointwise_judge_rates_each_rollout_and_compares_none() -> None:
    rollouts, asked = judged(Arena(n=4, topology="pointwise", calls=3))
    batch = rows(rollouts)
    assert batch["rollout.arena.reward"].tolist() == pytest.approx(QUALITY)
    assert batch["rollout.arena.rank"].tolist() == [3, 1, 4, 2]
    assert batch["rollout.arena.calls"].tolist() == [3] * 4
    assert all(isinstance(request, Rate) for request in asked)
    assert batch.relations == ()


def test_a_round_robin_is_what_pairwise_differences_need() -> None:
    method = methods.get("think-rm", n=4) | Arena(n=4, topology="round_robin")
    assert method.advantage is not None
    batch = rows(judged(method.rollout)[0])  # type: ignore[arg-type]
    advantage = method.advantage(batch)["rollout.advantage"]
    # The differences are those of scores, so this is GRPO with epsilon under the root.
    scores = torch.tensor(QUALITY, dtype=torch.float64)
    torch.testing.assert_close(advantage, (scores - scores.mean()) / (scores.var() + 1e-6).sqrt())


def test_needs_and_provides_follow_the_judge() -> None:
    assert Arena().needs == ("task.compare",)
    assert Arena(topology="pointwise").needs == ("task.rate",)
    assert Arena(judge=Coin()).needs == ()
    assert Arena(judge=Coin()).roles_asked == ("coin",)
    method = methods.get("arenarl", imitate=0)
    (finding,) = check_method(method, get("sums").provides)
    assert "a judge that compares answers, which the world is not: take the world trips" in finding.message
    assert not check_method(method, get("trips").provides)


class Coin(PairJudge):
    """Decides by the seed."""

    roles = ("coin",)

    def compare(self, request: TaskRequest, left: str, right: str, seed: int) -> SubPlan:
        yield from ()
        return float(seed % 2), float(1 - seed % 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topology": "ladder"}, "Arena.topology = 'ladder' is not one of"),
        ({"n": 1}, "Arena.n = 1 is out of range"),
        ({"calls": 0}, "Arena.calls = 0 is out of range"),
        ({"judge": "gpt"}, "Arena.judge = 'gpt' must be 'world' or a judge"),
    ],
)
def test_settings_that_make_no_tournament_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Arena(**settings)


def small(world: Any = "trips", **changes: Any) -> Any:
    method = methods.get("arenarl", n=4, imitate=0)
    sizes = {"tasks": 2, "iterations": 2, "eval_tasks": 2, "eval_samples": 1, "max_tokens": 12, "seed": 3}
    return configure(method, world=world, **{**sizes, **changes})


def test_a_run_counts_the_calls_and_resumes_to_the_bit(tmp_path: Path) -> None:
    whole = train(small(iterations=3, checkpoint_every=1), out=tmp_path / "whole")
    assert all(line["judge.calls"] == 2 * 2 * 6 for line in whole.metrics if "tokens" in line)
    assert all("judge.failures" not in line for line in whole.metrics)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for checkpoint in RunDirectory(tmp_path / "cut").checkpoints()[1:]:
        shutil.rmtree(checkpoint)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


class Fickle(Trips):
    """Fails whenever the first answer is longer, and lies otherwise."""

    isolation = "thread"

    def compare(self, task: Any, left: str, right: str, seed: int = 0) -> tuple[float, float]:
        if len(left) > len(right):
            raise RuntimeError("no verdict")
        return float("nan"), 2.0


def test_a_judge_that_fails_or_lies_is_counted_and_the_run_goes_on(tmp_path: Path) -> None:
    result = train(small(world=Fickle()), out=tmp_path / "run")
    assert result.finished
    lines = [line for line in result.metrics if "tokens" in line]
    assert all(line["judge.failures"] == line["judge.calls"] == 24 for line in lines)
    assert "judge" in lines[0]["judge.failure"] or "raised" in lines[0]["judge.failure"]


def test_equal_and_empty_texts_are_ranked_all_the_same() -> None:
    rollouts, _ = judged(Arena(n=4), quality=(0.5,) * 4)
    blank = [dataclasses.replace(r, columns={**r.columns, "text": ""}) for r in rollouts]
    batch = Batch.from_rollouts(blank)
    assert sorted(batch["rollout.arena.rank"].tolist()) == [1, 2, 3, 4]
    world = get("trips", level=1)
    assert world.compare(world.task(0), "", "", 0) == world.compare(world.task(0), "", "", 0)
