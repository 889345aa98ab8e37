"""A policy: a causal language model with its tokenizer, and the signals that training needs from it."""

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
from podium.core.token_sets import CODES, TokenSets
from podium.policy.forward import packed
from podium.policy.forward import padded as plain
from podium.policy.forward.decoder import Decoder, unsupported
from podium.policy.forward.kernel_check import check_training_kernels
from podium.policy.forward.score_request import ScoreRequest, scatter_to_rollouts, scatter_to_tokens, score_request_of
from podium.policy.head.functionals import HeadRows, Wanted, evaluate_functionals, level_of
from podium.policy.model import weights
from podium.policy.model.chat import Chat

__all__ = ["Policy"]

Ids = tuple[int, ...]


class Policy:
    """A model in a role. `version` counts changes of its weights: whatever changes them must call `bump`."""

    def __init__(self, model: nn.Module, tokenizer: Any, *, name: str = "", notes: Sequence[str] = ()) -> None:
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.version = 0
        self.checkpointing = False
        self.lower: torch.dtype | None = None  # the precision to compute in, if the weights are kept in a higher one
        whole: Any = model
        self.config = whole.config.get_text_config()  # a multimodal model has several
        self.context_length: int = getattr(self.config, "max_position_embeddings", None) or 1 << 20
        self.vocabulary: int = self.config.vocab_size
        self.chat = Chat(tokenizer, model, name)
        reason = unsupported(model)
        self.decoder = None if reason else Decoder(model)
        self._slow = f"{name or 'The model'} goes through its own forward pass, which is slower: {reason}"
        # What the user should know about how this model is handled, one line each.
        self.notes: tuple[str, ...] = (*notes, *self.chat.notes, *([f"{self._slow}."] if reason else []))

    # -- the model -------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Every weight once, by name, including frozen ones."""
        return self.model.named_parameters()

    def parameters(self) -> Iterator[nn.Parameter]:
        return (p for _, p in self.named_parameters())

    def slower(self, how: str) -> None:
        """Add to the note about the slow forward pass what else makes this model slow."""
        extended = f"{self._slow}; it {how}."
        self.notes = (*(note for note in self.notes if not note.startswith(self._slow)), extended)

    def bump(self) -> None:
        """Declare that the weights have changed: caches computed from the old ones become invalid."""
        self.version += 1
        if self.decoder is not None:
            self.decoder.stale = True

    def checkpoint_activations(self, on: bool = True) -> None:
        """Activation checkpointing: recompute activations in the backward pass; less memory, a third more time."""
        self.checkpointing = on
        if self.decoder is not None:
            self.decoder.checkpointing = on

    def widen(self, lower: torch.dtype | None = None) -> None:
        """Keep trained weights in float32, where small updates are not lost.

        A GPU still computes in `lower`, by default the precision that the weights had.
        """
        lower = lower or self.dtype
        if lower not in (torch.bfloat16, torch.float16):
            return
        self.lower = lower if self.device.type == "cuda" else None
        whole = self.decoder is None or self.decoder.plain
        for parameter in self.parameters():
            if whole or parameter.requires_grad:  # with adapters, frozen weights stay as they are
                parameter.data = parameter.data.float()
        if self.decoder is not None and whole:
            self.decoder.lower = self.lower
        self.bump()
        slow = check_training_kernels(self) if self.lower is not None else None
        self.notes = self.notes if slow is None else (*self.notes, slow)

    def narrow(self, dtype: torch.dtype) -> None:
        """Round the weights of a model that is not trained to this precision."""
        for parameter in self.parameters():
            parameter.data = parameter.data.to(dtype)
        self.bump()

    def copy(self) -> Self:
        """Another model with the same weights."""
        return self._like(copy.deepcopy(self.model))

    def frozen_copy(self) -> Self:
        """A copy that is never trained, such as a reference model."""
        twin = self.copy()
        for parameter in twin.parameters():
            parameter.requires_grad_(False)
            parameter.data = parameter.data.to(self.lower or parameter.dtype)
        return twin

    def _like(self, model: nn.Module) -> Self:
        return type(self)(model, self.tokenizer, name=self.name)

    @torch.no_grad()
    def average(self, other: Policy, decay: float) -> None:
        """Exponential moving average with another policy: w ← decay · w + (1 − decay) · w_other."""
        self.widen()
        others = dict(other.named_parameters())
        for name, parameter in self.named_parameters():
            parameter.lerp_(others[name].to(parameter), 1.0 - decay)
        self.bump()

    def save(self, path: str | Path) -> None:
        """Write a Hugging Face directory with everything that `load` needs."""
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
        """A conversation as token ids by the chat template, up to where the model's turn begins.

        The contents of messages are data, in which the name of a control token is plain text; `Pieces` may hold tokens.
        """
        return self.chat.encode(messages)

    def follow_up(self, observation: str, ended: bool = True) -> Ids:
        """The tokens between two turns of the model: those after its end-of-turn token, up to its next turn.

        With `ended=False` the model did not write the end-of-turn token, which then comes first.
        """
        return self.chat.follow_up(observation, ended)

    def written(self, text: str, ended: bool = True) -> Ids:
        """The tokens of a text as a turn of the model and, if `ended`, the end-of-turn token."""
        return self.chat.written(text, ended)

    def control_token_in(self, text: str) -> str:
        """The first name of a control token that a text contains as plain text; empty: there is none."""
        return self.chat.control_token_in(text)

    def ends(self, ids: Sequence[int]) -> list[int]:
        """For each token, the length in characters of the text up to and including it."""
        return self.read(ids)[1]

    def read(self, ids: Sequence[int], known: str | None = None) -> tuple[str, list[int]]:
        """The text of tokens, and for each token the length in characters of the text up to and including it.

        `known` is their text if the caller has it already, which saves decoding it again.
        """
        return self.chat.read(ids, known)

    def text(self, ids: Sequence[int]) -> str:
        """Token ids decoded to text, without special tokens."""
        return self.chat.text(ids)

    # -- the model's own forward pass --------------------------------------------------------------------------------

    def inputs(self, ids: Tensor, mask: Tensor, position: Tensor | None = None) -> dict[str, Tensor]:
        """What the model's own forward pass takes for padded texts [row, token], of which `mask` says what is real."""
        return {"input_ids": ids, "attention_mask": mask} | ({} if position is None else {"position_ids": position})

    @property
    def pictures(self) -> Mapping[str, bytes]:
        """The pictures that it has seen, by the names under which texts show them."""
        return {}

    def shifts(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[row] how much further on than its number the position of the token after each text lies."""
        return torch.zeros_like(mask[:, 0])

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
        """Signals of the batch's tokens, each conditioned on its turn's training context and the turn's earlier tokens.

        With `grad`, signals that ask for a gradient are differentiable. Tokens outside `where` get 0 and cost nothing.
        Signals of whole rollouts see the tokens in `where` that the model wrote.
        """
        for signal in signals:
            if signal.level != level_of(signal.name):
                raise PodiumError(
                    f"{signal!r} is not at the level of {level_of(signal.name)}s, where a model computes it."
                )
        wanted = _distinct(signals, grad)
        whole = any(level_of(name) == "rollout" for (name, _), _ in wanted)
        request, rows = score_request_of(batch, where, whole)
        named = {v for (_, settings), _ in wanted for _, v in settings if isinstance(v, str) and v.startswith("token.")}
        if named:
            columns = {name: batch[name].to(self.device)[rows.to(self.device)] for name in named}
            request = replace(request, columns=columns)
        if CODES in batch and rows.numel():
            sets, numbers = TokenSets.of(batch, self.device)
            columns = {**request.columns, CODES: numbers[rows.to(self.device)]}
            request = replace(request, columns=columns, sets=sets)
        results = self._evaluate(request, wanted, temperature, grad) if rows.numel() else [None] * len(wanted)
        values: dict[Wanted, Tensor] = {}
        for (name, wants), value in zip(wanted, results, strict=True):
            if level_of(name[0]) == "rollout":
                blank = partial(self._of_empty_rollout, (name, wants), temperature)
                values[name] = scatter_to_rollouts(batch, request, value, blank)
            else:
                values[name] = scatter_to_tokens(batch, rows.to(batch.device), value)
        return {s: values[s.name, s.settings] if s.grad else values[s.name, s.settings].detach() for s in signals}

    def _of_empty_rollout(self, wanted: tuple[Wanted, bool], temperature: float) -> Tensor:
        """[1] the value of a functional of rollouts for a rollout without tokens."""
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
        """A functional (log-probability by default) of each target's tokens after its context."""
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
        (values,) = self._evaluate(ScoreRequest.after(used), [(wanted, grad)], temperature, grad)
        return list(torch.split(values, lengths))

    def states(
        self, sequences: Sequence[Sequence[int]], *, grad: bool = False, layers: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Final hidden states [length, D] of each sequence; shared prefixes are computed once.

        With `layers`, the states [length, layers, D] after these blocks, where 1 is the first.
        """
        texts = [tuple(s) for s in sequences]
        self._check_lengths(texts)
        with torch.set_grad_enabled(grad):
            if self.decoder is None:
                return plain.states(self, texts, layers)
            return packed.states(self.decoder, texts, layers)

    def _evaluate(
        self, request: ScoreRequest, wanted: Sequence[tuple[Wanted, bool]], temperature: float, grad: bool
    ) -> list[Tensor]:
        self._check_lengths(request.sequences)
        with torch.set_grad_enabled(grad):
            if self.decoder is None:
                return plain.evaluate(self, request, wanted, temperature)
            return packed.evaluate(self, self.decoder, request, wanted, temperature)

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
    """Each functional once; with a gradient if any signal wants one."""
    wanted: dict[Wanted, bool] = {}
    for s in signals:
        key = (s.name, s.settings)
        wanted[key] = wanted.get(key, False) or (grad and s.grad)
    return list(wanted.items())
