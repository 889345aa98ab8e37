"""The likelihood of the reference answer, maximised by its own gradient instead of as a reward."""

from __future__ import annotations

from dataclasses import field

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Need
from podium.core.term import Aggregate, Term
from podium.parts.reward.likelihood import LIKELIHOODS, answer_likelihood, answer_signal

__all__ = ["DirectLikelihood"]


class DirectLikelihood(Term):
    """−R of a likelihood reward R, differentiated directly; see `AnswerLikelihood` for the kinds.

    `logprob` is supervised learning of the reference answer after the policy's own reasoning. In `jepo`, the log of a
    group's mean likelihood, the rollouts of a group share the gradient by the softmax of their log-likelihoods.
    """

    reference = "Likelihood-Based Reward Designs for General LLM Reasoning"
    level = "rollout"
    kind: str = "logprob"  # as in AnswerLikelihood
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "kind", LIKELIHOODS)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (answer_signal(self.kind, "now", grad=True),)

    @property
    def couples(self) -> str:
        return "group" if self.kind == "jepo" else "token"

    def loss(self, batch: Batch) -> Tensor:
        groups, score = batch.partition("rollout", "group"), batch[answer_signal(self.kind, "now")]
        return -answer_likelihood(self.kind, groups, score, batch.trained("rollout"))
