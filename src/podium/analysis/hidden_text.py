"""Messages that are hidden in text, which keeps the law of the model that writes it.

Sender and receiver share the model. The message comes in pieces of a few bits; at each token the receiver's belief in
what the piece is, is coupled with the model's next-token law. The sender draws the token from the row of the piece, the
receiver reads off its column. Averaged over messages every token follows the model's law exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from podium.analysis.coupling import action_law, coupled, posterior_after
from podium.core.errors import PodiumError
from podium.policy.policy import Policy

__all__ = ["found_in", "hidden_in", "surplus"]

Ids = tuple[int, ...]
Floats = NDArray[np.float64]
PIECE = 8  # bits that are sent together
SURE = 0.999  # the receiver's belief at which a piece has been told


def hidden_in(
    policy: Policy, contexts: Sequence[Ids], message: Sequence[int], seed: int = 0, max_tokens: int = 64
) -> list[Ids]:
    """Answers to some of the contexts, one after another, that tell the bits of a message. What is left of the last
    answer, once all is told, is drawn from the model as it is."""
    if set(message) - {0, 1} or not message:
        raise PodiumError("A message is some bits, each 0 or 1.")
    pieces, rng = [_number(message[i : i + PIECE]) for i in range(0, len(message), PIECE)], np.random.default_rng(seed)
    told, answers = _Beliefs(len(message)), list[Ids]()
    for context in contexts:
        ids: Ids = ()
        while not _ended(policy, ids, max_tokens):
            law = _law(policy, (*context, *ids))
            joint = told.joint(law)
            of_piece = law if joint is None else action_law(joint, pieces[len(told.pieces)])
            token = int(rng.choice(len(law), p=of_piece))
            told.read(joint, token)
            ids = (*ids, token)
        answers.append(ids)
        if told.done:
            return answers
    sent = PIECE * len(told.pieces)
    raise PodiumError(
        f"{len(contexts)} answers of up to {max_tokens} tokens told {sent} of {len(message)} bits: give more contexts."
    )


def found_in(policy: Policy, contexts: Sequence[Ids], answers: Sequence[Ids], length: int) -> list[int]:
    """The first `length` bits that answers to these contexts tell: those of `hidden_in`."""
    told = _Beliefs(length)
    for context, ids in zip(contexts, answers, strict=False):
        for place, token in enumerate(ids):
            told.read(told.joint(_law(policy, (*context, *ids[:place]))), token)
    if not told.done:
        raise PodiumError(f"These answers tell {PIECE * len(told.pieces)} of {length} bits.")
    return list(told.bits())


def surplus(policy: Policy, contexts: Sequence[Ids], answers: Sequence[Ids]) -> tuple[Floats, Floats]:
    """[token] by how many nats each token of answers is more surprising than one that the model draws is on average,
    and the variance of that for the model's own tokens."""
    excess, variance = [], []
    for context, ids in zip(contexts, answers, strict=False):
        for place, token in enumerate(ids):
            law = _law(policy, (*context, *ids[:place]))
            surprise = -np.log(law, out=np.zeros_like(law), where=law > 0)
            mean = law @ surprise
            excess.append(surprise[token] - mean)
            variance.append(law @ surprise**2 - mean**2)
    return np.array(excess), np.array(variance)


class _Beliefs:
    """What the receiver knows: the pieces that have been told, and the belief in what the next one is."""

    def __init__(self, length: int) -> None:
        self.sizes = [min(PIECE, length - i) for i in range(0, length, PIECE)]  # bits of each piece
        self.pieces: list[int] = []
        self.belief = self._fresh()

    @property
    def done(self) -> bool:
        return len(self.pieces) == len(self.sizes)

    def _fresh(self) -> Floats:
        count = 1 if self.done else 2 ** self.sizes[len(self.pieces)]
        return np.full(count, 1 / count)

    def joint(self, law: Floats) -> Floats | None:
        """[piece, token] the coupling of the belief with the law of the next token; None: all is told."""
        return None if self.done else coupled(self.belief, law)

    def read(self, joint: Floats | None, token: int) -> None:
        if joint is None:
            return
        self.belief = posterior_after(joint, token)
        if self.belief.max() >= SURE:
            self.pieces.append(int(self.belief.argmax()))
            self.belief = self._fresh()

    def bits(self) -> Iterator[int]:
        for piece, size in zip(self.pieces, self.sizes, strict=True):
            yield from (piece >> place & 1 for place in reversed(range(size)))


def _number(bits: Sequence[int]) -> int:
    return sum(bit << place for place, bit in enumerate(reversed(bits)))


def _ended(policy: Policy, ids: Ids, max_tokens: int) -> bool:
    return len(ids) == max_tokens or bool(ids and ids[-1] in policy.end_ids)


@torch.inference_mode()
def _law(policy: Policy, ids: Ids) -> Floats:
    """[token] the model's probabilities after a text."""
    logits = policy.model(torch.tensor([ids], device=policy.device)).logits[0, -1].double()
    law: Floats = logits.softmax(-1).cpu().numpy()
    return law / law.sum()
