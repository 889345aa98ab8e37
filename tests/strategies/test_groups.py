"""What strategies ask for and return, rollout by rollout, with a scripted sampler."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.memories.instructions import Instruction, Population
from podium.memories.text_edits import Experience
from podium.strategies import (
    AdvantageFilter,
    Analysed,
    Choose,
    Directed,
    DrawPictures,
    Experienced,
    Instructed,
    JudgedTurns,
    OptionJudge,
    Phrased,
    Scaffolded,
    SelfPlay,
    WalkedSegments,
)
from podium.strategies.requests import Opinion, Play, Rate, Recite, Request, Resume, Score
from podium.worlds import KeyDoor, Shop, Sums, Task
from podium.worlds.dilemma import Dilemma
from podium.worlds.scenes import Scenes
from tests.conformance.plans import answered, asking, collected, made

LINES = "one\ntwo\nthree\nanswer: 4"


def texts(rollouts: Sequence[Rollout]) -> list[str]:
    return [str(rollout.columns["text"]) for rollout in rollouts]


def played(request: Request) -> list[Rollout]:
    """As many rollouts as were asked for, the first of each request right."""
    if isinstance(request, Recite):
        return made(request, [1.0], text=[LINES])
    assert isinstance(request, Play)
    return made(request, [1.0, *[0.0] * (request.n - 1)])


@pytest.mark.parametrize(("unit", "joint"), [("lines", "\n"), ("text", "\n\n")])
def test_answers_begin_with_as_many_segments_as_the_level_says(unit: str, joint: str) -> None:
    levels = set()
    for number in range(24):
        asked: list[Play] = []
        segments = ["one.", "two.", "three."]
        solution = joint.join([*segments, "answer: 4"]) if unit == "lines" else joint.join(segments) + "\nanswer: 4"

        def answers(request: Request, solution: str = solution, asked: list[Play] = asked) -> list[Rollout]:
            if isinstance(request, Recite):
                return made(request, [1.0], text=[solution])
            assert isinstance(request, Play)
            asked.append(request)
            return played(request)

        plan = Scaffolded(n=3, unit=unit).plan(dataclasses.replace(asking({}), stream=(0, 0, number)))
        group = answered(plan, answers)
        (level,) = {int(rollout.columns["help.level"]) for rollout in group}
        levels.add(level)
        assert texts(group) == ["rollout 0", "rollout 1", "rollout 2"]
        assert [rollout.columns["guided"] for rollout in group] == [level > 0] * 3
        begun = asked[0].begun
        given = begun.text if begun is not None else ""  # type: ignore[union-attr]
        assert given.split() == segments[:level]
        if unit == "lines":
            assert given == "".join(f"{line}\n" for line in segments[:level])
    assert levels == {0, 1, 2, 3}


def test_all_rollouts_of_a_group_are_returned() -> None:
    experienced = collected(Experienced(n=3), played, recalled={"group.experiences": (Experience("a"),)})
    assert texts(experienced) == ["rollout 0", "rollout 1", "rollout 2"]
    population = Population((Instruction(("a",)), Instruction(("b",))), (0.0, 1.0))
    instructed = collected(Instructed(n=3), played, recalled={"group.instructions": population})
    assert texts(instructed) == ["rollout 0", "rollout 1", "rollout 2"]
    assert [rollout.columns["instruction"] for rollout in instructed] == [1.0] * 3
    directed = collected(Directed(n=3, low=30, high=30), played)
    assert [rollout.columns["angle"] for rollout in directed] == [30.0] * 3
    recited = collected(Directed(low=30, high=30, styles=("short", "long")), played)
    assert [rollout.columns["index"] for rollout in recited] == [0, 1]


class Two(Shop):
    """A shop with two phrasings."""

    def phrasings(self, task: Task) -> tuple[Task, ...]:
        return super().phrasings(task)[:2]


class Mute(Shop):
    """A shop without phrasings."""

    def phrasings(self, task: Task) -> tuple[Task, ...]:
        return ()


def test_two_phrasings_are_enough_and_none_are_not() -> None:
    asked: list[Play] = []
    world = Two()

    def answers(request: Request) -> list[Rollout]:
        assert isinstance(request, Play)
        asked.append(request)
        return played(request)

    group = answered(Phrased(pairs=2).plan(dataclasses.replace(asking({}, world), task=world.task(0))), answers)
    assert texts(group) == ["rollout 0", "rollout 1", "rollout 2", "rollout 3"]
    assert [play.n for play in asked] == [1, 1, 1, 1]
    with pytest.raises(PodiumError, match="has 0 of"):
        next(Phrased().plan(asking({}, Mute())))


def test_in_a_share_of_groups_one_agent_is_played_by_a_past_self() -> None:
    def seats(share: float, world: Any) -> list[tuple[Any, ...]]:
        found = []
        for number in range(200):
            asked: list[Play] = []
            request = dataclasses.replace(asking({}, world), stream=(0, 0, number))

            def answers(play: Request, asked: list[Play] = asked) -> list[Rollout]:
                assert isinstance(play, Play)
                asked.append(play)
                return played(play)

            group = answered(SelfPlay(n=3, share=share).plan(request), answers)
            assert texts(group) == ["rollout 0", "rollout 1", "rollout 2"]
            found.append(asked[0].seats)
        return found

    world = Dilemma()
    met = [seat for each in seats(0.25, world) for seat in each]
    assert 30 < len(met) < 70  # a quarter of 200
    assert {seat.by for seat in met} == {"past"}
    assert 0.3 < sum(seat.agent == world.agents[0] for seat in met) / len(met) < 0.7
    assert all(len(each) == 1 for each in seats(1.0, world))
    assert not any(seats(0.0, world))
    assert not any(seats(1.0, Sums()))  # nobody sits there


def test_walks_are_whole_episodes_or_their_first_turns_with_what_they_have_lost() -> None:
    world = KeyDoor(level=1)
    process = world.dynamics(world.task(0))

    def walked(turns: int | None) -> list[Rollout]:
        def answers(request: Request) -> list[Rollout]:
            assert isinstance(request, Recite)
            said = [Turn((1,), columns={"action": text, "state": process.states[0]}) for text in request.texts]
            return [Rollout("task", said, columns={"index": request.index, **request.columns})]

        request = dataclasses.replace(asking({}, world), task=world.task(0))
        return answered(WalkedSegments(n=4, turns=turns, gamma=0.5).plan(request), answers)

    whole, short = walked(None), walked(2)
    assert [rollout.columns["index"] for rollout in whole] == [0, 1, 2, 3]
    for rollout, first in zip(whole, short, strict=True):
        said = [turn.columns["action"] for turn in rollout.turns]
        assert [turn.columns["action"] for turn in first.turns] == said[:2]
        episode = world.reset(world.task(0))
        ended = [episode.act(text).done for text in said]
        assert not any(ended[:-1])
        assert ended[-1] or len(said) == process.horizon
        q = process.optimal(0.5)
        lost = sum(0.5**t * (q[t, 0].max() - q[t, 0, process.action(text)]) for t, text in enumerate(said))
        assert rollout.columns["regret"] == pytest.approx(lost)


def test_every_rollout_of_a_chooser_counts() -> None:
    assert [r.columns["index"] for r in collected(Choose(n=3), played)] == [0, 1, 2]


def test_pictures_are_rated_step_by_step_where_the_strategy_says_so() -> None:
    """Two pictures of three steps; what comes of the last step is the picture itself, whose reward is known."""
    rated: list[str] = []

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Rate):
            rated.append(request.text)
            return [Opinion((float(len(rated)),))]
        assert isinstance(request, Play)
        texts = {f"sampler.{name}": ["a", "b", "c"] for name in ("estimate", "finished")}
        return [dataclasses.replace(r, turns=[Turn((0, 1, 2), tokens=texts)]) for r in made(request, [9.0] * request.n)]

    estimated = collected(DrawPictures(n=2, scored="estimate"), answers)
    assert [list(r.turns[0].tokens["score"]) for r in estimated] == [[1.0, 2.0, 9.0], [3.0, 4.0, 9.0]]
    assert rated == ["a", "b"] * 2
    rated.clear()
    finished = collected(DrawPictures(n=2, scored="finished"), answers)
    assert [r.columns["score"] for r in finished] == [1.0, 4.0]
    assert [list(r.turns[0].tokens["score"]) for r in finished] == [[2.0, 3.0, 9.0], [5.0, 6.0, 9.0]]
    rated.clear()
    assert len(collected(DrawPictures(n=2), answers)) == 2
    assert rated == []


def test_analyses_without_the_question_are_paid_by_what_is_answered_with_them() -> None:
    asked: list[Play] = []
    world = Scenes()

    def answers(request: Request) -> Sequence[Any]:
        assert isinstance(request, Play)
        asked.append(request)
        right = [1.0, 0.0, 0.0] if request.first == 2 else [1.0, 1.0, 0.0]
        if request.role == "solver":
            return made(request, right)
        return made(request, [0.0] * request.n, truncated=[False, True])

    task = dataclasses.replace(asking({}, world), task=world.task(0))
    group = answered(Analysed(n=2, answers=3).plan(task), answers)
    assert [(p.n, p.first, p.wave) for p in asked] == [(2, 0, 0), (3, 2, 1), (3, 5, 1)]
    assert [p.context.hint for p in asked[1:]] == ["rollout 0", "rollout 1"]  # type: ignore[union-attr]
    assert [r.columns["solver.rate"] for r in group] == pytest.approx([1 / 3, 2 / 3])
    assert [r.columns["formed"] for r in group] == [True, False]


def test_a_judge_of_turns_leaves_rollouts_without_turns_alone() -> None:
    silent = [Rollout("task", [], columns={"index": n}) for n in range(2)]
    plan: Any = JudgedTurns(n=2, judge=OptionJudge()).plan(asking({}))
    next(plan)
    wave = plan.send([silent])
    assert [request.text for request in wave] == ["", ""]


def test_a_filter_walks_until_every_rollout_is_done() -> None:
    """Two walks of two turns: the first proposal of each turn is refused, the second is taken."""
    world = Dilemma()
    strategy = AdvantageFilter(n=2, tries=2)
    plan: Any = strategy.plan(asking({}, world))
    wave, waves = next(plan), 0
    try:
        while True:
            if isinstance(wave[0], Score):
                # Before the action 0.5; after it 0.4 at the first try and 0.7 at the second.
                wave = plan.send([[0.5, 0.4 if waves % 2 else 0.7] for _ in wave])
                continue
            waves += 1
            answers = []
            for request in wave:
                assert isinstance(request, Resume)
                said = [*request.turns, Turn((1,), context=(2,), columns={"action": f"move {waves}"})]
                stop = "turns" if len(said) < 2 else "done"
                index = request.play.first
                answers.append([Rollout("task", said, columns={"stop": stop, "index": index})])
            wave = plan.send(answers)
    except StopIteration as end:
        group: list[Rollout] = end.value
    assert [rollout.columns["index"] for rollout in group] == [0, 1]
    for rollout in group:
        assert [turn.columns["action"] for turn in rollout.turns] == ["move 2", "move 4"]
        assert [turn.columns["tries"] for turn in rollout.turns] == [2, 2]
        assert [turn.columns["score"] for turn in rollout.turns] == pytest.approx([0.2, 0.2])
        assert rollout.columns["queries"] == 4.0
    with pytest.raises(PodiumError, match="several agents"):
        next(strategy.plan(asking({}, Sums())))
    with pytest.raises(PodiumError, match="several agents"):
        next(strategy.plan(asking({})))
