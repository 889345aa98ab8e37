"""Conversations as token ids, by the tokenizer's own chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from torch import nn

from podium.core.errors import PodiumError

__all__ = ["PLAIN_TEMPLATE", "Chat"]

# For models without a template of their own: the texts, a line break after each, and the end token after the model's.
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
)
BROKEN = "\ufffd"  # stands for a part of a character
MARK = "PODIUM-TURN"  # stands for the model's turn when we look at what the template puts around it


class Chat:
    """Encodes conversations and follow-ups, and knows which tokens end a turn."""

    def __init__(self, tokenizer: Any, model: nn.Module, name: str = "") -> None:
        self.tokenizer, self.name = tokenizer, name or "the model"
        self.notes: tuple[str, ...] = ()
        self._pieces: dict[int, str] = {}  # what single tokens add to a text, where it was asked for
        self._anchor = self._ids("a")
        self._plain = _plain(type(tokenizer))
        self._joins = self._plain and _of_bytes(tokenizer)
        if not getattr(tokenizer, "chat_template", None):
            tokenizer.chat_template = PLAIN_TEMPLATE
            said = f"The tokenizer of {self.name} has no chat template: prompts are plain text and a line break."
            self.notes = (said,)
        self.end_ids = self._end_ids(model)

    def _end_ids(self, model: nn.Module) -> tuple[int, ...]:
        """The end tokens that the model's files name, and the special token that the template ends a turn with."""
        found: set[Any] = set()
        for source in (getattr(model, "generation_config", None), model.config):
            ids = getattr(source, "eos_token_id", None)
            found |= set(ids) if isinstance(ids, (list, tuple)) else {ids}
        found.add(self.tokenizer.eos_token_id)
        known = set(range(len(self.tokenizer)))
        found &= known
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        after = self._ids(self._after_turn("", generation=False))
        found |= {i for i in after[:1] if i in special}
        if not found:
            raise PodiumError(
                f"{self.name} has no end-of-turn token, so its answers would never end. "
                "Set eos_token_id in its generation_config.json to the token that ends a turn."
            )
        return tuple(sorted(int(i) for i in found))

    def _render(self, messages: Sequence[Mapping[str, Any]], *, generation: bool) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                [dict(m) for m in messages], tokenize=False, add_generation_prompt=generation
            )
        except Exception as error:
            # Templates are programs: they raise what they like, mostly to refuse a role.
            roles = ", ".join(str(m.get("role")) for m in messages)
            raise PodiumError(f"The chat template of {self.name} refuses the roles {roles}: {error}") from error
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _after_turn(self, observation: str, *, generation: bool) -> str:
        """What the template writes after a turn of the model."""
        told = [{"role": "user", "content": "."}, {"role": "assistant", "content": MARK}]
        more = [{"role": "user", "content": observation}] if generation else []
        return self._render([*told, *more], generation=generation).partition(MARK)[2]

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
        if pieces and pieces[0].startswith(" "):  # some tokenizers drop it at the very beginning
            pieces[0] = self._decode(ids[:1])
        joined = "".join(pieces)
        text = joined if joined == known else self._decode(ids)
        if joined == text:
            return text, list(accumulate(map(len, pieces)))
        ends = list(self._by_characters(ids, pieces))
        if ends[-1] != len(text.rstrip(BROKEN)):  # they do not add up: what is readable so far, prefix by prefix
            ends = [len(self._decode(ids[: n + 1]).rstrip(BROKEN)) for n in range(len(ids))]
        return text, ends

    def _pieces_of(self, ids: Sequence[int]) -> list[str]:
        """What each token adds to a text."""
        try:
            return list(map(self._pieces.__getitem__, ids))
        except KeyError:
            begin = len(self._decode(self._anchor))
            for token in set(ids).difference(self._pieces):
                self._pieces[token] = self._decode([*self._anchor, token])[begin:]
            return list(map(self._pieces.__getitem__, ids))

    def _by_characters(self, ids: Sequence[int], pieces: Sequence[str]) -> Iterator[int]:
        """Where tokens end that are parts of a character: they are read together, from the last whole one on."""
        begin = length = 0
        for n, piece in enumerate(pieces):
            if begin < n:
                piece = self._decode(ids[begin : n + 1])
            whole = piece.rstrip(BROKEN)
            yield length + len(whole)
            if whole == piece:
                begin, length = n + 1, length + len(whole)

    def text(self, ids: Sequence[int]) -> str:
        if self._joins:
            joined = "".join(self._pieces_of(ids))
            if BROKEN not in joined:  # whole characters: the text is one piece after another
                return joined
        return self._decode(ids)

    def _decode(self, ids: Sequence[int]) -> str:
        text: str
        if self._plain:
            text = self.tokenizer.backend_tokenizer.decode(list(ids), skip_special_tokens=True)
        else:
            text = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def _plain(tokenizer: type) -> bool:
    """Whether `decode` only asks its backend, after a look at every number that takes as long."""
    from transformers import PreTrainedTokenizerFast as Fast

    own = ("decode", "_decode", "backend_tokenizer")
    return issubclass(tokenizer, Fast) and all(getattr(tokenizer, name) is getattr(Fast, name, None) for name in own)


def _of_bytes(tokenizer: Any) -> bool:
    """Whether tokens stand for bytes, each by itself."""
    from tokenizers.decoders import ByteLevel

    return isinstance(tokenizer.backend_tokenizer.decoder, ByteLevel)
