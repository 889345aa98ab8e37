"""Success rates of tasks by those of similar ones, sampled before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns
from podium.memories.score_history import scored_prompts
from podium.memories.solved_tasks import prompt_similarity

__all__ = ["SimilarScores"]


class SimilarScores(Memory):
    """A success rate for each task before it is sampled, from the last `support` scored prompts (`group.value`):

        v = (½ w + Σ_j k_j s_j) / (w + Σ_j k_j),  k_j = similarity(prompt, prompt_j)^sharpness

    s_j is the pass rate of prompt j, the similarity the share of character sequences in common. Like a value model that
    reads those scores in its context, it adapts to the policy without being trained. ½ before the first score.
    """

    reference = "V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0"
    keyed_by = "prompt"
    sees_dropped = True
    support: int = 256  # scores, the newest are kept, ≥ 1
    sharpness: float = 2.0  # ≥ 0; 0: the mean of all scores, whatever the prompt
    prior: float = 0.1  # w, the weight of ½, > 0

    needs = ("rollout.correct", "rollout.prompt")
    provides = ("group.value", "group.prior")

    def __post_init__(self) -> None:
        within(self, "support", 1)
        within(self, "sharpness", 0)
        within(self, "prior", 0, open_low=True)

    def initial(self) -> State:
        return {"scores": ()}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        rates = torch.tensor([self.rate(state, prompt) for prompt in keys(tasks)], dtype=torch.float64)
        return {"group.value": rates, "group.prior": 2 * rates - 1}

    def rate(self, state: State, prompt: str) -> float:
        """v of one prompt."""
        total, weight = 0.5 * self.prior, self.prior
        for other, score in state["scores"]:
            k = prompt_similarity(prompt, other) ** self.sharpness
            total, weight = total + k * score, weight + k
        return total / weight

    def observe(self, state: State, batch: Batch) -> State:
        scores: dict[str, list[float]] = {}
        for prompt, score in scored_prompts(batch):
            scores.setdefault(prompt, []).append(score)
        new = sorted((prompt, sum(found) / len(found)) for prompt, found in scores.items())
        kept = [(prompt, score) for prompt, score in state["scores"] if prompt not in scores]
        return {"scores": (*kept, *new)[-self.support :]}
