"""AMPO, RGR-GRPO, SCOPE, ICPO, RuscaRL, R³: answers that the policy would not have found alone."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.core.value import Clock
from podium.memories import StoredRollouts
from podium.parts.keep import InjectTeachers
from podium.parts.metric.diversity import Diversity
from podium.parts.objective import Shaped
from podium.parts.reward import GuidedBonus, RankTruncated, Rubric
from podium.parts.reward.rubric import score
from podium.protocols.sampling import Sampling
from podium.protocols.scaffold import Scaffold
from podium.strategies import Guided, Rectified
from podium.strategies.requests import Ends, Play, Recite, Replay, Request, TaskRequest
from podium.worlds import Sums
from tests.conformance.helpers import differentiate
from tests.conformance.plans import collected, made
from tests.methods.catalogue import finite, lines, small
from tests.methods.support import credit, rewards


def logits(n: int, tokens: int = 3) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logp = -torch.rand(n, tokens, generator=generator, dtype=torch.float64)
    return {"token.now.logp": logp, "token.old.logp": logp - 0.05}


def slope(terms: Any, batch: Batch) -> Tensor:
    return batch.to_padded(differentiate(terms, batch).grad_logp)


# -- the shaped loss ---------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_shaped_token_is_largest_where_its_probability_is_gamma() -> None:
    p = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    columns = {"token.now.logp": p.log()[None], "token.advantage": torch.ones(1, 99, dtype=torch.float64)}
    batch = Batch.from_padded(torch.ones(1, 99), [0], columns)
    gradient = slope([Shaped(0.1)], batch)[0]
    assert_close(-gradient * 99, 0.1 * p / (p + 0.1).square())
    assert int(gradient.abs().argmax()) == 9  # p = 0.1


def test_a_token_that_is_all_but_impossible_still_has_its_own_probability() -> None:
    logp = torch.tensor([[-10.0, -30.0, -60.0]], dtype=torch.float64)
    batch = Batch.from_padded(torch.ones(1, 3), [0], {"token.now.logp": logp, "token.advantage": torch.ones_like(logp)})
    assert_close(Shaped(0.1).loss(batch), -(logp.exp() / (logp.exp() + 0.1))[0], rtol=1e-12, atol=0)


# -- AMPO --------------------------------------------------------------------------------------------------------------


def beside_teachers(correct: Sequence[bool], understood: Sequence[float]) -> Batch:
    n, k = len(correct), len(understood)
    guided = torch.arange(n + k) >= n
    columns = {
        "rollout.guided": guided,
        "rollout.correct": torch.tensor([*correct, *([False] * k)]),
        "rollout.purpose": torch.where(guided, int(Purpose.probe), int(Purpose.train)),
        "rollout.format": torch.zeros(n + k, dtype=torch.float64),
        InjectTeachers().needs[-1]: torch.tensor([0.0] * n + list(understood), dtype=torch.float64),
    }
    return rewards([float(c) for c in correct] + [0.0] * k).with_columns(columns)


def test_one_success_keeps_all_teachers_out() -> None:
    batch = beside_teachers([True, False, False], [0.9, 0.8])
    after = InjectTeachers()(batch)
    assert_close(after["rollout.purpose"], batch["rollout.purpose"])
    assert_close(after["rollout.reward"], batch["rollout.reward"])


def test_the_best_understood_teachers_replace_as_many_failures_with_reward_one() -> None:
    for order in ([0.3, 0.9, 0.1, 0.6], [0.6, 0.1, 0.9, 0.3]):
        after = InjectTeachers(most=2)(beside_teachers([False] * 4, order))
        taken = after["rollout.purpose"][4:] == Purpose.train
        assert taken.tolist() == [x >= 0.6 for x in order]
        assert int((after["rollout.purpose"] == Purpose.train).sum()) == 4
        assert bool((after["rollout.reward"][4:][taken] == 1).all())


def test_teachers_replace_failures_alone_where_they_come_even_so() -> None:
    batch = beside_teachers([True, False, False, True], [0.9, 0.8, 0.7])
    purpose = InjectTeachers(most=3, even_solved=1.0)(batch)["rollout.purpose"]
    assert (purpose == Purpose.train).tolist() == [True, False, False, True, True, True, False]
    assert (purpose == Purpose.replaced).tolist() == [False, True, True, False, False, False, False]
    for solved in (beside_teachers([True, True], [0.9]), beside_teachers([True, False], [])):
        assert_close(InjectTeachers(even_solved=1.0)(solved)["rollout.purpose"], solved["rollout.purpose"])


def test_a_group_with_a_success_gets_teachers_with_the_given_probability() -> None:
    groups, rows = 400, 3  # a success, a failure and a teacher in each
    guided = torch.tensor([False, False, True]).repeat(groups)
    columns = {
        "rollout.guided": guided,
        "rollout.correct": torch.tensor([True, False, False]).repeat(groups),
        "rollout.purpose": torch.where(guided, int(Purpose.probe), int(Purpose.train)),
        "rollout.format": torch.zeros(groups * rows, dtype=torch.float64),
        InjectTeachers().needs[-1]: torch.full((groups * rows,), 0.5, dtype=torch.float64),
    }
    batch = rewards(*[[1.0, 0.0, 0.0]] * groups).with_columns(columns)
    for probability in (0.0, 0.3, 1.0):
        purpose = InjectTeachers(even_solved=probability)(batch)["rollout.purpose"]
        share = float((purpose[guided] == Purpose.train).double().mean())
        assert abs(share - probability) < 0.06
        assert int((purpose == Purpose.train).sum()) == 2 * groups  # one comes, one goes


def test_ampo_hybrid_asks_for_teachers_wherever_something_failed() -> None:
    assert methods.ampo().rollout.when == "all wrong"
    assert methods.get("ampo@hybrid").rollout.when == "some wrong"
    assert methods.get("ampo@hybrid").keep[0].even_solved == 0.3
    assert methods.get("ampo@always").keep[0].even_solved == 1.0
    found = lines(small("ampo@always"), Sums(level=2), iterations=1, tasks=4)
    assert finite(found)
    assert found[0]["watched.guided"] > 0


def test_a_single_rollout_has_no_advantage_in_ampo() -> None:
    assert credit(methods.ampo().with_(annotate=(), reward=()), rewards([1.0])).tolist() == [0.0]


def test_no_teacher_leaves_a_group_as_it_is() -> None:
    batch = beside_teachers([False, False], [])
    assert_close(InjectTeachers()(batch)["rollout.purpose"], batch["rollout.purpose"])


def test_ampo_with_a_success_is_grpo_without_the_std() -> None:
    method = methods.ampo(entropy=0.0, max_length=8192)
    n = 4
    columns = {**logits(n), "rollout.reward": torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)}
    batch = Batch.from_padded(torch.ones(n, 3), [0] * n, columns)
    batch = batch.with_columns({"token.origin": torch.zeros(n * 3, dtype=torch.int8)})
    batch = batch.with_columns(method.keep[1](batch))
    batch = batch.with_columns(method.advantage(batch))
    plain = [method.objective[0].replace(where=None)]
    assert_close(slope(method.objective, batch), slope(plain, batch))
    assert_close(batch["rollout.advantage"], torch.tensor([0.75, -0.25, -0.25, -0.25], dtype=torch.float64))


def test_teachers_from_a_file_are_found_by_the_name_of_the_task(tmp_path: Path) -> None:
    world, file = Sums(level=5), tmp_path / "teachers.jsonl"
    rows = [
        {"task": world.task(i).key, "text": world.solve(world.task(i), style)}
        for i in range(8)
        for style in ("short", "long")
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    found = lines(methods.ampo(n=2, teachers=str(file)), world, iterations=1, tasks=3)
    assert found[0]["watched.guided"] > 0


# -- rubrics -----------------------------------------------------------------------------------------------------------


def test_a_rubric_reward_grows_with_every_criterion_that_is_met() -> None:
    points = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    assert float(score(points, torch.zeros(3))) == 0
    assert float(score(points, torch.ones(3))) == 1
    for met in torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3):
        for j in range(3):
            more = met.clone()
            more[j] = 1
            assert score(points, more) >= score(points, met)


def test_a_rollout_is_perfect_where_all_that_should_be_there_is_and_nothing_else() -> None:
    columns = {"rollout__points": ((1.0, -1.0),) * 3, "rollout__met": ((True, False), (True, True), (False, False))}
    batch = rewards([0, 0, 0], **columns)
    found = Rubric()(batch)
    assert found["rollout.perfect"].tolist() == [True, False, False]
    assert found["rollout.reward"].tolist() == [1.0, 0.0, 0.0]


def test_puzzles_judge_their_steps_in_whatever_style() -> None:
    world = Sums(level=3)
    task = world.task(0)
    for style in world.styles:
        text = world.solve(task, style)
        assert all(world.met(task, text))
        assert all(world.step_scores(task, text))
        first = text.splitlines()[0]
        assert world.completed(task, first) is not None
    assert not any(world.met(task, "nonsense"))
    assert world.completed(task, "nonsense") is None
    wrong = world.attempt(task, "short", right=0.0)
    assert not all(world.step_scores(task, wrong))


# -- RGR-GRPO ----------------------------------------------------------------------------------------------------------


def refined(own: Sequence[str], rewrite: str) -> list[Rollout]:
    """What comes of answers to a task of sums, and a rewrite of the best."""
    world = Sums(level=2)
    task = world.task(0)

    def answers(request: Request) -> Sequence[Rollout]:
        assert isinstance(request, Play)
        texts = list(own) if request.wave == 0 else [rewrite]
        right = [world.grade(task, text).info["correct"] for text in texts]
        return made(request, [float(r) for r in right], text=texts)

    plan = methods.rgr_grpo(n=len(own)).rollout.plan(TaskRequest(task, 0, Sampling(), (0, 0, 0), world=world))
    wave = next(plan)
    while True:
        try:
            wave = plan.send([list(answers(r)) for r in wave])
        except StopIteration as end:
            return [r for r in end.value if r.columns["purpose"] == Purpose.train]


def test_a_better_rewrite_joins_the_group_with_the_largest_advantage_and_a_worse_one_does_not() -> None:
    world = Sums(level=2)
    solved = world.solve(world.task(0))
    half = solved.splitlines()[0]
    group = refined([half, "nothing", "nothing"], solved)
    assert [r.columns["guided"] for r in group] == [False, False, False, True]
    shares = [world.met(world.task(0), str(r.columns["text"])) for r in group]
    points = torch.tensor([c.points for c in world.criteria(world.task(0))])
    values = [float(score(points, torch.tensor(met).double())) for met in shares]
    advantage = credit(methods.rgr_grpo().with_(reward=()), rewards(values))
    assert int(advantage.argmax()) == 3
    assert len(refined([half, "nothing"], "nothing")) == 2
    assert len(refined([solved, "nothing"], solved)) == 2  # a perfect one needs no rewrite


def test_rewrites_are_trained_as_answers_to_the_bare_question() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [0.0] * request.n)

    plan = methods.rgr_grpo(n=2).rollout.plan(
        TaskRequest(Sums(level=2).task(0), 0, Sampling(), (0, 0, 0), world=Sums(level=2))
    )
    wave = next(plan)
    wave = plan.send([list(answers(r)) for r in wave])
    (rewrite,) = wave
    assert isinstance(rewrite, Play)
    assert rewrite.context.attempt == "rollout 0"
    assert rewrite.train_context == Sums.context


# -- SCOPE -------------------------------------------------------------------------------------------------------------


def repaired(prefix: float, text: str) -> list[Rollout]:
    """A group of two: one with this wrong answer, one with none."""
    world = Sums(level=3)
    task = world.task(0)
    strategy = methods.scope(n=2, prefix=prefix).rollout

    def answers(request: Request) -> Sequence[Any]:
        if isinstance(request, Ends):
            return list(range(1, len(request.ids) + 1))  # a token a character
        if isinstance(request, Recite):
            assert request.begun is not None
            whole = text[: len(request.begun.ids)] + request.texts[0]
            right = world.grade(task, whole).info["correct"]
            turn = Turn((1,) * len(whole), context=(2,), tokens={"sampler.logp": (0.0,) * len(whole)})
            (rollout,) = made(request, [float(right)], text=[whole])
            return [Rollout("task", [turn], columns=rollout.columns)]
        rows = made(request, [0.0, 0.0], text=[text, ""])
        turn = Turn((1,) * len(text), context=(2,), tokens={"sampler.logp": (0.0,) * len(text)})
        return [Rollout("task", [turn], columns=rows[0].columns), rows[1]]

    plan = strategy.plan(TaskRequest(task, 0, Sampling(), (0, 0, 0), world=world))
    wave = next(plan)
    while True:
        try:
            wave = plan.send([list(answers(r)) for r in wave])
        except StopIteration as end:
            return list(end.value)


def test_a_wrong_answer_keeps_its_right_steps_and_gets_a_right_end() -> None:
    world = Sums(level=3)
    task = world.task(0)
    good = world.solve(task).splitlines()
    wrong = "\n".join([*good[:2], "1+1=3", "answer: 3"])
    group = repaired(0.5, wrong)
    fixed = group[0]
    assert fixed.columns["guided"]
    assert fixed.columns["text"] == world.solve(task)
    assert [r.columns["purpose"] for r in group].count(int(Purpose.replaced)) == 1
    values = [r.columns["reward"] for r in group if r.columns["purpose"] == Purpose.train]
    assert bool((credit(methods.scope().with_(keep=()), rewards(values)) != 0).all())


def test_a_prefix_above_one_repairs_nothing_and_neither_does_a_first_step_that_is_wrong() -> None:
    wrong = "1+1=3\nanswer: 3"
    assert not any(r.columns["guided"] for r in (*repaired(1.5, wrong), *repaired(0.5, wrong)))
    assert repaired(0.0, wrong)[0].columns["guided"]  # a whole answer replaces it


def test_own_tokens_before_the_cut_keep_the_clip_and_the_guides_get_the_shaped_loss() -> None:
    method = methods.scope()
    origin = torch.tensor([[Origin.copied] * 2 + [Origin.expert]], dtype=torch.int8)
    columns = {**logits(1), "token.advantage": torch.ones(1, 3, dtype=torch.float64), "token.origin": origin}
    batch = Batch.from_padded(torch.ones(1, 3), [0], columns)
    batch = batch.with_columns(method.keep[0](batch))
    assert batch["token.own"].tolist() == [True, True, False]
    assert Rectified().salvages([0.9, 0.8, 0.1], correct=False)
    assert not Rectified().salvages([0.9, 0.8, 0.9], correct=False)  # no step is wrong


def said(*texts: Sequence[int], task: str = "t") -> list[Rollout]:
    return [Rollout(task, [Turn(tuple(ids))], columns={"index": i}) for i, ids in enumerate(texts)]


def diversity(*rollouts: Rollout) -> float:
    return float(Diversity()(Batch.from_rollouts(list(rollouts), dtype=torch.float64))["batch.diversity"])


def test_diversity_is_one_less_the_mean_overlap_of_pairs_of_answers() -> None:
    assert diversity(*said([1, 2], [2, 1, 1])) == 0  # the same tokens
    assert diversity(*said([1, 2], [3])) == 1
    assert diversity(*said([1, 2], [2, 3], [4])) == pytest.approx(1 - (1 / 3) / 3)
    assert diversity(*said([], [], [1])) == pytest.approx(1 - 1 / 3)  # two empty ones are the same


def test_diversity_is_a_mean_over_tasks_with_two_rollouts_that_count() -> None:
    both = [*said([1], [1], task="a"), *said([1], [2], task="b"), *said([1], task="c")]
    assert diversity(*both) == pytest.approx(0.5)
    assert math.isnan(diversity(*said([1])))
    spare = [Rollout(r.group, r.turns, columns={**r.columns, "purpose": int(Purpose.train)}) for r in said([1], [2])]
    probe = Rollout("t", [Turn((1,))], columns={"index": 2, "purpose": int(Purpose.probe)})
    assert diversity(*spare, probe) == 1


def test_scope_reports_diversity() -> None:
    (line,) = lines(small("scope"), Sums(level=3), iterations=1)
    assert 0 <= line["diversity"] <= 1


# -- ICPO --------------------------------------------------------------------------------------------------------------


def test_icpo_without_guided_rollouts_is_grpo() -> None:
    n = 4
    columns = {**logits(n), "rollout.reward": torch.tensor([1.0, 0, 0, 1], dtype=torch.float64)}
    plain = torch.ones(n, dtype=torch.bool)
    marks = {
        "rollout.correct": torch.tensor([True, False, False, True]),
        "rollout.guided": ~plain,
        "rollout.plain": plain,
    }
    batch = Batch.from_padded(torch.ones(n, 3), [0] * n, columns).with_columns(marks)
    method = methods.icpo(guided=0, kl=0.0, steps=400).at(Clock(0))
    after = batch.with_columns(method.reward[0](batch))
    after = after.with_columns(method.advantage(after))
    base = methods.get("grpo@verl", kl=0.0)
    before = batch.with_columns(base.advantage(batch))
    assert_close(slope(method.objective, after), slope(base.objective, before))


def test_the_bonus_of_guided_successes_falls_to_zero() -> None:
    bonuses = [methods.icpo(steps=10).at(Clock(t)).reward[0].bonus for t in range(12)]
    assert bonuses[:11] == sorted(bonuses[:11], reverse=True)
    assert len(set(bonuses[:11])) == 11
    assert bonuses[10] == bonuses[11] == 0
    assert isinstance(methods.icpo().reward[0], GuidedBonus)


def test_icpo_removes_what_guided_before_it_trains() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Recite):
            return made(request, [1.0], text=["one\ntwo\nanswer: 3"])
        asked.append(request)
        return made(request, [0.0] * request.n)

    from podium.strategies import SolutionShares

    strategy = Guided(n=4, help=SolutionShares((0.5,), "lines"), guided=1)
    rollouts = collected(strategy, answers)
    assert [r.columns["guided"] for r in rollouts] == [False, False, False, True]
    assert [play.n for play in asked] == [3, 1]
    assert asked[1].context.hint == "one"
    assert asked[1].train_context is not None


def test_wrong_guided_rollouts_are_left_out_as_in_the_paper_and_kept_as_in_the_release() -> None:
    assert not methods.icpo().keep
    (reject,) = methods.get("icpo@paper").keep
    marks = {"rollout__guided": [False, True, True], "rollout__correct": [False, True, False]}
    assert reject(rewards([0, 1, 0], **marks))["rollout.keep.rejected"].tolist() == [True, True, False]


# -- RuscaRL -----------------------------------------------------------------------------------------------------------


def test_shares_of_the_checklist_fall_along_the_group_and_along_training() -> None:
    method = methods.ruscarl(steps=100, steepness=10.0)
    before = None
    for t in range(0, 100, 7):
        ratios = method.at(Clock(t)).rollout.ratios()
        assert ratios == sorted(ratios, reverse=True)
        assert ratios[-1] == 0
        assert before is None or all(a <= b for a, b in zip(ratios, before, strict=True))
        before = ratios


def test_without_a_scaffold_ruscarl_samples_like_grpo() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        asked.append(request)
        return made(request, [0.0] * request.n)

    plan = methods.ruscarl(n=4).set("rollout.fade", 0.0).rollout
    task = Sums().task(0)
    steps = plan.plan(TaskRequest(task, 0, Sampling(), (0, 0, 0), world=Sums()))
    wave = next(steps)
    with pytest.raises(StopIteration):
        steps.send([list(answers(r)) for r in wave])
    assert [play.n for play in asked] == [4]
    assert asked[0].context is None


def test_members_see_so_many_criteria_at_random_and_train_on_the_bare_question() -> None:
    strategy = methods.ruscarl(n=4, steps=1000).at(Clock(0)).rollout
    world = Sums(level=3)
    plan = strategy.plan(TaskRequest(world.task(0), 0, Sampling(), (0, 0, 0), world=world))
    plays = next(plan)
    texts = {c.text for c in world.criteria(world.task(0))}
    shown = [len(play.context.hint.splitlines()) if play.context else 0 for play in plays for _ in range(play.n)]
    assert shown == strategy.shown(5)
    assert all(set(play.context.hint.splitlines()) <= texts for play in plays if play.context)
    assert all(play.train_context == world.context for play in plays if play.context)


def test_a_note_stands_below_the_criteria_and_nowhere_else() -> None:
    strategy = methods.ruscarl(n=3, fade="none").set("rollout.note", "Do not speak of these.").rollout
    world = Sums(level=3)
    plays = next(strategy.plan(TaskRequest(world.task(0), 0, Sampling(), (0, 0, 0), world=world)))
    assert [play.context.below if play.context else None for play in plays] == ["Do not speak of these."] * 2 + [None]


def test_the_release_has_other_ways_to_fade_and_a_single_step_shows_everything() -> None:
    def first(t: int, **settings: Any) -> float:
        ratios: list[float] = methods.ruscarl(n=4, steps=101, **settings).at(Clock(t)).rollout.ratios()
        return ratios[0]

    assert first(25, fade="linear") == pytest.approx(0.75)
    assert first(50, fade="power", power=2.0) == pytest.approx(0.25)
    assert first(100, fade="none") == 1
    assert first(500, fade="linear") == first(500, fade="power", power=2.0) == 0
    for fade in ("sigmoid", "linear", "power", "none"):
        assert methods.ruscarl(n=3, steps=1, fade=fade).at(Clock(9)).rollout.ratios() == [1.0, 0.5, 0.0]
    assert methods.ruscarl(n=4, full=2, fade="none").rollout.ratios() == [1.0, 1.0, 0.0, 0.0]
    with pytest.raises(PodiumError, match="fade = 'cosine' is not one of"):
        methods.ruscarl(fade="cosine")


def test_ruscarl_samples_from_the_likeliest_tokens_as_its_authors_do() -> None:
    sampling = methods.ruscarl().rollout.draw.sampling(Sampling(max_tokens=7))
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens) == (0.7, 0.8, 20, 7)


# -- R³ ----------------------------------------------------------------------------------------------------------------


def stored(correct: bool) -> dict[str, Any]:
    turn = {"ids": (1, 2), "context": (3,), "train_context": (3,), "logp": (-0.5, -0.5), "entropy": (0.1, 0.1)}
    return {"correct": correct, "text": "kept", "answer": "1", "truncated": False, "turns": [turn]}


def replayed(own: Sequence[float], kept: Sequence[bool], mean: float = 1.0) -> list[Rollout]:
    def answers(request: Request) -> Sequence[Rollout]:
        if isinstance(request, Replay):
            return [request.rollout]
        assert isinstance(request, Play)
        return made(request, own)

    recalled = {"group.stored": tuple(stored(c) for c in kept), "group.stored.mean": torch.tensor(mean)}
    return collected(methods.r3(n=len(own)).rollout, answers, recalled=recalled)


@pytest.mark.parametrize("own", [[0.0] * 4, [1.0] * 4])
def test_a_group_without_contrast_gets_stored_rollouts_of_the_other_outcome(own: list[float]) -> None:
    group = replayed(own, [True, True, True, False, False, False])
    values = [r.columns["reward"] for r in group]
    assert len(group) == 6
    assert values[4:] == [1 - own[0]] * 2
    assert [r.columns["replayed"] for r in group] == [False] * 4 + [True] * 2
    batch = rewards(values, rollout__replayed=[False] * 4 + [True] * 2)
    assert bool((methods.r3().advantage(batch)["rollout.advantage"] != 0).all())


def test_reflection_asks_in_words_below_the_earlier_answer() -> None:
    asked: list[Play] = []

    def answers(request: Request) -> Sequence[Rollout]:
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, [0.0] * request.n)

    recalled = {"group.stored": (stored(False),), "group.stored.mean": torch.tensor(0.0)}
    collected(methods.r3(n=2).rollout, answers, recalled=recalled)
    scaffold = asked[-1].context
    assert isinstance(scaffold, Scaffold)
    assert scaffold.attempt
    assert scaffold.below == "That answer is wrong. Find the mistake and solve the task again."


def test_mixed_groups_and_empty_stores_are_left_alone() -> None:
    assert len(replayed([1.0, 0.0], [True, False])) == 2
    assert len(replayed([0.0, 0.0], [])) == 2
    assert len(replayed([0.0, 0.0], [False])) == 2


def test_a_task_that_keeps_failing_is_asked_again_with_an_earlier_answer_as_a_group_of_its_own() -> None:
    group = replayed([0.0, 1.0], [False], mean=0.1)
    assert [r.columns["reflecting"] for r in group] == [False, False, True, True]
    assert group[0].group != group[2].group
    assert len(replayed([0.0, 1.0], [False], mean=0.9)) == 2


def ranked(entropies: Sequence[Sequence[float]], reward: float = 0.0) -> Tensor:
    rollouts = [
        Rollout(
            "t",
            [Turn((1,) * len(row), tokens={"sampler.entropy": row})],
            columns={"reward": reward, "truncated": True, "index": i},
        )
        for i, row in enumerate(entropies)
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    found: Tensor = RankTruncated()(batch)["rollout.reward.rank"]
    return found


def test_ranks_lie_between_zero_and_the_highest_and_nobody_outranks_who_dominates_it() -> None:
    generator = torch.Generator().manual_seed(3)
    rows = torch.rand(6, 10, generator=generator, dtype=torch.float64)
    bonus = ranked(rows.tolist())
    peak, mean = rows.topk(2, 1).values.mean(1), rows.mean(1)
    assert float(bonus.min()) == 0
    assert float(bonus.max()) == 0.5
    for i in range(6):
        for j in range(6):
            if peak[i] > peak[j] and mean[i] < mean[j]:
                assert bonus[i] > bonus[j]
    assert not bool(ranked(rows.tolist(), reward=1.0).any())


def test_r3_with_nothing_stored_and_nothing_truncated_has_grpos_advantage() -> None:
    batch = rewards([1, 0, 0, 1], rollout__replayed=[False] * 4)
    assert_close(methods.r3().advantage(batch)["rollout.advantage"], credit(methods.grpo(), batch))


def test_alpha_damps_groups_with_replayed_rollouts_alone() -> None:
    batch = rewards([0, 0, 1], [0, 1], rollout__replayed=[False, False, True, False, False])
    one, two = (methods.r3(alpha=a).advantage(batch)["rollout.advantage"] for a in (1.0, 2.0))
    assert_close(one[:3] / 2, two[:3], rtol=1e-5, atol=0)
    assert_close(one[3:], two[3:])


class Few(Sums):
    """Two tasks to train on, again and again."""

    def size(self, split: str = "train") -> int | None:
        return 2 if split == "train" else None


def test_r3_replays_and_reflects_when_tasks_come_again() -> None:
    found = lines(small("r3"), Few(level=4), iterations=4, tasks=2, seed=2)
    assert finite(found)
    assert any(line["watched.replayed"] > 0 or line["watched.reflecting"] > 0 for line in found)


def test_the_newest_of_each_outcome_are_kept() -> None:
    memory = StoredRollouts(most=1)
    state = memory.initial()
    for text in ("a", "b"):
        rollouts = [
            Rollout(
                "t",
                [Turn((1,), context=(2,), tokens={"sampler.logp": (0.0,), "sampler.entropy": (0.0,)})],
                columns={
                    "correct": c,
                    "text": f"{text} {c}",
                    "answer": "",
                    "truncated": False,
                    "fresh": True,
                    "index": i,
                },
            )
            for i, c in enumerate((True, False))
        ]
        state = memory.observe(state, Batch.from_rollouts(rollouts))
    found = memory.recall(state, ["t", "new"])
    assert [kept["text"] for kept in found["group.stored"][0]] == ["b True", "b False"]
    assert found["group.stored.mean"].tolist() == [0.5, 1.0]
