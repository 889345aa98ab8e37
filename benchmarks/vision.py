"""Throughput and memory of a vision-language model of a named shape with random weights, offline.

    python -m benchmarks.vision                  # tiny, on the CPU
    python -m benchmarks.vision --shape small --device cuda

Prints, for Qwen2-VL and SmolVLM: parameters, tokens of a prompt, seconds of sampling and of training per
iteration, tokens per second, the gap between sampler and trainer, and the peak of memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import torch

from podium import methods, policy
from podium.sessions.train import train
from tests.policy.vision.models import picture_file, qwen_tiny, smol_tiny

SHAPES = {"tiny": 1, "small": 8}  # times as many layers and as wide


def data_in(folder: Path, side: int) -> Path:
    """Questions about noise, which nobody can answer: what counts is how long it takes."""
    rows = []
    for n in range(32):
        (folder / f"{n}.png").write_bytes(picture_file(side, side, seed=n))
        rows.append({"image": f"{n}.png", "question": "which one?", "answer": str(n)})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "rows.jsonl"


def main() -> None:
    """Train two iterations of GRPO of each kind and print the second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="tiny", choices=SHAPES)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    scale = SHAPES[given.shape]
    side = 32 * min(scale, 4)
    for name, make in (("Qwen2-VL", qwen_tiny), ("SmolVLM", smol_tiny)):
        with tempfile.TemporaryDirectory() as folder:
            path = make(Path(folder) / "model", scale=scale)
            data = data_in(Path(folder), side)
            model = policy.load(str(path))
            if given.device != "cpu":
                torch.cuda.reset_peak_memory_stats()
            settings = {"tasks": 8, "max_tokens": 32, "eval_tasks": 1, "eval_samples": 1, "eval_every": 0}
            begun = time.monotonic()
            result = train(
                methods.get("grpo", n=8, mini_batches=1),
                **{"model": str(path), "data": str(data), "spurious": "random", "device": given.device},
                **settings,
                iterations=2,
                out=Path(folder) / "run",
            )
            took = time.monotonic() - begun
            line = result.metrics[-1]
            memory = (
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                if given.device == "cpu"
                else torch.cuda.max_memory_allocated()
            )
            shown = {**line["seconds"], "tokens": line["tokens"], "sampler_gap": line["sampler_gap"]}
            count = sum(p.numel() for p in model.parameters())
            print(f"{name}: {count:,} parameters, peak memory {memory / 2**30:.2f} GiB, whole run {took:.1f} s")
            print("  " + ", ".join(f"{k} {v:.3g}" for k, v in shown.items()))


if __name__ == "__main__":
    main()
