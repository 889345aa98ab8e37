"""Handwritten digits as tokens of a picture: what people wrote, or what `glyphs` draws."""

from __future__ import annotations

import dataclasses
import importlib
from functools import cache, lru_cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError, one_of, within
from podium.protocols.pieces import joined
from podium.protocols.world import Task
from podium.worlds.codebooks import STROKES
from podium.worlds.glyphs import INK, draw_digit
from podium.worlds.graded import Verdict, hashed_uniform
from podium.worlds.picture import Codes, Pixels, as_tokens, shifted
from podium.worlds.puzzle import ATTEMPTS, HELD_OUT, Draft, Puzzle, Slip, answered, task_key
from podium.worlds.shifted import ShiftedPictures

__all__ = ["Digits", "written_digits"]

VIEW_NOISE = 0.1  # strength of the noise of views
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@cache
def written_digits() -> tuple[NDArray[np.float64], tuple[int, ...]]:
    """scikit-learn's 1,797 digits that people wrote, [picture, 8, 8] with 0 to 16, and what they are."""
    try:
        found = importlib.import_module("sklearn.datasets").load_digits()
    except ImportError:
        raise PodiumError(
            "digits of source 'real' are scikit-learn's: pip install 'podium-rl[pictures]', or set world.source=drawn."
        ) from None
    return np.asarray(found.images, float), tuple(map(int, found.target))


def _moved(pixels: Pixels, rng: Random) -> Pixels:
    """The picture moved by up to a pixel in each direction; what is uncovered is blank."""
    down, right = rng.randint(-1, 1), rng.randint(-1, 1)
    padded = np.pad(pixels, ((1, 1), (1, 1), (0, 0)))
    return padded[1 - down : 1 - down + len(pixels), 1 - right : 1 - right + pixels.shape[1]]


@cache
def _numbers(digit: int) -> tuple[int, ...]:
    """The numbers of the written pictures of a digit."""
    return tuple(number for number, label in enumerate(written_digits()[1]) if label == digit)


@lru_cache(maxsize=4096)
def _drawn(digit: int, picture: str) -> NDArray[np.float64]:
    return draw_digit(digit, Random(picture)).astype(float)


class Digits(ShiftedPictures, Puzzle):
    """Which digit is it; at levels 2 and 3, what is the sum of two or three of them.

    A picture has 8 x 8 shades and becomes 16 tokens. `source` says where pictures come from: `drawn`, an endless supply
    of strokes with jitter, or `real`, the digits of scikit-learn, which people wrote (the extra `pictures`).
    `unlabelled` lets training see the held-out pictures, whose labels no method may use then; `images` limits how many.
    """

    name = "digits"
    summary = "which digit a picture shows, and sums of digits in pictures"
    levels = (1, 2, 3)
    styles = ("short", "long", "named")
    max_tokens = 48
    codebook = STROKES
    provides = (*Puzzle.provides, "task.choices", "task.views")
    source: str = "drawn"
    unlabelled: bool = False
    images: int = 0  # different tasks of the training split; 0: all

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "source", ("drawn", "real"))
        within(self, "images", 0)
        if self.source == "real":
            written_digits()  # refuses now if they are not there

    @property
    def family(self) -> str:
        return f"{super().family}-{self.source}"

    def size(self, split: str = "train") -> int | None:
        return self.images or None if split == "train" else None

    def task(self, index: int, split: str = "train") -> Task:
        """A picture belongs to a split, so that no held-out picture occurs in training, not even in a sum."""
        task_key(self.family, split, index)
        if split == "train" and 0 < self.images <= index:
            raise PodiumError(f"digits has {self.images} tasks, as its setting `images` says; {index} was asked for.")
        drawn_from = "test" if self.unlabelled else split
        key = task_key(self.family, drawn_from, index)
        rng = Random(key)
        draft = self.question([self._picture(rng.randrange(10), drawn_from, rng) for _ in range(self.level)])
        return Task(key, self.prompt(draft), self.level, draft.domain, draft.data)

    def question(self, pictures: list[str]) -> Draft:
        """The question about these pictures."""
        digits = tuple(int(picture.partition("-")[0]) for picture in pictures)
        answer = str(sum(digits))
        data: dict[str, Any] = {
            "digits": digits,
            "pictures": tuple(pictures),
            "answer": answer,
            "reference_answer": answer,
        }
        if len(digits) == 1:
            data["choices"] = tuple(map(str, range(10)))
        return Draft(self._asked([self.codes(picture) for picture in pictures]), " ".join(pictures), data)

    @staticmethod
    def _asked(pictures: list[Codes]) -> str:
        words = "which digit:" if len(pictures) == 1 else "add the digits:"
        return joined("\n", [words, *map(as_tokens, pictures)])

    def views(self, task: Task, count: int) -> tuple[Task, ...]:
        """The task as it is, then moved by up to a pixel and with a little noise, in ways that its key decides."""
        shown = [task]
        for number in range(1, count):
            rng = Random(f"view/{task.key}/{number}")
            pictures = [
                STROKES.read(
                    shifted(_moved(self.pixels(picture), rng), "noise", VIEW_NOISE, f"{task.key}/{number}/{i}")
                )
                for i, picture in enumerate(task.data["pictures"])
            ]
            draft = Draft(self._asked(pictures), "", task.data)
            shown.append(dataclasses.replace(task, prompt=self.prompt(draft)))
        return tuple(shown)

    def _picture(self, digit: int, split: str, rng: Random) -> str:
        """The name of a picture of this digit that belongs to the split."""
        for _ in range(ATTEMPTS):
            number = rng.choice(_numbers(digit)) if self.source == "real" else rng.getrandbits(32)
            if (hashed_uniform(self.name, self.source, number) < HELD_OUT) == (split == "test"):
                break
        return f"{digit}-{number}"

    def codes(self, picture: str) -> Codes:
        """What the model sees of a picture."""
        return STROKES.read(self.pixels(picture))

    def pixels(self, picture: str) -> Pixels:
        """The picture of this name as the shift shows it, [8, 8, 1]."""
        digit, _, number = picture.partition("-")
        if self.source == "real":
            ink = written_digits()[0][int(number)]
        else:
            ink = _drawn(int(digit), picture)
        return self.seen_pixels(ink[:, :, None] / INK, seed=picture)

    def explain(self, task: Draft) -> str:
        return "Each picture shows a digit." + (" What is their sum?" if self.level > 1 else " Which one?")

    def verdict(self, task: Task, answer: str) -> Verdict:
        said = answer.strip().rstrip(".")
        said = str(int(said)) if said.isascii() and said.isdigit() and len(said) < 10 else said.casefold()
        return Verdict(said == task.data["answer"], said)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        """What each picture shows, then the answer. A slip takes a digit for another."""
        digits, truth = list(task.data["digits"]), int(task.data["answer"])
        for place, digit in enumerate(digits):
            if slip():
                others = [other for other in range(10) if sum(digits) - digit + other != truth]
                digits[place] = rng.choice(others)
        seen = [NAMES[digit] if style == "named" else str(digit) for digit in digits]
        lines = {
            "short": [f"see {' '.join(seen)}"],
            "named": [f"see {', '.join(seen)}"],
            "long": [f"picture {number}: {digit}" for number, digit in enumerate(seen, 1)],
        }[style]
        return answered(lines, sum(digits))
