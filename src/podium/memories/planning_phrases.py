"""Phrases that announce a plan, mined from the run's own right answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.parts.annotate.marks import NUMBER, masked_words

__all__ = ["PlanningPhrases"]


class PlanningPhrases(Memory):
    """Mines phrases of a few words from right answers: the `share` of them that occurs in most answers.

    Numbers count as one word, so that "add 3 to" and "add 5 to" are the same phrase; a phrase begins with another word.
    `batch.phrases` holds those that occur in at least `least` different answers, the most frequent first; of equally
    frequent ones the first in the alphabet.
    """

    reference = "HICRA, https://github.com/TIGER-AI-Lab/Hierarchical-Reasoner"
    sizes: tuple[int, ...] = (3, 4, 5)  # words of a phrase
    share: float = 0.2  # of the phrases found, in (0, 1]; at least one
    least: int = 2  # answers
    capacity: int = 10000  # phrases that are counted; the rarest are forgotten

    needs = ("rollout.correct", "rollout.text")
    provides = ("batch.phrases",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1, open_low=True)
        within(self, "least", 1)
        within(self, "capacity", 1)
        if not self.sizes or min(self.sizes) < 1:
            raise PodiumError(f"PlanningPhrases.sizes = {self.sizes} must be numbers of words, such as (3, 4, 5).")

    def initial(self) -> State:
        return {"answers": {}}

    def phrases_in(self, text: str) -> set[str]:
        """The phrases of a text."""
        words = masked_words(text)
        found = set()
        for size in self.sizes:
            for start in range(len(words) - size + 1):
                if words[start] != NUMBER:
                    found.add(" ".join(words[start : start + size]))
        return found

    def mined(self, state: State) -> tuple[str, ...]:
        """The phrases that mark planning, from what was counted so far."""
        known: dict[str, int] = state["answers"]
        frequent = [phrase for phrase, answers in known.items() if answers >= self.least]
        frequent.sort(key=lambda phrase: (-known[phrase], phrase))
        return tuple(frequent[: max(int(self.share * len(known)), 1)])

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.phrases": (self.mined(state),)}

    def observe(self, state: State, batch: Batch) -> State:
        counted, right = batch.counted("rollout"), batch["rollout.correct"].bool()
        enters = (right if counted is None else right & counted).tolist()
        texts = {text for text, enter in zip(batch["rollout.text"], enters, strict=True) if enter}
        answers = Counter(state["answers"]) + Counter(chain.from_iterable(map(self.phrases_in, texts)))
        kept = sorted(answers.items(), key=lambda item: (-item[1], item[0]))[: self.capacity]
        return {"answers": dict(kept)}

    def scalars(self, state: State) -> dict[str, float]:
        return {"phrases": float(len(self.mined(state)))}
