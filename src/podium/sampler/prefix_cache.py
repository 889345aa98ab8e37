"""The prefix cache of the native kernels: finished texts stay in their lines, for rows that continue them.

A turn of an episode continues the text of the turn before it. Its keys and values need not be copied: the row of the
new turn takes over the line that holds them, and the model reads only what the world has said since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podium.policy.native.step import NativeCache, NativeRead
from podium.sampler.kept_prefixes import CachedKV, KeptPrefixes

__all__ = ["CachedPrefix", "PrefixCache"]

Ids = tuple[int, ...]


@dataclass(frozen=True)
class CachedPrefix:
    """The longest cached prefix of a text, and the line that holds it."""

    text: Ids
    kept: Ids  # the whole text in the line
    line: int
    count: int  # how many tokens they share
    prompt: int  # how many of those lie in the prompt slot that the line refers to

    @property
    def whole(self) -> bool:
        """Whether the text continues everything that the line holds."""
        return self.count == len(self.kept)

    @property
    def unread(self) -> int:
        """How many tokens are still to be read, not counting the last one, which the first decode step reads."""
        return len(self.text) - 1 - self.count

    def space_needed(self, limit: int) -> int:
        """The length that a line needs if up to `limit` tokens are written after the text."""
        return len(self.text) - 1 - self.prompt + limit


class PrefixCache:
    """Lines that no row uses but that still hold a text. `prefixes` indexes them, with texts kept elsewhere."""

    def __init__(self, prefixes: KeptPrefixes) -> None:
        self.prefixes = prefixes
        self.kept: dict[int, Ids] = {}  # by line, the oldest first
        # How many lines may be in use: as many as rows have needed since the weights changed, even if earlier work
        # left more. So what is copied, and with it the last bits, does not depend on earlier work.
        self.allowed = 0

    def spare(self, cache: NativeCache) -> int:
        """How many more lines may be used."""
        return self.allowed - (cache.rows - len(cache.free))

    def keep(self, line: int, ids: Ids) -> None:
        """Keep the text of a line whose row has ended."""
        self.kept[line] = ids
        self.prefixes.add(ids, line)

    def give_back(self, cache: NativeCache, line: CachedKV) -> None:
        """Free a line whose text is no longer kept."""
        if isinstance(line, int):
            del self.kept[line]
            cache.free.append(line)

    def make_room(self, cache: NativeCache, rows: int) -> None:
        """Free lines for so many rows: the oldest texts are copied out of their lines."""
        while self.kept and rows > self.spare(cache):
            line, ids = next(iter(self.kept.items()))
            copied = cache.read(line, len(ids))
            self.give_back(cache, self.prefixes.take(ids))
            self.prefixes.add(ids, copied)

    def match(self, cache: NativeCache, texts: Sequence[Ids]) -> dict[Ids, CachedPrefix]:
        """The texts that can continue in a line, or in a copy of one."""
        matches = {}
        for text in dict.fromkeys(texts) if self.kept else ():
            kept, line, count = self.prefixes.find(text[:-1]) or ((), None, 0)
            if isinstance(line, int) and count >= cache.shared[line]:
                matches[text] = CachedPrefix(text, kept, line, count, int(cache.shared[line]))
        return matches

    def resume(self, cache: NativeCache, wanted: Mapping[int, CachedPrefix], read: NativeRead) -> list[int]:
        """Give rows lines that hold their texts without the last tokens, while there are lines; returns those rows.

        A text that is the only one to continue everything a line holds takes over the line. Others get copies.
        """
        rows: dict[Ids, list[int]] = {}
        for row, prefix in wanted.items():
            rows.setdefault(prefix.text, []).append(row)
        texts = {prefix.text: prefix for prefix in wanted.values()}
        users = Counter(prefix.kept for prefix in texts.values())
        taking = {text for text, prefix in texts.items() if prefix.whole and users[prefix.kept] == 1}
        if len(wanted) - len(taking) > self.spare(cache):
            texts = {text: prefix for text, prefix in texts.items() if text in taking and len(rows[text]) == 1}
        for text in taking & texts.keys():
            self.prefixes.take(texts[text].kept)
            del self.kept[texts[text].line]
        # The first row of each text reads what is new; its other rows start from a copy.
        lines = {text: prefix.line if text in taking else cache.free.pop() for text, prefix in texts.items()}
        copied = [prefix for text, prefix in texts.items() if text not in taking]
        cache.copy([(p.line, lines[p.text]) for p in copied], max((p.count for p in copied), default=0))
        read([(lines[text], prefix.count, text[prefix.count : -1]) for text, prefix in texts.items()])
        others = {row: (lines[text], cache.free.pop()) for text in texts for row in rows[text][1:]}
        cache.copy(list(others.values()), max(map(len, texts), default=0))
        resumed = {rows[text][0]: line for text, line in lines.items()} | {row: new for row, (_, new) in others.items()}
        cache.line_of[list(resumed)] = list(resumed.values())
        return list(resumed)
