"""Judges that are models: verdicts that are written and read, or are the probabilities of options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from podium.core.errors import PodiumError
from podium.method import Role
from podium.protocols.sampling import Sampling
from podium.protocols.verdict_text import POINTS, read_verdict, read_yes_no
from podium.strategies import ChatServer, OptionJudge, WrittenJudge, judge_named
from podium.strategies.ask import Ask, Reply
from podium.strategies.requests import Opinion, Score, TaskRequest
from podium.worlds import Task

REQUEST = TaskRequest(Task("t", "sum: 1+2"), 0, Sampling(max_tokens=9), (5,))


def heard(plan: Any, answer: Callable[[Any, int], list[Any]]) -> tuple[Opinion, list[Any]]:
    """What a judge comes to if each of its requests, with its number, is answered so; and the requests."""
    asked: list[Any] = []
    try:
        wave = next(plan)
        while True:
            answers = [answer(request, len(asked) + place) for place, request in enumerate(wave)]
            asked += wave
            wave = plan.send(answers)
    except StopIteration as end:
        return end.value, asked


def saying(*texts: str) -> Callable[[Any, int], list[Any]]:
    return lambda request, number: [Reply(texts[number])]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("verdict: A", "A"),
        ("verdict: A\nA 1+2=4 no\nverdict: B", "B"),  # the last one counts
        ("**Verdict:** b.", "B"),
        ("verdict: +2", "2"),
        ("verdict: -3", "-3"),
        ("verdict: 0", None),
        ("verdict: C", None),
        ("A is better", None),
        ("", None),
    ],
)
def test_a_verdict_is_read_from_its_last_line(text: str, said: str | None) -> None:
    assert read_verdict(text) == said


def test_yes_and_no() -> None:
    assert [read_yes_no(t) for t in (" yes", "No, it", "**Yes**", "it is\nverdict: no", "maybe", "")] == [
        *("yes", "no", "yes", "no"),
        *(None, None),
    ]
    assert read_verdict("verdict: 10", POINTS) == "10"


def test_a_written_verdict_is_asked_with_the_known_words_and_limits() -> None:
    opinion, (ask,) = heard(WrittenJudge(tokens=3).compare(REQUEST, "3", "4", seed=7), saying("verdict: A"))
    assert opinion == Opinion((1.0, 0.0), 1)
    assert isinstance(ask, Ask)
    assert (ask.prompt, ask.of) == ("judge: sum: 1+2\nA: 3\nB: 4\nwhich is better?", "judge")
    assert (ask.sampling.max_tokens, ask.sampling.temperature) == (3, 0.6)


def test_nonsense_is_asked_again_by_other_chance_and_is_neutral_in_the_end() -> None:
    judge = WrittenJudge(retries=2)
    opinion, asked = heard(judge.compare(REQUEST, "3", "4", 0), saying("hm", "verdict: C", "verdict: B"))
    assert opinion == Opinion((0.0, 1.0), 3)
    assert len({ask.stream for ask in asked}) == 3
    opinion, _ = heard(judge.compare(REQUEST, "3", "4", 0), saying("a", "b", "c"))
    assert opinion == Opinion(None, 3)


def test_a_scaled_verdict_says_how_much_better_the_second_is() -> None:
    opinion, (ask,) = heard(WrittenJudge(scaled=True).compare(REQUEST, "3", "4", 0), saying("verdict: -3"))
    assert ask.prompt.endswith("how much better is B? -3 to 3")
    assert opinion.scores == (1.0, 0.0)
    opinion, _ = heard(WrittenJudge(scaled=True).compare(REQUEST, "3", "4", 0), saying("verdict: 1"))
    assert opinion.scores == pytest.approx((1 / 3, 2 / 3))
    # Letters are nonsense here, and numbers where letters are asked for.
    unread, _ = heard(WrittenJudge(scaled=True, retries=0).compare(REQUEST, "3", "4", 0), saying("verdict: A"))
    assert unread.scores is None


def test_a_long_judgement_counts_less_by_its_characters() -> None:
    text = "A 1+2=3 yes\nverdict: A"
    opinion, _ = heard(WrittenJudge(by_length=True).compare(REQUEST, "3", "4", 0), saying(text))
    assert opinion.scores is not None
    assert opinion.scores[0] - opinion.scores[1] == pytest.approx(1 / len(text))


def test_points_and_criteria() -> None:
    opinion, (ask,) = heard(WrittenJudge().rate(REQUEST, "3", 0), saying("verdict: 7"))
    assert (opinion.scores, ask.prompt) == ((0.7,), "judge: sum: 1+2\nA: 3\nhow good is it? 0 to 10")
    opinion, (ask,) = heard(WrittenJudge().meets(REQUEST, "3", "it is odd", 0), saying(" no"))
    assert opinion.scores == (0.0,)
    assert "A criterion: it is odd" in ask.prompt


def options(weights: dict[str, float]) -> Callable[[Score, int], list[Any]]:
    # The first token is what all options begin with: it must cancel.
    return lambda request, _: [-3.0, math.log(weights[str(request.ids).split()[-1]])]


def test_probabilities_of_options_are_the_scores() -> None:
    opinion, asked = heard(OptionJudge().compare(REQUEST, "3", "4", 0), options({"A": 0.3, "B": 0.1}))
    assert opinion.scores == pytest.approx((0.75, 0.25))
    assert [request.ids for request in asked] == ["verdict: A", "verdict: B"]
    numbers = dict.fromkeys(("-3", "-2", "-1", "1", "2", "3"), 0.1) | {"3": 0.5}
    opinion, _ = heard(OptionJudge(scaled=True).compare(REQUEST, "3", "4", 0), options(numbers))
    # The mean verdict is (−3 + 0.5 · 30 / 10 …): Σ p v = (−0.3 + 1.5) / 1 = 1.2, which is 0.5 + 1.2 / 6.
    assert opinion.scores == pytest.approx((0.3, 0.7))
    opinion, _ = heard(OptionJudge().meets(REQUEST, "3", "odd", 0), options({"yes": 0.2, "no": 0.6}))
    assert opinion.scores == pytest.approx((0.25,))
    points = {str(n): 1.0 for n in range(11)}
    opinion, _ = heard(OptionJudge().rate(REQUEST, "3", 0), options(points))
    assert opinion.scores == pytest.approx((0.5,))


def test_what_does_not_fit_or_fails_is_a_failure() -> None:
    with pytest.raises(PodiumError, match="does not fit into the context"):
        heard(OptionJudge().compare(REQUEST, "3", "4", 0), lambda request, number: [])
    with pytest.raises(PodiumError, match="out of order"):
        heard(WrittenJudge().compare(REQUEST, "3", "4", 0), lambda request, number: [Reply("", "out of order")])


@pytest.mark.parametrize("make", [WrittenJudge, OptionJudge])
def test_a_question_may_name_only_what_there_is(make: Callable[..., Any]) -> None:
    with pytest.raises(PodiumError, match=r"may name only \{question\}, \{left\}, \{right\}"):
        make(pair="{answer}?")


def roles(name: str, way: str = "options") -> Sequence[Role]:
    return judge_named(name, way)[1]


def test_judges_by_name() -> None:
    assert judge_named("world") == ("world", ())
    assert judge_named("policy", "written") == (WrittenJudge(asks="policy"), ())
    assert judge_named("runs/judge") == (OptionJudge(), (Role("judge", source="runs/judge"),))
    server, none = judge_named("http://localhost:8001/v1#my-model")
    assert (server, none) == (WrittenJudge(asks=ChatServer("http://localhost:8001/v1", "my-model")), ())
    with pytest.raises(PodiumError, match="'written' or 'options'"):
        judge_named("runs/judge", "shouted")
