"""Lookup with sources, guessable answers and unclear judgements."""

from __future__ import annotations

from podium.protocols.context import Exchange, Forget, History, Wrote
from podium.worlds import Lookup
from podium.worlds.lookup import FAVOURITES
from podium.worlds.texts.inquiries import chain_of


def test_an_answer_with_its_whole_chain_names_and_supports_every_hop() -> None:
    world = Lookup(level=2, sources=True, known=0.0)
    for index in range(8):
        task = world.task(index)
        *searches, answer = world.attempt(task)
        episode = world.reset(task)
        for text in searches:
            episode.act(text)
        text = "\n".join([*chain_of(task, searches), answer])
        info = episode.copy().act(text).info
        assert info["supported"] == (True, True)
        assert all(name for _, name in info["entities"])
        assert info["rubrics"][-1].startswith("<E0> is the ")
        assert info["rubrics"][0].endswith(task.data["start"])
        bare = episode.act(answer).info
        assert (bare["supported"], bare["cited"]) == ((False, False), ())
        assert bare["correct"]


def test_what_was_not_shown_cannot_be_cited() -> None:
    world = Lookup(level=1, sources=True, known=0.0)
    task = world.task(0)
    number = task.data["order"].index(task.data["hops"][0]) + 1
    info = world.reset(task).act(f"it is so [{number}]\nanswer: {task.data['answer']}").info
    assert info["correct"]
    assert (info["cited"], info["supported"]) == ((number,), (False,))


def test_with_guess_one_answer_of_a_kind_is_frequent_and_questions_stay_sound() -> None:
    world = Lookup(level=2, guess=0.6, known=0.0)
    tasks = [world.task(index) for index in range(200)]
    favoured = sum(task.data["answer"] in FAVOURITES for task in tasks) / len(tasks)
    assert favoured > 0.4
    for task in tasks[:40]:
        episode = world.reset(task)
        turns = [episode.act(text) for text in world.attempt(task)]
        assert turns[-1].info["correct"]
    assert Lookup(level=2, known=0.0).task(3).data == Lookup(level=2, known=0.0, guess=0.0).task(3).data


def test_an_unclear_judgement_is_marked_only_where_one_was_due() -> None:
    world = Lookup(judge=True)
    episode = world.reset(world.task(0))
    assert episode.act("judge: perhaps").info["judged"] == ""
    episode.act("search: boss of ann")
    assert episode.act("judge: perhaps").info["judged"] == "unclear"


def test_a_rejected_result_is_left_out_of_the_context() -> None:
    said = ("search: a", "judge: no", "search: b", "judge: yes")
    exchanges = tuple(Exchange(Wrote((n,)), text, f"seen {n}", text) for n, text in enumerate(said))
    shown = Forget()(History("task", exchanges))
    assert [x for x in shown if isinstance(x, str)] == ["task", "left out", "seen 1", "seen 2", "seen 3"]
