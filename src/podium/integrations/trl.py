"""A Podium method inside TRL's GRPO trainer: TRL's loop, sampler, rewards and optimiser, the method's credit and loss.

    from podium.integrations.trl import PodiumTrainer

    trainer = PodiumTrainer("gspo", model="Qwen/Qwen2.5-0.5B-Instruct", reward_funcs=reward, args=config, …)
    trainer.train()

How rollouts are drawn and split into optimiser steps is TRL's configuration; `settings` fills it in from a method.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file
from torch import Tensor
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.gradient import HostedUpdate
from podium.core.memory import Memory, decode_state, encode_state
from podium.core.part import Part
from podium.core.signal import Signal
from podium.integrations.host import IN_TRL, Guest, HostTrainer
from podium.method import Method
from podium.methods import get
from podium.training.live_parts import live_parts

__all__ = ["PodiumTrainer", "settings"]

OLD, OLD_ENTROPY = Signal("logp", of="old"), Signal("entropy", of="old")
SAMPLER, SAMPLER_ENTROPY, REF = Signal("logp", of="sampler"), Signal("entropy", of="sampler"), Signal("logp", of="ref")
STATE = "podium_memories"  # .json and .safetensors in TRL's checkpoints


def settings(method: str | Method, **changes: Any) -> dict[str, Any]:
    """Arguments of a `GRPOConfig` that draw and update as a method does; `changes` come on top of them."""
    value = get(method) if isinstance(method, str) else method
    draw: Any = None if value.rollout is None else value.rollout.draw
    found: dict[str, Any] = {
        "num_generations": None if value.rollout is None else value.rollout.n,
        "num_iterations": value.updates.epochs,
        "beta": 1.0 if _reads(value, REF) else 0.0,  # anything but 0 makes TRL compute the reference
    }
    if draw is not None:
        found |= {"temperature": float(draw.temperature), "top_p": float(draw.top_p), "top_k": draw.top_k}
    return {k: v for k, v in found.items() if v is not None} | changes


def _reads(method: Method, *signals: Signal) -> bool:
    columns = {s.column for s in signals}
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    return any(isinstance(n, Signal) and n.column in columns for part in readers for n in part.needs)


class PodiumTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` with the annotations, rewards, filters, credit, objective and memories of a method.

    `answer` reads an answer from a completion's text, for methods that compare answers. An answer is correct if the
    first reward function gives more than `correct_above`. With a `rollout_func` that plays several turns, its extra
    fields `turn` (a number for each token), `turn.NAME` (a value for each turn of the rollout) and `rollout.NAME` are
    its columns.
    """

    def __init__(
        self,
        method: str | Method,
        *args: Any,
        answer: Callable[[str], str] | None = None,
        correct_above: float = 0.0,
        **kwargs: Any,
    ) -> None:
        value = get(method) if isinstance(method, str) else method
        super().__init__(*args, **kwargs)
        self._check_split()
        config, steps = self.args, self._steps_in_all()
        data = () if self.train_dataset is None else (getattr(self.train_dataset, "column_names", None) or ())
        given = {
            *IN_TRL,
            *(f"rollout.{name}" for name in data),
            *(f"rollout.reward.{n}" for n in self.reward_func_names),
        }
        if answer is not None:
            given.add("rollout.answer")
        host = HostTrainer("TRL", given, turns=self.rollout_func is not None)
        if _reads(value, REF) and self.beta == 0.0:
            raise PodiumError("The method reads a reference model, which TRL has if beta is not 0: set beta=1.0.")
        self.guest = Guest(value, host, max(steps, 1), config.max_completion_length or 1)
        self.answer, self.correct_above = answer, correct_above
        self._batch: Batch | None = None  # of all processes, while it is being trained
        self._update: HostedUpdate | None = None
        self._scores: Tensor | None = None

    # -- how TRL splits its batches ----------------------------------------------------------------------------------

    @property
    def _generation_steps(self) -> int:
        """Micro-batches for which a batch of rollouts is trained."""
        return int(self.args.steps_per_generation * self.num_iterations)

    def _check_split(self) -> None:
        """Refuse updates that join rollouts of several batches: their denominators would be known too late."""
        each, steps = self.args.gradient_accumulation_steps, self.args.steps_per_generation
        if steps % each:
            raise PodiumError(
                f"An update of {each} micro-batches does not divide a batch of rollouts of {steps}: make "
                "steps_per_generation a multiple of gradient_accumulation_steps."
            )
        if getattr(self, "use_liger_kernel", False) or getattr(self.args, "use_liger_kernel", False):
            raise PodiumError("Liger's fused loss computes TRL's objectives alone: leave use_liger_kernel out.")

    def _steps_in_all(self) -> int:
        """How many batches of rollouts the run will have."""
        args = self.args
        updates = args.max_steps
        if updates <= 0 and self.train_dataset is not None and hasattr(self.train_dataset, "__len__"):
            rows = len(self.train_dataset) * self.num_generations * self.num_iterations
            each = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
            updates = int(args.num_train_epochs * rows / each)
        return updates * args.gradient_accumulation_steps // self._generation_steps

    # -- a batch of rollouts: from the rewards to the credit -----------------------------------------------------------

    def _calculate_rewards(self, inputs: Any, *rest: Any) -> Tensor:
        self._scores = super()._calculate_rewards(inputs, *rest)
        return self._scores

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return out
        rows = len(out["prompt_ids"])
        self._add_old_signals(out)
        batch = self.guest.credited(self._gathered(inputs, out), self._step // self._generation_steps)
        for name, value in self.guest.numbers(batch).items():
            self._metrics["train"][f"podium/{name}"].append(value)
        self._batch = batch
        device = out["prompt_ids"].device
        out["podium.row"] = torch.arange(rows, device=device) + self.accelerator.process_index * rows
        return out

    def _add_old_signals(self, out: dict[str, Any]) -> None:
        """Log-probabilities and entropies under the policy that sampled, where the method reads them before an update
        and TRL does not compute them."""
        wanted = {s.column for s in self.guest.before_updates}
        if not wanted & {s.column for s in (OLD, OLD_ENTROPY, SAMPLER, SAMPLER_ENTROPY)}:
            return
        entropy = bool(wanted & {OLD_ENTROPY.column, SAMPLER_ENTROPY.column})
        if "old_per_token_logps" in out and not entropy:
            return
        with torch.no_grad(), disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            logps, entropies = self._passed(self.model, out, self.args.per_device_train_batch_size, entropy)
        out.setdefault("old_per_token_logps", logps)
        if entropies is not None:
            out["podium.old_entropies"] = entropies

    def _passed(
        self, model: Any, rows: dict[str, Any], batch_size: int | None = None, entropy: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """[B, T] the log-probabilities and entropies of completions."""
        pictures = ("pixel_values", "image_grid_thw", "num_images", "pixel_attention_mask", "spatial_shapes")
        more = ("num_tiles", "image_sizes", "token_type_ids", "mm_token_type_ids", "image_position_ids")
        logps, entropies, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1),
            torch.cat([rows["prompt_mask"], rows["completion_mask"]], dim=1),
            rows["completion_ids"].size(1),
            batch_size=batch_size,
            compute_entropy=entropy,
            **{name: rows.get(name) for name in (*pictures, *more)},
        )
        return logps, entropies

    def _gathered(self, inputs: Sequence[dict[str, Any]], out: dict[str, Any]) -> Batch:
        """The rollouts of all processes as a batch."""
        accelerator, mask = self.accelerator, _mask(out)
        width = int(accelerator.gather(torch.tensor([mask.shape[1]], device=mask.device)).max())

        def whole(x: Tensor) -> Tensor:
            gathered: Tensor = accelerator.gather(torch.nn.functional.pad(x, (0, width - x.shape[1])).contiguous())
            return gathered

        assert self._scores is not None
        every, device = whole(mask), mask.device
        scores, n = self._scores, self.num_generations
        weighted = (scores * self.reward_weights.to(device)).nansum(1)
        length = every.sum(1)
        full = whole(out["completion_ids"])
        ends = torch.tensor([*self.eos_token_ids, self._tokenizer.pad_token_id], device=device)
        last = full.gather(1, (whole(out["completion_mask"]).sum(1, keepdim=True) - 1).clamp(min=0))[:, 0]
        columns: dict[str, Any] = {
            "token.id": full,
            "rollout.reward": weighted,
            "rollout.correct": (scores[:, 0].nan_to_num() > self.correct_above).float(),
            "rollout.length": length.float(),
            "rollout.truncated": ~torch.isin(last, ends),
            "rollout.purpose": torch.full((len(every),), int(Purpose.train), device=device),
            "rollout.number": torch.arange(len(every), device=device),
            "rollout.index": torch.arange(len(every), device=device) % n,
            **{f"rollout.reward.{name}": scores[:, i].nan_to_num() for i, name in enumerate(self.reward_func_names)},
        }
        padded = {
            OLD: "old_per_token_logps",
            REF: "ref_per_token_logps",
            OLD_ENTROPY: "podium.old_entropies",
            SAMPLER_ENTROPY: "podium.old_entropies",
            SAMPLER: "sampling_per_token_logps" if "sampling_per_token_logps" in out else "old_per_token_logps",
        }
        columns |= {signal.column: whole(out[name]) for signal, name in padded.items() if name in out}
        texts = self.processing_class.batch_decode(out["completion_ids"], skip_special_tokens=True)
        told = gather_object([self._told(row, text) for row, text in zip(inputs, texts, strict=True)])
        for name in told[0]:
            if not name.startswith("turn"):
                columns[f"rollout.{name}"] = self.guest.column([row[name] for row in told], device)
        groups = [f"{row['task']}" for row in told]
        turns = [row.get("turn") for row in told]
        numbers = None if turns[0] is None else _numbers(turns, width, device)
        batch = Batch.from_padded(
            every,
            torch.arange(len(every), device=device) // n,
            {k: v for k, v in columns.items() if k != "rollout.task"},
            turn=numbers,
            seed=self.args.seed * 1_000_003 + self._step // self._generation_steps,
        ).with_columns({"group.task": groups[::n]})
        of_turns: dict[str, Any] = {"turn.text": [row["text"] for row in told]} if numbers is None else {}
        for name in (name for name in told[0] if name.startswith("turn.")):
            of_turns[name] = self.guest.column([value for row in told for value in row[name]], device)
        return batch.with_columns(of_turns)

    def _told(self, row: dict[str, Any], text: str) -> dict[str, Any]:
        """What a row of the data set, and whoever has played it, says of a rollout."""
        plain = {k: v for k, v in row.items() if k != "prompt" and (isinstance(v, (str, int, float, bool)))}
        played = {
            k.removeprefix("rollout."): v for k, v in row.items() if k == "turn" or k.startswith(("turn.", "rollout."))
        }
        prompt = row["prompt"] if isinstance(row["prompt"], str) else json.dumps(row["prompt"], sort_keys=True)
        found = {"domain": "", "task": prompt, **plain, **played, "prompt": prompt, "text": text}
        return found if self.answer is None else {**found, "answer": self.answer(text)}

    # -- an update: from the coefficients to the loss ------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        each = self.args.gradient_accumulation_steps
        if self.model.training and self._step % each == 0:
            first = self._step % self.args.steps_per_generation
            self._begin_update(self._buffered_inputs[first : first + each])
        return inputs

    def _begin_update(self, micro_batches: Sequence[dict[str, Any]]) -> None:
        """Fix what an update needs to know of all its rollouts, on whichever process they are."""
        assert self._batch is not None
        rows = self.accelerator.gather(torch.cat([x["podium.row"] for x in micro_batches])).sort().values
        places = self._places(rows)
        update = self._batch.take("rollout", places[places >= 0])
        at = torch.full((int(rows.max()) + 1,), -1, device=rows.device)
        at[rows[places >= 0]] = torch.arange(len(update), device=rows.device)
        for x in micro_batches:
            x["podium.place"] = at[x["podium.row"]]
        self._update = hosted = HostedUpdate(self.guest.now.objective, update, live_parts(self.guest.now))
        hosted.fix(self._first_pass(micro_batches, hosted) if hosted.first_pass else {})

    def _places(self, rows: Tensor) -> Tensor:
        """Where rollouts stand in the batch that is trained; -1: their group was dropped."""
        assert self._batch is not None
        numbers: Tensor = self._batch["rollout.number"]
        found = torch.full((int(max(rows.max(), numbers.max())) + 1,), -1, device=rows.device)
        found[numbers] = torch.arange(len(numbers), device=rows.device)
        return found[rows]

    def _first_pass(self, micro_batches: Sequence[dict[str, Any]], hosted: HostedUpdate) -> dict[Signal, Tensor]:
        """The signals of all rollouts of an update, without a graph."""
        whole = {s: torch.zeros(hosted.update.size("token"), device=self.accelerator.device) for s in hosted.first_pass}
        with torch.no_grad():
            for x in micro_batches:
                for signal, values in self._signals(self.model, x, hosted.first_pass).items():
                    if signal in whole:
                        micro = hosted.update.take("rollout", x["podium.place"][x["podium.place"] >= 0])
                        whole[signal][micro["token.row"]] = values
        added = {s: self.accelerator.reduce(values, reduction="sum") for s, values in whole.items()}
        if OLD not in hosted.update:
            logp = next((x for s, x in added.items() if s.name == "logp"), None)
            added |= {} if logp is None else {OLD: logp}
        return added

    def _signals(self, model: Any, inputs: dict[str, Any], wanted: Sequence[Signal]) -> dict[Signal, Tensor]:
        """Signals of the rollouts of a micro-batch that are trained, token by token."""
        entropy = any(s.name == "entropy" for s in wanted)
        logps, entropies = self._passed(model, inputs, entropy=entropy or not torch.is_grad_enabled())
        here = (inputs["podium.place"] >= 0)[:, None] & _mask(inputs).bool()
        by_name = {"logp": logps[here]} | ({} if entropies is None else {"entropy": entropies[here]})
        if entropies is not None and torch.is_grad_enabled():
            self._count_entropy(entropies.detach(), _mask(inputs))
        return {s: by_name[s.name] for s in wanted}

    def _compute_loss(self, model: Any, inputs: Any) -> Tensor:
        if not self.model.training or self._update is None or "podium.place" not in inputs:
            loss: Tensor = super()._compute_loss(model, inputs)
            return loss
        hosted, place = self._update, inputs["podium.place"]
        results = self._signals(model, inputs, hosted.signals)
        rows = place[place >= 0]
        reached = sum((x.sum() for x in results.values()), torch.zeros((), device=place.device))
        if OLD not in hosted.update:
            old = {Signal(s.name, of="old"): x.detach() for s, x in results.items()}
            results |= old
        loss = 0.0 * reached  # every process takes part, whatever its rows are worth
        if len(rows):
            loss = loss + hosted.loss(rows, results)
        self._log_update(hosted)
        # Processes average their gradients; coefficients are those of the whole update.
        return loss * self.accelerator.num_processes

    def _count_entropy(self, entropies: Tensor, mask: Tensor) -> None:
        totals = self.accelerator.reduce(torch.stack([(entropies * mask).sum(), mask.sum().float()]), reduction="sum")
        self._metrics["train"]["entropy"].append((totals[0] / totals[1].clamp(min=1.0)).item())

    def _log_update(self, hosted: HostedUpdate) -> None:
        """The terms of an update and their diagnostics, at its last micro-batch; those of this process's rollouts."""
        if not self.accelerator.sync_gradients:
            return
        result = hosted.result()
        for name, value in {**result.terms, **result.diagnostics}.items():
            self._metrics["train"][f"podium/{name}"].append(value)

    # -- memories ------------------------------------------------------------------------------------------------------

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        loss: Tensor = super().training_step(*args, **kwargs)
        if self._batch is not None and self._step % self._generation_steps == 0:
            self.guest.observe(self._batch)
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.guest.memories.states and self.accelerator.is_main_process:
            folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
            tensors: dict[str, Tensor] = {}
            states = {name: encode_state(state, tensors, name) for name, state in self.guest.memories.states.items()}
            (folder / f"{STATE}.json").write_text(json.dumps(states), encoding="utf-8")
            save_file(tensors, folder / f"{STATE}.safetensors")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        file = None if checkpoint is None else Path(checkpoint) / f"{STATE}.json"
        if file is not None and file.is_file():
            tensors = load_file(file.with_suffix(".safetensors"))
            states = json.loads(file.read_text("utf-8"))
            self.guest.memories.states = {name: decode_state(state, tensors) for name, state in states.items()}


def _mask(rows: dict[str, Any]) -> Tensor:
    """[B, T] the tokens that the model has written."""
    mask: Tensor = rows["completion_mask"]
    return mask * rows["tool_mask"] if "tool_mask" in rows else mask


def _numbers(turns: Sequence[Sequence[int]], width: int, device: torch.device) -> Tensor:
    padded = torch.zeros(len(turns), width, dtype=torch.long)
    for row, numbers in enumerate(turns):
        padded[row, : len(numbers)] = torch.tensor(list(numbers), dtype=torch.long)
    return padded.to(device)
