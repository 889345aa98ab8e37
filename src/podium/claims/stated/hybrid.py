"""What is claimed of methods that imitate and reinforce."""

from __future__ import annotations

from podium.claims.claim import Condition, MethodArm, MethodClaim
from podium.claims.stated.cells import IMITATION, ROOM, S5_HARD

__all__ = ["CLAIMED"]

FAILS = Condition("flat", low=0.5)  # most groups have no success

CLAIMED = (
    MethodClaim(
        "hpt",
        1,
        "imitating where nothing is solved, and reinforcing elsewhere, beats reinforcing alone where the start fails",
        S5_HARD,
        MethodArm("hpt", {"n": 8, "entropy": 0.0, "mini_batches": 1}),
        MethodArm("hpt", {"n": 8, "entropy": 0.0, "mini_batches": 1, "gate": -1}),
        "pass@1",
        "more",
        0.03,
        control=IMITATION,
        present=(ROOM, FAILS),
    ),
    MethodClaim(
        "calibrl",
        1,
        "an expert as a baseline helps where the start fails",
        S5_HARD,
        MethodArm("calibrl", {"n": 8, "mini_batches": 1}),
        MethodArm("calibrl", {"n": 8, "mini_batches": 1, "guide": 0.0}),
        "pass@1",
        "more",
        0.03,
        control=IMITATION,
        present=(ROOM, FAILS),
    ),
    MethodClaim(
        "grao",
        1,
        "references learn where rollouts alone have no signal",
        S5_HARD,
        MethodArm("grao", {"n": 8}),
        MethodArm("grao", {"n": 8, "beta": 0.0, "lam": 0.0}),
        "pass@1",
        "more",
        0.03,
        control=IMITATION,
        present=(ROOM, FAILS),
    ),
)
