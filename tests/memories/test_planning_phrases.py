"""Planning phrases mined from the run's own right answers."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.memories import PlanningPhrases
from podium.parts.annotate import MarkPhrases
from podium.parts.metric.entropies import SemanticEntropy

TEXTS = (
    "try 3 first then 4",  # right
    "no good, try 7 first then 9",  # right
    "try 5 first then 5",  # right
    "guess the answer now",  # wrong
)


def batch() -> Batch:
    columns = {"rollout.text": TEXTS, "rollout.correct": torch.tensor([True, True, True, False])}
    return Batch.from_rewards(torch.tensor([1.0, 1.0, 1.0, 0.0]), [0, 0, 1, 1], columns)


def test_phrases_begin_with_a_word_and_numbers_are_alike() -> None:
    memory = PlanningPhrases()
    # Of "try # first then #" only "# first then" and "# first then #" begin with a number.
    assert memory.phrases_in(TEXTS[0]) == {"first then 0", "try 0 first", "try 0 first then", "try 0 first then 0"}
    assert "no good try" in memory.phrases_in(TEXTS[1])


def test_the_share_that_most_right_answers_contain_marks_planning() -> None:
    memory = PlanningPhrases()
    state = memory.observe(memory.initial(), batch())
    # All three right answers hold four phrases; one of them has six more.
    often = dict.fromkeys(("first then 0", "try 0 first", "try 0 first then", "try 0 first then 0"), 3)
    once = ("good try 0", "good try 0 first", "good try 0 first then", "no good try", "no good try 0")
    assert state["answers"] == often | dict.fromkeys((*once, "no good try 0 first"), 1)
    assert memory.mined(state) == ("first then 0", "try 0 first")  # ⌊0.2 · 10⌋ = 2, the first in the alphabet
    assert memory.replace(share=1.0).mined(state) == tuple(often)  # those in two answers or more
    assert memory.recall(state, ["a"]) == {"batch.phrases": (("first then 0", "try 0 first"),)}


def test_what_was_counted_before_stays_and_the_rarest_are_forgotten() -> None:
    memory = PlanningPhrases(capacity=2)
    state = memory.observe(memory.observe(memory.initial(), batch()), batch())
    assert state["answers"] == {"first then 0": 6, "try 0 first": 6}


def turns(texts: tuple[str, ...], phrases: tuple[str, ...]) -> Batch:
    """A token for each character of each text."""
    longest = max(map(len, texts))
    written = torch.tensor([[i < len(t) for i in range(longest)] for t in texts])
    ends = torch.tensor([[float(i + 1) for i in range(longest)] for _ in texts])
    made = Batch.from_padded(written, list(range(len(texts))), {"token.end": ends})
    return made.with_columns({"turn.text": texts, "batch.phrases": (phrases,)})


def test_mined_phrases_mark_their_words_whatever_the_numbers() -> None:
    found = turns(("so try 12 first",), ("try 0 first",))
    marked = MarkPhrases(mined=True)(found)["token.planning"].tolist()
    assert "".join(c for c, m in zip("so try 12 first", marked, strict=True) if m) == "try12first"
    assert not MarkPhrases()(found)["token.planning"].any()


def test_mined_phrases_count_in_the_semantic_entropy() -> None:
    found = turns(("try 1 first", "try 2 first", "no good try"), ("try 0 first", "no good try"))
    entropy = float(SemanticEntropy(mined=True)(found)["batch.entropy.semantic"])
    assert abs(entropy - 0.6365142) < 1e-6  # two uses of one phrase, one of the other: −⅔ ln ⅔ − ⅓ ln ⅓


def test_answers_that_do_not_count_are_not_read() -> None:
    memory = PlanningPhrases()
    purpose = torch.tensor([Purpose.probe, Purpose.probe, Purpose.train, Purpose.train])
    state = memory.observe(memory.initial(), batch().with_columns({"rollout.purpose": purpose}))
    assert state["answers"] == dict.fromkeys(memory.phrases_in(TEXTS[2]), 1)
