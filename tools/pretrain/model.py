"""The model and its training."""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from tools.pretrain.text import CONTEXT, KEPT, VOCABULARY, Text


def build_model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        dtype="float32",
        initializer_range=0.05,
    )
    return LlamaForCausalLM(config)


def batches(text: Text, size: int, steps: int, seed: int) -> Iterator[np.ndarray]:
    """Examples of similar length together, so that little is padding; in random order."""
    rng = np.random.default_rng(seed)
    lengths = np.diff(text.starts)
    given = 0
    while True:
        order = rng.permutation(len(lengths))
        for at in range(0, len(order) - size + 1, 64 * size):
            block = order[at : at + 64 * size]
            block = block[np.argsort(lengths[block], kind="stable")]
            rows = [block[i : i + size] for i in range(0, len(block) - size + 1, size)]
            for i in rng.permutation(len(rows)):
                if given == steps:
                    return
                given += 1
                yield rows[i]


def text_loss(
    model: LlamaForCausalLM, before: LlamaForCausalLM, batch: Tensor, learned: Tensor, kept: Tensor, precision: Any
) -> Tensor:
    """Cross-entropy of the learned tokens; of those that are kept, with what the model before would say there."""
    said = _said(model, batch, learned, precision)
    loss = F.nll_loss(said[~kept], batch[:, 1:][learned][~kept], reduction="sum")
    if kept.any():
        with torch.no_grad():
            aims = _said(before, batch, learned, precision)[kept].exp()
        loss = loss - (aims * said[kept]).sum()
    return loss / len(said)


def _said(model: LlamaForCausalLM, batch: Tensor, learned: Tensor, precision: Any) -> Tensor:
    """Log-probabilities of all tokens where some are learned."""
    with precision:
        hidden = model.model(input_ids=batch[:, :-1], use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[learned])
    return logits.float().log_softmax(-1)


def train(model: LlamaForCausalLM, parts: Iterator[Text], args: argparse.Namespace, device: str) -> None:
    """Next tokens of what is the model's own, given all that was said before; as many steps on each part.

    Where the text is to be kept, the aim is not its next token but what the model before training would have said.
    """
    before = copy.deepcopy(model).eval()
    model.train()
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": weights, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        lr=args.lr,
        betas=(0.9, 0.98),
        fused=device == "cuda",
    )
    warmup = min(200, args.steps // 10 + 1)

    def trained() -> float:
        """Seconds, without the time in which there was no text yet."""
        return time.perf_counter() - began - waited

    def scale(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = (step - warmup) / max(1, args.steps - warmup)
        if args.seconds:
            done = min(max(done, trained() / args.seconds), 1.0)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done))

    precision = torch.autocast("cuda", torch.bfloat16) if args.bf16 and device == "cuda" else nullcontext()
    began, waited = time.perf_counter(), 0.0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, scale)
    tokens, step, bounds = 0, 0, np.linspace(0, args.steps, args.parts + 1).astype(int)
    for number in range(args.parts):
        asked = time.perf_counter()
        text = next(parts)
        waited += time.perf_counter() - asked
        ids, own, starts = (torch.from_numpy(x).to(device) for x in (text.ids, text.own, text.starts))
        longest = np.diff(text.starts)
        for rows in batches(text, args.batch, bounds[number + 1] - bounds[number], args.seed + number):
            width = int(longest[rows].max())
            tokens += width * len(rows)
            row = torch.from_numpy(rows).to(device)
            place = torch.arange(width, device=device)
            inside = place < (starts[row + 1] - starts[row])[:, None]
            at = (starts[row][:, None] + place).clamp(max=len(ids) - 1)
            batch = ids[at].long() * inside  # padding is token 0
            learned = (inside & (own[at] > 0))[:, 1:]
            kept = own[at][:, 1:][learned] == KEPT
            loss = text_loss(model, before, batch, learned, kept, precision)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % max(1, args.steps // 20) == 0 or step == args.steps:
                spent = time.perf_counter() - began
                print(
                    f"  step {step:>6}  loss {loss.item():.4f}  {spent:.0f} s  {tokens / spent:,.0f} tokens/s",
                    flush=True,
                )
                model.save_pretrained(args.out)  # a run that is stopped leaves something to look at
            if args.seconds and trained() > args.seconds * (number + 1) / args.parts:
                break
    model.save_pretrained(args.out)
