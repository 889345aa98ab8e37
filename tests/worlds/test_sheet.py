"""Worlds that a table decides: what their rules say, and what their checks of statements say."""

from __future__ import annotations

import dataclasses

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.worlds import Cases, Opinions, Shop, Task
from podium.worlds.cases import CONDITIONS, rule_table
from podium.worlds.opinions import agreed_answer, opinion, wishes
from podium.worlds.shop import KIND_OF, prices


def case(findings: list[str], options: list[str], answer: str = "A", domain: str = "easy") -> Task:
    return Task("case", "case", domain=domain, data={"findings": findings, "options": options, "answer": answer})


def test_most_findings_decide_unless_two_of_them_mean_something_else() -> None:
    table = rule_table()
    speaks: dict[str, list[str]] = {c: [f for f, of in table.speaks.items() if of == c] for c in CONDITIONS}
    first, second = (f for f in ("kine", "dore"))
    two_to_one = [*speaks[first][2:], speaks[second][2]]
    assert table.tier(two_to_one) == "moderate"
    assert table.condition(two_to_one) == first
    assert table.tier(speaks[first][:3]) == "easy"
    pair, meant = next(iter(table.pairs.items()))
    assert meant not in {table.speaks[f] for f in pair}
    assert table.tier([*pair, speaks[first][3]]) == "difficult"
    assert table.condition([*pair, speaks[first][3]]) == meant
    assert table.tier([speaks[first][2], speaks[second][2], speaks["alver"][3]]) is None


def test_faithful_and_complete_reasoning_of_a_case() -> None:
    world, task = Cases(), case(["dry", "tear", "cough"], ["kine", "voss", "dore", "sool"])

    def read(text: str) -> tuple[object, object]:
        info = world.grade(task, text).info
        return info["faithful"], info["complete"]

    assert read("so dry kine, tear kine, cough voss\nanswer: A") == (1, 1)
    assert read("so dry kine, fever alver\nanswer: A") == (1 / 2, 1 / 3)
    assert read("answer: A") == (1, 0)
    assert read("dry dry dry\nanswer: A") == (1, 1 / 3)  # said once


@pytest.mark.parametrize(("answer", "right"), [("a", True), ("(A)", True), ("B", False), ("A B", False), ("E", False)])
def test_a_case_is_answered_by_one_letter(answer: str, right: bool) -> None:
    task = case(["dry", "tear", "cough"], ["kine", "voss", "dore", "sool"])
    assert Cases().grade(task, f"answer: {answer}").info["correct"] is right


def test_tiers_are_domains_and_can_be_chosen() -> None:
    assert {Cases().task(i).domain for i in range(40)} == {"easy", "moderate", "difficult"}
    assert {Cases(domain="difficult").task(i).domain for i in range(8)} == {"difficult"}
    for level in Cases.levels:
        world = Cases(level=level)
        for task in (world.task(i) for i in range(30)):
            assert len(task.data["findings"]) == level + 2
            assert world.rules.tier(task.data["findings"]) == task.domain


def test_tables_of_other_numbers_decide_otherwise() -> None:
    assert rule_table(1).speaks != rule_table(0).speaks
    assert wishes(1) != wishes(0)
    assert prices(1) != prices(0)
    assert Cases(table=1).task(0).key != Cases().task(0).key
    with pytest.raises(PodiumError, match="table = -1"):
        Cases(table=-1)


def test_an_opinion_depends_on_who_is_asked() -> None:
    first, second = wishes()["boss"]
    assert opinion("boss", [(first, "up"), (second, "down")]) == ("yes", first)
    assert opinion("boss", [(second, "down")]) == ("no", second)
    assert opinion("boss", []) == ("none", "")


def test_divergent_questions_score_each_role_and_convergent_ones_what_most_say() -> None:
    world = Opinions()
    data = {"effects": [("time", "up")], "roles": ["boss", "user", "king"], "answers": ["yes", "no", "yes"]}
    poll = Task("poll", "poll", domain="divergent", data=data)
    vote = dataclasses.replace(poll, domain="convergent")
    scores = {
        text: (world.grade(poll, f"answer: {text}").reward, world.grade(vote, f"answer: {text}").reward)
        for text in ("yes no yes", "yes yes no", "no no yes", "yes no none", "yes", "yes no maybe")
    }
    assert scores["yes no yes"] == (1, 1)
    assert scores["yes yes no"] == (1 / 3, 1)
    assert scores["no no yes"] == (pytest.approx(2 / 3), 0)
    assert scores["yes no none"] == (pytest.approx(2 / 3), 0)  # no answer is ahead of the others
    assert scores["yes"] == scores["yes no maybe"] == (0, 0)
    assert agreed_answer(["no", "yes", "no"]) == "no"
    assert agreed_answer([]) == ""


def test_a_basket_must_be_liked_affordable_and_large_enough() -> None:
    world, cost = Shop(level=2), prices()
    data = {"likes": ["food"], "gold": cost["fish"] + cost["cake"], "least": 2}
    task = Task("shop", "shop", data=data)

    def right(answer: str) -> object:
        return world.grade(task, f"answer: {answer}").info["correct"]

    assert right("fish cake")
    assert not right("fish")
    assert not right("fish fish")
    assert not right("fish apple cake")
    assert not right("fish cup")
    assert not right("fish gold")


def test_prices_are_the_statements_of_the_shop() -> None:
    world, cost = Shop(), prices()
    task = Task("shop", "shop", data={"likes": ["food"], "gold": 9, "least": 1})
    info = world.grade(task, f"so fish {cost['fish']}, cake {cost['cake'] + 1}\nanswer: fish cake").info
    assert (info["faithful"], info["complete"]) == (1 / 2, 1 / 2)


def test_phrasings_ask_for_the_same_and_the_habit_answers_them_differently() -> None:
    world = Shop(level=3)
    lengths = []
    for task in (world.task(i) for i in range(20)):
        phrasings = world.phrasings(task)
        assert len({p.prompt for p in phrasings}) == 4
        assert {p.key for p in phrasings} == {task.key}
        assert all(world.grade(p, world.solve(q)).info["correct"] for p in phrasings for q in phrasings)
        lengths.append([len(world.reference(p).split()) for p in phrasings])
    short, long, *_ = (sum(x) for x in zip(*lengths, strict=True))
    assert long > 1.3 * short
    assert Shop(instructions=True).phrasings(Shop().task(0))[1].prompt.count("\n") == 1
    assert set(KIND_OF.values()) == {"food", "home", "work", "play"}


def test_a_world_of_one_wording_says_so() -> None:
    world = worlds.get("sums")
    with pytest.raises(PodiumError, match="one wording"):
        world.phrasings(world.task(0))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("cases", {"domain": "hard"}, "'difficult'"),
        ("opinions", {"domain": "divergant"}, "'divergent'"),
        ("shop", {"habit": 2}, "habit = 2"),
    ],
)
def test_dials_out_of_range_get_a_remedy(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        worlds.get(name, **settings)
    assert message in str(error.value)
