"""What plans, knowledge and subproblems are worth: the help itself, and the arithmetic of its effects."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from podium import worlds
from podium.cli import main
from podium.core.errors import PodiumError
from podium.evaluation.interventions import AXES, Answers, Interventions, check_axes
from podium.protocols.world import World

WORLDS = [
    *({"world": "sums", "level": level} for level in (1, 3, 5)),
    *({"world": "rules", "level": 3, "domain": domain} for domain in ("order", "paint", "lamps", "liars")),
]


def opened(settings: dict[str, object]) -> World:
    return worlds.get(str(settings["world"]), **{k: v for k, v in settings.items() if k != "world"})


@pytest.mark.parametrize("settings", WORLDS, ids=lambda s: "-".join(map(str, s.values())))
def test_the_last_subproblem_has_the_answer_of_the_task(settings: dict[str, object]) -> None:
    world = opened(settings)
    for index in range(20):
        task = world.task(index, "test")
        parts = world.subproblems(task)
        assert parts[-1].data["answer"] == task.data["answer"]
        assert len({part.key for part in parts} | {task.key}) == len(parts) + 1
        for part in parts:  # each is a question of the world, which its own solution answers
            assert world.reset(part).act(world.solve(part)).info["correct"]


@pytest.mark.parametrize("settings", WORLDS, ids=lambda s: "-".join(map(str, s.values())))
def test_a_plan_does_not_tell_the_answer(settings: dict[str, object]) -> None:
    world = opened(settings)
    plans = [world.plan(world.task(index, "test")) for index in range(20)]
    assert all(plans)
    for index, plan in enumerate(plans):
        answer = f" {world.task(index, 'test').data['answer']} "
        assert settings["world"] == "sums" or answer not in f" {plan.replace(',', ' ,')} "


def test_subproblems_of_a_sum_go_on_from_the_right_total() -> None:
    world = opened({"world": "sums", "level": 2})
    task = replace(world.task(0), data={"terms": [12, 39, -5], "answer": 46})
    assert [part.prompt for part in world.subproblems(task)] == ["sum: 12+39", "sum: 51-5"]
    assert world.plan(task) == "start 12, add 39, take 5"
    assert world.knowledge(task) == "2+9=11, 1+3=4, 11-5=6, 5-0=5"


def test_effects_are_differences_task_by_task() -> None:
    plain, plan = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
    parts = [np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 1.0]])]
    base = Answers({"no help": plain, "plan": plan}, parts)
    trained = Answers({"no help": plan, "plan": plan}, [np.zeros((2, 2)), np.zeros((1, 2))])
    rows = Interventions(base, trained).measures()
    means = {name: row[0].mean for name, row in rows.items()}
    assert means == {
        "no help": 0.25,
        "with plan": 0.75,
        "effect of plan": 0.5,
        "subproblems": 0.875,  # 3 of 4, and 2 of 2
        "all subproblems": 0.75,
        "task, where all are right": pytest.approx(1 / 3),  # one of the three samples
    }
    assert rows["effect of plan"][2].mean == -0.5
    assert np.isnan(rows["task, where all are right"][1].mean)  # it never solves all of them


def test_a_model_beside_itself_differs_in_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    line = "eval podium/tiny --compare podium/tiny --world sums --level 1 --tasks 8 --samples 2 --interventions --json"
    assert main(line.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert {f"effect of {axis}" for axis in AXES[:2]} < set(found)
    assert all(row["difference"]["mean"] == 0 for row in found.values())
    assert found["subproblems"]["base"]["mean"] > 0


def test_worlds_that_write_no_help_are_refused() -> None:
    with pytest.raises(PodiumError, match="'echo' cannot write plans: take one that can, such as sums or rules"):
        check_axes(["plan"], opened({"world": "echo"}))
    with pytest.raises(PodiumError, match=r"no intervention 'plans'\. Did you mean"):
        check_axes(["plans"], opened({"world": "sums"}))
    with pytest.raises(PodiumError, match="at least one"):
        check_axes([], opened({"world": "sums"}))
