"""Meta-reasoning rewards: a step that declares its kind of reasoning by a tag is paid if a rule confirms it."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["MetaReasoning"]


NONE = "none"  # the tag of a step that declares no kind of reasoning


class MetaReasoning(Reward):
    """Rewards steps whose declared meta-reasoning is confirmed by a rule (`step.reward.meta`).

    - planning: the rollout succeeds;
    - explore: no earlier valid step of the rollout took this action;
    - reflection: the action differs from that of the previous step, which failed (the start counts as a failure).

    A malformed step, or one with another tag, gets the tag "none" and 0. `step.reward.outcome` is the outcome of the
    rollout times `scale`, minus `malformed` at a malformed step. Also writes the mean reward, the share of repeated
    actions and the share of invalid steps per rollout.
    """

    reference = "RLVMR, https://github.com/Tencent/DigitalHuman"
    planning: float = 1.0  # the reward of each rule
    explore: float = 1.0
    reflection: float = 1.0
    valid: str | None = None  # a boolean column: whether the output is well-formed; None: all are
    available: str = "step.valid"  # a boolean column: whether the world allows the action in this state
    malformed: Number = 0.0  # penalty for a malformed step, ≥ 0
    scale: Number = 1.0  # of the outcome

    provides = (
        "step.tag",
        "step.reward.meta",
        "step.reward.outcome",
        "rollout.meta",
        "rollout.repeated",
        "rollout.invalid",
    )

    def __post_init__(self) -> None:
        within(self, "malformed", 0)

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
        """[step] Whether the output has the required format."""
        if self.valid is None:
            return torch.ones(batch.size("step"), dtype=torch.bool, device=batch.device)
        return torch.as_tensor(batch[self.valid], dtype=torch.bool)

    def tags(self, batch: Batch) -> tuple[str, ...]:
        """[step] The tag, or "none" for a malformed step or an unknown tag."""
        valid, rewarded = self.well_formed(batch).tolist(), ("planning", "explore", "reflection")
        return tuple(t if v and t in rewarded else NONE for t, v in zip(batch["step.tag"], valid, strict=True))

    def repeated(self, batch: Batch) -> Tensor:
        """[step] Whether an earlier valid step of the rollout took the same action."""
        valid, place = self.well_formed(batch), batch.position("step", "rollout")
        first = batch.by("step", "rollout", "step.action").min(place, where=valid)
        return place > first

    def differs(self, batch: Batch) -> Tensor:
        """[step] Whether the action differs from that of the previous step, if any."""
        ((code, _),) = batch.codes("step", "step.action")
        return code != batch.shift(code, "step", "rollout", by=1, fill=-1)

    def __call__(self, batch: Batch) -> Columns:
        tags, valid = self.tags(batch), self.well_formed(batch)
        success = batch.spread(batch["rollout.reward"] > 0, "rollout", "step")
        acted = (valid & batch[self.available]).long()
        failed = batch.shift(acted, "step", "rollout", by=1) == 0  # the start counts as a failure
        repeated = self.repeated(batch)
        by_tag = {
            "planning": self.planning * success,
            "explore": self.explore * ~repeated,
            "reflection": self.reflection * (failed & self.differs(batch)),
        }
        meta = torch.zeros(len(tags), dtype=batch.dtype, device=batch.device)
        for name, reward in by_tag.items():
            tagged = torch.tensor([tag == name for tag in tags], dtype=torch.bool, device=batch.device)
            meta = meta + reward.to(batch.dtype) * tagged

        outcome = self.scale * batch.spread(batch["rollout.reward"], "rollout", "step")

        def share(x: Tensor) -> Tensor:
            return batch.reduce(x.to(batch.dtype), "step", "rollout", "mean")

        return {
            "step.tag": tags,
            "step.reward.meta": meta,
            "step.reward.outcome": outcome - self.malformed * (~valid).to(batch.dtype),
            "rollout.meta": share(meta),
            "rollout.repeated": share(repeated),
            "rollout.invalid": share(acted == 0),
        }
