"""A value model from logged runs: it reads how a policy did on some tasks, and predicts how it will do on others.

fit(["runs/first", "runs/second"], "value")
podium.train(podium.methods.v0(value="value"), world="sums")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

from podium import policy as policies
from podium.analysis.ranking import auc
from podium.core.errors import PodiumError
from podium.core.streams import key
from podium.memories.score_history import TaskScore, question
from podium.store.tables import read_rows, rollout_files

__all__ = [
    "Fitted",
    "SolvedExamples",
    "contexts",
    "fit",
    "soft_cross_entropy",
    "success_pairs",
    "value_model_loss",
]

Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class SolvedExamples:
    """The scores of a policy on the tasks of an iteration, and those of the iterations before, which it is shown."""

    shown: tuple[TaskScore, ...]
    asked: tuple[TaskScore, ...]

    def rows(self, support: int) -> tuple[list[str], Tensor]:
        """What the model reads for each task, and the scores: successes and failures in pairs, then the rest."""
        right = [score for score in self.asked if score[1] >= 0.5]
        wrong = [score for score in self.asked if score[1] < 0.5]
        paired = [score for pair in zip(right, wrong, strict=False) for score in pair]
        rest = [*right[len(wrong) :], *wrong[len(right) :]]
        ordered = [*paired, *rest]
        texts = [question(self.shown, prompt, support) for prompt, _ in ordered]
        return texts, torch.tensor([score for _, score in ordered])

    @property
    def pairs(self) -> int:
        """How many pairs of a success and a failure there are."""
        right = sum(score >= 0.5 for _, score in self.asked)
        return min(right, len(self.asked) - right)


@dataclass(frozen=True)
class Fitted:
    """The outcome of a fit, measured on held-out contexts."""

    contexts: int  # trained on
    loss: float  # at the end
    auc: float  # of all held-out tasks together; −1 where all succeed or all fail
    auc_within: float  # the mean over contexts with both
    pair_accuracy: float  # how often a success is valued above a failure of the same context


def contexts(run: str | Path, support: int) -> list[SolvedExamples]:
    """The contexts of a logged run: from its second iteration on."""
    files = rollout_files(Path(run))
    if not files:
        raise PodiumError(f"{run} has no logged rollouts: give the directory of a run.")
    shown: tuple[TaskScore, ...] = ()
    examples = []
    for file in files.values():
        verdicts: dict[str, list[bool]] = {}
        for row in read_rows(file, ["prompt", "correct"]):
            verdicts.setdefault(row["prompt"], []).append(row["correct"])
        scores = tuple((prompt, sum(right) / len(right)) for prompt, right in verdicts.items())
        if shown:
            examples.append(SolvedExamples(shown, scores))
        shown = (*shown, *scores)[-support:]
    return examples


def fit(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    model: str = "podium/tiny",
    support: int = 8,
    steps: int = 200,
    alpha: float = 0.25,
    lr: float = 3e-4,
    held_out: float = 0.2,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fitted:
    """Train a model with a value head on logged runs, and save it as a directory that a role can name.

    The loss of a context is alpha · −log σ(s_success − s_failure) over its pairs + (1 − alpha) · cross-entropy to the
    scores. A share of the contexts, the last ones of every run, is held out to measure it.
    """
    if not 0 <= held_out < 1 or not 0 <= alpha <= 1 or steps < 1:
        raise PodiumError(
            f"held_out = {held_out} lies in [0, 1), alpha = {alpha} in [0, 1], steps = {steps} from 1 on."
        )
    train: list[SolvedExamples] = []
    test: list[SolvedExamples] = []
    for run in runs:
        every = contexts(run, support)
        cut = len(every) - round(len(every) * held_out)
        train, test = [*train, *every[:cut]], [*test, *every[cut:]]
    if not train:
        raise PodiumError("The runs are too short to learn from: a context takes two iterations of a run.")
    reader = policies.critic(policies.load(model))
    optimizer = torch.optim.AdamW(reader.parameters(), lr=lr, weight_decay=0.0)
    order = np.random.default_rng(key(seed, (0,)))
    loss = 0.0
    for step in range(steps):
        context = train[int(order.integers(len(train)))]
        texts, scores = context.rows(support)
        value = policies.values_of(reader, texts, grad=True)
        logits = torch.stack([torch.zeros_like(value), value], dim=1)
        total = value_model_loss(logits, scores.to(value), alpha, context.pairs)
        optimizer.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(reader.parameters()), 1.0)
        optimizer.step()
        loss = float(total.detach())
        if progress is not None:
            progress(step, loss)
    reader.save(out)
    return _measured(reader, test or train, support, len(train), loss)


def success_pairs(logits: Tensor) -> Tensor:
    """The mean of −log σ(s_success − s_failure), s = logit 1 − logit 0, over rows 0 and 1, 2 and 3, … of [row, 2].

    Even rows are successes and odd ones failures under the same context, so what depends on the context alone cancels.
    A last row without a partner is left out.
    """
    score = logits[:, 1] - logits[:, 0]
    pairs = len(score) // 2 * 2
    if not pairs:
        return logits.sum() * 0
    return -logsigmoid(score[0:pairs:2] - score[1:pairs:2]).mean()


def soft_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean of −(1 − y) log p_0 − y log p_1, y in [0, 1]."""
    log_p = log_softmax(logits, dim=1)
    return -(torch.stack([1 - labels, labels], dim=1) * log_p).sum(1).mean()


def value_model_loss(logits: Tensor, labels: Tensor, alpha: float = 0.25, pairs: int | None = None) -> Tensor:
    """alpha · `success_pairs` + (1 − alpha) · `soft_cross_entropy`; the first `pairs` pairs of rows (None: all)."""
    paired = logits if pairs is None else logits[: 2 * pairs]
    return alpha * success_pairs(paired) + (1 - alpha) * soft_cross_entropy(logits, labels)


def _measured(
    reader: policies.Critic, held: Sequence[SolvedExamples], support: int, trained: int, loss: float
) -> Fitted:
    values, truth, within, ahead = [], [], [], []
    for context in held:
        texts, scores = context.rows(support)
        value = policies.values_of(reader, texts).double()
        values.append(value)
        truth.append(scores >= 0.5)
        if context.pairs:
            within.append(auc(value, scores >= 0.5))
            pairs = value[: 2 * context.pairs]
            ahead += (pairs[0::2] > pairs[1::2]).tolist()
    return Fitted(
        trained,
        loss,
        auc(torch.cat(values), torch.cat(truth)),
        sum(within) / len(within) if within else -1.0,
        sum(ahead) / len(ahead) if ahead else -1.0,
    )
