"""TRL's GRPO steps, timed one by one: what `vs_trl.py` and `gpu_step.py` compare with."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

__all__ = ["steps"]


def steps(
    model: str | Path, prompts: Sequence[str], score: Callable[[str], float], *, groups: int, copies: int, limit: int,
    warm: int, lr: float,
) -> dict[str, Any]:  # fmt: skip
    """Seconds of each step after the first `warm` ones, and tokens of a rollout: of `copies` rollouts of up to `limit`
    tokens for each of `groups` prompts, with one update, until the prompts are used up; on a GPU if there is one."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    times: list[float] = []
    lengths: list[int] = []
    gpu = torch.cuda.is_available()

    def now() -> float:
        if gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.begun = now()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(now() - self.begun)

    def reward(completions: list[Any], completion_ids: list[Any], **_: Any) -> list[float]:
        lengths.extend(len(ids) for ids in completion_ids)
        return [score(c[0]["content"]) for c in completions]

    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=not gpu,
        bf16=gpu,
        per_device_train_batch_size=groups * copies,
        num_generations=copies,
        max_completion_length=limit,
        max_steps=len(prompts) // groups,
        learning_rate=lr,
        beta=0.0,
        temperature=1.0,
        gradient_checkpointing=False,
        report_to=[],
        logging_steps=10_000,
        save_strategy="no",
        disable_tqdm=True,
    )
    rows = [{"prompt": [{"role": "user", "content": text}]} for text in prompts]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model),
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(model),
        callbacks=[Clock()],
    )
    trainer.train()
    return {"seconds": times[warm:], "length": sum(lengths) / max(len(lengths), 1)}
