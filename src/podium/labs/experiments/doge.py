"""DoGe: does learning the context first do more than the second stage alone?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Mean, PassAt
from podium.methods import get

__all__ = ["STUDY"]

ENTROPY = Mean("token_entropy", "nats")
BOTH, SECOND = "both stages", "second stage alone"

STUDY = Lab(
    "doge",
    "At equal sampled tokens, do analyses that help a frozen solver, before the problems themselves, keep entropy "
    "higher and end at least as well as the problems alone?",
    arms={BOTH: partial(get, "doge"), SECOND: partial(get, "doge@second-stage")},
    claims=(
        Claim("held-out success is above that of the second stage alone", PassAt(1), BOTH, SECOND),
        Claim("entropy stays above that of the second stage alone", ENTROPY, BOTH, SECOND),
    ),
    readings=(PassAt(1), PassAt(), ENTROPY),
    charts=(along(PassAt(1)), along(ENTROPY)),
    size=LabSize(iterations=24, points=4, seeds=5, tasks=12, eval_tasks=48, samples=16),
    quick=QUICK.replace(iterations=12, samples=8),
    settings={"world": "scenes", "level": 2, "model": "podium/tiny2", "pool": 256},
)
