"""Accuracy over budgets of thinking."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import pytest

from podium import policy as policies
from podium import worlds
from podium.analysis.thinking import BudgetPoint, curve, doublings, thought
from podium.cli.app import main
from podium.collect.driver import Driver
from podium.collect.episodes import Episodes
from podium.core.errors import PodiumError
from podium.evaluation.measure import held_out, held_out_requests, measure
from podium.protocols.format import Format
from podium.protocols.sampling import Sampling
from podium.protocols.tagged import ThinkTags
from podium.protocols.worded_steps import WordedSteps
from podium.sampler.local import LocalSampler
from podium.sessions.evaluate import thinking
from podium.sessions.train import train
from podium.strategies.requests import Play

SUMS = worlds.get("sums", level=2)
COUNTS = {"tasks": 6, "samples": 2, "max_tokens": 64}


@cache
def driver() -> Driver:
    policy = policies.load("podium/tiny")
    return Driver(LocalSampler(policy), SUMS, follow_up=policy.follow_up, written=policy.written, ends=policy.ends)


@cache
def points() -> list[BudgetPoint]:
    requests = held_out_requests(SUMS, 6, Sampling(max_tokens=64))
    return curve(driver(), requests, (0, 12, 1000), samples=2)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ab\nanswer: 3", 3),  # with the line break
        ("answer: 3", 0),
        ("<think>ab</think>\nanswer: 3", 9),
        ("abcd", 4),
    ],
)
def test_a_thought_ends_with_its_tag_or_before_the_answer(text: str, wanted: int) -> None:
    ends = [*range(1, len(text) + 1), len(text)]  # a token a character, and the end of the turn
    assert thought(text, ends) == wanted


def test_budgets_double_up_to_the_longest_thought() -> None:
    assert doublings(5) == [0, 1, 2, 4, 8]
    assert doublings(0) == [0, 1]


def test_with_room_for_every_thought_the_accuracy_is_that_of_whole_answers() -> None:
    plain = measure(held_out(driver(), **COUNTS))["pass@1"]
    assert points()[-1].accuracy == plain
    assert points()[-1].cut == 0


def test_less_thinking_is_cut_more_often_and_is_no_better() -> None:
    found = points()
    assert [p.budget for p in found] == [0, 12, 1000]
    assert found[0].cut == 1
    assert found[0].thought == 0
    assert found[1].thought == 12
    assert found[0].accuracy.mean <= found[-1].accuracy.mean > 0


def test_a_forced_answer_follows_the_first_tokens_of_the_same_thought(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Play] = []
    start = Episodes.start

    def watched(self: Episodes) -> None:
        seen.append(self.play)
        start(self)

    monkeypatch.setattr(Episodes, "start", watched)
    requests = held_out_requests(SUMS, 1, Sampling(max_tokens=64))
    curve(driver(), requests, (5,))
    whole, forced = seen
    assert whole.begun is None
    assert forced.begun is not None
    begun = driver().sampler.text(forced.begun.ids)
    assert begun.endswith("\nanswer:")
    (rollout,) = held_out(driver(), tasks=1, samples=1, max_tokens=64)[0]
    assert forced.begun.ids[:5] == tuple(rollout.turns[0].ids[:5])


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(PodiumError, match="0 or more"):
        thinking("podium/tiny", world="sums", budgets=(-1,), tasks=1)
    with pytest.raises(PodiumError, match="has several turns"):
        thinking("podium/tiny", world="keydoor", budgets=(4,), tasks=1)
    with pytest.raises(PodiumError, match="name one with --world"):
        thinking("podium/tiny", tasks=1)


def test_the_command_prints_a_row_a_budget(capsys: pytest.CaptureFixture[str]) -> None:
    where = ["eval", "podium/tiny", "--world", "sums", "--level", "2"]
    assert main([*where, "--tasks", "2", "--thinking", "0,8"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["budget", "accuracy"]
    assert [row.split()[0] for row in rows] == ["0", "8"]
    assert main([*where, "--tasks", "1", "--thinking", "--json"]) == 0
    assert '"budget": 0, "accuracy": {"mean"' in capsys.readouterr().out
    assert main([*where, "--thinking", "few"]) == 2


def test_a_point_says_all_that_is_known() -> None:
    assert dataclasses.asdict(points()[0]) == points()[0].as_dict()


def test_a_format_says_where_the_thought_ends_and_what_forces_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`1. **Final Answer** \\boxed{3}`: the thought is what stands before the words of the format."""
    boxed = WordedSteps()
    text = "1+2=3.\n\n**Final Answer**\n\\boxed{3}"
    assert thought(text, range(1, len(text) + 1), boxed.opening) == len("1+2=3.\n\n")
    assert thought("1+2", range(1, 4), boxed.opening) == 3  # it never answers

    seen: list[Play] = []
    start = Episodes.start

    def watched(self: Episodes) -> None:
        seen.append(self.play)
        start(self)

    monkeypatch.setattr(Episodes, "start", watched)
    curve(driver(), held_out_requests(SUMS, 1, Sampling(max_tokens=64), format=boxed), (5,))
    forced = seen[-1].begun
    assert forced is not None
    assert driver().sampler.text(forced.ids).endswith("\n**Final Answer**\n\\boxed{")


def test_a_run_in_a_format_is_asked_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pear's answers are `<think>…</think>` and then the answer."""
    settings = {"world": "sums", "level": 1, "iterations": 1, "tasks": 2, "eval_every": 0, "eval_tasks": 1}
    train("pear", out=tmp_path / "run", **settings)
    asked: list[Format | None] = []
    start = Episodes.start

    def watched(self: Episodes) -> None:
        asked.append(self.format)
        start(self)

    monkeypatch.setattr(Episodes, "start", watched)
    thinking(tmp_path / "run", budgets=(0,), tasks=1)
    assert asked == [ThinkTags(), ThinkTags()]
