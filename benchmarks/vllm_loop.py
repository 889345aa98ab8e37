"""How much Podium's loop adds to vLLM: iterations of a run beside `LLM.generate` on the same prompts, in one process.

    python benchmarks/vllm_loop.py [--iterations 6] [--device cpu]

Each iteration alternates with a bare call of `LLM.generate` for the prompts that it has just sampled, with the same
settings and seeds of their own, and with the engine's prefix cache cleared. Printed is the median of
(seconds of the iteration) / (seconds of the bare call + seconds of training); the goal is 1.1.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="podium/tiny")
    given = parser.parse_args()
    from vllm import SamplingParams

    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate

    settings: dict[str, Any] = {"model": given.model, "device": given.device, "sampler": "vllm", "world": "sums"}
    settings["sampler_settings"] = {"enforce_eager": True} if given.device == "cpu" else {}
    run = build_run(configure("grpo", level=2, tasks=32, **settings))
    engine: Any = run.driver.sampler
    ratios = []
    for number in range(given.iterations + 1):
        begun = time.perf_counter()
        batch, line = iterate(run)
        whole, training = time.perf_counter() - begun, line["seconds"]["train"]
        prompts = [{"prompt_token_ids": list(context)} for context in batch["turn.context"]]
        parameters = [
            SamplingParams(
                temperature=1.0,
                max_tokens=run.config.max_tokens,
                seed=place,
                logprobs=0,
                stop_token_ids=list(run.policy.end_ids),
                detokenize=False,
            )
            for place in range(len(prompts))
        ]
        engine.llm.reset_prefix_cache()
        begun = time.perf_counter()
        outputs = engine.llm.generate(prompts, parameters, use_tqdm=False)
        bare = time.perf_counter() - begun
        tokens = sum(len(output.outputs[0].token_ids) for output in outputs) / line["tokens"]
        if number:  # the first one warms up
            ratios.append(whole / (bare * 1 / tokens + training))
            print(f"iteration {whole:.2f} s, bare {bare:.2f} s ({tokens:.2f} of its tokens), training {training:.2f} s")
    print(f"loop relative to LLM.generate and training: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
