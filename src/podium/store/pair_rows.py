"""Preference data as the hub's data sets have them: rows with `chosen` and `rejected`, in JSON lines or parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError
from podium.store.json_lines import objects

__all__ = ["PairRow", "read_pairs"]

ASSISTANT = "\n\nAssistant:"  # how dialogues in one text mark an answer


@dataclass(frozen=True)
class PairRow:
    """A conversation and two ways to answer its last message; without one of them, a single judged answer."""

    where: str  # the file and the line
    asked: tuple[str, ...]  # the messages of the user
    replies: tuple[str, ...]  # the answers to all of them but the last
    chosen: str | None
    rejected: str | None
    label: float = 1.0  # the probability that `chosen` is the better one

    @property
    def problem(self) -> str:
        """Why it teaches nothing; empty: it does."""
        for name, text in (("chosen", self.chosen), ("rejected", self.rejected)):
            if text is not None and not text.strip():
                return f"the {name} answer is empty"
        return "the chosen and the rejected answer are the same text" if self.chosen == self.rejected else ""


def read_pairs(file: str, *, label_field: str = "", skip: bool = False) -> tuple[list[PairRow], int]:
    """The pairs of a file, and how many rows were left out.

    `chosen` and `rejected` are texts or lists of chat messages, with a `prompt` or with what the two have in common as
    the prompt. Rows with a `completion` and a `label`, true (1) or false (0), are single judged answers. Rows with an
    empty answer or two equal ones are an error, or left out where `skip` says so.
    """
    rows, left_out = [], 0
    for where, data in _rows(file):
        row = _row(data, where, label_field)
        if not row.problem:
            rows.append(row)
        elif skip:
            left_out += 1
        else:
            raise PodiumError(f"{where}: {row.problem}. Leave the row out, or set skip=true.")
    if not rows:
        raise PodiumError(f"{file} has no pair of two different answers.")
    return rows, left_out


def _rows(file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if Path(file).suffix != ".parquet":
        yield from ((f"{file}, line {line}", data) for line, data in objects(file))
        return
    if not Path(file).is_file():
        raise PodiumError(f"There is no file {file!r} (looked in {Path.cwd()}).")
    from podium.store.tables import read_rows  # pyarrow, which only parquet needs

    for number, data in enumerate(read_rows(Path(file)), 1):
        yield f"{file}, row {number}", data


def _row(data: Mapping[str, Any], where: str, label_field: str) -> PairRow:
    if "chosen" in data and "rejected" in data:
        asked, replies, chosen, rejected = _pair(data, where)
        return PairRow(where, asked, replies, chosen, rejected, _label(data, label_field, where))
    if "completion" in data and "label" in data:
        answer = {"chosen" if _is_good(data["label"], where) else "rejected": data["completion"]}
        asked, replies, chosen, rejected = _pair({"prompt": data.get("prompt"), **answer}, where)
        return PairRow(where, asked, replies, chosen, rejected)
    raise PodiumError(
        f"{where}: the row has the fields {', '.join(data) or 'none'}; needed are chosen and rejected, with or without "
        "prompt, or completion and label (true or false)."
    )


def _is_good(label: Any, where: str) -> bool:
    if isinstance(label, (bool, int, float)) and label in (0, 1):
        return bool(label)
    raise PodiumError(f"{where}: label is {label!r}; it must be true for a good answer, or false for a bad one.")


def _label(data: Mapping[str, Any], name: str, where: str) -> float:
    if not name:
        return 1.0
    label = data.get(name)
    if isinstance(label, bool) or not isinstance(label, (int, float)) or not 0 <= label <= 1:
        raise PodiumError(
            f"{where}: {name} is {label!r}; it must be the probability, from 0 to 1, that the chosen answer is better."
        )
    return float(label)


Conversation = tuple[tuple[str, ...], tuple[str, ...], str | None, str | None]


def _pair(data: Mapping[str, Any], where: str) -> Conversation:
    """The user's messages, the answers between them, and the last answers."""
    sides = {name: data[name] for name in ("chosen", "rejected") if name in data}
    prompt = data.get("prompt")
    if all(isinstance(side, str) for side in sides.values()) and not isinstance(prompt, list):
        return _texts(prompt, sides, where)
    before = _messages(prompt, "prompt", where) if isinstance(prompt, list) else []
    whole = {name: [*before, *_messages(side, name, where)] for name, side in sides.items()}
    shared = [messages[:-1] for messages in whole.values()]
    if any(messages != shared[0] for messages in shared[1:]):
        raise PodiumError(f"{where}: chosen and rejected differ before their last message; they must share the rest.")
    conversation = shared[0] or ([("user", prompt)] if isinstance(prompt, str) else [])
    system = "\n\n".join(text for role, text in conversation if role == "system")
    turns = [message for message in conversation if message[0] != "system"]
    roles = [role for role, _ in turns] + ["assistant"]
    last = {name: messages[-1] for name, messages in whole.items()}
    alternating = roles == ["user", "assistant"] * (len(roles) // 2)
    if not alternating or any(role != "assistant" for role, _ in last.values()):
        raise PodiumError(f"{where}: messages must alternate between user and assistant and end with the assistant's.")
    asked, replies = (tuple(text for role, text in turns if role == who) for who in ("user", "assistant"))
    asked = (f"{system}\n\n{asked[0]}" if system else asked[0], *asked[1:])
    return asked, replies, *(last[name][1] if name in last else None for name in ("chosen", "rejected"))  # type: ignore[return-value]


def _texts(prompt: Any, sides: Mapping[str, str], where: str) -> Conversation:
    """Answers that are plain texts; without a prompt, it is what both begin with."""
    answers = {name: sides.get(name) for name in ("chosen", "rejected")}
    if prompt is None and len(sides) == 2:
        common = _common(sides["chosen"], sides["rejected"])
        if ASSISTANT in common:
            cut = common.rindex(ASSISTANT) + len(ASSISTANT)
        else:
            cut = len(common) if sides["chosen"] == sides["rejected"] else max(map(common.rfind, " \n")) + 1
        prompt, answers = common[:cut], {name: text[cut:] for name, text in sides.items()}
        if not prompt.strip():
            raise PodiumError(f"{where}: there is no prompt, and chosen and rejected do not begin alike: add `prompt`.")
    if not isinstance(prompt, str) or not prompt.strip():
        raise PodiumError(f"{where}: the prompt is {prompt!r}; it must be a text or a list of chat messages.")
    return (prompt,), (), answers["chosen"], answers["rejected"]


def _common(a: str, b: str) -> str:
    """What two texts begin with."""
    return a[: next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def _messages(value: Any, name: str, where: str) -> list[tuple[str, str]]:
    """(role, content) of chat messages; a text stands for one message of the assistant."""
    if isinstance(value, str):
        return [("assistant", value)]
    messages: Sequence[Any] = value if isinstance(value, list) else []
    if not messages or not all(isinstance(m, dict) and isinstance(m.get("content"), str) for m in messages):
        raise PodiumError(f"{where}: {name} must be a text or a list of messages, each with a role and a content.")
    return [(str(m.get("role")), m["content"]) for m in messages]
