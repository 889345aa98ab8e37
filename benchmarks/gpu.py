"""Podium on one GPU: sampling and training, timed beside what they compete with.

    python benchmarks/gpu.py [decode] [update] [step] [methods] [--out FOLDER]

Without a name it runs all of them:

    decode    sampling: kernels, a step, whole rollouts, `model.generate` (gpu_decode.py)
    update    a training step against the matrix peak, shared prompts, agreement with the CPU (gpu_update.py)
    step      a whole iteration beside TRL's, where it is installed (gpu_step.py)
    methods   whole iterations of methods beside GRPO's (gpu_step.py)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import gpu_decode

OTHERS = {
    "update": ["gpu_update.py"],
    "step": ["gpu_step.py", "--sides", "podium", "trl"],
    "methods": ["gpu_step.py", "--sides", "methods"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=["decode", *OTHERS, "all"], default="all")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--tune", action="store_true", help="decode: try other shapes of the kernels, and use the best")
    parser.add_argument("--compile", metavar="I/N", help="only compile the I-th of N parts of what --tune tries")
    parser.add_argument("--small", action="store_true", help="small shapes, on a CPU too; not for decode")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in ["decode", *OTHERS] if "all" in options.sections else options.sections:
        print(f"-- {name}", flush=True)
        if name == "decode":
            for line in gpu_decode.run(options):
                print(line, flush=True)
            continue
        script, *arguments = OTHERS[name]
        command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
        failed |= subprocess.run(command + ["--small"] * options.small, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
