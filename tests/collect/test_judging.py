"""Comparisons and ratings that plans ask for: both orders, counted; a judge that fails gives a neutral verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podium.collect.driver import Driver
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.protocols.sampling import Sampling
from podium.report.outcomes import troubles
from podium.sampler.local import LocalSampler
from podium.strategies import JudgedRollouts, OptionJudge, Sample, WrittenJudge
from podium.strategies.judged.judged_rollouts import rated
from podium.strategies.requests import Compare, JudgeScores, PairJudge, Rate, Score, SubPlan, TaskRequest
from podium.training.metrics import Metrics
from podium.worlds import Answer, Feedback, Sums, Task, World
from podium.worlds.isolated import isolated
from tests.policy import tiny


class Lengths(Answer):
    """Judges answers by their length, and prefers what stands first by 0.1."""

    name = "lengths"
    isolation = "thread"
    act_limit_s = 0.3
    provides = (*World.provides, "task.compare", "task.rate")

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"{split}/{index}", "say something")

    def grade(self, task: Task, text: str) -> Feedback:
        return Feedback(0.0)

    def compare(self, task: Task, left: str, right: str, seed: int = 0) -> tuple[float, float]:
        return len(left) / 10 + 0.1, len(right) / 10

    def rate(self, task: Task, text: str, seed: int = 0) -> float:
        return len(text) / 10


def world(compare: Callable[..., Any]) -> World:
    made: World = type("Other", (Lengths,), {"compare": lambda self, *given: compare(*given), "rate": compare})()
    return made


def asked(world: World, *requests: Any, at: Driver | None = None) -> tuple[list[JudgeScores], Driver]:
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0, 0, 0), world=world)
    policy = tiny.policy()
    at = at or Driver(LocalSampler(policy), world, written=policy.written, score=policy.score)

    def plan() -> Any:
        answers = yield [make(request) for make in requests]
        return [judgement for (judgement,) in answers]

    (found,) = at.collect([plan()])
    return found, at  # type: ignore[return-value]


def test_a_comparison_is_made_in_both_orders_and_each_call_is_counted() -> None:
    (verdict,), driver = asked(Lengths(), lambda r: Compare(r, "abcde", "ab"))
    # 0.5 + 0.1 and 0.2 as they stand, 0.5 and 0.2 + 0.1 in the other order.
    assert verdict.scores == pytest.approx((0.55, 0.25))
    assert (verdict.calls, verdict.failed, driver.judged) == (2, 0, 2)


def test_one_order_favours_what_stands_first() -> None:
    (verdict,), driver = asked(Lengths(), lambda r: Compare(r, "ab", "ab", calls=1))
    assert verdict.scores == pytest.approx((0.3, 0.2))
    assert driver.judged == 1


def test_a_rating_is_the_mean_of_its_calls() -> None:
    (verdict,), driver = asked(world(lambda *given: given[-1] % 2 / 2 + 0.25), lambda r: Rate(r, "ab", calls=16))
    assert (verdict.calls, driver.judged) == (16, 16)
    assert 0.25 < verdict.scores[0] < 0.75  # each call has a seed of its own


def test_chance_depends_on_the_seed_of_the_request_alone() -> None:
    noisy = world(lambda task, left, right, seed: (seed % 97 / 97, seed % 89 / 89))
    first, _ = asked(noisy, lambda r: Compare(r, "a", "b", seed=7), lambda r: Compare(r, "a", "b", seed=8))
    second, _ = asked(noisy, lambda r: Compare(r, "a", "b", seed=8), lambda r: Compare(r, "a", "b", seed=7))
    assert first == second[::-1]
    assert first[0] != first[1]


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (lambda *given: 1 / 0, "the world raised ZeroDivisionError: division by zero"),
        (lambda *given: time.sleep(2.0), "the judge did not answer within 0.3 s"),
        (lambda *given: (float("nan"), 0.5), "the judge's verdict is (nan, 0.5), not 2 numbers in [0, 1]"),
        (lambda *given: (0.5, 7), "the judge's verdict is (0.5, 7), not 2 numbers in [0, 1]"),
        (lambda *given: 0.5, "the judge's verdict is 0.5, not 2 numbers in [0, 1]"),
        (lambda *given: "left", "the judge's verdict is 'left', not 2 numbers in [0, 1]"),
        (lambda *given: None, "the judge's verdict is None, not 2 numbers in [0, 1]"),
    ],
    ids=["raises", "hangs", "nan", "out-of-range", "one", "text", "nothing"],
)
def test_a_judge_that_fails_is_counted_and_its_verdict_is_neutral(judge: Callable[..., Any], reason: str) -> None:
    (verdict,), driver = asked(world(judge), lambda r: Compare(r, "abcde", "ab"))
    assert verdict == JudgeScores((0.5, 0.5), calls=2, failed=2)
    assert driver.judge_failures == {reason: 2}
    metrics = Metrics()
    metrics.count_judged(driver)
    line = metrics.line(1)
    assert (line["judge.calls"], line["judge.failures"], line["judge.failure"]) == (2, 2, reason)
    assert [note for _, note in troubles(line)] == [f"The judge failed in 2 of 2 judgements: {reason}."]


def test_one_failed_order_leaves_the_other() -> None:
    def sometimes(task: Task, left: str, right: str, seed: int) -> tuple[float, float]:
        if left == "ab":
            raise RuntimeError("no verdict")
        return 0.9, 0.1

    (verdict,), driver = asked(world(sometimes), lambda r: Compare(r, "abcde", "ab"))
    assert verdict.scores == pytest.approx((0.7, 0.3))
    assert (verdict.failed, sum(driver.judge_failures.values())) == (1, 1)


class Likelier(PairJudge):
    """Prefers the answer that the policy finds likelier after the question."""

    raises: bool = False

    roles = ("policy",)

    def compare(self, request: TaskRequest, left: str, right: str, seed: int) -> SubPlan:
        if self.raises:
            raise RuntimeError("no verdict")
        likely = yield [Score(str(request.task.prompt), text) for text in (left, right)]
        better = sum(likely[0]) > sum(likely[1])
        return float(better), float(not better)

    def rate(self, request: TaskRequest, text: str, seed: int) -> SubPlan:
        yield from ()
        return 0.75


def test_a_judge_of_ones_own_asks_the_models_of_the_run() -> None:
    requests = [lambda r: Compare(r, "a", "zzzzzz", judge=Likelier()), lambda r: Rate(r, "a", judge=Likelier())]
    (pair, point), driver = asked(Lengths(), *requests)
    assert pair.scores in ((1.0, 0.0), (0.0, 1.0))  # the same in both orders
    assert (pair.calls, point.scores, point.calls, driver.judged) == (2, (0.75,), 1, 3)
    (failed,), driver = asked(Lengths(), lambda r: Compare(r, "a", "b", judge=Likelier(raises=True)))
    assert failed == JudgeScores((0.5, 0.5), calls=2, failed=2)
    assert driver.judge_failures == {"the judge raised RuntimeError: no verdict": 2}


class Shorter(PairJudge):
    """Prefers the shorter answer, and has no opinion on single ones."""

    def compare(self, request: TaskRequest, left: str, right: str, seed: int) -> tuple[float, float]:
        return float(len(left) < len(right)), float(len(right) < len(left))


def test_a_judge_may_be_a_plain_function_and_need_not_do_everything() -> None:
    requests = [lambda r: Compare(r, "a", "bb", judge=Shorter()), lambda r: Rate(r, "a", judge=Shorter())]
    (pair, point), driver = asked(Lengths(), *requests)
    assert pair == JudgeScores((1.0, 0.0), calls=2)
    assert point == JudgeScores((0.5,), calls=1, failed=1)
    assert list(driver.judge_failures) == ["the judge raised NotImplementedError"]


def test_a_judge_that_is_none_is_refused() -> None:
    with pytest.raises(PodiumError, match="'judge' is to judge answers: give 'world', or a value"):
        asked(Lengths(), lambda r: Compare(r, "a", "b", judge="judge"))


SEPARATE = """
import os
from podium.protocols.world import Answer, Feedback, Task

class Mine(Answer):
    name = "mine"
    provides = (*Answer.provides, "task.compare", "task.rate")

    def task(self, index, split="train"):
        return Task(f"{split}/{index}", "say something")

    def grade(self, task, text):
        return Feedback(0.0)

    def compare(self, task, left, right, seed=0):
        if not left:
            os._exit(3)
        return (1.0, 0.25)

    def rate(self, task, text, seed=0):
        return 0.75
"""


def test_a_world_in_a_process_of_its_own_judges_from_there(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SEPARATE)
    mine = isolated(f"{tmp_path}/mine.py:Mine")
    try:
        judgements, driver = asked(
            mine, lambda r: Compare(r, "a", "b"), lambda r: Rate(r, "a"), lambda r: Compare(r, "", "")
        )
    finally:
        mine.close()
    assert [j.scores for j in judgements] == [(0.625, 0.625), (0.75,), (0.5, 0.5)]
    assert judgements[2].failed == 2
    assert all(reason.startswith("the world's process") for reason in driver.judge_failures)


def test_a_world_that_does_not_judge_says_so() -> None:
    with pytest.raises(PodiumError, match="does not compare answers"):
        World().compare(Task("a", "b"), "left", "right")
    with pytest.raises(PodiumError, match="does not rate answers"):
        World().rate(Task("a", "b"), "text")


def test_a_strategy_lets_its_rollouts_be_scored_or_held_to_criteria() -> None:
    world, policy = Sums(level=1), tiny.policy()
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=8), (0, 0, 0), world=world)
    driver = Driver(LocalSampler(policy), world, written=policy.written, score=policy.score)
    judge = OptionJudge(role="policy")
    (scored,) = driver.collect([JudgedRollouts(Sample(n=3), judge).plan(request)])
    assert [r.columns["judged.calls"] for r in scored] == [1.0] * 3
    assert all(0 <= r.columns["judged.score"] <= 1 for r in scored)
    criteria = world.criteria(request.task)
    (held,) = driver.collect([JudgedRollouts(Sample(n=3), judge, asks="criteria", calls=2).plan(request)])
    assert all(r.columns["points"] == tuple(c.points for c in criteria) for r in held)
    assert all(len(r.columns["met"]) == len(criteria) for r in held)
    assert [r.columns["judged.calls"] for r in held] == [2.0 * len(criteria)] * 3
    with pytest.raises(PodiumError, match="must be a judge"):
        JudgedRollouts(judge="world", asks="criteria")


def test_the_policy_may_write_its_own_verdicts_and_nonsense_is_counted() -> None:
    # An untrained model never writes a verdict.
    (verdict,), driver = asked(Lengths(), lambda r: Compare(r, "ab", "a", judge=WrittenJudge(asks="policy", retries=1)))
    assert verdict == JudgeScores((0.5, 0.5), 4, failed=2)
    assert (driver.judged, driver.judge_retries, driver.judge_nonsense) == (4, 2, 2)
    metrics = Metrics()
    metrics.count_judged(driver)
    line = metrics.line(1)
    assert (line["judge.retries"], line["judge.nonsense"]) == (2, 2)


def test_a_question_without_room_is_a_failure() -> None:
    (verdict,), driver = asked(Lengths(), lambda r: Rate(r, "a" * 9000, judge=WrittenJudge(asks="policy")))
    assert verdict.failed == 1
    assert "leaves no room" in next(iter(driver.judge_failures))
    (verdict,), driver = asked(Lengths(), lambda r: Rate(r, "a" * 9000, judge=OptionJudge(role="policy")))
    assert "does not fit" in next(iter(driver.judge_failures))


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_scores_of_a_share_of_the_rollouts_are_right_on_average(share: float) -> None:
    request = TaskRequest(Lengths().task(0), 0, Sampling(max_tokens=4), (0, 0, 0), world=Lengths())
    texts = ["a" * (n % 10) for n in range(4000)]
    rollouts = [Rollout("t", (), columns={"text": text}) for text in texts]
    plan = rated(request, rollouts, "world", calls=2, share=share, assumed=0.4)
    wave: list[Any] = next(plan)  # type: ignore[arg-type]
    with pytest.raises(StopIteration) as end:
        plan.send([[JudgeScores((len(rate.text) / 10,), 2, 0)] for rate in wave])  # type: ignore[union-attr]
    judged = end.value.value
    scores = [r.columns["judged.score"] for r in judged]
    assert sum(r.columns["judged.calls"] for r in judged) == 2 * len(wave)
    assert len(wave) == pytest.approx(4000 * share, rel=0.1)
    assert sum(scores) / 4000 == pytest.approx(0.45, abs=0.04 if share < 1 else 1e-9)
    unsent = [score for score, r in zip(scores, judged, strict=True) if not r.columns["judged.calls"]]
    assert all(score == 0.4 for score in unsent)
    with pytest.raises(PodiumError, match="share must be 1"):
        JudgedRollouts(judge=OptionJudge(), asks="criteria", share=0.5)
