"""What reward models learn from: answers with ratings, pairs or feedback, of a run, a file or a world."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, permutations
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError, nearest
from podium.parts.objective.feedback import check_noise
from podium.protocols.world import World, completed
from podium.store.files import atomic_text
from podium.store.json_lines import objects
from podium.store.tables import read_rows, rollout_files
from podium.worlds.graded import hashed_uniform

__all__ = ["JudgedAnswer", "RewardData", "held_out_answers", "observe", "read_file", "read_run", "read_world"]

PROMPTS = ("prompt", "question", "instruction", "messages")
ANSWERS = ("answer", "response", "completion", "text")
RATINGS = ("ratings", "rating", "score", "reward")
ATTEMPTS = 4  # of each task of a world, half of them meant to be right
WRONG = 0.1  # how often the others are right

Messages = tuple[tuple[str, str], ...]  # (role, content) of each message before the answer


@dataclass(frozen=True)
class JudgedAnswer:
    """An answer, and what is known of its quality."""

    messages: Messages
    text: str
    ratings: tuple[float, ...] = ()  # NaN where it was not rated
    feedback: float = math.nan  # 0 or 1; NaN: nobody reacted
    label: float = math.nan  # what the feedback would be without error, where that is known

    @property
    def observed(self) -> bool:
        """Whether there is feedback."""
        return not math.isnan(self.feedback)


@dataclass(frozen=True)
class RewardData:
    """Answers, and pairs of the numbers of a better and a worse one."""

    source: str
    answers: tuple[JudgedAnswer, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()  # of the ratings

    def ranked(self) -> tuple[tuple[int, int], ...]:
        """Its pairs; or, where it has none, those of answers to the same prompt of which one is rated higher."""
        if self.pairs or not self.names:
            return self.pairs
        by_prompt: dict[Messages, list[int]] = {}
        for number, answer in enumerate(self.answers):
            by_prompt.setdefault(answer.messages, []).append(number)
        return tuple(
            (a, b)
            for members in by_prompt.values()
            for a, b in permutations(members, 2)
            if self.answers[a].ratings[0] > self.answers[b].ratings[0] and self.answers[a].text != self.answers[b].text
        )


def read_run(run: Path, names: Sequence[str] = ("reward",)) -> RewardData:
    """The logged rollouts of a run, rated by columns of theirs; `length` counts the characters written."""
    files = rollout_files(run)
    if not files:
        raise PodiumError(f"{run} has no logged rollouts: give the directory of a run, a file of rows, or a world.")
    answers = []
    for file in files.values():
        for row in read_rows(file):
            if row["text"] is None or row.get("failure"):  # of old iterations only examples are whole
                continue
            for name in names:
                if name != "length" and not isinstance(row.get(name), (int, float)):
                    numeric = [k for k, v in row.items() if isinstance(v, (int, float))]
                    raise PodiumError(f"{file} has no numbers {name!r}. {nearest(name, ['length', *numeric])}")
            rated = tuple(float(sum(map(len, row["turn.action"])) if name == "length" else row[name]) for name in names)
            answers.append(JudgedAnswer(_conversation(row), row["turn.action"][-1], rated))
    return RewardData(str(run), tuple(answers), names=tuple(names))


def _conversation(row: Mapping[str, Any]) -> Messages:
    """Everything before the last turn of a rollout."""
    messages = [("user", row["prompt"])]
    for said, seen in zip(row["turn.action"][:-1], row["turn.observation"][:-1], strict=True):
        messages += [("assistant", said), ("user", seen)]
    return tuple(messages)


def read_world(world: World, tasks: int, names: Sequence[str] = ("reward",), seed: int = 0) -> RewardData:
    """A world's own attempts at its training tasks, in all its styles, about half of them wrong, and its grades.

    With the rating `step` alone, the beginnings of the attempts, each up to the end of a line, and whether they are
    right so far: what a process reward model learns from.
    """
    attempt: Any = getattr(world, "attempt", None)
    if attempt is None:
        raise PodiumError(
            f"The world {world.name!r} writes no attempts of its own: train there, and fit a reward model to the run."
        )
    steps = tuple(names) == ("step",)
    unknown = [] if steps else [name for name in names if name not in ("reward", "length")]
    if unknown:
        raise PodiumError(f"A world rates by `reward`, `length`, or by `step` alone, not by {unknown[0]!r}.")
    answers: list[JudgedAnswer] = []
    for index in range(tasks):
        task = world.task(index)
        for number in range(ATTEMPTS):
            # Styles take turns over tasks, and each is written right and wrong: nothing but rightness tells them apart.
            style = world.styles[(index * ATTEMPTS // 2 + number // 2) % len(world.styles)]
            right = WRONG if number % 2 else 1.0
            text = attempt(task, style, seed * ATTEMPTS + number, right)
            if not isinstance(text, str):
                raise PodiumError(f"The world {world.name!r} has several turns: train there, and fit to the run.")
            asked: Messages = (("user", task.prompt),)
            if steps:
                beginnings = accumulate(text.splitlines(keepends=True))
                scores = world.step_scores(task, text)
                answers += [JudgedAnswer(asked, t, (float(s),)) for t, s in zip(beginnings, scores, strict=True)]
            else:
                measures = {"reward": completed(world.reset(task).act(text)).reward, "length": float(len(text))}
                answers.append(JudgedAnswer(asked, text, tuple(measures[name] for name in names)))
    return RewardData(world.name, tuple(answers), names=tuple(names))


def read_file(file: Path, names: Sequence[str] = ()) -> RewardData:
    """A file of JSON lines: pairs (`chosen`, `rejected`), or answers with ratings or feedback.

    A prompt is a text or a list of messages. `chosen` and `rejected` may be lists of messages that begin with the
    prompt. Ratings are a number, a list, or the fields that `names` lists; null: not rated. `feedback` is 0 or 1, null
    where nobody reacted.
    """
    answers: list[JudgedAnswer] = []
    pairs: list[tuple[int, int]] = []
    for line, row in objects(file):
        where = f"{file}, line {line}"
        if "chosen" in row or "rejected" in row:
            better, worse = (_whole(row, name, where) for name in ("chosen", "rejected"))
            for name, (_, text) in (("chosen", better), ("rejected", worse)):
                if not text.strip():
                    raise PodiumError(f"{where}: the {name} answer is empty. Leave the row out.")
            if better == worse:
                raise PodiumError(f"{where}: the chosen and the rejected text are equal. Leave the row out.")
            pairs.append((len(answers), len(answers) + 1))
            answers += [JudgedAnswer(*better), JudgedAnswer(*worse)]
        else:
            answers.append(_judged(row, names, where))
    if pairs and 2 * len(pairs) < len(answers):
        raise PodiumError(f"{file} has rows with `chosen` and `rejected`, and others without: split the file.")
    widths = {len(answer.ratings) for answer in answers}
    if len(widths) > 1:
        raise PodiumError(f"{file}: rows have {min(widths)} to {max(widths)} ratings; write null where there is none.")
    (width,) = widths
    given = tuple(names) or (("rating",) if width == 1 else tuple(f"rating {k}" for k in range(width)))
    return RewardData(str(file), tuple(answers), tuple(pairs), given if width else ())


def _whole(row: Mapping[str, Any], name: str, where: str) -> tuple[Messages, str]:
    """The messages and the answer of one side of a pair."""
    value = row.get(name)
    if isinstance(value, list):
        *before, last = _messages(value, name, where)
        if not before or last[0] != "assistant":
            raise PodiumError(f"{where}: `{name}` must end with the assistant's message, after the prompt.")
        return tuple(before), last[1]
    if not isinstance(value, str):
        raise PodiumError(f"{where}: `{name}` must be a text or a list of messages.")
    return _prompt(row, where), value


def _judged(row: Mapping[str, Any], names: Sequence[str], where: str) -> JudgedAnswer:
    answer = next((row[name] for name in ANSWERS if name in row), None)
    if not isinstance(answer, str):
        raise PodiumError(
            f"{where}: there is neither a pair (`chosen`, `rejected`) nor a text in one of {', '.join(ANSWERS)}."
        )
    if not answer.strip():
        raise PodiumError(f"{where}: the answer is empty. Leave the row out.")
    if missing := [name for name in names if name not in row]:
        raise PodiumError(f"{where}: the row has no field {missing[0]!r}. {nearest(missing[0], row)}")
    given = [row[name] for name in names] or next((row[name] for name in RATINGS if name in row), [])
    ratings = tuple(_number(x, where) for x in (given if isinstance(given, list) else [given]))
    feedback = _bit(row.get("feedback"), "feedback", where)
    if not ratings and "feedback" not in row:
        raise PodiumError(
            f"{where}: there is no rating ({', '.join(RATINGS)}) and no `feedback`. Name the fields that rate an "
            "answer: --ratings NAME,NAME."
        )
    return JudgedAnswer(_prompt(row, where), answer, ratings, feedback, _bit(row.get("label"), "label", where))


def _prompt(row: Mapping[str, Any], where: str) -> Messages:
    value = next((row[name] for name in PROMPTS if name in row), None)
    if isinstance(value, list):
        return _messages(value, "prompt", where)
    if not isinstance(value, str):
        raise PodiumError(f"{where}: there is no prompt: a text or a list of messages, in one of {', '.join(PROMPTS)}.")
    return (("user", value),)


def _messages(value: Sequence[Any], name: str, where: str) -> Messages:
    for message in value:
        if not isinstance(message, Mapping) or not all(isinstance(message.get(k), str) for k in ("role", "content")):
            raise PodiumError(f"{where}: the messages of `{name}` need a `role` and a `content`, both texts.")
    if not value:
        raise PodiumError(f"{where}: `{name}` has no messages.")
    return tuple((message["role"], message["content"]) for message in value)


def _number(value: Any, where: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PodiumError(f"{where}: the rating {value!r} is not a number; write null where there is none.")
    return float(value)


def _bit(value: Any, name: str, where: str) -> float:
    if value is not None and (isinstance(value, str) or value not in (0, 1)):
        raise PodiumError(f"{where}: {name} {value!r} is neither 0 nor 1; write null where there is none.")
    return math.nan if value is None else float(value)


def observe(
    data: RewardData, out: Path, *, noise: tuple[float, float] = (0.2, 0.1), alpha: float = 0.5, seed: int = 0
) -> tuple[int, int]:
    """Simulate users who react to answers, and write a row for each answer. Returns how many reacted, of how many.

    An answer is liked (label 1) if its rating lies above the middle of all ratings. A user reacts with probability
    alpha^(max − rating); the feedback inverts a label of 1 with probability noise[0], and one of 0 with noise[1].
    """
    check_noise(*noise)
    if not 0 < alpha <= 1:
        raise PodiumError(f"alpha = {alpha:g} lies in (0, 1]: 1 lets users react to every answer.")
    ratings = [answer.ratings[0] for answer in data.answers if answer.ratings]
    if len(ratings) < len(data.answers) or any(map(math.isnan, ratings)) or not ratings:
        raise PodiumError(f"{data.source} has answers without a rating, which no reaction can be simulated for.")
    low, high = min(ratings), max(ratings)
    if low == high:
        raise PodiumError(f"All ratings of {data.source} are {low:g}: there is nothing to like or to dislike.")
    rows = [
        _reaction(number, answer, rating > (low + high) / 2, alpha ** (high - rating), noise, seed)
        for number, (answer, rating) in enumerate(zip(data.answers, ratings, strict=True))
    ]
    atomic_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return sum(row["feedback"] is not None for row in rows), len(rows)


def _reaction(
    number: int, answer: JudgedAnswer, liked: bool, propensity: float, noise: tuple[float, float], seed: int
) -> dict[str, Any]:
    reacts = hashed_uniform("reacts", seed, number) < propensity
    errs = hashed_uniform("errs", seed, number) < (noise[0] if liked else noise[1])
    plain = len(answer.messages) == 1
    prompt = [{"role": role, "content": text} for role, text in answer.messages]
    return {
        "prompt": answer.messages[0][1] if plain else prompt,
        "answer": answer.text,
        "rating": answer.ratings[0],
        "label": int(liked),
        "feedback": int(liked != errs) if reacts else None,
    }


def held_out_answers(data: RewardData, held_out: float) -> list[bool]:
    """[answer] whether it is held out: whole prompts are, chosen by a hash."""
    return [hashed_uniform("held out", answer.messages) < held_out for answer in data.answers]
