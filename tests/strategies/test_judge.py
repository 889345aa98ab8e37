"""A model as judge of criteria and of steps, a guide that corrects, and demonstrations from a file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podium import methods, worlds
from podium.core.build import Rollout
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.method import Method
from podium.protocols.world import Criterion
from podium.strategies import Judge, JudgedSteps, OptionJudge, Refine, RubricShown, Sample, ValuedSteps
from podium.strategies.requests import Ends, JudgeScores, Meets, Play, Recite, Request, Score
from podium.worlds import Jsonl, Sums, Task, World
from tests.conformance.plans import collected, made
from tests.methods.catalogue import errors, finite, lines


class Two(World):
    """A world with two criteria and no rule for them."""

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        return Criterion("polite"), Criterion("short", 3.0)


def test_a_criterion_is_met_where_yes_is_likelier_than_no() -> None:
    """p = 0.6 for `polite` and 0.3 for `short`."""
    asked: list[Meets] = []

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Meets):
            asked.append(request)
            return [JudgeScores((0.6 if request.criterion == "polite" else 0.3,), calls=1)]
        assert isinstance(request, Play)
        return made(request, [0.0] * request.n)

    group = collected(RubricShown(n=2, fade=0.0, judge=OptionJudge()), answers, Two())
    assert [r.columns["met"] for r in group] == [(True, False)] * 2
    assert [r.columns["points"] for r in group] == [(1.0, 3.0)] * 2
    assert [r.columns["judged.calls"] for r in group] == [2.0] * 2
    assert [(request.text, request.criterion) for request in asked] == [
        (text, criterion) for text in ("rollout 0", "rollout 1") for criterion in ("polite", "short")
    ]


def test_the_probability_is_that_of_yes_against_no() -> None:
    plan = Judge().probabilities(["a"])
    assert [request.ids for request in next(plan) if isinstance(request, Score)] == [" yes", " no"]
    with pytest.raises(StopIteration) as end:
        plan.send([[-1.0, -1.0], [-3.0]])  # e^-2 / (e^-2 + e^-3) = 1 / (1 + e^-1)
    assert end.value.value == pytest.approx([1 / (1 + math.exp(-1))])


def test_a_refinement_is_valued_by_the_judge() -> None:
    """Nobody meets `short` but the rewrite, rollout 2: it joins the group."""

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Meets):
            met = request.criterion != "short" or "rollout 2" in request.text
            return [JudgeScores((0.9 if met else 0.1,), calls=1)]
        assert isinstance(request, Play)
        if request.wave:
            assert request.context.hint == "short"  # type: ignore[union-attr]
        return made(request, [0.0] * request.n)

    group = collected(Refine(n=2, judge=OptionJudge()), answers, Two())
    assert [(r.columns["index"], r.columns["guided"]) for r in group if r.columns["purpose"] == Purpose.train] == [
        (0, False),
        (1, False),
        (2, True),
    ]


def test_a_question_to_a_judge_names_what_it_may() -> None:
    with pytest.raises(PodiumError, match="may name only"):
        Judge(ask="{solution}")


def test_a_judge_must_be_a_role() -> None:
    method = methods.ruscarl().set("rollout.judge", OptionJudge())
    assert any("'judge'" in message for message in errors(method, Sums(level=2)))
    assert not errors(methods.ruscarl(judge="podium/tiny"), Sums(level=2))


# -- steps -------------------------------------------------------------------------------------------------------------


def lone(text: str, ids: tuple[int, ...]) -> Rollout:
    request = Recite(None, ("",))  # type: ignore[arg-type]
    (rollout,) = made(request, [0.0], text=[text])
    return replace(rollout, turns=[replace(rollout.turns[0], ids=ids)])


def score(scorer: Any, rollout: Rollout, *answers: Any) -> list[float]:
    plan = scorer.scores(type("Request", (), {"task": Task("task", "1+1")})(), rollout)
    next(plan)
    with pytest.raises(StopIteration) as end:
        plan.send(list(answers))
    return list(end.value.value)


def test_a_line_is_valued_at_the_first_token_after_it() -> None:
    """`ab\\ncd\\n` in tokens a, b⏎, c, d⏎, end: the lines end after characters 3 and 6, so they are valued at the
    tokens 2 and 4, before which the states have read them."""
    rollout = lone("ab\ncd\n", (1, 2, 3, 4, 5))
    values = [0.1, 0.2, 0.3, 0.4, 1.7]
    assert score(ValuedSteps(), rollout, [1, 3, 4, 6, 6], values) == [0.3, 1.0]


def test_a_judge_of_steps_reads_the_answer_so_far() -> None:
    rollout = lone("ab\ncd", (1,))
    plan = JudgedSteps().scores(type("Request", (), {"task": Task("task", "1+1")})(), rollout)  # type: ignore[arg-type]
    asked = [request for request in next(plan) if isinstance(request, Score)]
    assert len(asked) == 4
    assert "ab\nIs its last step" in str(asked[0].context)
    assert "ab\ncd\nIs its last step" in str(asked[2].context)


def test_a_guide_writes_the_rest_of_a_wrong_rollout_off_policy() -> None:
    """The first line is right, the second wrong: the guide continues after the two tokens of the first."""
    asked: list[Play] = []

    class Lines(Two):
        def step_scores(self, task: Task, text: str) -> tuple[float, ...]:
            return (1.0, 0.0)

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Ends):
            return [2, 3, 5]
        assert isinstance(request, Play)
        if request.role == "guide":
            asked.append(request)
            (fixed,) = made(request, [1.0], text=["ab\nxy"])
            turn = replace(fixed.turns[0], ids=(7, 8, 3, 4), tokens={"sampler.logp": (0.0,) * 4})
            return [replace(fixed, turns=[turn])]
        turn = made(request, [0.0])[0].turns[0]
        turn = replace(turn, ids=(7, 8, 9), tokens={"sampler.logp": (-1.0, -2.0, -3.0)})
        return [replace(r, turns=[turn]) for r in made(request, [0.0] * request.n, text=["ab\ncd"] * request.n)]

    strategy = methods.scope(n=2, guide="podium/tiny").rollout
    assert strategy is not None
    assert (strategy.writers, strategy.roles_asked) == (("guide",), ("guide",))
    group = [r for r in collected(strategy, answers, Lines()) if r.columns["purpose"] == Purpose.train]
    (play,) = asked
    assert play.begun is not None
    assert (play.begun.ids, play.begun.logp) == ((7, 8), (-1.0, -2.0))
    corrected = group[0]
    assert corrected.columns["guided"]
    assert corrected.turns[0].origin == [Origin.copied.name] * 2 + [Origin.expert.name] * 2
    assert not group[1].columns["guided"]


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def critic(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model with a value head."""
    from podium import policy as policies

    path = tmp_path_factory.mktemp("critic")
    policies.critic(policies.load("podium/tiny")).save(path)
    return str(path)


def test_models_in_these_roles_train(critic: str) -> None:
    world = worlds.get("sums", level=2)
    runs: list[tuple[Method, str]] = [
        (methods.scope(n=4, prefix=0.0, prm=critic, guide="podium/tiny"), "watched.guided"),
        (methods.ruscarl(n=4, judge="podium/tiny"), "watched.perfect"),
        (methods.rgr_grpo(n=4, judge="podium/tiny"), "watched.perfect"),
        (methods.ruscarl(n=4, judge="podium/tiny", way="written"), "judge.calls"),
        (methods.srpo(n=4, teacher="podium/tiny"), "watched.distilled"),
    ]
    for method, watched in runs:
        found = lines(method, world, iterations=1)
        assert finite(found)
        assert found[0][watched] > 0


# -- files -------------------------------------------------------------------------------------------------------------


def test_demonstrations_come_from_a_file_of_traces(tmp_path: Path) -> None:
    world = worlds.get("sums", level=2)
    file = tmp_path / "traces.jsonl"
    rows = [{"task": world.task(i).key, "text": world.solve(world.task(i), "long")} for i in range(3)]
    file.write_text("\n".join(map(json.dumps, rows)))
    strategy = methods.hpt(n=2, traces=str(file)).rollout
    assert isinstance(strategy, Sample)
    assert strategy.prepare(world) == ()
    asked: list[Recite] = []

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Recite):
            asked.append(request)
            return made(request, [1.0])
        assert isinstance(request, Play)
        return made(request, [0.0] * request.n)

    object.__setattr__(strategy, "traces_by_task", {"task": [("one", "two"), ("three",)]})
    group = collected(strategy, answers)
    assert [request.texts for request in asked] == [("one", "two"), ("three",)]
    assert [r.columns["demonstration"] for r in group] == [False, False, True, True]
    found = lines(methods.hpt(n=2, traces=str(file)), world, iterations=1, pool=3)
    assert finite(found)


def test_traces_of_other_tasks_and_traces_beside_styles_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps({"task": "chess/train/0", "turns": ["e4"]}))
    with pytest.raises(PodiumError, match="Name the tasks"):
        Sample(traces=str(file)).prepare(Sums(level=2))
    with pytest.raises(PodiumError, match="There is no file"):
        Sample(traces=str(tmp_path / "none")).prepare(Sums(level=2))
    with pytest.raises(PodiumError, match="from a file"):
        Sample(demonstrations=("short",), traces=str(file))
    file.write_text(json.dumps({"task": "sums-2/train/0", "turns": []}))
    with pytest.raises(PodiumError, match="list of texts"):
        Sample(traces=str(file)).prepare(Sums(level=2))


def test_a_rubric_comes_from_a_file_and_needs_a_judge(tmp_path: Path) -> None:
    file = tmp_path / "rubrics.jsonl"
    rubric = ["names the total", {"text": "is polite", "points": 2}, {"text": "guesses", "points": -1}]
    rows = [{"question": f"{i}+1?", "answer": i + 1, "rubric": rubric} for i in range(30)]
    file.write_text("\n".join(map(json.dumps, rows)))
    world = Jsonl(file=str(file), criteria_field="rubric", instructions=False, grader="exact")
    assert [(c.text, c.points) for c in world.criteria(world.task(0))] == [
        ("names the total", 1.0),
        ("is polite", 2.0),
        ("guesses", -1.0),
    ]
    assert "task.criteria" in world.provides
    assert "task.criteria" not in Jsonl(file=str(file)).provides
    with pytest.raises(PodiumError, match="judge"):
        world.met(world.task(0), "2")
    found = lines(methods.ruscarl(n=2, judge="podium/tiny"), world, iterations=1, max_tokens=16)
    assert finite(found)


@pytest.mark.parametrize("rubric", ["polite", [3], [{"points": 1}], [{"text": "polite", "points": "two"}]])
def test_a_rubric_that_cannot_be_read_is_refused(rubric: Any, tmp_path: Path) -> None:
    file = tmp_path / "rubrics.jsonl"
    file.write_text(json.dumps({"question": "1+1?", "answer": 2, "rubric": rubric}))
    with pytest.raises(PodiumError, match="must be a list of texts"):
        Jsonl(file=str(file), criteria_field="rubric").task(0)
