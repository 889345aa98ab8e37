"""Podium's sampler against `model.generate`: the same model, prompts, lengths and settings, in one process.

    python benchmarks/sampler.py [--rounds 7] [--threads 2]

Two loads: every answer of the full length, and answers that end by themselves (any of a few tokens ends a turn). Each
side gets the same work in turns, and the median of the rounds counts. Prints rollouts per second and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from podium.policy import Policy
from podium.sampler import Generate, Sampling
from podium.sampler.local import LocalSampler

VOCABULARY, GROUPS, COPIES, PROMPT, ANSWER = 1024, 8, 8, 16, 32


def build() -> Policy:
    """4 layers of width 128 with random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=1,
        pad_token_id=0,
        bos_token_id=None,
    )
    words = {"<pad>": 0, "<end>": 1} | {f"w{i}": i for i in range(2, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    return Policy(LlamaForCausalLM(config), wrapped, name="4 layers of 128")


def prompts() -> list[list[int]]:
    """One prompt a group, 12 to 20 tokens."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(PROMPT - 4, PROMPT + 5, (GROUPS,), generator=generator).tolist()
    return [torch.randint(100, VOCABULARY - 1, (n,), generator=generator).tolist() for n in lengths]


def podium(sampler: LocalSampler, run: int) -> int:
    requests = [
        Generate(tuple(p), n=COPIES, sampling=Sampling(max_tokens=ANSWER), stream=(run, i), capture=("entropy",))
        for i, p in enumerate(prompts())
    ]
    return sum(len(c.ids) for answers in sampler.generate(requests) for c in answers)


@torch.inference_mode()
def generate(policy: Policy, ends: tuple[int, ...]) -> int:
    texts = [p for p in prompts() for _ in range(COPIES)]
    width = max(len(t) for t in texts)
    ids = torch.tensor([[0] * (width - len(t)) + t for t in texts])
    mask = torch.tensor([[0] * (width - len(t)) + [1] * len(t) for t in texts])
    model: Any = policy.model
    model.generation_config.eos_token_id = list(ends) or None
    out = model.generate(ids, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=ANSWER, pad_token_id=0)
    end = torch.isin(out[:, width:], torch.tensor(ends)).int()
    return int((end.cumsum(1) - end == 0).sum())  # tokens up to and including the first that ends a turn


def timed(work: Callable[[], int]) -> tuple[float, int]:
    begun = time.perf_counter()
    tokens = work()
    return time.perf_counter() - begun, tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    policy = build()
    rollouts = GROUPS * COPIES
    loads = {"full length": (), "ending by themselves": tuple(range(100, 150))}
    print(f"{rollouts} rollouts ({GROUPS} prompts × {COPIES}) of up to {ANSWER} tokens, {options.threads} threads")
    print(f"{'':24}{'podium':>12}{'generate':>12}{'ratio':>8}{'tokens':>16}")
    for name, ends in loads.items():
        policy.chat.end_ids = ends
        sampler = LocalSampler(policy)
        for _ in range(2):  # warm up
            podium(sampler, 0)
            generate(policy, ends)
        ours, theirs, counts = [], [], [0, 0]
        for run in range(options.rounds):
            policy.bump()  # as after an update: nothing is left over from the round before
            seconds, tokens = timed(partial(podium, sampler, run + 1))
            ours.append(seconds)
            counts[0] += tokens
            seconds, tokens = timed(partial(generate, policy, ends))
            theirs.append(seconds)
            counts[1] += tokens
        a, b = (rollouts / statistics.median(x) for x in (ours, theirs))
        shown = " / ".join(str(round(c / options.rounds)) for c in counts)
        print(f"{name:24}{a:10.0f}/s{b:10.0f}/s{a / b:8.2f}{shown:>16}")


if __name__ == "__main__":
    main()
