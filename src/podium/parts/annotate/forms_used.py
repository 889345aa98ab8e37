"""Which kinds of action a rollout has taken, from the forms that its format reads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns

__all__ = ["FormsUsed"]


class FormsUsed(Annotate):
    """Writes `rollout.all_tools`, whether a rollout has called each of the tools, and `rollout.complete`, whether it is
    well-formed and answers exactly once. Both read the form of each turn, which is the name of its tag."""

    reference = "ARPO, https://github.com/dongguanting/ARPO"
    tools: tuple[str, ...] = ("search", "python")
    answer: str = "answer"

    needs = ("turn.form", "rollout.well_formed")
    provides = ("rollout.all_tools", "rollout.complete")

    def __call__(self, batch: Batch) -> Columns:
        forms: list[list[str]] = [[] for _ in range(len(batch))]
        for rollout, form in zip(batch.link("turn", "rollout").tolist(), batch["turn.form"], strict=True):
            forms[rollout].append(form)
        used = [set(self.tools) <= set(taken) for taken in forms]
        once = [taken.count(self.answer) == 1 for taken in forms]
        return {
            "rollout.all_tools": _flags(batch, used),
            "rollout.complete": _flags(batch, once) & batch["rollout.well_formed"].bool(),
        }


def _flags(batch: Batch, values: Sequence[bool]) -> Tensor:
    return torch.tensor(values, dtype=torch.bool, device=batch.device)
