"""Texts that rows have left in lines of the kernels' cache, for rows that go on with them.

A turn of an episode continues the text of the turn before it. The keys and values of that need not move: the row of the
new turn takes the line in which they are, and the model reads what the world has said since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podium.policy.native.step import NativeCache, NativeRead
from podium.sampler.kept_prefixes import Held, Prefixes

__all__ = ["Known", "Lines"]

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Known:
    """What a line holds of the beginning of a text."""

    text: Ids
    kept: Ids  # the text in the line
    line: int
    count: int  # how many tokens they have in common
    prompt: int  # how many of those lie in the line's slot

    @property
    def whole(self) -> bool:
        """Whether the text continues all that the line holds."""
        return self.count == len(self.kept)

    @property
    def unread(self) -> int:
        """Tokens between what the line holds and the last, which the first step reads."""
        return len(self.text) - 1 - self.count

    def room(self, limit: int) -> int:
        """Tokens that a line must have room for, if up to `limit` are to be written after the text."""
        return len(self.text) - 1 - self.prompt + limit


class Lines:
    """Lines that no row has. What they hold is found in `prefixes`, beside texts that lie elsewhere."""

    def __init__(self, prefixes: Prefixes) -> None:
        self.prefixes = prefixes
        self.kept: dict[int, Ids] = {}  # by line, the oldest first
        # How many lines may be in use: what rows have needed since the weights changed, even if there are more from
        # earlier work, so that what is copied, and its last bits, do not depend on that.
        self.allowed = 0

    def spare(self, cache: NativeCache) -> int:
        """How many more lines may be used."""
        return self.allowed - (cache.rows - len(cache.free))

    def keep(self, line: int, ids: Ids) -> None:
        """Leave a line as it is when its row ends."""
        self.kept[line] = ids
        self.prefixes.add(ids, line)

    def give_back(self, cache: NativeCache, line: Held) -> None:
        """Let others write in a line of which nobody will ask any more."""
        if isinstance(line, int):
            del self.kept[line]
            cache.free.append(line)

    def clear_out(self, cache: NativeCache, rows: int) -> None:
        """Have lines for so many rows: of the oldest texts that lie in lines, copies are kept elsewhere."""
        while self.kept and rows > self.spare(cache):
            line, ids = next(iter(self.kept.items()))
            copied = cache.read(line, len(ids))
            self.give_back(cache, self.prefixes.take(ids))
            self.prefixes.add(ids, copied)

    def known(self, cache: NativeCache, texts: Sequence[Ids]) -> dict[Ids, Known]:
        """Those texts that can go on in a line, or in a copy of it."""
        found = {}
        for text in dict.fromkeys(texts) if self.kept else ():
            kept, line, count = self.prefixes.find(text[:-1]) or ((), None, 0)
            if isinstance(line, int) and count >= cache.shared[line]:
                found[text] = Known(text, kept, line, count, int(cache.shared[line]))
        return found

    def go_on(self, cache: NativeCache, asked: Mapping[int, Known], read: NativeRead) -> list[int]:
        """Give rows lines that hold their texts but for the last tokens, while there are lines; which of them have one.

        A text that alone continues all that a line holds takes the line. Others get copies.
        """
        rows: dict[Ids, list[int]] = {}
        for row, known in asked.items():
            rows.setdefault(known.text, []).append(row)
        texts = {known.text: known for known in asked.values()}
        wanted = Counter(known.kept for known in texts.values())
        taking = {text for text, known in texts.items() if known.whole and wanted[known.kept] == 1}
        if len(asked) - len(taking) > self.spare(cache):
            texts = {text: known for text, known in texts.items() if text in taking and len(rows[text]) == 1}
        for text in taking & texts.keys():
            self.prefixes.take(texts[text].kept)
            del self.kept[texts[text].line]
        # The first row of each text reads what is new; the others begin as it does.
        lines = {text: known.line if text in taking else cache.free.pop() for text, known in texts.items()}
        begun = [known for text, known in texts.items() if text not in taking]
        cache.copy([(k.line, lines[k.text]) for k in begun], max((k.count for k in begun), default=0))
        read([(lines[text], known.count, text[known.count : -1]) for text, known in texts.items()])
        others = {row: (lines[text], cache.free.pop()) for text in texts for row in rows[text][1:]}
        cache.copy(list(others.values()), max(map(len, texts), default=0))
        going = {rows[text][0]: line for text, line in lines.items()} | {row: new for row, (_, new) in others.items()}
        cache.line_of[list(going)] = list(going.values())
        return list(going)
