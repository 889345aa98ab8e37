"""Rewards of steps for how the model says it thinks: tags, and rules that the world can check."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward

__all__ = ["MetaReasoning"]


NONE = "none"


class MetaReasoning(Reward):
    """What a step earns for its tag: planning, if the rollout succeeds; explore, for an action that no earlier valid
    step has taken; reflection, for another action after a step that failed (or at the start).

    A step that is not valid, or has another tag, gets the tag "none" and 0.
    """

    reference = "RLVMR, https://github.com/Tencent/DigitalHuman"
    planning: float = 1.0  # what each rule pays
    explore: float = 1.0
    reflection: float = 1.0
    valid: str | None = None  # a boolean column: the output is well-formed; None: each is
    available: str = "step.valid"  # a boolean column: the world allows the action there

    provides = ("step.tag", "step.reward.meta", "rollout.meta", "rollout.repeated", "rollout.invalid")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (
            "step.tag",
            "step.action",
            *(() if self.valid is None else (self.valid,)),
            self.available,
            "rollout.reward",
        )

    def well_formed(self, batch: Batch) -> Tensor:
        """[step]"""
        if self.valid is None:
            return torch.ones(batch.size("step"), dtype=torch.bool, device=batch.device)
        return torch.as_tensor(batch[self.valid], dtype=torch.bool)

    def tags(self, batch: Batch) -> tuple[str, ...]:
        """[step] the tag that counts."""
        valid, paid = self.well_formed(batch).tolist(), ("planning", "explore", "reflection")
        return tuple(t if v and t in paid else NONE for t, v in zip(batch["step.tag"], valid, strict=True))

    def repeated(self, batch: Batch) -> Tensor:
        """[step] whether an earlier valid step of the rollout took the same action."""
        valid, place = self.well_formed(batch), batch.position("step", "rollout")
        first = batch.by("step", "rollout", "step.action").min(place, where=valid)
        return place > first

    def differs(self, batch: Batch) -> Tensor:
        """[step] whether the action is another one than that of the step before, if any."""
        ((code, _),) = batch.codes("step", "step.action")
        return code != batch.shift(code, "step", "rollout", by=1, fill=-1)

    def __call__(self, batch: Batch) -> Columns:
        tags, valid = self.tags(batch), self.well_formed(batch)
        success = batch.spread(batch["rollout.reward"] > 0, "rollout", "step")
        acted = (valid & batch[self.available]).long()
        failed = batch.shift(acted, "step", "rollout", by=1) == 0  # the start counts as one
        repeated = self.repeated(batch)
        earned = {
            "planning": self.planning * success,
            "explore": self.explore * ~repeated,
            "reflection": self.reflection * (failed & self.differs(batch)),
        }
        meta = torch.zeros(len(tags), dtype=batch.dtype, device=batch.device)
        for name, pay in earned.items():
            own = torch.tensor([tag == name for tag in tags], dtype=torch.bool, device=batch.device)
            meta = meta + pay.to(batch.dtype) * own

        def share(x: Tensor) -> Tensor:
            return batch.reduce(x.to(batch.dtype), "step", "rollout", "mean")

        return {
            "step.tag": tags,
            "step.reward.meta": meta,
            "rollout.meta": share(meta),
            "rollout.repeated": share(repeated),
            "rollout.invalid": share(acted == 0),
        }
