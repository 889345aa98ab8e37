"""CaRR: do rubrics of evidence make answers rest on whole chains of sources, where guessing pays?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

RUBRICS = Logged("watched.rubric", "rubrics met")
CHAINS = Logged("watched.whole_chain", "whole chains")

STUDY = Lab(
    "carr",
    "Where answers can be guessed, do rubrics of evidence make the model show what its answer follows from?",
    arms={
        "rubrics": partial(get, "carr"),
        "released mix": partial(get, "carr@release"),
        "outcome": partial(get, "carr", weight=0.0),
    },
    claims=(
        Claim("more rubrics are met than with the outcome alone", RUBRICS, "rubrics", "outcome"),
        Claim("more answers rest on a whole chain", CHAINS, "rubrics", "outcome"),
        Claim("accuracy is above that of the outcome alone", PassAt(1), "rubrics", "outcome"),
    ),
    readings=(PassAt(1), RUBRICS, CHAINS),
    charts=(along(PassAt(1)), along(RUBRICS), along(CHAINS)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={
        "world": "lookup",
        "world_settings": {"level": 2, "sources": True, "guess": 0.4},
        "model": "podium/tiny2",
        "max_tokens": 64,
    },
)
