"""The cells in which claims are measured, and the arms that must move a metric there."""

from __future__ import annotations

from podium.claims.claim import Cell, Condition, MethodArm

__all__ = [
    "E3",
    "E3_POOL16",
    "E3_SINGLE",
    "E3_THREE",
    "E3_U8",
    "E3_U32",
    "E4",
    "C4",
    "FIXED_S2",
    "IMITATION",
    "LEARNS",
    "MORE_ENTROPY",
    "R4",
    "ROOM",
    "S2",
    "S2_U8",
    "S5_HARD",
]

POOL = 4096  # so many that seeds meet different tasks

E3 = Cell("E3", "echo", 3, iterations=60, tasks=8, pool=POOL)
E3_SINGLE = Cell("E3n1", "echo", 3, iterations=60, tasks=64, pool=POOL)
E3_THREE = Cell("E3n3", "echo", 3, iterations=60, tasks=24, pool=POOL)
E3_POOL16 = Cell("E3p16", "echo", 3, iterations=60, tasks=8, pool=16)
E3_U8 = Cell("E3u8", "echo", 3, iterations=40, tasks=8, pool=POOL)
E3_U32 = Cell("E3u32", "echo", 3, iterations=30, tasks=8, pool=POOL)
E4 = Cell("E4", "echo", 4, iterations=40, tasks=8, pool=128)
S2 = Cell("S2", "sums", 2, iterations=60, tasks=8, pool=POOL)
S2_U8 = Cell("S2u8", "sums", 2, iterations=40, tasks=8, pool=POOL)
S5_HARD = Cell("S5h", "sums", 5, iterations=60, tasks=8, pool=128)
R4 = Cell("R4", "rules", 4, iterations=60, tasks=8, pool=POOL)
C4 = Cell("C4", "countdown", 4, iterations=60, tasks=8, pool=POOL)
FIXED_S2 = Cell(
    "FS2", "sums", 2, iterations=40, tasks=16, pool=POOL, lr=1e-30
)  # nothing moves: gradients at one policy

# Positive controls: imitation of solutions, and a bonus for entropy.
IMITATION = MethodArm("hpt", {"n": 8, "gate": 8, "mini_batches": 1})
MORE_ENTROPY = MethodArm("hpt", {"n": 8, "gate": -1, "entropy": 0.05, "mini_batches": 4}, {"updates.epochs": 2})

ROOM = Condition("pass@1", high=0.97)
LEARNS = Condition("pass@1", low=0.02, since_start=True)
