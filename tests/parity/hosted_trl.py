"""Runs of TRL's trainer and of Podium's inside it, for tests and for the table of methods. Needs TRL 1.16."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

import podium
from podium.integrations.trl import PodiumTrainer
from podium.method import Method

TINY = Path(podium.__file__).parent / "models" / "tiny"
SUMS = [f"{a}+{b}=" for a in range(1, 9) for b in range(1, 9)]


def letters(completions: list[Any], **_: Any) -> list[float]:
    """A reward that varies within every group."""
    return [sum(map(ord, text)) % 7 / 6.0 for text in completions]


def right(completions: list[Any], **_: Any) -> list[float]:
    """A reward that says right or wrong."""
    return [float(sum(map(ord, text)) % 2) for text in completions]


def written(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """A `rollout_func` whose answers depend on nothing but the prompt and their number in the group."""
    ids = [trainer.processing_class(text)["input_ids"] for text in prompts]
    answers = []
    for number, prompt in enumerate(prompts):
        random = Random(f"{prompt}{number % trainer.num_generations}")
        answers.append([random.randrange(20, 60) for _ in range(random.randrange(3, 16))])
    return {"prompt_ids": ids, "completion_ids": answers, "logprobs": [[0.0] * len(x) for x in answers]}


@dataclass
class Seen:
    """What a training run has done: the gradient before each optimiser step, its seconds, and the trainer."""

    gradients: list[torch.Tensor] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    trainer: Any = None

    @property
    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in self.trainer.model.parameters()])


class _Watch(TrainerCallback):
    def __init__(self, seen: Seen) -> None:
        self.seen, self.began = seen, 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.monotonic()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seen.seconds.append(time.monotonic() - self.began)

    def on_pre_optimizer_step(self, *_: Any, model: Any = None, **__: Any) -> None:
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        self.seen.gradients.append(torch.cat([g.detach().flatten().clone() for g in grads]))


def train(method: str | Method | None, steps: int = 3, trainer: type = GRPOTrainer, **changes: Any) -> Seen:
    """A few steps on podium/tiny: of a method inside TRL, or of TRL's own trainer (None)."""
    torch.manual_seed(0)
    special = {
        k: changes.pop(k) for k in ("answer", "correct_above", "config", "episodes", "rollout_func") if k in changes
    }
    config, rewards = special.pop("config", GRPOConfig), changes.pop("reward_funcs", letters)
    resume = changes.pop("resume", False)
    data = Dataset.from_dict({"prompt": SUMS, "reference_answer": [str(len(x)) for x in SUMS]})
    if episodes := special.pop("episodes", None):
        special["rollout_func"], rewards = episodes, episodes.reward
        data = Dataset.from_list(episodes.rows)
    with tempfile.TemporaryDirectory() as folder:
        usual = {
            "output_dir": changes.pop("output_dir", folder), "use_cpu": True, "bf16": False, "report_to": "none",
            "seed": 3, "learning_rate": 1e-3, "max_steps": steps, "logging_steps": 1, "disable_tqdm": True,
            "save_strategy": "no",
            "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "num_generations": 4,
            "max_completion_length": 16,
        }  # fmt: skip
        extra = {} if method is None else {"method": method}
        made = (trainer if method is None else PodiumTrainer)(
            **extra,
            model=AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32),
            reward_funcs=rewards,
            args=config(**{**usual, **changes}),
            train_dataset=data,
            processing_class=AutoTokenizer.from_pretrained(TINY),
            **special,
        )
        seen = Seen(trainer=made)
        made.add_callback(_Watch(seen))
        if steps:
            made.train(resume_from_checkpoint=resume)
    return seen


def gap(mine: Seen, theirs: Seen, last: int = 0) -> float:
    """The largest difference of two runs' gradients, as a share of their norm."""
    pairs = list(zip(mine.gradients[-last:], theirs.gradients[-last:], strict=True))
    assert pairs
    return max(float((a - b).abs().max() / b.norm()) for a, b in pairs)
