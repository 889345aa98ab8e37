"""Judging: which of two attempts at a puzzle is better."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from podium.core.errors import PodiumError, one_of, within
from podium.protocols.verdict_text import BETTER, SCALE, VERDICT, read_verdict
from podium.protocols.world import Task
from podium.worlds.graded import Graded, Verdict
from podium.worlds.puzzle import Procedural, Slip, task_key
from podium.worlds.texts.exercise import any_other
from podium.worlds.texts.puzzles import draw_puzzle
from podium.worlds.texts.verdicts import CHECKED, LABELS, AttemptPair, checked_lines, draw_pair, pair_prompt

__all__ = ["Verdicts"]

LENGTHS = ("crossed", "misleading", "telling")
DRAWS = 1000  # of a pair whose lengths are as wanted


class Verdicts(Procedural, Graded):
    """Say which of two attempts at a puzzle is better, one of which is right, each in a short or a long style.

    Styles are crossed with rightness, so the longer attempt is as often wrong as right; with lengths = "misleading" it
    is always wrong, with "telling" always right. With `scaled` the verdict says how much better the second one is: by
    3 if the other's first line is wrong already, by 2 if a later one is, by 1 if both are right and it is shorter. A
    verdict of the right sign then earns half. Short solutions name the verdict, long ones check both attempts line by
    line.
    """

    name = "verdicts"
    summary = "which of two attempts at a puzzle is right; the longer one is as often wrong"
    levels = (1, 2, 3)
    max_tokens = 240
    provides = (*Graded.provides, "task.solution")
    level: int = 1
    kind: str = "all"  # the puzzles: sums, order, paint, lamps, or all
    lengths: str = "crossed"  # or misleading, telling
    scaled: bool = False  # verdicts -3 … 3 instead of A or B
    alike: float = 0.3  # share of pairs of which both are right, where verdicts are scaled

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "kind", ("all", *dict.fromkeys(CHECKED)))
        one_of(self, "lengths", LENGTHS)
        within(self, "alike", 0, 1)

    @property
    def family(self) -> str:
        dials = [self.kind, self.lengths] if (self.kind, self.lengths) != ("all", "crossed") else []
        dials += [f"scaled-{self.alike:g}"] if self.scaled else []
        return "-".join([self.name, str(self.level), *dials])

    def task(self, index: int, split: str = "train") -> Task:
        key = task_key(self.family, split, index)
        pair = self._drawn(key, split)
        prompt = pair_prompt(pair.task.prompt, *pair.texts, scaled=self.scaled)
        label = str(pair.label) if self.scaled else pair.better
        data = {"question": pair.task.prompt, "texts": pair.texts, "label": label, "split": split}
        return Task(key, prompt, self.level, pair.task.domain or pair.world.name, data)

    def pair(self, task: Task) -> AttemptPair:
        """The two attempts of a task, and which is better."""
        return self._drawn(task.key, task.data["split"])

    def _drawn(self, key: str, split: str) -> AttemptPair:
        kinds = CHECKED if self.kind == "all" else (self.kind,)
        return _pair(key, self.level, split, kinds, self.lengths, self.alike if self.scaled else 0.0)

    @property
    def _options(self) -> tuple[str, ...]:
        return SCALE if self.scaled else BETTER

    def read(self, text: str) -> str | None:
        return read_verdict(text, self._options)

    def verdict(self, task: Task, answer: str) -> Verdict:
        label = task.data["label"]
        if not self.scaled:
            return Verdict(answer == label, answer)
        agrees = (int(answer) > 0) == (int(label) > 0)
        return Verdict(answer == label, answer, 1.0 if answer == label else 0.5 if agrees else 0.0)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return self.attempt(task, style, seed)

    def attempt(self, task: Task, style: str = "short", seed: int = 0, right: float = 1.0) -> str:
        """A written verdict that is right with probability `right`."""
        return self._attempt(self._write, task, style, seed, right)

    def _write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        pair, correct = self.pair(task), not slip()
        label = task.data["label"]
        other = str(any_other(rng, LABELS, pair.label)) if self.scaled else any_other(rng, BETTER, label)
        lines = checked_lines(pair, rng, correct) if style == "long" else []
        return "\n".join([*lines, f"{VERDICT} {label if correct else other}"])


@lru_cache(4096)
def _pair(key: str, level: int, split: str, kinds: tuple[str, ...], lengths: str, alike: float) -> AttemptPair:
    rng = Random(key)
    for _ in range(DRAWS):
        pair = draw_pair(*draw_puzzle(rng, level, split, kinds), rng, alike)
        short, long = sorted(map(len, pair.texts))
        if lengths == "crossed" or (short < long and (pair.longer == pair.better) == (lengths == "telling")):
            return pair
    raise PodiumError(f"No pair of {', '.join(kinds)} at level {level} has {lengths} lengths: choose another level.")
