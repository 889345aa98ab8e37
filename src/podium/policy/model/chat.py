"""Conversations as token ids, by the tokenizer's chat template."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from torch import nn

from podium.core.errors import PodiumError
from podium.policy.model.control_tokens import ControlTokens, Markup, random_name, token_ids
from podium.protocols.pieces import Dialogue, Piece, Pieces, pieces_of

__all__ = ["PLAIN_TEMPLATE", "PROMPT", "Chat"]

# For models without a chat template: the texts, each followed by a line break, and the end token after the model's.
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
)
BROKEN = "\ufffd"  # what an incomplete character decodes to
LONGEST_CHARACTER = 4  # tokens: UTF-8 has at most so many bytes
MARK = "PODIUM-TURN"  # a placeholder for the model's turn, to find what the template writes around it
BEFORE = ({"role": "user", "content": "."}, {"role": "assistant", "content": MARK})  # what a follow-up follows
PROMPT, OBSERVATION = "A prompt", "An observation"  # in warnings
PAD = "\t \t"  # around a placeholder, to find out whether the template trims the contents of messages


class Chat:
    """Encodes conversations and follow-ups by the chat template, and knows which tokens end a turn.

    The contents of messages are data: control tokens come only from the template and from `ModelTokens`. Where the
    encoding has others, the text is encoded again with their names as plain text, and a warning says so.
    """

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
        self._in_parts = False  # whether the template takes contents as lists of parts, as vision-language models do
        user = [{"role": "user", "content": MARK}]
        if MARK not in self._render(user, generation=False):
            self._in_parts = True
            self._in_parts = MARK in self._render(user, generation=False)
        self.end_ids = self._end_ids(model)
        after = self._ids(self._after_turn())
        self._closing = next((i for i in after if i in self.end_ids), self.end_ids[0])
        self.control = ControlTokens(tokenizer, {*self.end_ids, *self._turn_ids()}, self.name)
        self.warned: set[str] = set()  # the kinds of text whose control tokens were reported
        self._marks: list[str] = []  # placeholders for the contents of messages
        self._expected: dict[Any, list[int]] = {}  # the template's control tokens, by the messages without their texts

    def _end_ids(self, model: nn.Module) -> tuple[int, ...]:
        """The end tokens named by the model's files, and the special token with which the template ends a turn."""
        ends: set[Any] = set()
        for source in (getattr(model, "generation_config", None), model.config):
            ids = getattr(source, "eos_token_id", None)
            ends |= set(ids) if isinstance(ids, (list, tuple)) else {ids}
        ends.add(self.tokenizer.eos_token_id)
        ends &= set(range(len(self.tokenizer)))
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        after = self._ids(self._after_turn())
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
                [self._message(m) for m in messages], tokenize=False, add_generation_prompt=generation
            )
        except Exception as error:
            # Templates are programs and can raise anything, mostly to refuse a role.
            roles = ", ".join(str(m.get("role")) for m in messages)
            raise PodiumError(f"The chat template of {self.name} refuses the roles {roles}: {error}") from error
        return text

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message in the form that the template takes."""
        content = message.get("content")
        parts = [{"type": "text", "text": content}]
        return {**message, "content": parts} if self._in_parts and isinstance(content, str) else {**message}

    def _ids(self, text: str) -> list[int]:
        return token_ids(self.tokenizer, text)

    def _turn_ids(self) -> set[int]:
        """The added tokens that the template writes around a user's message and after a turn of the model."""
        written = self._ids(self._render([{"role": "user", "content": MARK}], generation=False))
        added = set(self.tokenizer.added_tokens_decoder) - {self.tokenizer.unk_token_id}
        return added & {*written, *self._ids(self._after_turn())}

    def _after_turn(self) -> str:
        """What the template writes after a turn of the model."""
        return self._render(BEFORE, generation=False).partition(MARK)[2]

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        return tuple(self._encoded(_spread(messages), follows=False))

    def follow_up(self, observation: str, ended: bool = True) -> tuple[int, ...]:
        ids = self._encoded([{"role": "user", "content": observation}], follows=True)
        if ended and ids and ids[0] in self.end_ids:
            ids = ids[1:]
        return tuple(ids)

    def written(self, text: str, ended: bool = True) -> tuple[int, ...]:
        ids = [] if isinstance(text, Pieces) else self._ids(text)
        if isinstance(text, Pieces) or not self.control.ids.isdisjoint(ids):
            ids = self._encode_as_text(pieces_of(text), "A text that is given as a turn of the model")
        return (*ids, self._closing) if ended else tuple(ids)

    def _encoded(self, messages: Sequence[Mapping[str, Any]], *, follows: bool) -> list[int]:
        """The tokens of messages, up to where the model's turn begins; `follows`: after a turn of the model."""
        if Pieces not in [type(m.get("content")) for m in messages]:
            try:
                ids = self._ids(self._rendered(messages, follows=follows))
            except PodiumError:  # some templates refuse their own control tokens in a message
                if not any(self.control.first_in(str(m.get("content"))) for m in messages):
                    raise
            else:
                if self.control.among(ids) == self._expected_for(messages, follows=follows):
                    return ids
        return self._encode_as_text(self._parts(messages, follows=follows), OBSERVATION if follows else PROMPT)

    def _rendered(self, messages: Sequence[Mapping[str, Any]], *, follows: bool) -> str:
        if not follows:
            return self._render(messages, generation=True)
        return self._render([*BEFORE, *messages], generation=True).partition(MARK)[2]

    def _marked(self, messages: Sequence[Mapping[str, Any]], pad: str = "") -> list[dict[str, Any]]:
        """The messages with placeholders for their contents."""
        self._marks += [random_name() for _ in messages[len(self._marks) :]]
        contents = [f"{pad}{mark}{pad}" for mark, _ in zip(self._marks, messages, strict=False)]
        return [{**m, "content": mark} if _has_text(m) else {**m} for m, mark in zip(messages, contents, strict=True)]

    def _expected_for(self, messages: Sequence[Mapping[str, Any]], *, follows: bool) -> list[int]:
        """The control tokens that the template writes for these messages, whatever their contents."""
        key = (follows, *map(_shape, messages))
        if key not in self._expected:
            marked = self._rendered(self._marked(messages), follows=follows)
            self._expected[key] = self.control.among(self._ids(marked))
        return self._expected[key]

    def _parts(self, messages: Sequence[Mapping[str, Any]], *, follows: bool) -> list[Markup | Piece]:
        """What the template writes and the contents of the messages, as separate parts. The template may trim contents
        or leave them out, but not change them."""
        marked = self._marked(messages, PAD)
        text = self._rendered(marked, follows=follows)
        contents = dict(zip(self._marks, [m.get("content", "") for m in messages], strict=False))
        lost = [
            n for n, (m, mark) in enumerate(zip(messages, contents, strict=True)) if _has_text(m) and mark not in text
        ]
        other = [{**m, "content": random_name()} if n in lost else m for n, m in enumerate(marked)]
        if lost and text != self._rendered(other, follows=follows):
            raise PodiumError(
                f"The chat template of {self.name} changes the contents of messages, so control tokens in them cannot "
                "be encoded as plain text: remove them from the data, or simplify the template."
            )
        parts: list[Markup | Piece] = []
        for section in re.split(f"((?:{PAD})?(?:{'|'.join(contents)})(?:{PAD})?)", text):
            if (mark := section.strip()) not in contents:
                parts.append(Markup(section))
                continue
            pieces = list(pieces_of(contents[mark]))
            if not section.startswith(PAD) and isinstance(pieces[0], str):
                pieces[0] = pieces[0].lstrip()
            if not section.endswith(PAD) and isinstance(pieces[-1], str):
                pieces[-1] = pieces[-1].rstrip()
            parts += pieces
        return parts

    def control_token_in(self, text: str) -> str:
        return self._first_name(pieces_of(text))

    def _first_name(self, parts: Sequence[Markup | Piece]) -> str:
        """The first name of a control token in data."""
        return next(filter(None, (self.control.first_in(part) for part in parts if isinstance(part, str))), "")

    def _encode_as_text(self, parts: Sequence[Markup | Piece], kind: str) -> list[int]:
        """Encode parts so that only those of the template become control tokens; reported once per kind of text."""
        name = "" if kind in self.warned else self._first_name(parts)
        if name:
            self.warned.add(kind)
            note = f"{kind} contains control tokens of the model, such as {name}: they are encoded as plain text."
            warnings.warn(note, stacklevel=2)
        return self.control.encode(parts)

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


def _spread(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages, with those of a dialogue in the place of the one that holds it."""
    spread: list[Mapping[str, Any]] = []
    for message in messages:
        content = message.get("content")
        held = content.messages if isinstance(content, Dialogue) else None
        spread += [message] if held is None else [{"role": role, "content": text} for role, text in held]
    return spread


def _has_text(message: Mapping[str, Any]) -> bool:
    """Whether the content of a message is a text that is not blank."""
    content = message.get("content")
    return isinstance(content, str) and bool(content) and not content.isspace()


def _shape(message: Mapping[str, Any]) -> Any:
    """A message apart from its content."""
    if len(message) == 2 and "content" in message and "role" in message:
        return message["role"], _has_text(message)
    return repr({**message, "content": _has_text(message)})


def _decodes_by_backend(tokenizer: type) -> bool:
    """Whether `decode` only calls the backend: then the backend is called directly, which takes half as long."""
    from transformers import PreTrainedTokenizerFast as Fast

    names = ("decode", "_decode", "backend_tokenizer")
    return issubclass(tokenizer, Fast) and all(getattr(tokenizer, name) is getattr(Fast, name, None) for name in names)


def _is_byte_level(tokenizer: Any) -> bool:
    """Whether every token decodes to bytes independently of its neighbours."""
    from tokenizers.decoders import ByteLevel

    return isinstance(tokenizer.backend_tokenizer.decoder, ByteLevel)
