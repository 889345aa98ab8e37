"""Formats: what is read in a turn, what counts as well-formed, and how demonstrations are written."""

from __future__ import annotations

from typing import Any

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.protocols.blueprint import Blueprint
from podium.protocols.context import Exchange, History, Rebuild, Wrote
from podium.protocols.format import Demonstrated, Format, ReadTurn, known_words, milestones, turn_limit
from podium.protocols.tagged import Construction, MetaTags, PlanTags, ReportTags, Tagged, ThinkTags, ToolTags, blocks_of
from podium.protocols.worded_steps import WordedSteps

ACTIONS = ("go west", "take black key", "open west", "go west", "take gold")
FORMATS = [Format(), PlanTags(), MetaTags(), ReportTags(), ThinkTags(), ToolTags(), Construction(), WordedSteps()]


def history(*exchanges: tuple[str, str], prompt: str = "a room") -> History:
    return History(prompt, tuple(Exchange(Wrote(()), action, seen, action) for action, seen in exchanges))


def written(format: Format, actions: tuple[str, ...], number: int = 0) -> list[str]:
    script, only_shown = format.script(actions, number)
    return [format.write(Demonstrated(script, turn, history(), only_shown)) for turn in range(len(script))]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_the_action_is_what_stands_in_its_tag() -> None:
    read = PlanTags().read("<switch>SWITCH</switch><subgoal>the key</subgoal><action> go east </action>")
    assert read == ReadTurn("go east", True, "action")


@pytest.mark.parametrize(
    "text",
    [
        "go east",  # no tags
        "<switch>MAYBE</switch><subgoal>the key</subgoal><action>go east</action>",  # neither KEEP nor SWITCH
        "<switch>KEEP</switch><subgoal></subgoal><action>go east</action>",  # an empty subgoal
        "<subgoal>the key</subgoal><switch>KEEP</switch><action>go east</action>",  # another order
        "<switch>KEEP</switch><subgoal>the key</subgoal><action>go east</action> now",  # text after it
        "well <switch>KEEP</switch><subgoal>the key</subgoal><action>go east</action>",  # text before it
        "<switch>KEEP</switch><subgoal>the key</subgoal><action>go east",  # not closed
        "<switch>KEEP<switch>KEEP</switch><subgoal>x</subgoal><action>go east</action>",  # one inside another
        "<switch>KEEP</switch><switch>KEEP</switch><subgoal>x</subgoal><action>go east</action>",  # twice
        "</action>go east<action>",
        "<action>",
        "",
        "<<>><",
    ],
)
def test_what_lacks_the_format_is_malformed(text: str) -> None:
    read = PlanTags().read(text)
    assert not read.well_formed
    closed = "<action>go east</action>" in text
    assert read.action == ("go east" if closed else text)


def test_an_action_that_is_closed_is_read_though_the_rest_is_wrong() -> None:
    assert MetaTags().read("<explore>hm <action>go east</action>") == ReadTurn("go east", False, "action")
    assert MetaTags().read("<explore>hm</explore>go east") == ReadTurn("<explore>hm</explore>go east", False)


@pytest.mark.parametrize("tag", ["planning", "explore", "reflection", "monitor"])
def test_one_tag_of_several(tag: str) -> None:
    assert MetaTags().read(f"<{tag}>hm</{tag}>\n<action>go east</action>").well_formed
    assert not MetaTags().read(f"<{tag}>hm</{tag}><monitor>hm</monitor><action>go east</action>").well_formed


def test_a_tag_for_each_kind_of_action() -> None:
    think = "<think>hm</think>"
    assert ToolTags().read(f"{think}<search>boss of ida</search>") == ReadTurn("search: boss of ida", True, "search")
    assert ToolTags().read(f"{think}<python>f(x)</python>") == ReadTurn("call: f(x)", True, "python")
    assert ToolTags().read(f"{think}<answer>\\boxed{{gus}}</answer>") == ReadTurn("answer: gus", True, "answer")
    assert not ToolTags().read(f"{think}<answer>gus</answer>").well_formed  # not boxed
    assert not ToolTags().read("<search>boss of ida</search>").well_formed  # not thought


def test_the_answer_alone_after_the_thinking() -> None:
    assert ThinkTags().read("<think>2+2=4</think>\nanswer: 4") == ReadTurn("answer: 4", True)
    assert ThinkTags().read("2+2=4\nanswer: 4") == ReadTurn("2+2=4\nanswer: 4", False)
    assert not ThinkTags().read("<think>2+2=4").well_formed
    assert not ThinkTags().read("<think>a</think><think>b</think>answer: 4").well_formed


def test_a_block_that_may_be_left_out() -> None:
    assert Construction().read("<aux>1+2=3</aux>\n3+4=7\nanswer: 7") == ReadTurn("3+4=7\nanswer: 7", True)
    assert Construction().read("3+4=7\nanswer: 7") == ReadTurn("3+4=7\nanswer: 7", True)
    assert not Construction().read("<aux>1+2=3\nanswer: 7").well_formed


def test_steps_and_a_boxed_answer() -> None:
    text = "1+2=3.\n\n3+4=7.\n\n**Final Answer**\n\\boxed{7}"
    assert WordedSteps().read(text) == ReadTurn("1+2=3\n3+4=7\nanswer: 7", True)
    assert not WordedSteps().read(text + " I think").well_formed
    assert not WordedSteps().read("1+2=3\n**Final Answer**\n\\boxed{3}").well_formed  # a step without its end
    assert WordedSteps().read("1+2=3\nanswer: 3") == ReadTurn("1+2=3\nanswer: 3", False)
    assert WordedSteps().read("1+2=3.\n\n**Final Answer**\n\\boxed{3") == ReadTurn(
        "1+2=3.\n\n**Final Answer**\n\\boxed{3", False
    )


def test_blocks() -> None:
    assert blocks_of("a <b>c</b> d") == [("", "a"), ("b", "c"), ("", "d")]
    assert blocks_of("1 < 2 and <a>3 > 2</a>") == [("", "1 < 2 and"), ("a", "3 > 2")]
    assert blocks_of("<a><b>x</b></a>") == [("a", "<b>x</b>")]
    assert blocks_of("<a>x") is None
    assert blocks_of("x</a>") is None
    assert blocks_of("") == []


def test_a_form_without_a_place_for_the_action_is_refused() -> None:
    with pytest.raises(PodiumError, match="each text with one"):
        Tagged(forms=(("action", "go", "{}"),))


# -- demonstrations ----------------------------------------------------------------------------------------------------


def test_milestones_are_what_moving_leads_to() -> None:
    # `go` and `take` are equally frequent; the first of them is how one moves.
    assert milestones(ACTIONS) == [1, 2, 4]
    assert milestones(("search: a", "search: b", "answer: c")) == [2]
    assert milestones(("go",)) == [0]


def test_a_subgoal_has_only_words_that_were_known() -> None:
    seen = history(("go west", "room 2. items: black key."), prompt="room 1. doors: west.")
    assert known_words("take black key", seen, 0) == "take"
    assert known_words("take black key", seen, 1) == "take black key"


def test_a_subgoal_is_kept_word_by_word_until_it_is_reached() -> None:
    texts = written(PlanTags(), ACTIONS)
    assert texts[0] == "<switch>SWITCH</switch><subgoal>take</subgoal><action>go west</action>"
    assert texts[1] == "<switch>KEEP</switch><subgoal>take</subgoal><action>take black key</action>"
    assert [PlanTags().read(text).well_formed for text in texts] == [True] * 5
    assert ["SWITCH" in text for text in texts] == [True, False, True, True, False]


def test_every_second_demonstration_shows_how_to_reflect() -> None:
    script, only_shown = MetaTags().script(ACTIONS, 1)
    assert script == ("take gold", *ACTIONS)
    assert only_shown == 1
    texts = written(MetaTags(), ACTIONS, 1)
    assert texts[1] == "<reflection>take</reflection><action>go west</action>"
    assert not any("<reflection>" in text for text in written(MetaTags(), ACTIONS, 0))
    kinds = [text[1 : text.index(">")] for text in written(MetaTags(), ACTIONS, 0)]
    assert kinds == ["planning", "monitor", "planning", "planning", "monitor"]


def test_a_report_holds_what_was_found() -> None:
    seen = history(("search: boss of ida", "[1] boss of bob: ida\n[15] boss of ida: gus"))
    turn = Demonstrated(("search: boss of ida", "answer: gus"), 1, seen)
    assert ReportTags().write(turn) == (
        "<think>answer: gus</think><report>boss of ida: gus</report><action>answer: gus</action>"
    )


def test_the_next_round_sees_task_report_action_and_observation() -> None:
    text = "<think>hm</think><report>boss of ida: gus</report><action>search: home of gus</action>"
    seen = History("lookup", (Exchange(Wrote(()), text, "home of gus: peru", "search: home of gus"),))
    (message,) = Rebuild(notes="report", action=True)(seen)
    assert message == "lookup\n<report>boss of ida: gus</report>\n> search: home of gus\nhome of gus: peru"
    (without,) = Rebuild(notes="report")(seen)
    assert without == "lookup\n<report>boss of ida: gus</report>\nhome of gus: peru"


def test_a_blueprint_numbers_the_milestones_and_marks_when_they_are_reached() -> None:
    texts = written(Blueprint(done="<sub_done>"), ACTIONS)
    assert texts[0] == "1. take\n2. open\n3. take"
    assert texts[1:] == ["go west", "take black key <sub_done>", "open west <sub_done>", "go west", "take gold"]


@pytest.mark.parametrize("world", ["sums", "countdown", "rules", "keydoor", "lookup", "tools", "clarify"])
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: type(f).__name__)
def test_what_a_format_writes_it_reads_as_the_same_action(format: Format, world: str) -> None:
    opened = worlds.isolated(world, {})
    for index in range(5):
        actions = opened.demonstrate(opened.task(index))
        if isinstance(format, ToolTags) and not all(a.startswith(("search:", "call:", "answer:")) for a in actions):
            pytest.skip("the world has other actions")
        if isinstance(format, WordedSteps) and len(actions) > 1:
            pytest.skip("of several turns")
        for action, text in zip(actions, written(format, actions), strict=True):
            read = format.read(text)
            assert read.well_formed
            assert action.endswith(read.action)  # reasoning may stand in a tag of its own


@pytest.mark.parametrize("format", [*FORMATS, Blueprint()], ids=lambda f: type(f).__name__)
def test_a_format_is_a_value(format: Format) -> None:
    assert decode(encode(format)) == format


def test_the_instruction_stands_below_the_task() -> None:
    assert ThinkTags(ask="Think.").asked(history(prompt="2+2")).prompt == "2+2\nThink."
    assert Format().asked(history(prompt="2+2")).prompt == "2+2"


def test_a_format_adds_what_it_costs_to_the_limit_of_a_turn() -> None:
    world: Any = worlds.isolated("keydoor", {})
    assert turn_limit(world, None) == world.max_tokens
    assert turn_limit(world, PlanTags()) == world.max_tokens + 48
