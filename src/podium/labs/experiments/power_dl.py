"""A quarter of the pairs has the wrong label: do labels that move recognise them?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.notes import exceeds
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

AUC = Logged("label_auc", "AUC of the stored labels")
NOISE = {"flip": 0.25, "epochs": 4}

STUDY = Lab(
    "power-dl",
    "With a quarter of the pairs labelled wrong, do labels that move to the prediction recognise and mend them?",
    arms={
        "power-dl": partial(get, "power-dl", **NOISE),
        "power, fixed labels": partial(get, "power-dl@power", **NOISE),
        "simpo's loss": partial(get, "power-dl@power", eta=0.0, **NOISE),
    },
    claims=(
        Claim("dynamic labels end with a higher pass@1 than fixed ones", PassAt(1), "power-dl", "power, fixed labels"),
        Claim("the anchor ends with a higher pass@1 than none", PassAt(1), "power, fixed labels", "simpo's loss"),
    ),
    readings=(PassAt(1), AUC),
    charts=(along(PassAt(1)),),
    notes=(exceeds(AUC, "power-dl", 0.8),),
    size=LabSize(iterations=32, points=4, samples=16),
    quick=QUICK.replace(iterations=12, points=2, samples=8),
    settings={"world": "sums", "level": 2, "pool": 32},
)
