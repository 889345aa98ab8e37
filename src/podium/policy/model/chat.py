"""Conversations as token ids, by the tokenizer's chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from torch import nn

from podium.core.errors import PodiumError

__all__ = ["PLAIN_TEMPLATE", "Chat"]

# For models without a chat template: the texts, each followed by a line break, and the end token after the model's.
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
)
BROKEN = "\ufffd"  # what an incomplete character decodes to
LONGEST_CHARACTER = 4  # tokens: UTF-8 has at most so many bytes
MARK = "PODIUM-TURN"  # a placeholder for the model's turn, to find what the template writes around it


class Chat:
    """Encodes conversations and follow-ups by the chat template, and knows which tokens end a turn."""

    def __init__(self, tokenizer: Any, model: nn.Module, name: str = "") -> None:
        self.tokenizer, self.name = tokenizer, name or "the model"
        self.notes: tuple[str, ...] = ()
        self._pieces: dict[int, str] = {}  # the text of single tokens, as far as needed so far
        self._anchor = self._ids("a")
        self._by_backend = _decodes_by_backend(type(tokenizer))
        self._joins = self._by_backend and _is_byte_level(tokenizer)
        if not getattr(tokenizer, "chat_template", None):
            tokenizer.chat_template = PLAIN_TEMPLATE
            note = f"The tokenizer of {self.name} has no chat template: prompts are plain text and a line break."
            self.notes = (note,)
        self.end_ids = self._end_ids(model)

    def _end_ids(self, model: nn.Module) -> tuple[int, ...]:
        """The end tokens named by the model's files, and the special token with which the template ends a turn."""
        ends: set[Any] = set()
        for source in (getattr(model, "generation_config", None), model.config):
            ids = getattr(source, "eos_token_id", None)
            ends |= set(ids) if isinstance(ids, (list, tuple)) else {ids}
        ends.add(self.tokenizer.eos_token_id)
        ends &= set(range(len(self.tokenizer)))
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        after = self._ids(self._after_turn("", generation=False))
        ends |= {i for i in after[:1] if i in special}
        if not ends:
            raise PodiumError(
                f"{self.name} has no end-of-turn token, so its answers would never end. "
                "Set eos_token_id in its generation_config.json to the token that ends a turn."
            )
        return tuple(sorted(int(i) for i in ends))

    def _render(self, messages: Sequence[Mapping[str, Any]], *, generation: bool) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                [dict(m) for m in messages], tokenize=False, add_generation_prompt=generation
            )
        except Exception as error:
            # Templates are programs and can raise anything, mostly to refuse a role.
            roles = ", ".join(str(m.get("role")) for m in messages)
            raise PodiumError(f"The chat template of {self.name} refuses the roles {roles}: {error}") from error
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _after_turn(self, observation: str, *, generation: bool) -> str:
        """What the template writes after a turn of the model."""
        turns = [{"role": "user", "content": "."}, {"role": "assistant", "content": MARK}]
        more = [{"role": "user", "content": observation}] if generation else []
        return self._render([*turns, *more], generation=generation).partition(MARK)[2]

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        return tuple(self._ids(self._render(messages, generation=True)))

    def follow_up(self, observation: str, ended: bool = True) -> tuple[int, ...]:
        ids = self._ids(self._after_turn(observation, generation=True))
        if ended and ids and ids[0] in self.end_ids:
            ids = ids[1:]
        return tuple(ids)

    def written(self, text: str, ended: bool = True) -> tuple[int, ...]:
        ids = self._ids(text)
        if ended:
            after = self._ids(self._after_turn("", generation=False))
            ids.append(next((i for i in after if i in self.end_ids), self.end_ids[0]))
        return tuple(ids)

    def read(self, ids: Sequence[int], known: str | None = None) -> tuple[str, list[int]]:
        pieces = self._pieces_of(ids)
        if pieces and pieces[0].startswith(" "):  # some tokenizers drop a leading space
            pieces[0] = self._decode(ids[:1])
        joined = "".join(pieces)
        text = joined if joined == known else self._decode(ids)
        if joined == text:
            return text, list(accumulate(map(len, pieces)))
        ends = list(self._by_characters(ids, pieces))
        if ends[-1] != len(text.rstrip(BROKEN)):  # the pieces do not add up: decode every prefix
            ends = [len(self._decode(ids[: n + 1]).rstrip(BROKEN)) for n in range(len(ids))]
        return text, ends

    def _pieces_of(self, ids: Sequence[int]) -> list[str]:
        """The text of each token inside a longer text."""
        try:
            return list(map(self._pieces.__getitem__, ids))
        except KeyError:
            begin = len(self._decode(self._anchor))
            for token in set(ids).difference(self._pieces):
                self._pieces[token] = self._decode([*self._anchor, token])[begin:]
            return list(map(self._pieces.__getitem__, ids))

    def _by_characters(self, ids: Sequence[int], pieces: Sequence[str]) -> Iterator[int]:
        """The text length after each token, where characters span several tokens: these are decoded together.

        Tokens from `begin` on may be part of one character. So that a long row of broken ones is not decoded again and
        again, its beginning is set aside where that changes nothing; `broken` counts its characters, which count only
        if something else follows.
        """
        begin = length = broken = 0
        for n, piece in enumerate(pieces):
            if begin < n:
                piece = self._decode(ids[begin : n + 1])
            if n - begin >= 2 * LONGEST_CHARACTER:
                for cut in range(n, n - LONGEST_CHARACTER, -1):
                    aside, rest = self._decode(ids[begin:cut]), self._decode(ids[cut : n + 1])
                    if aside + rest == piece:
                        begin, piece = cut, rest
                        whole = aside.rstrip(BROKEN)
                        if whole:
                            length, broken = length + broken + len(whole), 0
                        broken += len(aside) - len(whole)
                        break
            whole = piece.rstrip(BROKEN)
            yield length + broken + len(whole) if whole else length
            if whole == piece:
                begin = n + 1
                if whole:
                    length, broken = length + broken + len(whole), 0

    def text(self, ids: Sequence[int]) -> str:
        if self._joins:
            joined = "".join(self._pieces_of(ids))
            if BROKEN not in joined:  # whole characters: the text is the pieces joined
                return joined
        return self._decode(ids)

    def _decode(self, ids: Sequence[int]) -> str:
        text: str
        if self._by_backend:
            text = self.tokenizer.backend_tokenizer.decode(list(ids), skip_special_tokens=True)
        else:
            text = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def _decodes_by_backend(tokenizer: type) -> bool:
    """Whether `decode` only calls the backend: then the backend is called directly, which takes half as long."""
    from transformers import PreTrainedTokenizerFast as Fast

    names = ("decode", "_decode", "backend_tokenizer")
    return issubclass(tokenizer, Fast) and all(getattr(tokenizer, name) is getattr(Fast, name, None) for name in names)


def _is_byte_level(tokenizer: Any) -> bool:
    """Whether every token decodes to bytes independently of its neighbours."""
    from tokenizers.decoders import ByteLevel

    return isinstance(tokenizer.backend_tokenizer.decoder, ByteLevel)
