"""Scaffolded starts: how solutions are cut, and how answers begin with them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.columns import Origin
from podium.parts.reward import HierarchicalReward
from podium.sessions.train import configure
from podium.strategies import Scaffolded
from podium.strategies.hints.segments_of_solution import prefixes_of, solution_segments
from podium.strategies.requests import Recite
from podium.training.build import build_run
from tests.conformance.plans import answered, asking, made


def test_the_worked_example_of_segments() -> None:
    assert solution_segments("\n\n".join("ABCDEF")) == ["A", "B\n\nC", "D", "E\n\nF"]
    assert solution_segments("A. B. C. D. E.") == ["A. B.", "C. D.", "E."]
    assert solution_segments("") == []
    assert solution_segments("go:\n1. a\n2. b\n3. c") == ["go:", "1. a", "2. b", "3. c"]
    assert solution_segments("# a\nx\n# b\n# c\n# d") == ["# a\nx", "# b", "# c", "# d"]
    assert prefixes_of(["A", "B"]) == ["A", "A\nB"]


def test_groups_begin_with_the_first_segments() -> None:
    config = configure(methods.get("sparkle", n=2, first=1), world="sums", level=3, tasks=16, iterations=2)
    run = build_run(config)
    strategy = Scaffolded(n=2)
    method = config.method.main().with_(rollout=strategy)
    rollouts = run.collect(method, run.requests(method, 16))
    levels = {rollout.columns["help.level"] for rollout in rollouts}
    assert {0.0, 1.0} < levels
    for rollout in rollouts:
        task = next(t for t in (run.world.task(i) for i in range(10_000)) if t.key == rollout.task)
        lines = run.world.solve(task, "short").splitlines()[:-1]
        given = int(rollout.columns["help.level"] * len(lines) / len(strategy.segments(run.world.solve(task, "short"))))
        assert str(rollout.columns["text"]).splitlines()[:given] == lines[:given]
    batch = Batch.from_rollouts(rollouts)
    hinted = batch["token.origin"] == Origin.hint
    assert bool(hinted.any())
    assert not bool((batch.trained("token") & hinted).any())
    run.close()


@pytest.mark.parametrize(("unit", "begun"), [("lines", "one.\ntwo.\n"), ("text", "one.\n\ntwo.\n")])
def test_segments_that_are_joined_keep_the_breaks_of_their_unit(unit: str, begun: str) -> None:
    solution = {"lines": "one.\ntwo.", "text": "one.\n\ntwo."}[unit] + "\nanswer: 4"
    texts = set()
    for number in range(16):

        def answers(request: Any) -> list[Rollout]:
            if isinstance(request, Recite):
                return made(request, [1.0], text=[solution])
            texts.add("" if request.begun is None else request.begun.text)
            return made(request, [1.0])

        plan = Scaffolded(n=1, levels=1, unit=unit).plan(dataclasses.replace(asking({}), stream=(0, 0, number)))
        answered(plan, answers)
    assert texts == {"", begun}


def test_a_world_without_reasoning_gets_a_warning() -> None:
    assert Scaffolded().prepare(worlds.get("echo", level=2))


def test_the_reward_pays_the_answer_before_its_format() -> None:
    columns = {"rollout.correct": torch.tensor([1.0, 1.0, 0.0]), "rollout.truncated": torch.tensor([0.0, 1.0, 0.0])}
    batch = Batch.from_rewards(torch.zeros(3), [0, 0, 0], columns)
    assert HierarchicalReward()(batch)["rollout.reward"].tolist() == [2.0, 1.0, -1.0]
    with pytest.raises(Exception, match="levels"):
        Scaffolded(levels=0)
