"""The rules behind the texts, on cases worked out by hand."""

from __future__ import annotations

import math
from random import Random

import pytest

from podium.protocols.verdict_text import read_verdict
from podium.worlds import Clarify, Lookup
from podium.worlds.texts import advice, carry, devices, dilemmas, inquiries, people, puzzles, vault, verdicts


def test_the_weights_of_a_direction() -> None:
    assert advice.weights_of(-15) == (97, -26)  # the worked example of directional preference alignment
    assert advice.weights_of(0) == (100, 0)
    assert advice.direction_prompt("sum: 1+2", 97, -26) == "maximize quality*97 + length*-26\nsum: 1+2"


def test_careful_advice_helps_and_hasty_advice_harms() -> None:
    careful, hasty = (next(a for a in advice.ADVICE if a.text == text) for text in ("take small steps", "be quick"))
    right = {}
    for line in (careful, hasty):
        drawn = [advice.advised(Random(i), 2, lines=(line,)) for i in range(300)]
        right[line.text] = sum(e.respond(e.demonstrate(Random(i), 0.4)).right for i, e in enumerate(drawn)) / 300
    assert right["take small steps"] == pytest.approx(0.4**0.4, abs=0.08)
    assert right["be quick"] == pytest.approx(0.4**2, abs=0.08)


def test_a_longer_weight_gives_longer_solutions() -> None:
    def length(angle: float) -> float:
        drawn = [advice.directed(Random(i), 2, angle=angle) for i in range(200)]
        return sum(len(e.demonstrate(Random(i), 0.5)[0]) for i, e in enumerate(drawn)) / 200

    assert length(-45) < length(0) < length(45)


def test_length_misleads_a_short_verdict_and_not_the_label() -> None:
    longer_is_better, for_the_longer = 0, 0
    for i in range(300):
        pair = verdicts.draw_pair(*puzzles.draw_puzzle(Random(i), 2, kinds=verdicts.CHECKED), Random(i))
        right = [bool(pair.world.grade(pair.task, text).info["correct"]) for text in pair.texts]
        assert right == [pair.better == "A", pair.better == "B"]
        longer_is_better += pair.better == pair.longer
        exercise = verdicts.pair_verdict(Random(i), 2, style="short")
        attempts = exercise.prompt.partition("\nA: ")[2].rpartition("\nwhich")[0].split("\nB: ")
        said = read_verdict(exercise.demonstrate(Random(i), 0.0)[0])
        for_the_longer += said == ("A" if len(attempts[0]) >= len(attempts[1]) else "B")
    assert 0.35 < longer_is_better / 300 < 0.65
    assert for_the_longer == 300


def test_a_checked_verdict_finds_the_wrong_line() -> None:
    exercise = verdicts.pair_verdict(Random(4), 2, style="long")
    (text,) = exercise.demonstrate(Random(0), 1.0)
    *checks, verdict = text.splitlines()
    wrong = {line[0] for line in checks if line.endswith(" no")}
    assert wrong == {"A", "B"} - {verdict[-1]}


def test_what_the_dilemma_pays() -> None:
    assert dilemmas.dilemma_reply(dilemmas.DilemmaRound("defect", "cooperate")).startswith(
        "you defect, other cooperate, you get 5"
    )
    assert dilemmas.read_move("move: cooperate") == "cooperate"
    assert dilemmas.read_move("cooperate") is None
    assert dilemmas.read_share("take: 11") is None


def test_every_disguise_can_be_seen_through() -> None:
    for secret in vault.SECRETS:
        assert {vault.asked_word(vault.disguised(secret, way)) for way in vault.DISGUISES} == {secret}
    assert vault.asked_word("sum: 1+2") is None


def test_robots_do_not_run_into_each_other() -> None:
    state = carry.CarryState(3, 1, ((1, 1), (2, 1)), (False, True), (), (3, 1))
    assert carry.possible_moves(state, 0) == ["wait"]
    assert carry.helpful_moves(state, 1) == ("go east",)
    state = carry.after_carrying(state, 1, "go east")
    assert carry.helpful_moves(state, 1) == ("drop",)
    assert carry.after_carrying(state, 1, "drop").done
    assert carry.after_carrying(state, 0, "go west") == state


def test_numbers_are_compared_and_swapped() -> None:
    assert devices.sorting_reply((5, 3), "compare: 1 2") == ((5, 3), "more")
    assert devices.sorting_reply((5, 3), "swap: 1 2") == ((3, 5), "swapped")
    assert devices.sorting_reply((5, 3), "swap: 1 3")[1].startswith("error")
    assert devices.calculator_reply("calc: 12*34") == "408"
    assert devices.calculator_reply("calc: import os").startswith("error")


def test_compound_questions_are_answered_at_once_or_by_halves() -> None:
    task = Clarify(level=2).task(0)
    wish = task.data["wish"]
    slot = next(iter(wish))
    assert inquiries.compound_reply(task, f"ask: {slot}") == f"{slot}: {wish[slot]}"
    assert inquiries.compound_reply(task, f"ask: {slot} {wish[slot]} or any") == "yes"
    assert inquiries.compound_reply(task, "ask: weather").startswith("error")


def test_a_chain_names_its_sources() -> None:
    task = Lookup(level=2, known=0.0).task(0)
    hops, order = task.data["hops"], task.data["order"]
    chain = inquiries.chain_of(task, [f"search: {hop}" for hop in hops])
    assert chain == [f"{hop} is {task.data['facts'][hop]} [{order.index(hop) + 1}]" for hop in hops]


def test_the_planted_prior_has_the_size_that_it_says() -> None:
    row = people.draw_row(Random(0))
    favoured, other = (people.log_odds_of_approval(row._replace(group=group)) for group in people.GROUPS)
    assert favoured - other == pytest.approx(people.PLANTED)
    drawn: dict[str, list[bool]] = {group: [] for group in people.GROUPS}
    for i in range(4000):
        exercise = people.approved(Random(i), 1)
        group = exercise.prompt.partition("group ")[2].partition(",")[0]
        drawn[group].append(exercise.demonstrate(Random(f"{i} said"), 1.0) == ("yes",))
    rates = [sum(said) / len(said) for said in drawn.values()]
    odds = [math.log(rate / (1 - rate)) for rate in rates]
    assert 0.5 < odds[0] - odds[1] < people.PLANTED  # averaged over merit, the gap is smaller
