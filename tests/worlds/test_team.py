"""The world of teams: what passes along links, and what an action of the host is worth."""

from __future__ import annotations

from itertools import combinations

import pytest

from podium import worlds
from podium.worlds.team import MEMBERS, TeamWorld
from podium.worlds.team_rules import Team, answers_right

NEEDED = {
    "find": {("reader", "writer")},
    "count": {("counter", "writer")},
    "solve": {("reader", "solver"), ("counter", "solver"), ("solver", "writer")},
}


def success(world: TeamWorld, talks: dict[str, set[tuple[str, str]]] | None) -> float:
    """The share of right answers if these agents talk; None: all of them."""
    members, right = MEMBERS[world.level], 0.0
    for index in range(200):
        task = world.task(index)
        pairs = combinations(members, 2)
        chosen = ["1" if talks is None or pair in talks[task.data["query"]] else "0" for pair in pairs]
        right += world.reset(task, index).act(" ".join(chosen)).reward
    return right / 200


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_sparse_graph_of_those_who_are_needed_beats_the_complete_one(level: int) -> None:
    world = TeamWorld(level=level)
    assert success(world, NEEDED) > 0.8
    assert success(world, None) < 0.3


def test_a_lie_misleads_unless_a_checker_stands_between() -> None:
    seeds = [f"{n}" for n in range(200)]
    heard = Team(["reader", "liar", "writer"], [(), (), (0, 1)])
    checked = Team(["reader", "liar", "checker", "writer"], [(), (), (0, 1), (2,)])
    assert sum(answers_right(heard, "find", 0.0, seed) for seed in seeds) < 40
    assert sum(answers_right(checked, "find", 0.0, seed) for seed in seeds) > 170


def test_a_team_without_a_writer_or_without_a_link_to_it_is_wrong() -> None:
    assert not answers_right(Team(["reader"], [()]), "find", 0.0, "1")
    assert not answers_right(Team(["reader", "writer"], [(), ()]), "find", 0.0, "1")


def test_the_rewards_of_actions() -> None:
    world = worlds.get("team", level=1, build=True)
    task = next(world.task(n) for n in range(20) if world.task(n).data["query"] == "find")
    episode = world.reset(task, seed=1)
    rows = {role: n for n, role in enumerate(MEMBERS[1])}
    worth = [
        episode.act(text).info["action_reward"]
        for text in (
            f"{rows['reader']}",
            f"{rows['writer']} 1",  # the answer turns right
            f"{rows['counter']} 0 0",  # comes after the writer
            f"{rows['counter']} 0 0 0",  # is there already, and is the fourth
            f"{len(rows)}",  # delete
        )
    ]
    assert worth == pytest.approx([0.0, 0.5, -1.0, -1.1, 0.0])
    last = episode.act(f"{len(rows) + 1}")
    assert last.done
    assert last.info["correct"]
    assert last.info["redundant"] == pytest.approx(1 / 3)  # the counter


def test_what_cannot_be_chosen_ends_the_episode() -> None:
    world = worlds.get("team", build=True)
    for text in ("99", "6", "", "exit"):  # 6 is the exit, masked while there is no team
        feedback = world.reset(world.task(0)).act(text)
        assert feedback.done
        assert not feedback.info["valid"]
