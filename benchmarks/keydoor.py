"""Many turns and one reward at the end: what does credit for single turns add to GRPO, from the same number of tokens?

    python benchmarks/keydoor.py --jobs 16 --out DIR [--seeds 5] [--budget 450000] [METHOD …]

keydoor at level 3: four rooms, two locked doors, 20 turns. Every method trains with every seed until as many tokens
were sampled or encoded, on the same tasks with the same random numbers; success is measured on held-out houses, with
95 % intervals over seeds and of the paired differences from GRPO. How it is done is in `hard.py`; the same command goes
on where it was stopped. DIR gets one file per run, `table.md` and `keydoor.svg`.
"""

from __future__ import annotations

from pathlib import Path

from hard import main

METHODS = ("grpo", "gigpo", "hgpo", "empg", "archer@light")

if __name__ == "__main__":
    main(
        METHODS,
        world="keydoor",
        level=3,
        budget=450_000,
        lr=3e-4,
        measures=4,
        test_tasks=64,
        out=Path("runs/keydoor"),
    )
