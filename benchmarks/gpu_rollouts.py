"""Whole rollouts on a GPU: agreement with the trainer, tokens a second, and `model.generate` on the same work.

Models of the shapes of SmolLM2-135M and of a Qwen2 of half a billion weights, with random weights; 256 rollouts in
groups of 8, prompts of 128 tokens. `gpu_decode.py` runs it.
"""

from __future__ import annotations

import cProfile
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from podium.policy import Policy
from podium.protocols.sampling import Warmth
from podium.sampler import Generate, Sampling
from podium.sampler.local import LocalSampler
from podium.sampler.row_state import FLAT

ROWS, GROUP, PROMPT, ANSWER = 256, 8, 128, 256
DEVICE = "cuda"
SHAPES: dict[str, dict[str, Any]] = {
    "135M": {
        "kind": (LlamaConfig, LlamaForCausalLM),
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
    "0.5B": {
        "kind": (Qwen2Config, Qwen2ForCausalLM),
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
}


def build(name: str, dtype: torch.dtype = torch.bfloat16) -> Policy:
    shape = dict(SHAPES[name])
    config, model = shape.pop("kind")
    torch.manual_seed(0)
    settings = {"max_position_embeddings": 4096, "tie_word_embeddings": True, "eos_token_id": 1, "pad_token_id": 0}
    words = {"<pad>": 0, "<end>": 1} | {f"w{i}": i for i in range(2, shape["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    with torch.device(DEVICE):
        made = model(config(**shape, **settings, bos_token_id=None)).to(dtype)
    policy = Policy(made, wrapped, name=name)
    policy.chat.end_ids = ()
    return policy


def prompts(policy: Policy, count: int, length: int = PROMPT, seed: int = 0) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [tuple(x) for x in torch.randint(2, policy.vocabulary, (count, length), generator=generator).tolist()]


def requests(policy: Policy, rollouts: int, seed: int = 0, tokens: int = ANSWER) -> list[Generate]:
    settings = Sampling(max_tokens=tokens)
    return [
        Generate(context, n=GROUP, sampling=settings, stream=(seed, i), capture=("entropy",), keep=False)
        for i, context in enumerate(prompts(policy, rollouts // GROUP, seed=seed))
    ]


def agreement(policy: Policy, name: str) -> str:
    """Mean distance of the sampler's log-probabilities from the trainer's, on a peaked distribution."""
    assert policy.decoder is not None
    with torch.no_grad():
        policy.decoder.norm.weight.mul_(4.0)
    policy.bump()
    asked = requests(policy, 64, seed=5, tokens=64)
    gaps, size = [], []
    for request, answers in zip(asked, LocalSampler(policy).generate(asked), strict=True):
        scored = policy.score([request.context] * len(answers), [c.ids for c in answers])
        for c, expected in zip(answers, scored, strict=True):
            gaps.append((torch.tensor(c.logp) - expected.float().cpu()).abs())
            size.append(torch.tensor(c.captured["entropy"]))
    again = LocalSampler(policy, slots=40).generate(asked)
    same = [[c.ids for c in a] for a in again] == [[c.ids for c in a] for a in LocalSampler(policy).generate(asked)]
    with torch.no_grad():
        policy.decoder.norm.weight.div_(4.0)
    policy.bump()
    gap = torch.cat(gaps)
    return (
        f"{name} {policy.decoder.dtype}: log-probabilities differ from the trainer's by {gap.mean():.2e} on average, "
        f"{gap.max():.2e} at most (entropy {torch.cat(size).mean():.1f}); 40 rows and 64 draw the same: {same}"
    )


def rollouts(policy: Policy, log: dict[str, Any], name: str, folder: Path) -> list[str]:
    """Whole rollouts through the sampler: of equal lengths, and ending by themselves."""
    sampler = LocalSampler(policy, slots=ROWS)

    def whole(tokens: int) -> list[float]:
        sampler.generate(requests(policy, ROWS, seed=9, tokens=tokens))  # steps of all lengths are captured
        rates = []
        for seed in (1, 2, 3):
            asked = requests(policy, ROWS, seed=seed, tokens=tokens)
            torch.cuda.synchronize()
            start = time.perf_counter()
            answers = sampler.generate(asked)
            torch.cuda.synchronize()
            rates.append(sum(len(c.ids) for a in answers for c in a) / (time.perf_counter() - start))
        return rates

    rates, longer = whole(ANSWER), whole(2 * ANSWER)
    equal = statistics.median(rates)
    log[f"{name} equal"], log[f"{name} equal, twice as long"] = rates, longer
    watch = cProfile.Profile()
    watch.runcall(sampler.generate, requests(policy, ROWS, seed=6))
    watch.dump_stats(str(folder / f"host-{name}.prof"))

    # Any of a set of tokens whose probability is one in 256 ends an answer.
    policy.chat.end_ids = tuple(range(policy.vocabulary // 256))
    sampler = LocalSampler(policy, slots=ROWS)
    sampler.generate(requests(policy, 8 * ROWS, seed=9, tokens=2048))  # steps of all lengths are captured

    def drawn() -> int:
        state: Any = sampler.state
        width, flat = state.kept["ids"].shape[1], state.ints[FLAT].tolist()
        return sampler.stats.sampled + sum(flat[job.row] - job.slot * width for job in sampler._rows.active)

    found = []
    for seed in (4, 5, 6):
        for request in requests(policy, 8 * ROWS, seed=seed, tokens=2048):
            sampler.submit(request)
        sampler.poll()
        torch.cuda.synchronize()
        start, before = time.perf_counter(), drawn()
        while sampler._queue:
            sampler.poll()
        torch.cuda.synchronize()
        unequal = (drawn() - before) / (time.perf_counter() - start)
        while sampler.poll():
            pass
        torch.cuda.synchronize()
        found.append((unequal, (sampler.stats.sampled - before) / (time.perf_counter() - start)))
    unequal, all_of_it = statistics.median(found)
    policy.chat.end_ids = ()
    log[f"{name} unequal"] = [unequal, all_of_it]
    return [
        f"{name} whole rollouts, {ROWS} of {PROMPT} + {ANSWER} tokens: {equal / 1e3:.0f}k tok/s "
        f"({' '.join(f'{r / 1e3:.0f}' for r in rates)})",
        f"{name} unequal lengths (mean 256, at most 2048), {ROWS} rows refilled: {unequal / 1e3:.0f}k tok/s = "
        f"{100 * unequal / equal:.0f} % of equal ones, {100 * unequal / statistics.median(longer):.0f} % of those with "
        f"as much context, {2 * ANSWER} tokens each; with the last ones' tail {all_of_it / 1e3:.0f}k",
    ]


FILTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "top_p=0.99": {"top_p": 0.99},
    "top_k=20, top_p=0.8": {"top_k": 20, "top_p": 0.8},
    "top_p=0.99, temperature 1/12": {"top_p": 0.99, "temperature": 1 / 12},  # as peaked as a trained model
    "top_p=0.95, temperature 1/4": {"top_p": 0.95, "temperature": 1 / 4},  # which leaves a third of the tokens
    "a temperature that follows the entropy": {"warmth": Warmth(0.05, pivot=1.0, above=0.5, below=-0.5)},
}


def filtered(policy: Policy, log: dict[str, Any], name: str) -> list[str]:
    """Whole rollouts of equal lengths whose draws are truncated or warmed, beside plain ones."""
    rates = {}
    for label, settings in FILTERS.items():
        sampler = LocalSampler(policy, slots=ROWS)
        asked = [replace(r, sampling=replace(r.sampling, **settings)) for r in requests(policy, ROWS)]
        sampler.generate(asked)
        times = []
        for _ in range(3):
            torch.cuda.synchronize()
            start = time.perf_counter()
            sampler.generate(asked)
            times.append(time.perf_counter() - start)
        rates[label] = ROWS * ANSWER / statistics.median(times)
    log[f"{name} filtered"] = rates
    return [f"{name} {label}: {rate / 1e3:.0f}k tok/s, {rate / rates['plain']:.2f}" for label, rate in rates.items()]


def generate(policy: Policy, tokens: int = ANSWER) -> float:
    """Tokens a second of `model.generate`, on the same work."""
    model: Any = policy.model
    texts = [p for p in prompts(policy, ROWS // GROUP) for _ in range(GROUP)]
    ids = torch.tensor(texts, device=DEVICE)
    settings = {"do_sample": True, "top_k": 0, "top_p": 1.0, "min_new_tokens": tokens, "max_new_tokens": tokens}
    given = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, **settings}
    with torch.inference_mode():
        model.generate(ids, **(given | {"min_new_tokens": 4, "max_new_tokens": 4}))
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.generate(ids, **given)
        torch.cuda.synchronize()
    return ROWS * tokens / (time.perf_counter() - start)
