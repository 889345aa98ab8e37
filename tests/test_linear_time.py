"""Every function that reads what a model or a file says takes time in proportion to its length, also where the text is
one fragment of the function's own pattern over and over."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from podium.cli.console import wrapped
from podium.collect.annotations.plan_tags import mark_plan_tags
from podium.collect.annotations.registry import AnnotationContext
from podium.core.build import Rollout, Turn
from podium.core.printable import one_line, printable
from podium.core.text_similarity import similarity_ratio
from podium.memories.lesson_writing import GOLDEN, Lesson, duplicate
from podium.memories.solved_tasks import prompt_similarity
from podium.parts.annotate.degenerate import garbled, repetitive
from podium.parts.annotate.marks import MarkPattern, phrase_spans
from podium.parts.annotate.match_patterns import MatchPatterns
from podium.parts.annotate.tags import ReadTags
from podium.parts.reward.calls import token_f1
from podium.policy import load
from podium.protocols import answer_text
from podium.protocols.blueprint import subgoals
from podium.report.conversation import Conversation, ShownTurn, conversation_page, conversation_text
from podium.strategies.hints.help import SelfWritten, reasoning
from podium.strategies.hints.learn_to_hint import LearnToHint, leaks
from podium.worlds import EMBEDDED
from podium.worlds.adventure import command_of
from podium.worlds.expression import parse
from podium.worlds.grading import canonical, grade_answer
from podium.worlds.gym import _equations
from podium.worlds.jsonl import _without_calculations
from podium.worlds.keydoor import action_of
from podium.worlds.player import tidy
from podium.worlds.quest import action
from podium.worlds.tools import calls_in

SIZE = 32_000  # characters
QUICK_S = 0.02  # a quadratic function takes longer than that for so many

Reader = Callable[[str], Any]
COMMON = ("a", " ", "\n", "answer: ", "- ", "é", "\x80", "<<")


def plan_tags(text: str) -> None:
    policy: Any = SimpleNamespace(read=lambda ids, known: (text, list(range(1, len(text) + 1))))
    turns = [Turn(ids=tuple(range(len(text))), context=(1,))]
    rollout = Rollout("task", turns, columns={"truncated": False, "text": text})
    world: Any = None
    mark_plan_tags(AnnotationContext(policy, world), world, [rollout])


def talk(text: str) -> Conversation:
    return Conversation("task", "prompt", "right", 1.0, (ShownTurn(text, ""),), "")


# Each reader with fragments of what it looks for.
READERS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "final_answer": (lambda text: answer_text.final_answer(text, lines=True), ("answer:\n", "*", "`", "answer")),
    "stated_answer": (
        answer_text.stated_answer,
        ("answer is ", "the answer ", "answer is: answer ", "is ", "<answer>", "</answer>", "\\boxed{", "=", ":"),
    ),
    "boxed": (answer_text.boxed, ("\\boxed{", "{", "}")),
    "answer_place": (answer_text.answer_place, ("answer:\n", "\nanswer:", "\r", "*")),
    "plain": (answer_text.plain, (" .", "\t\n", ". ")),
    "enclosed": (lambda text: answer_text.enclosed(text, "<a>", "</a>"), ("<a>", "</a>", "<a")),
    "calculations": (_without_calculations, ("<<", ">>", "<<a>>", "<", "<<\n", ">><<")),
    "canonical": (canonical, ("1", "1,", ",111", "$", "\\$", ".", "−", "1.1", "\\text{", "\\frac{", "\\left", "**")),
    "grader": (
        lambda text: [grade_answer(gold, text) for gold in ("5", "B", "Paris", "yes", "x^2")],
        (
            "the answer is ",
            "answer",
            "####",
            "<answer>",
            "\\boxed{",
            "\\boxed ",
            "option A ",
            "</think>",
            "1,",
            "/1",
            "$",
            "=",
        ),
    ),
    "calls": (calls_in, ("call: {", 'call: {"name": "x"}\n', "call:\n", "call: [", '{"a":')),
    "action": (lambda text: action(text, ("search", "answer")), ("search: ", "search:\n", ":", "`#")),
    "action_of": (action_of, ("action:", "action: go\n", "!", '"')),
    "command_of": (command_of, ("command:", "action: go\n", ">", '"')),
    "expression": (parse, ("1", "(", ")", "1+", "-", "(1*", "× ")),
    "equations": (_equations, ("1", "1 + ", " + 1", "-", "1.", ".1")),
    "status": (tidy, ("-= ", " =-", " =-1", "-= =-1/", ">", "1/1 ", "-= a =- ")),
    "hint": (LearnToHint().read, ("<hint>", "</hint>", "<hint", "<hint></hint>")),
    "leaks": (lambda text: leaks(text, "7"), ("=", "is ", "= ", "answer:", "equals   ", "is7a ")),
    "written hints": (SelfWritten(levels=3, ask="{question}").read, ("{", "}", '{"level_1":', "{}", '"', "[")),
    "reasoning": (reasoning, ("answer:\n", "\n\n")),
    "subgoals": (subgoals, ("- a\n", "\n ")),
    "plan tags": (plan_tags, ("<switch>", "</switch>", "<subgoal>", "<action>", "<switch>KEEP</switch>")),
    "pattern": (lambda text: list(re.finditer(MarkPattern().pattern, text)), ("</think>", "</", "<think>")),
    "patterns": (lambda text: [re.search(p, text) for _, p in MatchPatterns().marks], ("answer", "\nanswer", "\r")),
    "tags": (ReadTags().tag, ("<planning", "<explore>")),
    "phrases": (lambda text: list(phrase_spans(text, [["wait", "wait", "but"]])), ("wait ", "wait but ", "'", "_")),
    "garbled": (garbled, ("я", "\ufffd")),
    "repetitive": (lambda text: repetitive(list(text.encode())), ("ab",)),
    "word F1": (lambda text: token_f1(text, text), ("_", ".", "a ", "a_")),
    "prompt similarity": (lambda text: prompt_similarity(text, text[::-1]), ("ab", "abc")),
    "duplicate": (lambda text: duplicate([Lesson(text, GOLDEN[0], 1.0)] * 3, text + "x"), ("ab ", "a")),
    "conversation": (lambda text: conversation_text(talk(text)), ("\x1b", "\r", "\u202e")),
    "page": (lambda text: conversation_page(talk(text)), ("<", "&", '"')),
    "printable": (printable, ("\x1b", "\r", "\r\n", "\ud800")),
    "wrapped": (lambda text: wrapped(text, 80), ("/", "_", "a ", "a/")),
    "failure": (one_line, ("\ud800", " \n")),
}


def seconds(read: Reader, text: str) -> float:
    began = time.process_time()
    read(text)
    return time.process_time() - began


def check_linear(read: Reader, fragment: str, ends: tuple[str, ...] = ("", "x", "\n", "=1 - 2")) -> None:
    for end in ends:
        texts = [fragment * (size // len(fragment)) + end for size in (SIZE // 8, SIZE)]
        if seconds(read, texts[1]) > QUICK_S:
            short, long = (min(seconds(read, text) for _ in range(3)) for text in texts)
            # 8 times the length: 8 times as long where it is linear, 64 times where it is quadratic.
            assert long < 24 * max(short, QUICK_S / 24), (fragment, end, short, long)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_of_text_takes_linear_time(name: str) -> None:
    read, fragments = READERS[name]
    for fragment in (*fragments, *COMMON):
        check_linear(read, fragment)


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_world_judges_an_answer_in_linear_time(name: str) -> None:
    world = EMBEDDED[name]()
    task = world.task(0)

    def act(text: str) -> None:
        episode = world.reset(task)
        episode.act(text)
        episode.act(f"{answer_text.ANSWER_MARK} {text}")
        if "task.criteria" in world.provides:
            world.met(task, text)

    for fragment in (*COMMON, "search: ", "call: {", "1+", "(", "\n1 ", "cite: 1\n", "answer: a\n", "go north\n"):
        check_linear(act, fragment)


def test_tokens_that_are_no_whole_characters_are_read_in_linear_time() -> None:
    policy = load("podium/tiny")
    half: list[int] = policy.tokenizer("😀", add_special_tokens=False)["input_ids"][:2]

    def read(text: str) -> None:
        policy.read(half * (len(text) // 8))

    check_linear(read, "a", ends=("",))


def test_similarity_takes_bounded_time() -> None:
    # All characters are too rare for the matcher to ignore them, and the order of one text is that of the other turned
    # round: the cubic case, which would take hours at this length.
    letters = [chr(0x4E00 + number % 150) for number in range(8 * SIZE)]
    assert seconds(lambda text: similarity_ratio(text, text[::-1]), "".join(letters)) < 5
