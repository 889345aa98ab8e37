"""Badges: a coloured sign and a caption of made-up words, each harmless, some banned together."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np

from podium.core.errors import one_of
from podium.protocols.answer_text import plain
from podium.protocols.pieces import joined
from podium.protocols.world import Task
from podium.worlds.codebooks import COLOURS, EMPTY, SCENERY, THINGS, code_of
from podium.worlds.graded import Verdict
from podium.worlds.picture import as_tokens
from podium.worlds.puzzle import Draft, Puzzle, Slip, answered
from podium.worlds.shifted import ShiftedPictures

__all__ = ["POLICY", "TARGETS", "Badge", "Badges", "badge_labels"]


class Ban(NamedTuple):
    """What a word does to those whom a badge is about, and with which colours it is banned."""

    kind: str
    colours: tuple[str, ...]


# A word is banned with half of the colours, and a colour with half of the words, at every level: neither the picture
# nor the caption tells anything alone.
POLICY: dict[str, Ban] = {
    "blim": Ban("tease", ("red", "green", "black")),
    "zorp": Ban("scare", ("blue", "pink", "white")),
    "grun": Ban("tease", ("red", "pink", "black")),
    "dax": Ban("scare", ("blue", "green", "white")),
    "vek": Ban("cheat", ("red", "blue", "white")),
    "toma": Ban("cheat", ("green", "pink", "black")),
}
TARGETS = dict(zip(THINGS, ("cat", "dog", "bird"), strict=True))  # whom a sign stands for
FILLERS = ("lop", "mim", "tas", "wug")  # words that mean nothing
SIZES = {1: (2, 2), 2: (2, 4), 3: (3, 6), 4: (4, 6)}  # by level: cells of a side; how many words and colours there are
DECORATION = {1: 0, 2: 0, 3: 2, 4: 5}  # by level: cells with a smear of some colour, and at most so many fillers
QUESTIONS = {"banned": "banned?", "labels": "whom does it hurt, how?"}
NONE = "none"
YES_NO = ("yes", "no")


class Badge(NamedTuple):
    """A sign and the word of the caption that means something."""

    colour: str
    thing: str
    word: str

    @property
    def banned(self) -> bool:
        return self.colour in POLICY[self.word].colours


class Badges(ShiftedPictures, Puzzle):
    """`banned?` asks whether the policy bans sign and caption together; `whom does it hurt, how?` for target and kind.

    A thing stands for a target, a word has a kind, and only some colours make it a ban: half of all badges are banned.
    """

    name = "badges"
    summary = "signs with captions, banned only in combination: banned or not, and why"
    levels = tuple(SIZES)
    styles = ("short", "long", "policy")
    provides = (*Puzzle.provides, "task.choices")
    max_tokens = 48
    codebook = SCENERY
    ask: str = "all"  # banned (yes or no), labels (target and kind, or none)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "ask", ("all", *QUESTIONS))

    @property
    def family(self) -> str:
        return super().family if self.ask == "all" else f"{super().family}-{self.ask}"

    def draft(self, rng: Random) -> Draft:
        side, choices = SIZES[self.level]
        asked = rng.choice(list(QUESTIONS)) if self.ask == "all" else self.ask
        colours, words = list(COLOURS)[:choices], list(POLICY)[:choices]
        badge = Badge(rng.choice(colours), rng.choice(list(THINGS)), rng.choice(words))
        cells = np.full(side * side, EMPTY)
        place, *others = rng.sample(range(side * side), 1 + DECORATION[self.level])
        cells[place] = code_of(badge.colour, badge.thing)
        cells[others] = [code_of(rng.choice(colours), "") for _ in others]
        caption = [rng.choice(FILLERS) for _ in range(rng.randint(0, DECORATION[self.level]))]
        caption.insert(rng.randint(0, len(caption)), badge.word)
        codes = cells.reshape(side, side)
        codes = self.seen_codes(codes, seed=codes.tolist())
        question = joined("\n", ["badge:", as_tokens(codes), f"says {' '.join(caption)}", QUESTIONS[asked]])
        answer = _answer(badge, asked)
        data = {
            **{"badge": tuple(badge), "caption": tuple(caption), "answer": answer, "reference_answer": answer},
            "choices": YES_NO if asked == "banned" else (),
        }
        return Draft(question, f"{cells.tolist()} {caption} {asked}", data, asked)

    def explain(self, task: Draft) -> str:
        who = ", ".join(f"a {thing} stands for the {target}" for thing, target in TARGETS.items())
        rules = "; ".join(f"{word} ({ban.kind}) with {', '.join(ban.colours)}" for word, ban in POLICY.items())
        how = "Say yes or no." if task.domain == "banned" else f"Say the target and the kind, or `{NONE}` if it is not."
        return f"In badges, {who}. Banned are: {rules}. {how}"

    def verdict(self, task: Task, answer: str) -> Verdict:
        if task.domain == "banned":
            said = plain(answer)
            return Verdict(said == task.data["answer"], said)
        labels, gold = (_labels(text) for text in (answer, task.data["answer"]))
        score = len(labels & gold) / max(len(labels), len(gold), 1)
        return Verdict(labels == gold, ", ".join(sorted(labels)), score)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        """What is seen and read, then the answer. A slip takes the colour or the thing for another, or concludes
        wrongly."""
        badge, truth = Badge(*task.data["badge"]), task.data["answer"]
        for field, names in (("colour", tuple(COLOURS)[: SIZES[self.level][1]]), ("thing", tuple(THINGS))):
            misread = [badge._replace(**{field: name}) for name in names]
            misread = [wrong for wrong in misread if _answer(wrong, task.domain) != truth]
            if misread and slip():
                badge = rng.choice(misread)
        answer = _answer(badge, task.domain)
        if slip():
            others = [badge._replace(colour=colour, word=word) for colour in COLOURS for word in POLICY]
            answer = rng.choice([found for found in (_answer(b, task.domain) for b in others) if found != truth])
        ban = POLICY[badge.word]
        lines = {
            "short": [f"see {badge.colour} {badge.thing}, {badge.word}"],
            "long": [
                f"see {badge.colour} {badge.thing}: {TARGETS[badge.thing]}",
                f"says {badge.word}: {ban.kind}",
                f"{badge.word} with {badge.colour}: {_answer(badge, 'banned')}",
            ],
            "policy": [f"{badge.word}: {' '.join(ban.colours)}", f"see {badge.colour} {badge.thing}"],
        }[style]
        return answered(lines, answer)


def badge_labels(badge: Badge) -> tuple[str, ...]:
    """Whom a badge hurts and how; empty if it is not banned."""
    return (TARGETS[badge.thing], POLICY[badge.word].kind) if badge.banned else ()


def _answer(badge: Badge, asked: str) -> str:
    if asked == "banned":
        return "yes" if badge.banned else "no"
    return ", ".join(badge_labels(badge)) or NONE


def _labels(answer: str) -> frozenset[str]:
    return frozenset(label for label in (part.strip() for part in plain(answer).split(",")) if label)
