"""Sampling on a GPU: agreement with the trainer, time of each kernel and of a step, tokens a second, `model.generate`.

Models of the shapes of SmolLM2-135M and of a Qwen2 of half a billion weights, with random weights in bfloat16; 256
rollouts in groups of 8, prompts of 128 tokens. The floor of a step is the time in which its weights, keys and values
can be read once at 4.3 TB/s.
"""

from __future__ import annotations

import cProfile
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from podium.policy import Policy
from podium.policy.cuda import decode
from podium.sampler import Generate, Sampling
from podium.sampler.board import FLAT
from podium.sampler.local import LocalSampler
from podium.sampler.request import Warmth

ROWS, GROUP, PROMPT, ANSWER = 256, 8, 128, 256
BANDWIDTH = 4.3e12
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
# rows, columns, summed numbers, warps, stages, cut: what --tune tries beside the shapes in decode_launch.py
TRIED: dict[str, list[tuple[int, ...]]] = {
    "attend": [(16, 0, 0, 4, 3, 0, 0), (16, 0, 0, 2, 4, 0, 0)],
    "project": [(64, 0, 128, 4, 5)],
    "product": [(64, 32, 128, 4, 7), (64, 32, 128, 4, 4)],
    "product, long": [(64, 32, 128, 4, 4, 1024), (64, 64, 128, 4, 3, 1024)],
    "product, large": [(128, 64, 64, 4, 7, 1216), (64, 64, 128, 4, 4, 2432)],
    "gate": [(64, 32, 64, 4, 6), (64, 32, 128, 4, 4)],
    "gate, large": [(64, 64, 64, 4, 3), (128, 64, 64, 8, 3, 0, 0)],
    "score": [(128, 128, 64, 4, 2, 0, 0), (256, 128, 64, 8, 3, 0, 0)],
}  # fmt: skip


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


def milliseconds(work: Callable[[], Any], rounds: int = 20, warm: int = 3) -> float:
    """The median time of a piece of work on the device."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def floor(policy: Policy, rows: int, context: int) -> float:
    """Milliseconds in which weights, keys and values can be read once."""
    d = policy.decoder
    assert d is not None
    weights = sum(p.numel() for p in policy.parameters()) * 2
    cache = rows * context * len(d.layers) * 2 * d.kv_heads * d.head_size * 2
    return 1e3 * (weights + cache) / BANDWIDTH


class Bench:
    """One model's step at ROWS rows in the middle of their answers."""

    def __init__(self, name: str, rows: int = ROWS, context: int = PROMPT + ANSWER // 2, written: int = ANSWER) -> None:
        from podium.policy.cuda import decode_launch

        self.name, self.rows, self.launch = name, rows, decode_launch
        self.policy = build(name)
        self.d: Any = self.policy.decoder
        self.cache = decode.PagedCache(self.d, rows, rows // GROUP, PROMPT, written)
        self.position = torch.full((self.cache.table.shape[0],), context - 1, device=DEVICE)
        self.token = torch.randint(0, 1000, self.position.shape, device=DEVICE)
        # Every group's rows name the same pages for their prompt, and their own for the rest.
        shared, own = PROMPT // decode.PAGE, -(-written // decode.PAGE) + 1
        group = torch.arange(rows, device=DEVICE) // GROUP
        first = 1 + group[:, None] * shared + torch.arange(shared, device=DEVICE)
        second = 1 + rows // GROUP * shared + torch.arange(rows * own, device=DEVICE).view(rows, own)
        self.cache.front[:rows, : shared + own] = torch.cat([first, second], 1).int()
        self.cache.pool.normal_()
        self.step = decode.PagedStep(self.d, self.cache, rows, self.cache.step_length(context))

    @classmethod
    def unequal(cls, name: str) -> Bench:
        """Rows that are as far as those of lengths that differ (geometric, mean 256, at most 2,048) are on average."""
        made = cls(name, written=2048)
        made.name = f"{name}, unequal lengths,"
        generator = torch.Generator().manual_seed(0)
        written = torch.empty(made.rows).geometric_(1 / 256, generator=generator).clamp(max=2047).long()
        made.position[: made.rows] = PROMPT + written.to(DEVICE)
        length = made.cache.step_length(int(made.position.max()) + 1)
        made.step = decode.PagedStep(made.d, made.cache, made.rows, length)
        return made

    def renew(self) -> None:
        """After other shapes were set."""
        self.cache._work = None
        self.step = decode.PagedStep(self.d, self.cache, self.rows, self.step.chunks * self.launch.CHUNK)

    def whole(self) -> None:
        self.step.launch(self.token, self.position, self.step.work.temperature)

    def only(self, kernel: str) -> None:
        """All launches of one kernel in a step; for a product, with those that add up its parts."""
        s, w, do, n = self.step, self.step.work, self.launch, self.rows
        if kernel == "score":
            do.score(n, w.y, s.weights.head, None, w.temperature, w.logits, w.statistics)
            return
        if kernel == "attend":
            do.divide(n, self.position, s.parts, s.chunks)
        for pool, layer in zip(self.cache.pool, s.weights.layers, strict=True):
            if kernel == "project":
                at = (s.rope, self.position, self.cache.front, pool)
                do.project(n, w.y, layer.qkv, layer.qkv_bias, None, *at, w.q, self.d.eps)
            elif kernel == "attend":
                do.attend(n, w.q, pool, self.cache.front, w.attended, s.parts, s.chunks)
            elif kernel.startswith("gate"):
                do.gate(n, w.y, layer.gate_up, None, w.inside)
            else:
                for y, weight, parts in ((w.attended, layer.out, w.out_parts), (w.inside, layer.down, w.down_parts)):
                    if do._shape("product", weight) is do.SHAPES[kernel]:
                        do.product(n, y, weight, None, parts)
                        do.settle(n, w.x, parts, layer.norm_out, w.y, self.d.eps)

    def has(self, kernel: str) -> bool:
        """Whether this kernel of this shape is part of the step."""
        layer = self.step.weights.layers[0]
        asked = {"gate": [layer.gate_up], "product": [layer.out, layer.down]}.get(kernel.split(",")[0])
        name = kernel.split(",")[0]
        return asked is None or any(self.launch._shape(name, w) is self.launch.SHAPES[kernel] for w in asked)

    def time(self, work: Callable[[], None]) -> float:
        work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return milliseconds(graph.replay)


@contextmanager
def shaped(launch: Any, kernel: str, numbers: tuple[int, ...] | None) -> Iterator[None]:
    before = launch.SHAPES[kernel]
    if numbers is not None:
        launch.SHAPES[kernel] = launch.Shape(*numbers)
    try:
        yield
    finally:
        launch.SHAPES[kernel] = before


def candidates() -> list[tuple[str, tuple[int, ...] | None]]:
    return [(kernel, numbers) for kernel, shapes in TRIED.items() for numbers in (None, *shapes)]


def tune(benches: list[Bench], log: dict[str, Any]) -> list[str]:
    """Try shapes one after another in the whole step, and keep what makes it faster in the models that use it."""
    launch, lines = benches[0].launch, []

    def whole(bench: Bench) -> float:
        bench.renew()
        return bench.time(bench.whole)

    now = {bench.name: whole(bench) for bench in benches}
    lines.append(f"tune from {' '.join(f'{t:.3f}' for t in now.values())} ms")
    for kernel, numbers in candidates():
        users = [bench for bench in benches if bench.has(kernel)]
        if numbers is None or not users:
            continue
        before = launch.SHAPES[kernel]
        launch.SHAPES[kernel] = launch.Shape(*numbers)
        try:
            found = {bench.name: whole(bench) for bench in users}
        except Exception as error:
            lines.append(f"tune {kernel} {numbers}: {str(error).splitlines()[0][:100]}")
            launch.SHAPES[kernel] = before
            continue
        gain = sum(found[name] / now[name] for name in found) / len(found)
        log[f"tune {kernel} {numbers}"] = found
        if gain < 0.997:
            change = " ".join(f"{name} {now[name]:.3f} -> {t:.3f}" for name, t in found.items())
            lines.append(f"tune {kernel} {numbers}: {change}")
            now |= found
        else:
            launch.SHAPES[kernel] = before
    for bench in benches:
        bench.renew()
    return lines


def steps(bench: Bench, log: dict[str, Any]) -> list[str]:
    """A step as a graph, with and without kernels that overlap; what each kind of kernel takes of it."""
    lines, launch = [], bench.launch
    least = floor(bench.policy, bench.rows, round(float(bench.position[: bench.rows].float().mean())) + 1)
    for overlap in (True, False) if bench.name == "135M" and bench.rows == ROWS else (True,):
        launch.OVERLAP = overlap
        try:
            taken = bench.time(bench.whole)
        except Exception as error:
            lines.append(f"{bench.name} overlap={overlap}: {str(error).splitlines()[0][:150]}")
            continue
        log[f"{bench.name} step, {bench.rows} rows, overlap={overlap}"] = taken
        said = f"{taken:.3f} ms a step, floor {least:.3f}: {taken / least:.2f}x, {bench.rows / taken:.0f}k tok/s"
        lines.append(f"{bench.name} {bench.rows} rows overlap={overlap}: {said}")
    launch.OVERLAP = True
    split = {kernel: bench.time(lambda k=kernel: bench.only(k)) for kernel in TRIED if bench.has(kernel)}
    log[f"{bench.name} kernels, {bench.rows} rows"] = split
    lines.append(f"{bench.name} {bench.rows} rows by kernel: " + ", ".join(f"{k} {t:.3f}" for k, t in split.items()))
    return lines


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
        board: Any = sampler.board
        width, flat = board.kept["ids"].shape[1], board.ints[FLAT].tolist()
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


def profile(bench: Bench, path: Any) -> list[str]:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(3):
            bench.whole()
        torch.cuda.synchronize()
    path.write_text(found.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=60))
    return []


def run(options: Any) -> list[str]:
    part, of = map(int, options.compile.split("/")) if options.compile else (0, 0)
    benches = [Bench(name) for name in SHAPES]
    launch = benches[0].launch
    if of:
        for number, (kernel, numbers) in enumerate(candidates()):
            if number % of == part:
                with shaped(launch, kernel, numbers):
                    for bench in benches:
                        try:
                            bench.renew()
                            if bench.has(kernel):
                                bench.only(kernel)
                        except Exception as error:
                            print(kernel, numbers, str(error).splitlines()[0][:100])
        torch.cuda.synchronize()
        return []
    log: dict[str, Any] = {}
    lines: list[str] = []

    def section(work: Callable[[], list[str]]) -> None:
        start = time.perf_counter()
        try:
            found = work()
        except Exception as error:
            found = [f"FAILED: {type(error).__name__}: {str(error)[:300]}"]
        lines.extend(found)
        for line in found:
            print(f"  [{time.perf_counter() - start:.1f} s] {line}", flush=True)
        (options.out / "decode.json").write_text(json.dumps(log, indent=1))
        (options.out / "decode.txt").write_text("\n".join(lines))

    if options.tune:
        section(lambda: tune(benches, log))
    for bench in benches:
        section(lambda b=bench: steps(b, log))
    for bench in benches:
        bench.cache = bench.step = None  # type: ignore[assignment]
        section(lambda b=bench: [agreement(b.policy, b.name)])
        section(lambda b=bench: rollouts(b.policy, log, b.name, options.out))
        section(lambda b=bench: filtered(b.policy, log, b.name))

        def beside(b: Bench = bench) -> list[str]:
            theirs = generate(b.policy)
            log[f"{b.name} generate"] = theirs
            mine = statistics.median(log[f"{b.name} equal"])
            return [f"{b.name} model.generate: {theirs:.0f} tok/s; Podium is {mine / theirs:.0f}x as fast"]

        section(beside)
    section(lambda: [agreement(build("0.5B", torch.float16), "0.5B")])
    section(lambda: steps(Bench("135M", rows=1024), log))
    for name in SHAPES:
        section(lambda n=name: steps(Bench.unequal(n), log))
    for name in SHAPES:  # last: what runs after the profiler is slower
        section(lambda n=name: profile(Bench(n), options.out / f"profile-{n}.txt"))
    shapes = {k: tuple(replace(v).__dict__.values()) for k, v in launch.SHAPES.items()}
    return [*lines, f"shapes: {shapes}"]
