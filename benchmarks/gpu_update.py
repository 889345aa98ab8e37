"""Training on one GPU: an update against the matrix peak, a shared prompt against copies of it, and agreement.

    python benchmarks/gpu_update.py [check update shared host] [--small]

`update` is all of Trainer.step: packing on the host, forward, backward, clipping, the optimiser, the new bfloat16
copies. Work is counted as 6 operations a weight and token (the head's only where a token is scored) plus attention;
what is computed again is not counted. `--small` runs small shapes, on a CPU too.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

import podium
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.policy import Policy
from podium.policy.cuda import attention, ops
from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import pack
from podium.policy.forward.score_request import score_request_of
from podium.training.config import Optimizer
from podium.training.learner import Learner
from podium.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[1]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPES: dict[str, dict[str, int]] = {
    "135M": {"layers": 30, "width": 576, "heads": 9, "kv": 3, "inside": 1536, "vocabulary": 49152},
    "0.5B": {"layers": 24, "width": 896, "heads": 14, "kv": 2, "inside": 4864, "vocabulary": 151936},
    "1.5B": {"layers": 28, "width": 1536, "heads": 12, "kv": 2, "inside": 8960, "vocabulary": 151936},
    "3B": {"layers": 36, "width": 2048, "heads": 16, "kv": 2, "inside": 11008, "vocabulary": 151936},
    "7B": {"layers": 28, "width": 3584, "heads": 28, "kv": 4, "inside": 18944, "vocabulary": 152064},
    "small": {"layers": 2, "width": 128, "heads": 4, "kv": 2, "inside": 256, "vocabulary": 1024},
}


def policy(name: str, dtype: torch.dtype = torch.bfloat16, device: torch.device = DEVICE, seed: int = 0) -> Policy:
    """A model of a known shape with random weights."""
    s = SHAPES[name]
    shape: dict[str, Any] = {
        "num_hidden_layers": s["layers"],
        "hidden_size": s["width"],
        "num_attention_heads": s["heads"],
        "num_key_value_heads": s["kv"],
        "intermediate_size": s["inside"],
        "vocab_size": s["vocabulary"],
        "max_position_embeddings": 8192,
        "tie_word_embeddings": name != "7B",
        "pad_token_id": None,
    }
    torch.manual_seed(seed)
    with device if name != "small" else nullcontext():  # the small one is the same everywhere
        llama = name in ("135M", "small")
        made = LlamaForCausalLM(LlamaConfig(**shape)) if llama else Qwen2ForCausalLM(Qwen2Config(**shape))
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "src/podium/models/tiny")
    return Policy(made.to(device=device, dtype=dtype), tokenizer, name=name)


def batch(vocabulary: int, groups: int, n: int, prompt: int, answer: int) -> Batch:
    """Groups of random answers to random prompts, with random advantages."""
    generator = torch.Generator().manual_seed(1)

    def draw(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(vocabulary, (length,), generator=generator).tolist())

    rollouts = []
    for group in range(groups):
        context = draw(prompt)
        columns = {"reward": 0.0, "truncated": False, "purpose": "train"}
        rollouts += [Rollout(group, [Turn(draw(answer), context)], columns=columns) for _ in range(n)]
    made = Batch.from_rollouts(rollouts)
    advantage = torch.randn(made.size("token"), generator=generator)
    return made.with_columns({"token.advantage": advantage})


def trainer(model: Policy, micro_tokens: int) -> Trainer:
    return Trainer({"policy": Learner(model, Optimizer(lr=1e-6))}, {}, micro_tokens=micro_tokens)


TERMS = podium.methods.get("grpo", kl=0.0).objective


def synchronise() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The median after one run to warm up."""
    times = []
    for _ in range(repeats + 1):
        synchronise()
        begun = time.perf_counter()
        work()
        synchronise()
        times.append(time.perf_counter() - begun)
    return sorted(times[1:])[repeats // 2]


def peak() -> float:
    """Operations a second of a large bfloat16 product."""
    n = 8192 if DEVICE.type == "cuda" else 256
    a, b = (torch.randn(n, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return 2 * n**3 * 10 / seconds(lambda: [a @ b for _ in range(10)])


def work(name: str, groups: int, n: int, prompt: int, answer: int) -> float:
    """Operations of an update whose prompts are encoded once."""
    s = SHAPES[name]
    size = s["width"] // s["heads"]
    linear = s["width"] * (s["width"] + 2 * s["kv"] * size) + s["width"] ** 2 + 3 * s["width"] * s["inside"]
    nodes = groups * (prompt + n * answer)
    pairs = groups * (prompt**2 / 2 + n * (answer * prompt + answer**2 / 2))
    scored = groups * n * answer
    head = s["width"] * s["vocabulary"]
    return 6 * (linear * s["layers"] * nodes + head * scored) + 12 * s["layers"] * s["width"] * pairs


def memory() -> str:
    if DEVICE.type != "cuda":
        return ""
    found = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return f"{found:6.1f} GiB"


# -- sections ----------------------------------------------------------------------------------------------------------


def check(small: bool) -> list[str]:
    """Kernels against plain torch, float32 on the GPU against the CPU, bfloat16 against float32."""
    lines = [*_kernels(), *_flash()]
    results = {}
    for label, device, dtype in (
        ("cpu", torch.device("cpu"), torch.float32),
        ("float32", DEVICE, torch.float32),
        ("bfloat16", DEVICE, torch.bfloat16),
        ("again", DEVICE, torch.bfloat16),
    ):
        model = policy("small", dtype, device)
        update = batch(1024, 3, 4, 40, 24)
        made = trainer(model, 200)
        step, watched = made.step(update, TERMS)
        logp = model.signals(update, [podium.Signal("logp"), podium.Signal("entropy")])
        moved = torch.cat([p.detach().float().cpu().reshape(-1) for p in model.parameters()])
        values = torch.stack([x.float().cpu() for x in logp.values()])
        results[label] = (step.loss, watched["grad_norm.policy"], moved, values)
    alike = torch.equal(results["bfloat16"][2], results["again"][2])
    lines.append(f"a step in bfloat16 repeated: {'the same to the bit' if alike else 'other bits'}")
    exact = results["cpu"]
    for label in ("float32", "bfloat16"):
        loss, norm, moved, values = results[label]
        lines.append(
            f"step {label} against cpu: loss {abs(loss - exact[0]):.1e}, gradient norm {abs(norm / exact[1] - 1):.1e}, "
            f"weights {float((moved - exact[2]).abs().max()):.1e}, "
            f"logp {float((values[0] - exact[3][0]).abs().mean()):.1e}, "
            f"entropy {float((values[1] - exact[3][1]).abs().mean()):.1e}"
        )
    return lines


def _gap(a: Any, b: Any) -> float:
    pairs = zip(a, b, strict=True) if isinstance(a, (tuple, list)) else [(a, b)]
    return max(
        float((x.detach().double() - y.detach().double()).norm() / y.double().norm().clamp(min=1e-12)) for x, y in pairs
    )


def _kernels() -> list[str]:
    """The relative distance of each kernel from plain torch."""
    draw = lambda *shape: torch.randn(*shape, device=DEVICE)  # noqa: E731
    x, weight, g, low = draw(1000, 896), draw(896), draw(1000, 896), draw(1000, 896).bfloat16()
    logits, ids = 3 * draw(300, 9001), torch.randint(9001, (300,), device=DEVICE)
    position, angle = torch.randint(500, (1000,), device=DEVICE), draw(500, 32)
    scale = ops.normed(x, weight, 1e-5, torch.float32)[1]
    total, entropy, _ = ops.head_read(logits, ids, 0.7)
    slopes = draw(300), draw(300)

    def turned() -> Tensor:
        y = low.clone().view(1000, 14, 64)
        ops.turn(y, angle.cos(), angle.sin(), position, 11)
        return y

    runs: dict[str, Callable[[], Any]] = {
        "normed": lambda: ops.normed(x, weight, 1e-5, torch.bfloat16),
        "norm_back": lambda: ops.norm_back(low, x, scale, weight, g),
        "gated": lambda: ops.gated(g),
        "gate_back": lambda: ops.gate_back(low[:, :448].contiguous(), low),
        "turn": turned,
        "head_read": lambda: ops.head_read(logits, ids, 0.7),
        "head_back": lambda: ops.head_back(logits, ids, 0.7, total, entropy, *slopes, torch.float32),
        "product": lambda: ops.product(low, low.t()),
        "add_product": lambda: ops.add_product(x[:, :448].contiguous(), low, low[:448].t()),
    }
    found, plain = {}, {}
    for name, run in runs.items():
        found[name] = run()
    kernels, ops.kernels_for = ops.kernels_for, lambda *_: None
    try:
        for name, run in runs.items():
            plain[name] = run()
    finally:
        ops.kernels_for = kernels
    plain["product"] = low.float() @ low.float().t()
    plain["add_product"] = torch.addmm(x[:, :448], low.float(), low[:448].float().t())
    return ["kernels: " + ", ".join(f"{name} {_gap(found[name], plain[name]):.1e}" for name in runs)]


def _flash() -> list[str]:
    """Attention by levels against the same run by run in float32."""
    update = batch(1000, 3, 5, 200, 70)
    sequences = [(*c, *i) for c, i in zip(update["turn.train_context"], _written(update), strict=True)]
    levels = pack(sequences, DEVICE, least=16).levels
    nodes = int(levels.within.query_edges[-1])
    q, k, v = (torch.randn(nodes, h, 64, device=DEVICE).bfloat16().requires_grad_() for h in (14, 2, 2))
    g = torch.randn(nodes, 14, 64, device=DEVICE).bfloat16()
    out = attention.attention(q, k, v, levels)
    slopes = torch.autograd.grad(out, (q, k, v), g)
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    exact = attention.attention(*wide, levels)
    expected = torch.autograd.grad(exact, wide, g.float())
    return [f"attention: output {_gap(out, exact):.1e}, gradient {_gap(slopes, expected):.1e}"]


def _written(update: Batch) -> list[tuple[int, ...]]:
    ids = update["token.id"].tolist()
    lengths = update.partition("token", "turn").lengths().tolist()
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [tuple(ids[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def update(small: bool) -> list[str]:
    """An update of 64k packed tokens against the matrix peak."""
    top, lines = peak(), []
    lines.append(f"bfloat16 product of 8192: {top / 1e12:.0f} TFLOP/s")
    sizes = (2, 4, 32, 32) if small else (16, 8, 256, 480)
    for name, budgets in (("small", (512,)),) if small else (("0.5B", (65536, 32768)), ("135M", (32768,))):
        model = policy(name)
        made, given = trainer(model, 0), batch(SHAPES[name]["vocabulary"], *sizes)
        for micro in budgets:
            made.micro_tokens = micro
            memory()
            took = seconds(lambda made=made, given=given: made.step(given, TERMS))
            share = work(name, *sizes) / took / top
            lines.append(
                f"update {name}, {sizes[0] * (sizes[2] + sizes[1] * sizes[3])} tokens, {micro} at a time: "
                f"{1e3 * took:.0f} ms, {100 * share:.0f} % of the peak, {memory()}"
            )
        if name == "0.5B":
            made.micro_tokens = 32768
            model.checkpoint_activations()
            took = seconds(lambda made=made, given=given: made.step(given, TERMS), 1)
            lines.append(f"  with activations computed again, 32768 at a time: {1e3 * took:.0f} ms, {memory()}")
            model.checkpoint_activations(False)
            attention.FIXED_ORDER = False
            took = seconds(lambda made=made, given=given: made.step(given, TERMS), 1)
            attention.FIXED_ORDER = True
            lines.append(f"  with sums in any order: {1e3 * took:.0f} ms")
            lines += _profile(lambda made=made, given=given: made.step(given, TERMS))
    return lines


def _profile(run: Callable[[], Any]) -> list[str]:
    """Where the GPU's time goes, and how long the host takes to ask for it."""
    if DEVICE.type != "cuda":
        return []
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        synchronise()
    events = sorted(seen.key_averages(), key=lambda e: -e.self_device_time_total)[:12]
    total = sum(e.self_device_time_total for e in seen.key_averages())
    lines = [f"  GPU busy {total / 1e3:.0f} ms"]
    return lines + [f"  {e.self_device_time_total / 1e3:8.1f} ms {e.count:6} x {e.key[:90]}" for e in events]


def shared(small: bool) -> list[str]:
    """A prompt of 4,096 tokens with 16 answers of 256: encoded once against 16 times."""
    sizes = (2, 4, 64, 16) if small else (4, 16, 4096, 256)
    model = policy("small" if small else "0.5B")
    made, given = trainer(model, 32768), batch(model.vocabulary, *sizes)
    memory()
    once = seconds(lambda: made.step(given, TERMS))
    lines = [f"shared prompts, {sizes[0]} groups: {1e3 * once:.0f} ms {memory()}"]
    per = max(32768 // (sizes[2] + sizes[3]), 1)
    order = torch.arange(len(given))
    made.split = lambda _: list(order.split(per))  # type: ignore[method-assign]
    least = Decoder.least
    Decoder.least = property(lambda _: 1 << 30)  # type: ignore[method-assign,assignment]
    try:
        each = seconds(lambda: made.step(given, TERMS), 1)
    finally:
        Decoder.least = least  # type: ignore[method-assign]
    return [*lines, f"a copy for each answer: {1e3 * each:.0f} ms {memory()}; ratio {each / once:.2f}"]


def host(small: bool) -> list[str]:
    """What the host does while a small model is trained: the phases of one pass of 32k tokens, and its operations."""
    name, sizes = ("small", (2, 4, 32, 32)) if small else ("135M", (8, 8, 256, 480))
    model = policy(name)
    made, given = trainer(model, 65536), batch(SHAPES[name]["vocabulary"], *sizes)
    took = 1e3 * seconds(lambda: made.step(given, TERMS))
    lines = [f"pass of {sizes[0] * (sizes[2] + sizes[1] * sizes[3])} tokens: {took:.0f} ms"]
    decoder = model.decoder
    assert decoder is not None
    for _ in range(2):
        marks = [time.perf_counter()]

        def mark(wait: bool = False, marks: list[float] = marks) -> None:
            if wait:
                synchronise()
            marks.append(time.perf_counter())

        made.split(given)
        mark()
        question, _ = score_request_of(given, None)
        mark()
        packed = pack(question.sequences, DEVICE, least=16)
        packed.levels  # noqa: B018
        mark(True)
        hidden, _ = decoder.encode(packed)
        mark()
        mark(True)
        logp, _ = decoder.read(hidden, packed.ids, 1.0)
        mark(True)
        logp.sum().backward()
        mark()
        mark(True)
        made.learners["policy"].step(1)
        mark(True)
    names = (
        "split",
        "question",
        "pack",
        "forward asked",
        "forward done",
        "head",
        "backward asked",
        "done",
        "optimiser",
    )
    spans = [1e3 * (b - a) for a, b in pairwise(marks)]
    lines.append(", ".join(f"{n} {t:.1f}" for n, t in zip(names, spans, strict=True)) + " ms")
    lines += _profile(lambda: made.step(given, TERMS))
    if DEVICE.type == "cuda":
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as seen:
            made.step(given, TERMS)
            synchronise()
        events = sorted(seen.key_averages(), key=lambda e: -e.self_cpu_time_total)[:22]
        lines.append(f"  host {sum(e.self_cpu_time_total for e in seen.key_averages()) / 1e3:.0f} ms in operations")
        lines += [f"  {e.self_cpu_time_total / 1e3:8.1f} ms {e.count:6} x {e.key[:80]}" for e in events]
    return lines


SECTIONS: dict[str, Callable[[bool], list[str]]] = {"check": check, "update": update, "shared": shared, "host": host}


def run(out: Path | None = None, names: Sequence[str] = tuple(SECTIONS), small: bool = False) -> list[str]:
    """The lines of all sections; one that fails says so and leaves the others alone."""
    lines: list[str] = []
    for name in names:
        begun = time.perf_counter()
        try:
            found = SECTIONS[name](small)
        except Exception:
            found = [f"{name} failed:", *traceback.format_exc().splitlines()[-12:]]
        found.append(f"({name}: {time.perf_counter() - begun:.0f} s)")
        print("\n".join(found), flush=True)
        lines += found
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    run(None, arguments.sections, arguments.small)


if __name__ == "__main__":
    main()
