"""Control tokens, and how data that contains their names is encoded as plain text.

A tokenizer turns the name of a control token into that token wherever it occurs. So that data cannot forge a turn, text
with such names goes through a copy of the tokenizer in which every control token has a random name. The names in what
the chat template writes are replaced by the random ones; in data they stay, and are plain text to the copy.
"""

from __future__ import annotations

import copy
import json
import re
import secrets
import string
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import AddedToken, Tokenizer

from podium.core.errors import PodiumError, nearest
from podium.policy.vision.picture_ids import FIRST
from podium.protocols.pieces import ModelTokens, Picture, Piece

__all__ = ["ControlTokens", "Markup", "random_name", "token_ids"]


@dataclass(frozen=True)
class Markup:
    """Text of the chat template, in which names of control tokens are control tokens."""

    text: str


def random_name() -> str:
    """A name that no data contains: about 150 bits of lower-case letters, which normalisers and templates keep."""
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(32))


class ControlTokens:
    """The control tokens of a tokenizer: its special tokens, and those of `turns`, with which the template marks turns.

    Other added tokens, such as the tags of thoughts and tool calls, may come from any text. So may the token for
    unknown characters, unless it ends a turn.
    """

    def __init__(self, tokenizer: Any, turns: Collection[int], name: str) -> None:
        self.tokenizer, self.name = tokenizer, name
        added = tokenizer.added_tokens_decoder
        special = {number for number, token in added.items() if token.special} | set(tokenizer.all_special_ids)
        self.ids = frozenset((special - {tokenizer.unk_token_id}) | set(turns))
        names = {number: token.content for number, token in added.items()}
        self.names = {names.get(i) or str(tokenizer.convert_ids_to_tokens(i)): i for i in sorted(self.ids)}
        self._name = _any_of(self.names)
        self._added = _any_of({*self.names, *(token.content for token in added.values())})

    def first_in(self, text: str) -> str:
        """The first name of a control token in a text; empty: there is none."""
        match = self._name.search(text)
        return match[0] if match else ""

    def among(self, ids: Iterable[int]) -> list[int]:
        """The control tokens among these tokens."""
        return list(filter(self.ids.__contains__, ids))

    def encode(self, parts: Sequence[Markup | Piece]) -> list[int]:
        """The tokens of the template's text, of data, and of `ModelTokens`, joined."""
        if self._renamed is None:
            return self._by_segments(parts)
        tokenizer, names, placeholder, number = self._renamed
        text = "".join(
            self._added.sub(lambda match: names.get(match[0], match[0]), part.text)
            if isinstance(part, Markup)
            else placeholder * len(part.tokens)
            if isinstance(part, ModelTokens)
            else self._readable(part)
            for part in parts
        )
        ids = token_ids(tokenizer, text)
        marks = sum(len(self._name.findall(part.text)) for part in parts if isinstance(part, Markup))
        if len(self.among(ids)) != marks:  # the tokenizer does not find a control token beside this text
            return self._by_segments(parts)
        explicit = (i for part in parts if isinstance(part, ModelTokens) for i in self._ids_of(part))
        return [next(explicit) if i == number else i for i in ids]

    def _ids_of(self, piece: ModelTokens) -> Iterable[int]:
        """The ids of tokens, each of which is a name or an id."""
        for token in piece.tokens:
            number = token if isinstance(token, int) else self.tokenizer.get_vocab().get(token)
            if number is None:
                raise PodiumError(f"{self.name} has no token {token!r}. {nearest(str(token), self.names)}")
            if len(self.tokenizer) <= number < FIRST:
                raise PodiumError(f"{self.name} has no token {number}: it has {len(self.tokenizer)}.")
            yield number

    def _readable(self, piece: str | Picture) -> str:
        if isinstance(piece, Picture):
            raise PodiumError(f"{self.name} reads text and cannot see {piece}: use a world without pictures.")
        return piece

    @cached_property
    def _renamed(self) -> tuple[Any, dict[str, str], str, int | None] | None:
        """The tokenizer with its control tokens renamed, their new names, and the name and id of a placeholder for
        `ModelTokens`. None: its backend is not one of the tokenizers library."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            return None
        # The first and the last character stay: normalisers and tokens beside it may look at their neighbours.
        names = {name: f"{name[0]}{random_name()}{name[-1]}" for name in self.names}
        tokenizer, placeholder = copy.copy(self.tokenizer), random_name()
        renamed = Tokenizer.from_str(json.dumps(_renamed(json.loads(backend.to_str()), names)))
        renamed.add_tokens([AddedToken(placeholder, normalized=False)])
        vars(tokenizer)["_tokenizer"] = renamed
        return tokenizer, names, placeholder, renamed.token_to_id(placeholder)

    def _by_segments(self, parts: Sequence[Markup | Piece]) -> list[int]:
        """Encode each text between the template's control tokens separately, with special tokens split."""
        ids: list[int] = []
        text = ""

        def flush() -> None:
            nonlocal text
            segment: list[int] = token_ids(self.tokenizer, text, split_special_tokens=True) if text else []
            if self.among(segment):
                shown = self.first_in(text) or self.tokenizer.convert_ids_to_tokens(self.among(segment)[0])
                raise PodiumError(f"{self.name} has no way to write {shown} as plain text: remove it from the data.")
            ids.extend(segment)
            text = ""

        for part in parts:
            if isinstance(part, ModelTokens):
                flush()
                ids.extend(self._ids_of(part))
            elif isinstance(part, Markup):
                end = 0
                for match in self._name.finditer(part.text):
                    text += part.text[end : match.start()]
                    flush()
                    ids.append(self.names[match[0]])
                    end = match.end()
                text += part.text[end:]
            else:
                text += self._readable(part)
        flush()
        return ids


def token_ids(tokenizer: Any, text: str, **options: Any) -> list[int]:
    """The tokens of a text, without those that a tokenizer adds at the beginning and the end."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, return_attention_mask=False, **options)["input_ids"]
    return ids


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Finds names as tokenizers do: the leftmost, and the longest of those that begin there."""
    longest_first = sorted(filter(None, names), key=lambda name: (-len(name), name))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _renamed(data: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A tokenizer's JSON with other names for some tokens, which keep their ids, flags and everything else."""
    for token in data["added_tokens"]:
        if token["content"] in names:
            token["content"] = names[token["content"]]
            token["single_word"] = False  # what the template writes is always a token
    model = data["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(piece, piece): number for piece, number in model["vocab"].items()}
    else:  # pieces with their scores
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:  # no merge may make a control token
        pairs = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"]]
        model["merges"] = [pair for pair in pairs if not {*pair, "".join(pair)} & names.keys()]
    data["post_processor"] = None  # it adds tokens by name, which is not asked for
    return data
