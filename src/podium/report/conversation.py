"""A recorded rollout as a conversation: the task, what the model wrote in each turn, what the world answered."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from podium.core.columns import TRAINS, Purpose
from podium.core.errors import PodiumError
from podium.core.printable import printable
from podium.protocols.drawn_text import SHADES, read_picture
from podium.store.pictures import shown_file
from podium.store.tables import read_rows, read_schema
from podium.worlds.names import codebook_of, drawn_side_of
from podium.worlds.picture import Codebook, Pixels, pictures_in, png, sketched

__all__ = ["Conversation", "ShownTurn", "conversation", "conversation_page", "read_rollouts", "conversation_text"]

# What is read of a run's files, where they have it; and how its columns begin that say what is not trained.
COLUMNS = (
    *("iteration", "task", "prompt", "text", "correct", "reward", "stop", "failure", "idle", "purpose"),
    *("turn.length", "turn.action", "turn.observation", "turn.reward", "turn.valid", "turn.agent", "turn.role"),
    "token.advantage",
)
ALWAYS = ("task", "prompt", "text", "correct", "reward", "stop")  # what every file has
KEEP = ("keep", "turn.keep", "token.keep")
ENDS = {
    "end": "",
    "text": "cut at a stop text",
    "length": "cut at the limit of tokens",
    "turns": "ended by the limit of turns",
    "context": "ended by the model's context, which is full",
    "failed": "the world failed",  # where the record says no more
}
LAST = ("end", "text", "length")  # these say how the last turn ended; after several turns the world was done
NAMED = re.compile(r"<picture [^<>\n]{1,4096}>")  # a picture in a text
WHOLE, EDGE = 6, 2  # turns: so many are shown at once; of more, so many at either end


@dataclass(frozen=True)
class ShownTurn:
    """A turn: what the model wrote, what is known of it, and what the world answered."""

    text: str
    answer: str  # empty: nothing, or the run is older than the record of it
    notes: tuple[str, ...] = ()  # its reward and credit, and that the world refused it
    agent: str = ""  # who acted, where there are several; with the role that wrote it, where that is not the policy
    to: str = ""  # which agent saw the answer, where it was another one


@dataclass(frozen=True)
class Conversation:
    """A whole rollout."""

    task: str
    prompt: str
    verdict: str  # right, wrong, or failed, where the world did
    reward: float
    exchanges: tuple[ShownTurn, ...]
    ending: str  # why it ended, where it was not the model or the world that was done
    notes: tuple[str, ...] = ()  # who never acted, and why it was made if not to be trained

    @property
    def summary(self) -> tuple[str, ...]:
        """What it came to, in the order in which one reads it."""
        turns = len(self.exchanges)
        length = (f"{turns} turns",) if turns > 1 else ()
        return (f"reward {self.reward:g}", *length, *((self.ending,) if self.ending else ()), *self.notes)


def read_rollouts(file: Path) -> list[Conversation]:
    """The rollouts of a file that have their text, as conversations."""
    columns = read_schema(file).names
    begin = (*KEEP, *(("reward",) if "turn.agent" in columns else ()))  # with what each agent has earned
    chosen = [name for name in columns if name in COLUMNS or any(name == k or name.startswith(f"{k}.") for k in begin)]
    rows = read_rows(file, list(dict.fromkeys((*ALWAYS, *chosen))))
    try:
        return [conversation(row) for row in rows if row["text"] is not None]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:  # columns of unexpected types
        raise PodiumError(f"{file} is damaged: its columns do not fit together.") from error


def conversation(row: Mapping[str, Any]) -> Conversation:
    """A row of a run's rollouts as a conversation."""
    ending = ENDS.get(row["stop"], f"ended by {row['stop']}")
    if row["stop"] in LAST and len(row.get("turn.length") or ()) > 1:
        ending = "; its last turn was ".join(("ended by the world", *filter(None, [ending])))
    failure, idle, purpose = row.get("failure"), row.get("idle"), Purpose(int(row.get("purpose") or 0))
    earned = [(name.removeprefix("reward."), row[name]) for name in row if name.startswith("reward.")]
    notes = [f"{agent} earned {reward:g}" for agent, reward in earned] if row.get("turn.agent") else []
    notes += [f"{idle} never acted"] if idle else []
    notes += [] if purpose is Purpose.train else [f"made as {purpose.name}"]
    return Conversation(
        task=str(row["task"]),
        prompt=str(row["prompt"]),
        verdict="failed" if failure else "right" if row["correct"] else "wrong",
        reward=float(row["reward"]),
        exchanges=_exchanges(row),
        ending=str(failure or ending),
        notes=tuple(notes),
    )


def _exchanges(row: Mapping[str, Any]) -> tuple[ShownTurn, ...]:
    lengths = row.get("turn.length") or [0]
    count = len(lengths)
    texts = (row.get("turn.action") if count > 1 else None) or [row["text"]]
    nothing = [None] * count
    answers, rewards, valid, agents, roles = (
        row.get(f"turn.{name}") or nothing for name in ("observation", "reward", "valid", "agent", "role")
    )
    nexts = [*agents[1:], agents[-1]]
    turns, last = [], count if row.get("failure") else None  # the turn in which the world failed is not to blame
    for number, (text, answer, reward, is_valid, agent, role, follower, credit) in enumerate(
        zip(texts, answers, rewards, valid, agents, roles, nexts, _credits(row, lengths), strict=True), 1
    ):
        who = f"{agent} ({role})" if agent and role not in (None, "policy") else agent or ""
        notes = ["not a valid action"] if is_valid is False and number != last else []
        notes += [f"reward {reward:g}"] if reward and count > 1 else []
        notes += [credit] if credit else []
        to = f"to {follower}" if follower != agent else ""
        turns.append(ShownTurn(text, answer or "", tuple(notes), who, to))
    return tuple(turns)


def _credits(row: Mapping[str, Any], lengths: Sequence[int]) -> list[str]:
    """Each turn's mean advantage over its tokens that are trained; empty where there is none."""
    advantage, count = row.get("token.advantage"), sum(lengths)
    if advantage is None or row.get("purpose") not in TRAINS:
        return [""] * len(lengths)
    trained = [True] * count
    for name, kept in row.items():
        level = next((k for k in KEEP if name == k or name.startswith(f"{k}.")), None)
        if level is not None:
            spread = {"keep": [kept] * count, "token.keep": kept}
            if level == "turn.keep":
                spread[level] = [mark for mark, n in zip(kept, lengths, strict=True) for _ in range(n)]
            trained = [a and bool(b) for a, b in zip(trained, spread[level], strict=True)]
    labels = []
    for end, length in zip(accumulate(lengths), lengths, strict=True):
        advantages = [advantage[i] for i in range(end - length, end) if trained[i]]
        labels.append(
            f"credit {sum(advantages) / len(advantages):+.2f}" if advantages else "not trained" if length else ""
        )
    return labels


def conversation_text(shown: Conversation) -> str:
    """The conversation as plain text."""
    codebook = codebook_of(shown.task)
    lines = [f"{shown.task}: {' · '.join((shown.verdict, *shown.summary))}", _shifted(sketched(shown.prompt, codebook))]
    for number, turn in enumerate(shown.exchanges, 1):
        who = f"{turn.agent}, turn {number}" if turn.agent else f"turn {number}"
        lines += [" · ".join((who, *turn.notes)), _shifted(turn.text, "> ")]
        if turn.answer:
            lines += [*([f"  {turn.to}:"] if turn.to else []), _shifted(sketched(turn.answer, codebook))]
    return printable("\n".join(lines))


def _shifted(text: str, mark: str = "  ") -> str:
    return "\n".join(mark + line for line in text.split("\n"))


def conversation_page(shown: Conversation, run: Path | None = None) -> str:
    """The conversation as a piece of HTML; of a long one the middle is folded. `run` has thumbnails of its pictures."""
    mark = f'<span class="{"yes" if shown.verdict == "right" else "no"}">{shown.verdict}</span>'
    pictures = _Pictures(codebook_of(shown.task), run)
    count, side = len(shown.exchanges), drawn_side_of(shown.task)
    turns = [_turn(turn, number, count, pictures, side) for number, turn in enumerate(shown.exchanges, 1)]
    if len(turns) > WHOLE:
        middle = "".join(turns[EDGE:-EDGE])
        more = f"<details><summary>turns {EDGE + 1} to {len(turns) - EDGE}</summary>{middle}</details>"
        turns = [*turns[:EDGE], more, *turns[-EDGE:]]
    summary = "".join(f" · {html.escape(text)}" for text in shown.summary)
    prompt = f'<pre class="world">{pictures(shown.prompt)}</pre>'
    return f'<div class="rollout">{mark}{summary}{prompt}{"".join(turns)}</div>'


def _turn(turn: ShownTurn, number: int, count: int, pictures: _Pictures, side: int | None) -> str:
    heading = [f"turn {number}"] if count > 1 else []
    heading += [*([turn.agent] if turn.agent else []), *turn.notes]
    page = f'<div class="turn">{html.escape(" · ".join(heading))}</div>' if heading else ""
    shades = None if side is None else read_picture(turn.text, side)
    drawn = None if shades is None else 1 - np.array(shades).reshape(side or 0, -1, 1) / SHADES
    wrote = html.escape(turn.text) if drawn is None else _image(drawn)
    page += f'<pre class="wrote">{wrote}</pre>'
    if not turn.answer:
        return page
    page += f'<div class="turn">{html.escape(turn.to)}</div>' if turn.to else ""
    return f'{page}<pre class="world">{pictures(turn.answer)}</pre>'


@dataclass(frozen=True)
class _Pictures:
    """Writes what the world said, with its pictures in place of their tokens or names."""

    codebook: Codebook | None
    run: Path | None

    def __call__(self, text: str) -> str:
        if self.codebook is None:
            return self._named(text)
        page = ""
        for before, codes in pictures_in(text):
            page += html.escape(before)
            if codes is not None:
                page += _image(self.codebook.drawn(codes), f"{codes.shape[0]} x {codes.shape[1]} patches")
        return page

    def _named(self, text: str) -> str:
        """The text with the thumbnails that the run has kept."""
        page, end = "", 0
        for match in NAMED.finditer(text):
            file = None if self.run is None else shown_file(self.run, match[0])
            if file is not None and file.is_file():
                page += html.escape(text[end : match.start()]) + _tag(file.read_bytes(), match[0])
                end = match.end()
        return page + html.escape(text[end:])


def _image(pixels: Pixels, size: str = "") -> str:
    """A picture in a page."""
    size = size or f"{pixels.shape[0]} x {pixels.shape[1]} pixels"
    return _tag(png(pixels), f"picture of {size}")


def _tag(file: bytes, what: str) -> str:
    return f'<img alt="{html.escape(what)}" src="data:image/png;base64,{base64.b64encode(file).decode()}">'
