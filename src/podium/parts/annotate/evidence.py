"""How much of the chain of facts behind an answer a rollout has shown, with its sources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns

__all__ = ["EvidenceRubrics", "rubric_scores"]

SLOT = re.compile(r"<(E[0-9]+)>")


def rubric_scores(
    rubrics: Sequence[str],
    entities: Mapping[str, str | None],
    supported: Sequence[bool],
    answer: str = "E0",
    connect: bool = True,
) -> list[int]:
    """1 for each rubric whose entities are all identified, which is supported, and which hangs together with the answer
    through other such rubrics; else 0. Without `connect` the last condition is left out."""
    slots = [set(SLOT.findall(rubric)) for rubric in rubrics]
    holds = [bool(held) and all(entities.get(slot) for slot in own) for own, held in zip(slots, supported, strict=True)]
    if not connect:
        return [int(held) for held in holds]
    reached, frontier = set[int](), {answer}
    while frontier:
        new = {n for n, own in enumerate(slots) if holds[n] and n not in reached and own & frontier}
        reached |= new
        frontier = set().union(*(slots[n] for n in new)) - frontier if new else set()
    return [int(n in reached) for n in range(len(rubrics))]


class EvidenceRubrics(Annotate):
    """Writes `rollout.rubric`, the share of the rubrics of its task that a rollout meets, and `rollout.whole_chain`,
    whether it meets all of them. A rollout that cites nothing meets none."""

    reference = "CaRR, https://github.com/THUDM/CaRR"
    connect: bool = True  # whether a rubric must hang together with the answer
    answer: str = "E0"  # the slot of the answer

    needs = ("rollout.rubrics", "rollout.entities", "rollout.supported", "rollout.cited")
    provides = ("rollout.rubric", "rollout.whole_chain")

    def scores(self, batch: Batch) -> list[list[int]]:
        """For each rollout, which rubrics it meets."""
        rows = zip(*(batch[name] for name in EvidenceRubrics.needs), strict=True)
        return [
            rubric_scores(rubrics, dict(entities), held if cited else [False] * len(held), self.answer, self.connect)
            for rubrics, entities, held, cited in rows
        ]

    def __call__(self, batch: Batch) -> Columns:
        shares = [sum(met) / len(met) if met else 0.0 for met in self.scores(batch)]
        share = torch.tensor(shares, dtype=batch.dtype, device=batch.device)
        return {"rollout.rubric": share, "rollout.whole_chain": share == 1}
