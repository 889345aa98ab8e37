"""Several worlds as one: routing by domain, settings of parts, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.worlds import Mix


def mix(name: str = "mix:sums,rules,countdown", **settings: object) -> Mix:
    world = worlds.get(name, **settings)
    assert isinstance(world, Mix)
    return world


@pytest.mark.parametrize("name", ["mix:sums,rules,countdown", "mix:lookup,sums", "mix:cases,opinions,shop"])
def test_the_checker_finds_nothing(name: str) -> None:
    assert worlds.check_world(mix(name), tasks=6) == []


def test_each_domain_is_graded_by_its_own_world() -> None:
    world = mix()
    tasks = [world.task(i) for i in range(6)]
    assert [task.domain for task in tasks] == ["sums", "rules", "countdown"] * 2
    for task in tasks:
        right, wrong = world.solve(task), "answer: nothing of the kind"
        assert world.reset(task).act(right).reward == 1
        assert world.reset(task).act(wrong).reward == 0


def test_tasks_are_those_of_the_parts() -> None:
    world = mix(level=2)
    assert [world.task(i).prompt for i in (0, 3)] == [worlds.get("sums", level=2).task(i).prompt for i in (0, 1)]
    assert len({world.task(i).key for i in range(30)}) == 30


def test_an_unknown_domain_raises_instead_of_scoring_nothing() -> None:
    world = mix()
    task = dataclasses.replace(world.task(0), domain="sumz")
    with pytest.raises(PodiumError, match=r"no world for the domain 'sumz'.*'sums'"):
        world.reset(task)


def test_settings_of_one_part_and_of_all() -> None:
    world = mix("mix:sums,rules", level=3, **{"rules.domain": "lamps", "rules.level": 1})
    sums, rules = world.parts
    assert (sums.level, rules.level) == (3, 1)
    assert {rules.task(i).domain for i in range(5)} == {"lamps"}


def test_it_provides_what_all_parts_provide() -> None:
    world = mix("mix:cases,sums")
    assert "rollout.faithful" in worlds.get("cases").provides
    assert "rollout.faithful" not in world.provides
    assert "faithful" not in world.reset(world.task(0)).act("answer: A").info
    assert "task.steps" in world.provides
    assert "task.steps" not in mix("mix:sums,lookup").provides


def test_turns_of_a_part_are_played_to_the_end() -> None:
    world = mix("mix:lookup,sums")
    task = next(t for t in (world.task(2 * i) for i in range(20)) if len(world.demonstrate(t)) > 1)
    episode = world.reset(task)
    feedback = [episode.act(text) for text in world.demonstrate(task)]
    assert feedback[-1].done
    assert feedback[-1].reward == 1


def test_a_file_limits_the_number_of_tasks(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps({"question": f"{i} + 1?", "answer": str(i + 1)}) for i in range(32)))
    world = mix(f"mix:sums,jsonl:{file}")
    parts = [part.size() for part in world.parts]
    assert parts[0] is None
    assert world.size() == 2 * (parts[1] or 0) > 0


def test_it_round_trips_as_data() -> None:
    world = mix("mix:sums,rules", level=2)
    assert decode(encode(world)) == world


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("mix:", {}, "needs the names of its worlds"),
        ("mix:sums,sums", {}, "'sums' twice"),
        ("mix:sums,rulez", {}, "'rules'"),
        ("mix:sums,rules", {"noise": 0.1}, "NAME.noise"),
        ("mix:sums,rules", {"sums.nois": 0.1}, "'noise'"),
        ("mix:sums,rules", {"level": 9}, "its levels are"),
        ("mix:sums,keydoor", {}, "mix worlds that show the same"),
        ("mix:sums,my_file.py:MyWorld", {}, "code of your own"),
    ],
)
def test_what_cannot_be_mixed_gets_a_sentence(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        worlds.get(name, **settings)
    assert message in str(error.value)
