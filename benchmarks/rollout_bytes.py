"""How much disk the rollouts of a run take: as earlier versions wrote them, whole, and thinned.

    python benchmarks/rollout_bytes.py [--tasks 32]

Samples one iteration of each world with podium/tiny, writes it in each way, and prints bytes per sampled token and
what 1,000 iterations of a million tokens come to with the default settings.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from podium import methods
from podium.sessions.train import configure
from podium.store.run_directory import RunDirectory
from podium.training.build import build_run
from podium.training.config import Config
from podium.training.loop import iterate

TOKENS = 1_000_000_000


def as_before(table: pa.Table) -> pa.Table:
    """With the numbers of tokens in 64 bits."""
    wide = [pa.field(f.name, pa.list_(pa.float64())) if f.type == pa.list_(pa.float32()) else f for f in table.schema]
    return table.cast(pa.schema(wide))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=32)
    tasks = parser.parse_args().tasks
    print("bytes per token: tokens per rollout, before, whole, thinned; then GB for 1,000 iterations of 1M tokens")
    for world, level in (("sums", 4), ("keydoor", 3)):
        config = configure(methods.get("grpo", n=16), world=world, level=level, tasks=tasks, eval_tasks=1)
        batch, _ = iterate(build_run(config))
        tokens = batch.size("token")
        with tempfile.TemporaryDirectory() as place:
            run = RunDirectory(place)
            for iteration in (1, 2):
                run.write_rollouts(iteration, batch)
            whole = run.rollouts(1).stat().st_size / tokens
            old = Path(place) / "before.parquet"
            pq.write_table(as_before(pq.read_table(run.rollouts(1))), old)
            before = old.stat().st_size / tokens
            run.thin_rollouts(0.0, Config.keep_examples)
            thinned = run.rollouts(1).stat().st_size / tokens
        share = min(1.0, (Config.keep_rollouts_gb or 0) * 1e9 / (whole * TOKENS))
        after = (share * whole + (1 - share) * thinned) * TOKENS
        print(
            f"{world:8} {tokens / len(batch):6.1f} {before:6.2f} {whole:6.2f} {thinned:6.3f}   "
            f"before {before * TOKENS / 1e9:.1f}, all whole {whole * TOKENS / 1e9:.1f}, by default {after / 1e9:.1f}"
        )


if __name__ == "__main__":
    main()
