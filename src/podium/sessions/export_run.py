"""Exporting what a run has trained as a directory that `from_pretrained` reads, with a model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from podium import __version__
from podium.core.errors import PodiumError
from podium.policy.model.weights import EXTRA
from podium.store.files import atomic_directory
from podium.store.manifest import check_manifest
from podium.store.run_directory import RunDirectory
from podium.store.sound_checkpoint import newest_sound
from podium.store.tables import read_tensors
from podium.training.config import Config
from podium.training.stored_config import stored_config

__all__ = ["export_run"]

TOKENIZER = ("tokenizer*", "special_tokens_map.json", "chat_template*", "vocab*", "merges.txt", "added_tokens.json")


def export_run(run: str | Path, out: str | Path, *, adapters: bool = False) -> Path:
    """Write the model of a run's newest sound checkpoint to a new directory: whole, with adapters merged in, or the
    `adapters` alone, as peft reads them. No code that the run's configuration names is executed."""
    directory, path = RunDirectory(Path(run)), Path(out)
    if path.exists():
        raise PodiumError(f"{path} exists already: choose another directory.")
    checkpoints = directory.checkpoints()
    if not checkpoints:
        raise PodiumError(f"{run} has no checkpoint: give the directory of a run.")
    config = stored_config(directory, leave_out=("method", "world")).config
    _, sound = newest_sound(checkpoints, check_manifest)
    model = sound.checkpoint / "policy"
    card = model_card(directory, config, sound.checkpoint.name, adapters)

    def fill(new: Path) -> None:
        if adapters:
            _write_adapters(model, new, config, run)
        else:
            for file in model.iterdir():
                if file.name != EXTRA:
                    shutil.copyfile(file, new / file.name)
        (new / "README.md").write_text(card, "utf-8")

    atomic_directory(path, fill)
    return path


def _write_adapters(model: Path, new: Path, config: Config, run: str | Path) -> None:
    """The adapters in peft's format, and the tokenizer."""
    tensors = read_tensors(model / EXTRA) if (model / EXTRA).is_file() else {}
    named = {name: tensor for name, tensor in tensors.items() if ".lora_" in name}
    if not named or config.lora is None:
        raise PodiumError(f"{run} has trained all weights and has no adapters: export it without --adapters.")
    layers = sorted({name.partition(".lora_")[0].rpartition(".")[2] for name in named})
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": config.model,
        "r": config.lora,
        "lora_alpha": 2 * config.lora,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": layers,
        "inference_mode": True,
    }
    (new / "adapter_config.json").write_text(json.dumps(settings, indent=2))
    renamed = {f"base_model.model.{name}".replace(".default.", "."): tensor for name, tensor in named.items()}
    save_file({name: tensor.contiguous() for name, tensor in renamed.items()}, new / "adapter_model.safetensors")
    for pattern in TOKENIZER:
        for file in model.glob(pattern):
            shutil.copyfile(file, new / file.name)


def model_card(directory: RunDirectory, config: Config, checkpoint: str, adapters: bool) -> str:
    """The model card of a run: method, protocol, figures."""
    metrics = directory.metrics()
    measured = [line for line in metrics if "eval.pass@1" in line]
    method, world = config.method, config.world if isinstance(config.world, str) else config.world.name
    level = (config.world_settings or {}).get("level")
    optimizer = config.optimizer
    rows = {
        "method": f"{method.name}: {method.summary}" if method.summary else method.name,
        "base model": config.model,
        "trained on": world if level is None else f"{world}, level {level}",
        "iterations": f"{metrics[-1]['iteration'] if metrics else 0} of {config.iterations} ({checkpoint})",
        "tasks per iteration": config.tasks,
        "tokens sampled": f"{sum(line.get('tokens', 0) for line in metrics):,}",
        "optimiser": f"AdamW, learning rate {optimizer.lr:g}, schedule {optimizer.schedule}",
        "precision": config.precision,
        "adapters": "none" if config.lora is None else f"LoRA, rank {config.lora}",
        "seed": config.seed,
    }
    front = [
        "library_name: peft" if adapters else "library_name: transformers",
        "tags: [podium, reinforcement-learning]",
    ]
    if not config.model.startswith(("podium/", "/", ".")):
        front.append(f"base_model: {json.dumps(config.model)}")
    load = (
        "peft.AutoPeftModelForCausalLM.from_pretrained(DIRECTORY)"
        if adapters
        else "transformers.AutoModelForCausalLM.from_pretrained(DIRECTORY)"
    )
    parts = [
        "\n".join(["---", *front, "---"]),
        f"# {directory.path.name}",
        f"Trained with [Podium](https://pypi.org/project/podium-rl/) {__version__}. `{load}` loads it.",
        "## Protocol",
        "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {_cell(value)} |" for name, value in rows.items())]),
        "## Figures",
        _figures(measured, config),
        "The run's `config.yaml` repeats it: `podium train --config config.yaml`.",
    ]
    return "\n\n".join(parts) + "\n"


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _figures(measured: Sequence[Mapping[str, Any]], config: Config) -> str:
    if not measured:
        return "The run was not evaluated."
    lines = [
        f"Held-out tasks: {config.eval_tasks}, {config.eval_samples} answers each, temperature 1; 95 % intervals over "
        "tasks. One seed: training again would give other numbers.",
        "",
        "| iteration | pass@1 | 95 % interval | reward | tokens per answer |",
        "| --- | --- | --- | --- | --- |",
    ]
    for line in dict.fromkeys((0, len(measured) - 1)):
        row = measured[line]
        low, high = row.get("eval.pass@1.low"), row.get("eval.pass@1.high")
        interval = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
        reward, length = (f"{row[name]:.3f}" if name in row else "" for name in ("eval.reward", "eval.length"))
        lines.append(f"| {row['iteration']} | {row['eval.pass@1']:.3f} | {interval} | {reward} | {length} |")
    return "\n".join(lines)
