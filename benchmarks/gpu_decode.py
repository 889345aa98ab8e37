"""Sampling on a GPU: time of each kernel and of a step, then whole rollouts (`gpu_rollouts.py`).

256 rows in the middle of their answers. The floor of a step is the time in which its weights, keys and values can be
read once at 4.3 TB/s.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from gpu_rollouts import ANSWER, DEVICE, GROUP, PROMPT, ROWS, SHAPES, agreement, build, filtered, generate, rollouts

from podium.policy import Policy
from podium.policy.cuda import decode

BANDWIDTH = 4.3e12
# rows, columns, summed numbers, warps, stages, cut: what --tune tries beside the shapes in decode_launch.py
TRIED: dict[str, list[tuple[int, ...]]] = {
    "attend": [(16, 0, 0, 4, 3, 0, 0), (16, 0, 0, 2, 4, 0, 0)],
    "project": [(64, 0, 128, 4, 5)],
    "product": [(64, 32, 128, 4, 7), (64, 32, 128, 4, 4)],
    "product, long": [(64, 32, 128, 4, 4, 1024), (64, 64, 128, 4, 3, 1024)],
    "product, large": [(128, 64, 64, 4, 7, 1216), (64, 64, 128, 4, 4, 2432)],
    "gate": [(64, 32, 64, 4, 6), (64, 32, 128, 4, 4)],
    "gate, large": [(64, 64, 64, 4, 3), (128, 64, 64, 8, 3, 0, 0)],
    "project, huge": [(64, 0, 128, 4, 4), (128, 0, 64, 8, 4)],
    "product, huge": [(128, 64, 64, 4, 5, 1216), (128, 128, 64, 8, 3, 2432)],
    "product, vast": [(128, 128, 64, 8, 4, 4736, 0), (128, 128, 64, 8, 4, 2432, 0)],
    "gate, vast": [(64, 64, 64, 4, 3, 0, 0), (128, 64, 64, 4, 4, 0, 0)],
    "score": [(128, 128, 64, 4, 2, 0, 0), (256, 128, 64, 8, 3, 0, 0)],
}  # fmt: skip


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
            if kernel.startswith("project"):
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
        matrices = {"gate": [layer.gate_up], "product": [layer.out, layer.down], "project": [layer.qkv]}
        asked = matrices.get(kernel.split(",")[0])
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
        launch.SHAPES[kernel] = launch.LaunchShape(*numbers)
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
        launch.SHAPES[kernel] = launch.LaunchShape(*numbers)
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
