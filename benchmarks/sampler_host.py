"""What the host does between two bursts of the GPU's sampler, measured without a GPU.

    python benchmarks/sampler_host.py [--rows 256] [--bursts 150] [--rounds 5]

The sampler runs as on a GPU, but a step of the model costs nothing: tokens follow from the random numbers alone.
Answers have a mean length of 256 tokens and at most 2,048; a row whose answer has ended is refilled. Prints the host's
time for a burst by part, and the calls to torch, most of which are launches or copies on a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

from podium.policy import Policy, load
from podium.policy.cuda import decode, decode_reference
from podium.sampler import Completion, Generate, Sampling
from podium.sampler import row_state as places
from podium.sampler.local import LocalSampler

GROUP, PROMPT, ANSWER, MEAN = 8, 128, 2048, 256
PARTS = {  # by object of the sampler
    "": ("_join", "_finish", "_advance"),
    "_queue": ("next",),
    "engine": ("admit", "leave", "_read"),
    "state": ("start", "clear", "written", "_report"),
}


class Watch:
    """Time and calls of torch by part; the model's step counts for nothing."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.free = 0.0  # seconds in steps so far
        self.calls: Counter[str] = Counter()
        self.open: list[str] = []

    def clock(self) -> float:
        return time.perf_counter() - self.free

    def part(self, owner: Any, name: str) -> None:
        work: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **settings: Any) -> Any:
            self.open.append(name)
            begun = self.clock()
            try:
                return work(*args, **settings)
            finally:
                self.seconds[name] += self.clock() - begun
                self.open.pop()

        setattr(owner, name, timed)

    def gratis(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            begun = time.perf_counter()
            self.open.append("")
            try:
                return work(*args)
            finally:
                self.open.pop()
                self.free += time.perf_counter() - begun

        return timed


class Counted(TorchDispatchMode):
    """Counts the calls of torch that do something, by the parts that are open."""

    VIEWS = "view", "slice", "select", "unbind", "transpose", "t.default", "detach", "expand", "split", "empty", "alias"
    NOTHING = "lift_fresh", "resolve_", "to.dtype"  # on a CPU

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), settings: Any = None) -> Any:
        name = str(call).removeprefix("aten.")
        if self.watch.open[-1:] != [""] and not name.lstrip("_").startswith(self.VIEWS + self.NOTHING):
            for part in {"all", *self.watch.open}:
                self.watch.calls[part] += 1
        return call(*args, **(settings or {}))


def build() -> Policy:
    """A model whose keys and values are no work to move."""
    tokenizer = load("podium/tiny").tokenizer
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    given = shape | {"vocab_size": len(tokenizer), "max_position_embeddings": PROMPT + ANSWER}
    return Policy(LlamaForCausalLM(LlamaConfig(**given)), tokenizer)


def drawn(sampler: LocalSampler, end: int) -> None:
    """A step: a token that follows from the row's random number, in every row that is alive."""
    state, pages = cast(Any, sampler.state), cast(Any, sampler.engine).pages
    rows, here = (state.ints, state.numbers, pages.table), (state.lane_ints, state.lane_numbers, pages.front)
    decode_reference.assemble(state._lanes, state.slots, (state.lane, state.line, state.ends), rows, here)
    lanes = state.lane_ints[places.ALIVE].numpy().nonzero()[0]
    at, last, row = (state.lane_ints[what].numpy()[lanes] for what in (places.FLAT, places.LAST, -1))
    number = state.uniform.view(-1).numpy()[at]
    ends = number < 1 / MEAN
    token = (number * 1000).astype("int64") + 5
    token[ends] = end
    for name, what in (("ids", token), ("logp", number), ("entropy", 1 - number)):
        state.kept[name].view(-1).numpy()[at] = what
    over, ints = ends | (at == last), state.ints.numpy()
    state.seen.numpy()[row[over]] = (last - at + 1)[over]
    ints[places.ALIVE, row] = ~over
    ints[places.POSITION : places.FLAT + 1, row[~over]] += 1
    state.lane.fill_(-1)
    state.lane.numpy()[lanes[~over]] = row[~over]
    state.ends[0] = state.ends[2]


def run(rows: int, bursts: int, watch: Watch, count: bool = False) -> tuple[float, str]:
    """Seconds of the host for a burst when the rows are full, and what was drawn, as a hash."""
    policy = build()
    decode._Layers.through = watch.gratis(lambda *_: None)  # type: ignore[method-assign]
    sampler = LocalSampler(policy, slots=rows, paged=True)
    sampler.engine.encoded = watch.gratis(sampler.engine.encoded)  # type: ignore[attr-defined]
    sampler.state._launch = watch.gratis(lambda *_: drawn(sampler, policy.end_ids[0]))  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(0)
    needed = rows // GROUP + 2 * bursts * rows * 8 // MEAN // GROUP
    texts = torch.randint(5, policy.vocabulary, (needed, PROMPT), generator=generator).tolist()
    for number, text in enumerate(texts):
        settings = Sampling(max_tokens=ANSWER)
        request = Generate(tuple(text), GROUP, settings, stream=(number,), capture=("entropy",), keep=False)
        sampler.submit(request)
    answers: list[tuple[int, list[Completion]]] = []
    while sampler.stats.steps < 8 * bursts // 4:  # until rows are of different ages
        answers += sampler.poll()
    for owner, names in PARTS.items():
        for name in names:
            watch.part(getattr(sampler, owner) if owner else sampler, name)
    begun, steps = watch.clock(), sampler.stats.steps
    if count:
        with Counted(watch):
            while sampler.stats.steps < steps + 8 * bursts:
                answers += sampler.poll()
    else:
        while sampler.stats.steps < steps + 8 * bursts:
            answers += sampler.poll()
    each = (sampler.stats.steps - steps) / 8
    for table in (watch.seconds, watch.calls):
        for name in table:
            table[name] /= each  # type: ignore[assignment]
    return (watch.clock() - begun) / each, hashlib.sha1(repr(sorted(answers, key=lambda a: a[0])).encode()).hexdigest()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=256)
    options.add_argument("--bursts", type=int, default=150)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    counted = Watch()
    _, name = run(given.rows, min(given.bursts, 40), counted, count=True)
    whole, parts = [], []
    for _ in range(given.rounds):
        watch = Watch()
        seconds, name = run(given.rows, given.bursts, watch)
        whole.append(seconds)
        parts.append(watch.seconds)
    taken, calls = 1e6 * statistics.median(whole), counted.calls["all"]
    print(f"a burst of {given.rows} rows: {taken:.0f} us, {calls:.1f} calls of torch; drew {name[:12]}")
    for part in [name for names in PARTS.values() for name in names]:
        seconds = statistics.median(p[part] for p in parts)
        print(f"  {part.lstrip('_'):8} {1e6 * seconds:6.0f} us {counted.calls[part]:6.1f} calls")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
