"""A policy: a causal language model with its tokenizer, and the signals that training asks of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.policy import plain, weights
from podium.policy.chat import Chat
from podium.policy.cuda import ops
from podium.policy.cuda.head import taken
from podium.policy.decoder import Decoder, unsupported
from podium.policy.device import put
from podium.policy.functionals import Rows, Wanted, evaluate, level_of
from podium.policy.pack import pack

__all__ = ["Policy", "Question"]

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Question:
    """Tokens to be scored: token `ids[i]` follows position `place[i]` of sequence `owner[i]`."""

    sequences: list[Ids]
    owner: NDArray[np.int64]
    place: NDArray[np.int64]
    ids: NDArray[np.int64]
    columns: Mapping[str, Tensor] = field(default_factory=dict)  # [token, …] columns that settings of signals name
    rollout: NDArray[np.int64] | None = None  # where whole rollouts are asked about: the one of each token, −1 for none

    def places(self, device: torch.device) -> list[Tensor]:
        """Which of the tokens each rollout has, in order, for every rollout that has any."""
        if self.rollout is None:
            return []
        order = np.argsort(self.rollout, kind="stable")
        order = order[self.rollout[order] >= 0]
        _, starts = np.unique(self.rollout[order], return_index=True)
        return [torch.from_numpy(at).to(device) for at in np.split(order, starts[1:])] if len(order) else []


class Policy:
    """A model in a role. `version` counts changes of its weights: who changes them calls `bump`."""

    def __init__(self, model: nn.Module, tokenizer: Any, *, name: str = "", notes: Sequence[str] = ()) -> None:
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self.version = 0
        self.checkpointing = False
        self.lower: torch.dtype | None = None  # the precision to compute in, where the weights are kept in a higher one
        whole: Any = model
        self.config = whole.config
        self.context_length: int = getattr(self.config, "max_position_embeddings", None) or 1 << 20
        self.vocabulary: int = self.config.vocab_size
        self.chat = Chat(tokenizer, model, name)
        reason = unsupported(model)
        self.decoder = None if reason else Decoder(model)
        slow = f"{name or 'The model'} goes through its own forward pass, which is slower: {reason}."
        # What a person should know about how this model is treated, a line each.
        self.notes: tuple[str, ...] = (*notes, *self.chat.notes, *([slow] if reason else []))

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
        slow = ops.check(self.device) if self.lower is not None else None
        self.notes = self.notes if slow is None else (*self.notes, slow)
        self.bump()

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
        """Write a Hugging Face directory that `load` reads, with all that `load_weights` needs."""
        weights.save(self, Path(path))

    def load_weights(self, path: str | Path) -> None:
        """Take the weights of a directory that `save` wrote, in place."""
        weights.load(self, Path(path))
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
        return self.chat.ends(ids)

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
        question, rows = _question(batch, where, whole)
        named = {v for (_, settings), _ in wanted for _, v in settings if isinstance(v, str) and v.startswith("token.")}
        if named:
            columns = {name: batch[name].to(self.device)[rows.to(self.device)] for name in named}
            question = replace(question, columns=columns)
        found = self._answer(question, wanted, temperature, grad) if rows.numel() else [None] * len(wanted)
        values: dict[Wanted, Tensor] = {}
        for (name, wants), value in zip(wanted, found, strict=True):
            if level_of(name[0]) == "rollout":
                values[name] = self._by_rollout(batch, question, value, (name, wants), temperature)
            else:
                values[name] = _by_token(batch, rows.to(batch.device), value)
        return {s: values[s.name, s.settings] if s.grad else values[s.name, s.settings].detach() for s in signals}

    def _by_rollout(
        self, batch: Batch, question: Question, value: Tensor | None, wanted: tuple[Wanted, bool], temperature: float
    ) -> Tensor:
        """[rollout] the values of rollouts that wrote something, and what the functional says of nothing at all."""
        wrote = np.zeros(0, dtype=np.int64) if question.rollout is None else question.rollout
        present = torch.from_numpy(np.unique(wrote[wrote >= 0])).to(batch.device)
        if value is not None and len(present) == len(batch):
            return value.to(device=batch.device, dtype=batch.dtype)
        none = torch.zeros(0, self.config.hidden_size, device=self.device, dtype=self.dtype)
        head = torch.zeros(0, self.vocabulary, device=self.device)
        empty = Rows(none, none[:, 0].long(), lambda _: head, temperature, self._value_head)
        (blank,) = evaluate(empty, [wanted], self.vocabulary, rollouts=[none[:, 0].long()])
        everyone = blank.to(device=batch.device, dtype=batch.dtype).expand(len(batch), *blank.shape[1:])
        if value is None or not len(present):
            return everyone
        return everyone.index_copy(0, present, value.to(device=batch.device, dtype=batch.dtype))

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
        question = Question(
            [(*c, *t[:-1]) for c, t in used],
            np.repeat(np.arange(len(used)), [len(t) for _, t in used]),
            np.concatenate([np.arange(len(c) - 1, len(c) + len(t) - 1) for c, t in used]),
            np.concatenate([np.asarray(t) for _, t in used]),
        )
        (values,) = self._answer(question, [((name, tuple(sorted(settings.items()))), grad)], temperature, grad)
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
            packed = pack(texts, self.device)
            tap = None if layers is None else dict.fromkeys(layers, torch.empty(0))
            hidden, _ = self.decoder.encode(packed, tap=tap)
            if layers is not None and tap is not None:
                hidden = torch.stack([tap[k] for k in layers], 1)
            return [hidden[torch.from_numpy(nodes).to(self.device)] for nodes in packed.nodes]

    def _answer(
        self, question: Question, wanted: Sequence[tuple[Wanted, bool]], temperature: float, grad: bool
    ) -> list[Tensor]:
        self._check_lengths(question.sequences)
        with torch.set_grad_enabled(grad):
            if self.decoder is None:
                return plain.answer(self, question, wanted, temperature)
            packed = pack(question.sequences, self.device, least=self.decoder.least)
            # A token that several rows share at the same node is scored once.
            starts = np.cumsum([0, *(len(n) for n in packed.nodes)])
            node = np.concatenate(packed.nodes)[starts[question.owner] + question.place]
            pair = node * self.vocabulary + question.ids
            if question.columns:  # rows that share a token may differ in these
                inverse = np.arange(len(pair))
            else:
                pair, inverse = np.unique(pair, return_inverse=True)
            node_of, ids = (put(x, self.device) for x in np.divmod(pair, self.vocabulary))
            hidden, _ = self.decoder.encode(packed)
            rows = Rows(
                taken(hidden, node_of),
                ids,
                self.decoder.logits,
                temperature,
                self._value_head,
                columns=question.columns,
                read=self.decoder.read if self.decoder.fused else None,
            )
            back = put(inverse, self.device)
            rollouts = [back[at] for at in question.places(self.device)]
            values = evaluate(rows, wanted, self.vocabulary, rollouts=rollouts)
            if len(pair) == len(question.ids) and np.array_equal(inverse, np.arange(len(pair))):
                return values
            single = [level_of(name) == "token" for (name, _), _ in wanted]
            return [v.index_select(0, back) if one else v for v, one in zip(values, single, strict=True)]

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


def _by_token(batch: Batch, rows: Tensor, value: Tensor | None) -> Tensor:
    """[token] the values of the tokens at `rows`; 0 for the others."""
    size = batch.size("token")
    if value is None:
        return torch.zeros(size, dtype=batch.dtype, device=batch.device)
    value = value.to(device=batch.device, dtype=batch.dtype)
    return value if rows.numel() == size else value.new_zeros((size, *value.shape[1:])).index_copy(0, rows, value)


def _question(batch: Batch, where: Tensor | None, whole: bool = False) -> tuple[Question, Tensor]:
    """The batch's turns as sequences, and the numbers of the tokens that are scored; `whole`: and their rollouts."""
    turn = batch.link("token", "turn").cpu().numpy()
    ids = batch["token.id"].cpu().numpy()
    contexts: tuple[Ids, ...] = batch["turn.train_context"]
    order = np.arange(len(ids)) if bool((np.diff(turn) >= 0).all()) else np.argsort(turn, kind="stable")
    bounds = np.searchsorted(turn[order], np.arange(len(contexts) + 1))
    chosen = np.ones(len(ids), dtype=bool) if where is None else where.cpu().numpy()
    written: list[int] = ids[order].tolist()
    sequences: list[Ids] = []
    owner, place, rows = [], [], []
    for number, context in enumerate(contexts):
        low, high = int(bounds[number]), int(bounds[number + 1])
        inside = np.flatnonzero(chosen[order[low:high]])
        if not len(inside):
            continue
        if not context and inside[0] == 0:
            raise PodiumError(f"Turn {number} has no context: nothing predicts its first token.")
        last = int(inside[-1])
        # The last token is only predicted, never read.
        sequences.append((*context, *written[low : low + last]))
        owner.append(np.full(len(inside), len(sequences) - 1))
        place.append(inside + (len(context) - 1))
        rows.append(order[low + inside])
    if not sequences:
        none = np.zeros(0, dtype=np.int64)
        return Question([], none, none, none), torch.zeros(0, dtype=torch.long)
    row = np.concatenate(rows)
    rollout = None
    if whole:
        rollout = batch.link("token", "rollout").where(batch.action, -1).cpu().numpy()[row]
    question = Question(sequences, np.concatenate(owner), np.concatenate(place), ids[row], rollout=rollout)
    return question, torch.from_numpy(row)
