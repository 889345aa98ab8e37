"""Podium on one GPU: sampling and training, timed beside what they compete with.

    python benchmarks/gpu.py decode [--out FOLDER]     sampling: kernels, a step, whole rollouts, `model.generate`

Other sections: benchmarks/gpu_update.py (a training step), benchmarks/gpu_step.py (a whole iteration beside TRL's).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gpu_decode

SECTIONS = {"decode": gpu_decode.run}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=sorted(SECTIONS))
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--tune", action="store_true", help="try other shapes of the kernels first, and use the best")
    parser.add_argument("--compile", metavar="I/N", help="only compile the I-th of N parts of what --tune tries")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for line in SECTIONS[options.section](options):
        print(line, flush=True)


if __name__ == "__main__":
    main()
