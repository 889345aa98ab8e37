"""Listener reward: reasoning must convince a model that did not write it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Columns, Reward
from podium.core.schedule import Number

__all__ = ["ListenerReward", "option_probabilities"]


def option_probabilities(options: Sequence[tuple[str, float]], dtype: torch.dtype = torch.float64) -> Tensor:
    """[option] the probabilities of options among each other, from their log-probabilities."""
    return torch.tensor([logp for _, logp in options], dtype=dtype).softmax(0)


class ListenerReward(Reward):
    """r = format · [there is reasoning before an answer] + accuracy · [the answer is right] + listener · p(right
    answer), with p the listener's probabilities of the options after the reasoning, divided by their sum.

    With `gated` the listener counts for right answers only. listener = 0 is accuracy and format. Writes
    `rollout.heard`, p of the right answer (0 where a task leaves no choice), and `rollout.disagrees`, whether the
    listener's likeliest option is another answer than the rollout's.
    """

    reference = "Listener-Rewarded Thinking in VLMs for Image Preferences, https://arxiv.org/abs/2506.22832"
    format: Number = 1.0
    accuracy: Number = 0.5
    listener: Number = 0.5
    gated: bool = False

    needs = (
        *("rollout.options", "rollout.explained", "rollout.correct"),
        *("rollout.answer", "rollout.reference_answer"),
    )
    provides = (
        *("rollout.reward", "rollout.reward.format", "rollout.reward.accuracy", "rollout.reward.listener"),
        *("rollout.heard", "rollout.disagrees"),
    )

    def __call__(self, batch: Batch) -> Columns:
        heard, disagrees = [], []
        for options, gold, said in zip(
            *(batch[f"rollout.{name}"] for name in ("options", "reference_answer", "answer")), strict=True
        ):
            if not options:
                heard.append(0.0)
                disagrees.append(False)
                continue
            names = [name for name, _ in options]
            if gold not in names:
                raise PodiumError(
                    f"The right answer {gold!r} is none of the choices {', '.join(names)} that its task lists: mend "
                    "the world."
                )
            p = option_probabilities(options)
            heard.append(float(p[names.index(gold)]))
            disagrees.append(names[int(p.argmax())] != said)
        convinced = torch.tensor(heard, dtype=batch.dtype, device=batch.device)
        right = (batch["rollout.correct"] > 0).to(batch.dtype)
        terms = {
            "format": self.format * batch["rollout.explained"].to(batch.dtype),
            "accuracy": self.accuracy * right,
            "listener": self.listener * (convinced * right if self.gated else convinced),
        }
        return {
            "rollout.reward": terms["format"] + terms["accuracy"] + terms["listener"],
            **{f"rollout.reward.{name}": x for name, x in terms.items()},
            "rollout.heard": convinced,
            "rollout.disagrees": torch.tensor(disagrees, device=batch.device),
        }
