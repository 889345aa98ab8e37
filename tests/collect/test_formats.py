"""Formats between a model and its world: asked for, read, demonstrated, and replayed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from podium import worlds
from podium.collect.annotations.plan_tags import mark_plan_tags, mark_reworded
from podium.collect.annotations.registry import AnnotationContext
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.policy import Policy, load
from podium.protocols.blueprint import Blueprint
from podium.protocols.context import Rebuild
from podium.protocols.format import Format
from podium.protocols.sampling import Sampling
from podium.protocols.scaffold import Scaffold
from podium.protocols.tagged import Construction, MetaTags, PlanTags, ReportTags, ThinkTags, ToolTags
from podium.protocols.worded_steps import WordedSteps
from podium.protocols.world import World
from podium.sampler.local import LocalSampler
from podium.strategies import Demonstrate, Draw, NextTurn, Sample
from podium.strategies.requests import Plan, Recite, TaskRequest, rollouts_of


@cache
def tiny() -> Policy:
    return load("podium/tiny")


def requests(world: World, format: Format | None, count: int = 2) -> list[TaskRequest]:
    sampling = Sampling(max_tokens=16)
    return [
        TaskRequest(world.task(i), i, sampling, (0, 0, i), number=i, world=world, format=format) for i in range(count)
    ]


def collect(world: World, plans: list[Plan]) -> list[Rollout]:
    policy = tiny()
    tools: dict[str, Any] = {"follow_up": policy.follow_up, "written": policy.written, "ends": policy.ends}
    groups = Driver(LocalSampler(policy), world, max_turns=8, **tools).collect(plans)
    return [rollout for group in groups for rollout in group]


def recite(task: TaskRequest, *texts: str) -> Plan:
    return rollouts_of((yield [Recite(task, texts=texts)]))


def keydoor() -> World:
    return worlds.isolated("keydoor", {"level": 1})


def tagged(action: str, switch: str = "KEEP", subgoal: str = "the gold") -> str:
    return f"<switch>{switch}</switch><subgoal>{subgoal}</subgoal><action>{action}</action>"


# -- reading -----------------------------------------------------------------------------------------------------------


def test_the_world_gets_the_action_inside_the_tags() -> None:
    world = keydoor()
    actions = world.demonstrate(world.task(0))
    texts = [tagged(action) for action in actions]
    (task,) = requests(world, PlanTags(), 1)
    (rollout,) = collect(world, [recite(task, *texts)])
    assert rollout.columns["reward"] == 1
    assert rollout.columns["well_formed"]
    assert rollout.columns["text"] == "\n".join(texts)  # as it was written
    assert [turn.columns["action"] for turn in rollout.turns] == list(actions)
    assert all(turn.columns["valid"] and turn.columns["form"] == "action" for turn in rollout.turns)
    (plain,) = requests(world, None, 1)
    (raw,) = collect(world, [recite(plain, *texts)])
    assert raw.columns["reward"] == 0
    assert not any(turn.columns["valid"] for turn in raw.turns)
    assert "well_formed" not in raw.columns


def test_a_malformed_turn_is_the_action_as_a_whole_and_marked() -> None:
    world = keydoor()
    actions = world.demonstrate(world.task(0))
    (task,) = requests(world, PlanTags(), 1)
    (rollout,) = collect(world, [recite(task, actions[0], *map(tagged, actions[1:]))])
    assert [turn.columns["well_formed"] for turn in rollout.turns] == [False, *[True] * (len(actions) - 1)]
    assert not rollout.columns["well_formed"]
    assert rollout.columns["reward"] == 1  # a plain action is one, too: what it costs is the method's business


def test_the_instruction_stands_in_every_context() -> None:
    world, format = keydoor(), PlanTags(ask="Use tags.")
    (task,) = requests(world, format, 1)
    (rollout,) = collect(world, [Demonstrate(draw=Draw(format=format, context=Rebuild())).plan(task)])
    assert all("Use tags." in tiny().text(turn.context) for turn in rollout.turns)
    assert len(rollout.turns) > 1
    scaffold = Draw(format=format, context=Scaffold(below="Hurry."))
    (both,) = collect(world, [Demonstrate(draw=scaffold).plan(task)])
    assert "Use tags.\nHurry." in tiny().text(both.turns[0].context)


def test_sampled_turns_are_read_too() -> None:
    world = keydoor()
    (rollout, *_) = collect(world, [Sample(n=2).plan(task) for task in requests(world, PlanTags(), 1)])
    assert all(turn.columns["well_formed"] is False for turn in rollout.turns)  # it has never seen the tags


# -- demonstrations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "world"),
    [
        (PlanTags(), "keydoor"),
        (MetaTags(), "keydoor"),
        (Blueprint(), "keydoor"),
        (ReportTags(), "lookup"),
        (ToolTags(), "lookup"),
        (ToolTags(), "tools"),
        (PlanTags(), "clarify"),
        (ThinkTags(), "sums"),
        (Construction(), "sums"),
        (WordedSteps(), "sums"),
        (WordedSteps(), "countdown"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_demonstrations_in_a_format_are_well_formed_and_right(format: Format, world: str) -> None:
    opened = worlds.isolated(world, {})
    found = collect(opened, [Demonstrate(draw=Draw(format=format)).plan(task) for task in requests(opened, format, 4)])
    assert [rollout.columns["reward"] for rollout in found] == [1] * 4
    assert all(rollout.columns["well_formed"] and rollout.columns["demonstration"] for rollout in found)


def test_a_world_in_a_process_of_its_own_reads_the_same() -> None:
    here, there = worlds.isolated("lookup", {}), worlds.isolated("lookup", {}, isolation="process")
    try:
        plain, apart = (
            collect(world, [Demonstrate(draw=Draw(format=ToolTags())).plan(t) for t in requests(world, ToolTags())])
            for world in (here, there)
        )
    finally:
        there.close()
    assert [r.columns["reward"] for r in apart] == [1, 1]
    assert [[tuple(t.ids) for t in r.turns] for r in apart] == [[tuple(t.ids) for t in r.turns] for r in plain]


def test_an_action_that_comes_too_early_is_shown_and_not_imitated() -> None:
    world = keydoor()
    found = collect(world, [Demonstrate(draw=Draw(format=MetaTags())).plan(t) for t in requests(world, MetaTags())])
    plain, early = found
    assert "keep.demonstrated" not in plain.turns[0].tokens
    assert set(early.turns[0].tokens["keep.demonstrated"]) == {False}
    assert not early.turns[0].columns["valid"]
    assert "<reflection>" in tiny().text(early.turns[1].ids)
    batch = Batch.from_rollouts(found)
    trained = batch.trained("token")
    turn = batch.link("token", "turn")
    assert not bool(trained[turn == len(plain.turns)].any())
    assert bool(trained[turn != len(plain.turns)].all())


def test_further_ways_to_ask_are_written_in_their_own_formats() -> None:
    world = worlds.isolated("sums", {"level": 2})
    asked = Draw(context=Scaffold(below="With."), format=Construction())
    other = Draw(context=Scaffold(below="Without."), format=Construction(shown=False))
    (task,) = requests(world, None, 1)
    with_it, without = collect(world, [Demonstrate(draw=asked, others=(other,)).plan(task)])
    assert "<aux>" in with_it.columns["text"]
    assert "<aux>" not in without.columns["text"]
    assert "With." in tiny().text(with_it.turns[0].context)
    assert "Without." in tiny().text(without.turns[0].context)


def test_a_rollout_continues_after_turns_that_are_read_again() -> None:
    world = keydoor()
    draw = Draw(format=PlanTags())
    (rollout, *_) = collect(world, [NextTurn(n=2, draw=draw).plan(task) for task in requests(world, PlanTags(), 1)])
    assert rollout.columns["failure"] == ""  # the turns before it led to the same state


# -- blueprints and subgoals -------------------------------------------------------------------------------------------


def test_the_marker_of_a_blueprint_does_not_reach_the_world() -> None:
    world, format = keydoor(), Blueprint(done="<done>")
    actions = world.demonstrate(world.task(0))
    (task,) = requests(world, format, 1)
    (rollout,) = collect(world, [recite(task, "1. one\n2. two\n3. three", *(f"{action} <done>" for action in actions))])
    assert rollout.columns["reward"] == 1
    assert all(turn.columns["valid"] for turn in rollout.turns)
    goals = [tiny().text(turn.context).rpartition("now: ")[2].partition("\n")[0] for turn in rollout.turns[1:4]]
    assert goals == ["1. one", "2. two", "3. three"]


def test_a_subgoal_is_not_left_by_an_action_that_the_world_refuses() -> None:
    world, format = keydoor(), Blueprint(done="<done>")
    (task,) = requests(world, format, 1)
    (rollout,) = collect(world, [recite(task, "1. one\n2. two", "fly away <done>", "look")])
    last = tiny().text(rollout.turns[2].context)
    assert "now: 1. one" in last
    assert "now: 2. two" not in last


def test_a_kept_subgoal_in_other_words_is_noticed() -> None:
    world = keydoor()
    (task,) = requests(world, PlanTags(), 1)
    turns = [
        tagged("look", "SWITCH", "a"),
        tagged("look", "KEEP", "b"),
        "look",  # no subgoal: nothing to compare
        tagged("look", "KEEP", "c"),
        tagged("look", "SWITCH", "d"),
    ]
    rollouts = collect(world, [recite(task, *turns)])
    context = AnnotationContext(tiny(), world)
    (found,) = mark_reworded(context, task.task, mark_plan_tags(context, task.task, rollouts))
    assert [t.columns["reworded"] for t in found.turns] == [False, True, False, False, False]
    assert [t.columns["switch"] for t in found.turns] == [True, False, False, False, True]
