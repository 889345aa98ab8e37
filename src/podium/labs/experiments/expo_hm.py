"""ExPO-HM: do fine-grained labels first, and a reward for the entropy of the decision, make better detectors?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

BINARY = Logged("pass@1", "accuracy on the last training tasks")
SURE = Logged("decision.right", "decision entropy when right (nats)")
UNSURE = Logged("decision.wrong", "decision entropy when wrong (nats)")
GAP = Logged("decision.gap", "by how much wrong decisions are less sure (nats)")

STUDY = Lab(
    "expo-hm",
    "Do fine-grained labels before the binary question, and pay for being sure when right, improve detection?",
    arms={
        "expo-hm": partial(get, "expo-hm"),
        "without entropy": partial(get, "expo-hm", weight=0.0),
        "binary": partial(get, "expo-hm@binary", weight=0.0),
    },
    claims=(
        Claim("binary questions are answered better than by GRPO on them alone", BINARY, "expo-hm", "binary"),
        Claim("binary questions are answered better than without the entropy", BINARY, "expo-hm", "without entropy"),
        Claim("right and wrong decisions differ more in entropy than without it", GAP, "expo-hm", "without entropy"),
    ),
    readings=(PassAt(1), BINARY, SURE, UNSURE, GAP),
    charts=(along(BINARY), along(GAP)),
    # The last point covers tasks of the binary stage alone, in all arms.
    size=LabSize(iterations=24, points=6, seeds=5, n=5, eval_tasks=32, samples=8),
    quick=QUICK.replace(iterations=10, points=5, n=5, samples=4),
    settings={"world": "badges", "level": 4, "model": "podium/tiny2", "pool": 1024},
)
