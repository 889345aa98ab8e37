"""Short continuations of a given text, from positions where the model is uncertain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Count, Number
from podium.core.streams import key, uniforms
from podium.protocols.sampling import Completion, Generate, Sampling
from podium.strategies.requests import Plan, Recite, Score, TaskRequest

__all__ = ["Continuations", "chunk_probabilities", "smoothed", "within_chunks"]


def smoothed(entropy: Tensor, k: int) -> Tensor:
    """Moving average of the entropies over k positions (k + 1 if k is even), centred; 0 outside the text."""
    return avg_pool1d(entropy[None, None], k + 1 - k % 2, stride=1, padding=k // 2)[0, 0]


def within_chunks(x: Tensor, chunks: int) -> Tensor:
    """[chunk, position] x cut into contiguous chunks of equal size; the remainder at the end is dropped."""
    size = len(x) // chunks
    return x[: chunks * size].reshape(chunks, size)


def chunk_probabilities(entropy: Tensor, chunks: int, k: int) -> Tensor:
    """[chunk, position] the probability of drawing each position of a chunk: softmax of the smoothed entropy."""
    return within_chunks(smoothed(entropy, k), chunks).softmax(-1)


class Continuations(Strategy):
    """The world's text (task and solution) cut into `chunks` parts, with continuations of `k` tokens from one position
    in each.

    The text is a rollout of purpose `demo`. `rollout.truth` is the text's continuation as a passage, `token.truth` the
    text's token at the same position, `rollout.position` the position. Positions keep `margin` tokens away from both
    ends, in short texts a quarter of the text; texts with fewer tokens than chunks have no continuations.

    With `answers` the text is the task alone, and the solution is a demonstration of its own, a rollout for which
    `rollout.of_text` is False: a method can train on the text first and then on the answer.
    """

    reference = "ReFINE, https://github.com/princetonvisualai/ReFINE"
    k: Count = 5  # tokens of a continuation
    chunks: int = 8
    times: int = 1  # continuations of each position
    positions: str = "entropy"  # drawn by entropy, drawn uniformly (uniform), or argmax or argmin of the entropy
    margin: Count = 20  # tokens
    temperature: Number = 1.0  # above 0
    style: str = "long"  # of the world's solution
    answers: bool = False  # whether the solution is kept out of the text

    needs: tuple[Need, ...] = ("task.solution",)
    provides = (
        "rollout.purpose",
        "rollout.demonstration",
        "rollout.sampled",
        "rollout.of_text",
        "rollout.position",
        "rollout.truth.context",
        "rollout.truth.ids",
        "rollout.truth.length",
        "token.truth",
    )

    def __post_init__(self) -> None:
        for name in ("k", "chunks", "times"):
            within(self, name, 1)
        within(self, "margin", 0)
        within(self, "temperature", 0, open_low=True)
        one_of(self, "positions", ("entropy", "uniform", "argmax", "argmin"))

    def chosen(self, entropy: Tensor, u: Sequence[float]) -> list[int]:
        """One position in each chunk, counted from the start of the text; `u` are uniform random numbers."""
        by_chunk = within_chunks(entropy, self.chunks)
        size = by_chunk.shape[1]
        if self.positions in ("argmax", "argmin"):
            inside = by_chunk.argmax(-1) if self.positions == "argmax" else by_chunk.argmin(-1)
        else:
            uniform = torch.full_like(by_chunk, 1 / max(size, 1))
            p = uniform if self.positions == "uniform" else chunk_probabilities(entropy, self.chunks, self.k)
            inside = (p.cumsum(-1) < torch.tensor(u, dtype=p.dtype)[:, None]).sum(-1)
        first = torch.arange(self.chunks) * size
        return (first + inside.clamp(max=size - 1)).tolist()

    def plan(self, task: TaskRequest) -> Plan:
        ((recited,),) = yield [Recite(task, style=self.style)]
        assert isinstance(recited, Rollout)
        last = recited.turns[-1]
        text = (*last.context, *(() if self.answers else last.ids))
        rollouts = [_as_text(recited, text)]
        rollouts += yield from self._continuations(task, rollouts[0], text)
        if self.answers:
            index = len(rollouts)
            rollouts.append(
                _as_text(recited, (*last.context, *last.ids), len(last.context), index=index, of_text=False)
            )
        return rollouts

    def _continuations(self, task: TaskRequest, whole: Rollout, text: tuple[int, ...]) -> Plan:
        """The continuations of a text."""
        if len(text) <= self.chunks:
            return []
        (entropy,) = yield [Score(text[:1], text[1:], "entropy")]
        seed, *name = task.stream
        (u,) = uniforms([key(seed, (*name, 1))], [0], self.chunks).tolist()
        margin = min(self.margin, len(text) // 4)
        positions = self.chosen(torch.tensor(entropy, dtype=torch.float64), u)
        # The model writes the token after the chosen position first.
        starts = [min(max(position + 1, margin), len(text) - margin) for position in positions]
        sampling = task.sampling.replace(temperature=self.temperature, max_tokens=self.k)
        answers = yield [self._request(task, text[:start], sampling, i) for i, start in enumerate(starts)]
        made: list[Rollout] = []
        for start, completions in zip(starts, answers, strict=True):
            for completion in completions:
                assert isinstance(completion, Completion)
                made.append(_continued(whole, text, start, completion, len(made) + 1, self.k))
        return made

    def _request(self, task: TaskRequest, prefix: tuple[int, ...], sampling: Sampling, chunk: int) -> Generate:
        return Generate(prefix, self.times, sampling, (*task.stream, 2, chunk), capture=("entropy",), keep=False)


def _as_text(recited: Rollout, text: tuple[int, ...], given: int = 1, **settings: Any) -> Rollout:
    """The whole text as one turn: every token but the `given` ones at its start is predicted."""
    turn = recited.turns[-1]
    ids, zeros = text[given:], (0.0,) * (len(text) - given)
    tokens = {**dict.fromkeys(turn.tokens, zeros), "truth": [-1.0] * len(ids)}
    whole = dataclasses.replace(
        turn, ids=ids, context=text[:given], origin=[Origin.expert.name] * len(ids), tokens=tokens
    )
    columns = {
        "demonstration": True,
        "sampled": False,
        "of_text": True,
        "position": 0,
        "truth.context": (),
        "truth.ids": (),
        "truth.length": 0.0,
    }
    return dataclasses.replace(recited, turns=[whole], columns={**recited.columns, **columns, **settings})


def _continued(
    whole: Rollout, text: tuple[int, ...], start: int, completion: Completion, index: int, k: int
) -> Rollout:
    """A rollout of what the model wrote from `start` on, with the text's own `k` tokens as the truth."""
    truth = text[start : start + k]
    true_ids = [*(float(i) for i in truth), *[-1.0] * len(completion.ids)][: len(completion.ids)]
    last = whole.turns[-1]
    tokens: dict[str, Sequence[float]] = {name: (0.0,) * len(completion.ids) for name in last.tokens}
    tokens |= {"sampler.logp": completion.logp, "sampler.entropy": completion.captured["entropy"], "truth": true_ids}
    origin = [Origin.policy.name] * len(completion.ids)
    turn = Turn(completion.ids, text[:start], origin=origin, columns=last.columns, tokens=tokens)
    columns = {
        **whole.columns,
        "reward": 0.0,
        "correct": False,
        "answer": "",
        "truncated": False,
        "stop": completion.stop.value,
        "purpose": int(Purpose.train),
        "index": index,
        "demonstration": False,
        "sampled": True,
        "position": start,
        "truth.context": text[:start],
        "truth.ids": truth,
        "truth.length": float(len(truth)),
    }
    return dataclasses.replace(whole, turns=[turn], columns=columns)
