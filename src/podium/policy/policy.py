"""A policy: a causal language model with its tokenizer, and the signals that training asks of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.policy.forward import packed
from podium.policy.forward import padded as plain
from podium.policy.forward.decoder import Decoder, unsupported
from podium.policy.forward.kernel_check import trial
from podium.policy.forward.question import Question, by_rollout, by_token, question_of
from podium.policy.head.functionals import HeadRows, Wanted, evaluate_functionals, level_of
from podium.policy.model import weights
from podium.policy.model.chat import Chat

__all__ = ["Policy"]

Ids = tuple[int, ...]


class Policy:
    """A model in a role. `version` counts changes of its weights: who changes them calls `bump`."""

    def __init__(self, model: nn.Module, tokenizer: Any, *, name: str = "", notes: Sequence[str] = ()) -> None:
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.version = 0
        self.checkpointing = False
        self.lower: torch.dtype | None = None  # the precision to compute in, where the weights are kept in a higher one
        whole: Any = model
        self.config = whole.config.get_text_config()  # a model that sees images too has another for these
        self.context_length: int = getattr(self.config, "max_position_embeddings", None) or 1 << 20
        self.vocabulary: int = self.config.vocab_size
        self.chat = Chat(tokenizer, model, name)
        reason = unsupported(model)
        self.decoder = None if reason else Decoder(model)
        self._slow = f"{name or 'The model'} goes through its own forward pass, which is slower: {reason}"
        # What a person should know about how this model is treated, a line each.
        self.notes: tuple[str, ...] = (*notes, *self.chat.notes, *([f"{self._slow}."] if reason else []))

    # -- the model -------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every weight once, by name; also those that are not trained."""
        return self.model.named_parameters()

    def parameters(self) -> Iterator[nn.Parameter]:
        return (p for _, p in self.named_parameters())

    def slower(self, how: str) -> None:
        """Say in the line about its own pass what else makes this model slow."""
        said = f"{self._slow}; it {how}."
        self.notes = (*(note for note in self.notes if not note.startswith(self._slow)), said)

    def bump(self) -> None:
        """Say that the weights have changed: what was computed from the old ones is void."""
        self.version += 1
        if self.decoder is not None:
            self.decoder.stale = True

    def checkpoint_activations(self, on: bool = True) -> None:
        """Compute activations again in the backward pass instead of keeping them: less memory, a third more time."""
        self.checkpointing = on
        if self.decoder is not None:
            self.decoder.checkpointing = on

    def widen(self, lower: torch.dtype | None = None) -> None:
        """Keep trained weights in float32, where small updates survive; a GPU computes in `lower`, or in the precision
        that they have had."""
        lower = lower or self.dtype
        if lower not in (torch.bfloat16, torch.float16):
            return
        self.lower = lower if self.device.type == "cuda" else None
        whole = self.decoder is None or self.decoder.plain
        for parameter in self.parameters():
            if whole or parameter.requires_grad:  # beside adapters, frozen weights stay as they are
                parameter.data = parameter.data.float()
        if self.decoder is not None and whole:
            self.decoder.lower = self.lower
        self.bump()
        slow = trial(self) if self.lower is not None else None
        self.notes = self.notes if slow is None else (*self.notes, slow)

    def narrow(self, dtype: torch.dtype) -> None:
        """Round weights that are not trained to this precision."""
        for parameter in self.parameters():
            parameter.data = parameter.data.to(dtype)
        self.bump()

    def copy(self) -> Self:
        """Another model with the same weights."""
        return self._like(copy.deepcopy(self.model))

    def frozen_copy(self) -> Self:
        """A copy that is never trained: a reference."""
        twin = self.copy()
        for parameter in twin.parameters():
            parameter.requires_grad_(False)
            parameter.data = parameter.data.to(self.lower or parameter.dtype)
        return twin

    def _like(self, model: nn.Module) -> Self:
        return type(self)(model, self.tokenizer, name=self.name)

    @torch.no_grad()
    def average(self, other: Policy, decay: float) -> None:
        """Move towards another policy: w ← decay · w + (1 − decay) · w_other."""
        self.widen()
        theirs = dict(other.named_parameters())
        for name, parameter in self.named_parameters():
            parameter.lerp_(theirs[name].to(parameter), 1.0 - decay)
        self.bump()

    def save(self, path: str | Path) -> None:
        """Write a Hugging Face directory that `load` reads, with all that `load` needs."""
        weights.save_weights(self, Path(path))

    def load(self, path: str | Path) -> None:
        """Take the weights of a directory that `save` wrote, in place."""
        weights.load_weights(self, Path(path))
        self.bump()

    # -- text ------------------------------------------------------------------------------------------------------

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The tokens that end a turn."""
        return self.chat.end_ids

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        """A conversation as token ids that end where the model's turn begins."""
        return self.chat.encode(messages)

    def follow_up(self, observation: str, ended: bool = True) -> Ids:
        """The tokens between two turns of the model: what follows its end-of-turn token, up to its next turn.

        With `ended=False` the model has not written the end-of-turn token itself, and it comes first.
        """
        return self.chat.follow_up(observation, ended)

    def written(self, text: str, ended: bool = True) -> Ids:
        """A text as the model would have written it in its turn: its tokens and, if `ended`, the end-of-turn token."""
        return self.chat.written(text, ended)

    def ends(self, ids: Sequence[int]) -> list[int]:
        """How many characters of their text have been written after each token: where spans of it begin and end."""
        return self.read(ids)[1]

    def read(self, ids: Sequence[int], known: str | None = None) -> tuple[str, list[int]]:
        """The text of tokens, and how many characters of it have been written after each of them.

        `known` is what they say as far as anyone knows, which spares decoding them again.
        """
        return self.chat.read(ids, known)

    def text(self, ids: Sequence[int]) -> str:
        """What a person reads: token ids as text without special tokens."""
        return self.chat.text(ids)

    # -- signals ---------------------------------------------------------------------------------------------------

    def signals(
        self,
        batch: Batch,
        signals: Sequence[Signal],
        *,
        temperature: float = 1.0,
        grad: bool = False,
        where: Tensor | None = None,
    ) -> dict[Signal, Tensor]:
        """Signals of the batch's tokens, each after its turn's training context and the turn's earlier tokens.

        With `grad`, signals that ask for it lead back to the parameters. Tokens outside `where` get 0 and cost nothing.
        Signals of whole rollouts see the tokens in `where` that the model wrote.
        """
        for signal in signals:
            if signal.level != level_of(signal.name):
                raise PodiumError(
                    f"{signal!r} is not at the level of {level_of(signal.name)}s, where a model computes it."
                )
        wanted = _distinct(signals, grad)
        whole = any(level_of(name) == "rollout" for (name, _), _ in wanted)
        question, rows = question_of(batch, where, whole)
        named = {v for (_, settings), _ in wanted for _, v in settings if isinstance(v, str) and v.startswith("token.")}
        if named:
            columns = {name: batch[name].to(self.device)[rows.to(self.device)] for name in named}
            question = replace(question, columns=columns)
        found = self._answer(question, wanted, temperature, grad) if rows.numel() else [None] * len(wanted)
        values: dict[Wanted, Tensor] = {}
        for (name, wants), value in zip(wanted, found, strict=True):
            if level_of(name[0]) == "rollout":
                blank = partial(self._of_nothing, (name, wants), temperature)
                values[name] = by_rollout(batch, question, value, blank)
            else:
                values[name] = by_token(batch, rows.to(batch.device), value)
        return {s: values[s.name, s.settings] if s.grad else values[s.name, s.settings].detach() for s in signals}

    def _of_nothing(self, wanted: tuple[Wanted, bool], temperature: float) -> Tensor:
        """[1] what a functional of rollouts says of one without tokens."""
        none = torch.zeros(0, self.config.hidden_size, device=self.device, dtype=self.dtype)
        head = torch.zeros(0, self.vocabulary, device=self.device)
        empty = HeadRows(none, none[:, 0].long(), lambda _: head, temperature, self._value_head)
        return evaluate_functionals(empty, [wanted], self.vocabulary, rollouts=[none[:, 0].long()])[0]

    def score(
        self,
        contexts: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        name: str = "logp",
        temperature: float = 1.0,
        grad: bool = False,
        **settings: Any,
    ) -> list[Tensor]:
        """A probe: a functional (log-probabilities by default) of each target's tokens after its context."""
        if len(contexts) != len(targets):
            raise PodiumError(f"{len(contexts)} contexts for {len(targets)} targets.")
        pairs = [(tuple(c), tuple(t)) for c, t in zip(contexts, targets, strict=True)]
        for number, (context, target) in enumerate(pairs):
            if target and not context:
                raise PodiumError(f"Target {number} has no context: nothing predicts its first token.")
        used = [(c, t) for c, t in pairs if t]
        lengths = [len(t) for _, t in pairs]
        if not used:
            return [torch.zeros(0, device=self.device) for _ in pairs]
        wanted = (name, tuple(sorted(settings.items())))
        (values,) = self._answer(Question.after(used), [(wanted, grad)], temperature, grad)
        return list(torch.split(values, lengths))

    def states(
        self, sequences: Sequence[Sequence[int]], *, grad: bool = False, layers: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Final hidden states [length, D] of each sequence; common beginnings are computed once.

        With `layers`, the states [length, layers, D] after so many blocks, 1 for the first.
        """
        texts = [tuple(s) for s in sequences]
        self._check_lengths(texts)
        with torch.set_grad_enabled(grad):
            if self.decoder is None:
                return plain.states(self.model, texts, self.device, layers)
            return packed.states(self.decoder, texts, layers)

    def _answer(
        self, question: Question, wanted: Sequence[tuple[Wanted, bool]], temperature: float, grad: bool
    ) -> list[Tensor]:
        self._check_lengths(question.sequences)
        with torch.set_grad_enabled(grad):
            if self.decoder is None:
                return plain.answer(self, question, wanted, temperature)
            return packed.answer(self, self.decoder, question, wanted, temperature)

    @property
    def _value_head(self) -> Callable[[Tensor], Tensor] | None:
        return None

    def _check_lengths(self, sequences: Sequence[Ids]) -> None:
        longest = max((len(s) for s in sequences), default=0)
        if longest > self.context_length:
            raise PodiumError(
                f"A text of {longest} tokens is longer than the context of {self.name or 'the model'}, "
                f"{self.context_length} tokens. Use shorter prompts, a smaller max_tokens, or another model."
            )


def _distinct(signals: Sequence[Signal], grad: bool) -> list[tuple[Wanted, bool]]:
    """Each functional once; with a gradient if anyone wants it."""
    found: dict[Wanted, bool] = {}
    for s in signals:
        key = (s.name, s.settings)
        found[key] = found.get(key, False) or (grad and s.grad)
    return list(found.items())
