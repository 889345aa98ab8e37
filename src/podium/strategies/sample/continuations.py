"""Short continuations of a given text, from places in it where the model is unsure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.core.streams import key, uniforms
from podium.protocols.sampling import Completion, Generate, Sampling
from podium.strategies.requests import Plan, Recite, Score, TaskRequest

__all__ = ["Continuations", "chunk_probabilities", "smoothed", "within_chunks"]


def smoothed(entropy: Tensor, k: int) -> Tensor:
    """Entropies averaged over k positions around each (k + 1 if k is even); beyond the text they count as 0."""
    return avg_pool1d(entropy[None, None], k + 1 - k % 2, stride=1, padding=k // 2)[0, 0]


def within_chunks(x: Tensor, chunks: int) -> Tensor:
    """[chunk, position] the values of contiguous chunks of equal size; what is left over at the end is dropped."""
    size = len(x) // chunks
    return x[: chunks * size].reshape(chunks, size)


def chunk_probabilities(entropy: Tensor, chunks: int, k: int) -> Tensor:
    """[chunk, position] with which probability a position of its chunk is drawn: softmax of the smoothed entropy."""
    return within_chunks(smoothed(entropy, k), chunks).softmax(-1)


class Continuations(Strategy):
    """A text of the world's (task and solution), and from one place in each of its `chunks` parts `k` tokens.

    The text is a rollout of purpose `demo`. `rollout.truth` is the text's own continuation as a passage, `token.truth`
    its token at the same place, `rollout.position` the place. A place is no nearer to either end than `margin` tokens,
    in short texts a quarter of the text; texts with fewer tokens than chunks have none.
    """

    reference = "ReFINE, https://github.com/princetonvisualai/ReFINE"
    k: int = 5  # tokens
    chunks: int = 8
    times: int = 1  # continuations of a place
    places: str = "entropy"  # how places are chosen: entropy (drawn), uniform, or the argmax or argmin of the entropy
    margin: int = 20  # tokens
    temperature: Number = 1.0
    style: str = "long"  # of the world's solution

    needs: tuple[Need, ...] = ("task.solution",)
    provides = (
        "rollout.purpose",
        "rollout.demonstration",
        "rollout.sampled",
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
        one_of(self, "places", ("entropy", "uniform", "argmax", "argmin"))

    def chosen(self, entropy: Tensor, u: Sequence[float]) -> list[int]:
        """A place in each chunk, by its number in the text; `u` are uniform numbers to draw by."""
        raw = within_chunks(entropy, self.chunks)
        if self.places in ("argmax", "argmin"):
            inside = raw.argmax(-1) if self.places == "argmax" else raw.argmin(-1)
        else:
            even = torch.full_like(raw, 1 / max(raw.shape[1], 1))
            share = even if self.places == "uniform" else chunk_probabilities(entropy, self.chunks, self.k)
            inside = (share.cumsum(-1) < torch.tensor(u, dtype=share.dtype)[:, None]).sum(-1)
        first = torch.arange(self.chunks) * raw.shape[1]
        return (first + inside.clamp(max=raw.shape[1] - 1)).tolist()

    def plan(self, task: TaskRequest) -> Plan:
        ((recited,),) = yield [Recite(task, style=self.style)]
        assert isinstance(recited, Rollout)
        last = recited.turns[-1]
        text = (*last.context, *last.ids)
        made = [_as_text(recited, text)]
        if len(text) <= self.chunks:
            return made
        (entropy,) = yield [Score(text[:1], text[1:], "entropy")]
        seed, *name = task.stream
        (u,) = uniforms([key(seed, (*name, 1))], [0], self.chunks).tolist()
        margin = min(self.margin, len(text) // 4)
        # The token after the place is the first that the model writes.
        places = self.chosen(torch.tensor(entropy, dtype=torch.float64), u)
        starts = [min(max(place + 1, margin), len(text) - margin) for place in places]
        sampling = dataclasses.replace(task.sampling, temperature=self.temperature, max_tokens=self.k)
        answers = yield [self._request(task, text[:start], sampling, i) for i, start in enumerate(starts)]
        for start, completions in zip(starts, answers, strict=True):
            for completion in completions:
                assert isinstance(completion, Completion)
                made.append(_continued(made[0], text, start, completion, len(made), self.k))
        return made

    def _request(self, task: TaskRequest, prefix: tuple[int, ...], sampling: Sampling, chunk: int) -> Generate:
        return Generate(prefix, self.times, sampling, (*task.stream, 2, chunk), capture=("entropy",), keep=False)


def _as_text(recited: Rollout, text: tuple[int, ...]) -> Rollout:
    """The whole text as one turn: all but its first token is to be predicted."""
    turn = recited.turns[-1]
    ids, nothing = text[1:], (0.0,) * (len(text) - 1)
    tokens = {**dict.fromkeys(turn.tokens, nothing), "truth": [-1.0] * len(ids)}
    whole = dataclasses.replace(turn, ids=ids, context=text[:1], origin=[Origin.expert.name] * len(ids), tokens=tokens)
    columns = {
        "demonstration": True,
        "sampled": False,
        "position": 0,
        "truth.context": (),
        "truth.ids": (),
        "truth.length": 0.0,
    }
    return dataclasses.replace(recited, turns=[whole], columns={**recited.columns, **columns})


def _continued(
    whole: Rollout, text: tuple[int, ...], start: int, completion: Completion, index: int, k: int
) -> Rollout:
    """What the model wrote from `start` on, beside the `k` tokens that stand there."""
    truth = text[start : start + k]
    beside = [*(float(i) for i in truth), *[-1.0] * len(completion.ids)][: len(completion.ids)]
    like = whole.turns[-1]
    tokens: dict[str, Sequence[float]] = {name: (0.0,) * len(completion.ids) for name in like.tokens}
    tokens |= {"sampler.logp": completion.logp, "sampler.entropy": completion.captured["entropy"], "truth": beside}
    origin = [Origin.policy.name] * len(completion.ids)
    turn = Turn(completion.ids, text[:start], origin=origin, columns=like.columns, tokens=tokens)
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
