"""KnowRL: does agreement with oneself teach a model what it can do?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged
from podium.method import Method
from podium.methods import get
from podium.parts.reward import RandomReward

__all__ = ["STUDY"]

INTRINSIC = Logged("self.intrinsic", "intrinsic accuracy")
AUC = Logged("self.auc", "AUC of its claims against its pass rates")
F1 = Logged("self.f1", "F1 of its claims against its pass rates")
CONSENSUS = Logged("self.consensus", "consensus of its votes")
FEASIBLE = Logged("self.feasible", "votes for feasible")
DISTINCT = Logged("self.distinct", "share of new tasks")


def coins() -> Method:
    """KnowRL whose reward is a coin."""
    method = get("knowrl")
    return method.with_(reward=(*method.reward, RandomReward()))


STUDY = Lab(
    "knowrl",
    "Does a model that is rewarded for agreeing with itself know better what it can do?",
    arms={"coins": coins, "agreement": partial(get, "knowrl"), "votes": partial(get, "knowrl@votes")},
    claims=(
        Claim("intrinsic accuracy is higher", INTRINSIC, "agreement", "coins"),
        Claim("intrinsic accuracy is higher where the votes are trained", INTRINSIC, "votes", "coins"),
        Claim("its claims tell better what it can do", AUC, "agreement", "coins"),
        Claim("its claims tell better what it can do where the votes are trained", AUC, "votes", "coins"),
    ),
    readings=(INTRINSIC, CONSENSUS, AUC, F1, FEASIBLE, DISTINCT),
    charts=(along(INTRINSIC), along(AUC)),
    size=LabSize(iterations=30, points=3, eval_tasks=16, samples=2),
    quick=QUICK.replace(iterations=8, samples=4),
    settings={
        "world": "mix:sums,rules",
        "world_settings": {"sums.level": 1, "rules.level": 5, "rules.domain": "lamps"},
        "model": "podium/tiny2",
    },
)
