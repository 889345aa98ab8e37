"""A step of TRL's trainer with its own loss and with a method of Podium inside, in CPU seconds on podium/tiny.

python benchmarks/trl_hosted.py      # in the environment hosted_trl of `make parity`
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parity"))
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

STEPS, WARM, ROUNDS = 8, 2, 3
BIG: dict[str, Any] = {"per_device_train_batch_size": 32, "max_completion_length": 32, "num_iterations": 2}


def main() -> None:
    import hosted_trl

    hosted_trl.time.monotonic = time.process_time  # type: ignore[attr-defined,assignment]
    ratios = []
    for _ in range(ROUNDS):
        own, hosted = (hosted_trl.train(method, STEPS, **BIG).seconds[WARM:] for method in (None, "grpo@trl"))
        ratios.append(statistics.median(hosted) / statistics.median(own))
        print(f"TRL {statistics.median(own):.3f} s, with Podium {statistics.median(hosted):.3f} s: {ratios[-1]:.3f} x")
    print(f"median {statistics.median(ratios):.3f} x")


if __name__ == "__main__":
    main()
