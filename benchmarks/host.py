"""What the host does in a step of every method beside GRPO's, at the size of a GPU's batches: models cost nothing here.

    OMP_NUM_THREADS=1 python benchmarks/host.py [--steps 3] [--stages] [--profile] [--json FILE] [METHOD …]

256 rollouts of 128 + 256 tokens, 8 to a task, one update, and the file of rollouts. A stand-in draws the tokens and
says what a model would say of them, numbers that depend on the token alone, with a gradient. What it takes is not
counted, nor is the optimiser. The least CPU time of some steps counts, in milliseconds, and what is beyond GRPO's; then
come tokens scored and sampled beside GRPO's: where they exceed 1, a method needs more passes by its nature.
`--tokens mixed` draws from all tokens, parts of characters among them, as an untrained model does.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_step import LIMIT, PROMPTS, Digits
from methods import apart, sized
from torch import Tensor

from podium import methods, policy
from podium.core import build as batches
from podium.policy import Policy
from podium.policy.head.functionals import HeadRows, evaluate_functionals
from podium.protocols.sampling import Completion, Generate, Stop
from podium.sampler.row_engine import Stats
from podium.sessions.train import configure
from podium.store.run_directory import RunDirectory
from podium.training import build, learner, loop, trainer
from podium.training.memory_states import Memories
from podium.training.metrics import Metrics
from podium.training.run import Run

BASE = "grpo"
NARROW = 64  # tokens of the stand-in's vocabulary, where a functional looks at all of them
MICRO_TOKENS = 40960  # at a time on a GPU
BROKEN = "\ufffd"


class Words(Digits):
    """Prompts of digits with an answer, for methods that look at one."""

    provides = (*(c for c in Digits.provides if c != "task.solution"), "task.solution")

    def solve(self, task: Any, style: str = "short", seed: int = 0) -> str:
        return "So many digits.\nAnswer: 7"

    def reference(self, task: Any) -> str:
        return "7"


class StandIn:
    """Numbers for each token of a vocabulary, in place of a model. `scored` are the tokens of each pass."""

    def __init__(self, model: Policy, mixed: bool) -> None:
        generator, size = torch.Generator().manual_seed(0), model.vocabulary
        self.hidden = torch.randn(size, model.config.hidden_size, generator=generator)
        self.logp = -3 * torch.rand(size, generator=generator)
        self.entropy = 2 * torch.rand(size, generator=generator)
        pieces = enumerate(model.text([i]) for i in range(size))
        self.drawn = np.array([i for i, piece in pieces if piece and (mixed or BROKEN not in piece)])
        self.scored: list[int] = []

    def answer(self, model: Policy, question: Any, wanted: Any, temperature: float, grad: bool) -> list[Tensor]:
        """Functionals of a question's tokens, with a gradient to one of the weights."""
        self.scored.append(sum(map(len, question.sequences)))
        ids = torch.from_numpy(question.ids)
        plain = {asked for asked, _ in wanted} <= {("logp", ()), ("entropy", ())}
        rows = HeadRows(
            self.hidden[:1] if plain else self.hidden[ids],
            ids % NARROW,
            lambda hidden: hidden[:, :NARROW],
            temperature,
            model._value_head,
            columns=question.columns,
            read=lambda *_: (self.logp[ids], self.entropy[ids]),
        )
        with torch.no_grad():
            found = evaluate_functionals(rows, wanted, NARROW, rollouts=question.places(model.device))
        with torch.set_grad_enabled(grad):
            weight = next(p for p in model.parameters() if p.requires_grad or not grad).reshape(-1)[0]
            one = 1 + weight - weight.detach()
            return [x * one if wants else x for x, (_, wants) in zip(found, wanted, strict=True)]

    def states(self, sequences: Sequence[Sequence[int]], layers: Sequence[int] | None = None) -> list[Tensor]:
        self.scored.append(sum(map(len, sequences)))
        found = [self.hidden[torch.tensor(s)] for s in sequences]
        return found if layers is None else [x[:, None].expand(-1, len(layers), -1) for x in found]

    def completion(self, request: Generate, index: int, context_length: int) -> Completion:
        """As many tokens as there may be."""
        room = context_length - len(request.context) - len(request.prefix)
        count = max(min(request.sampling.max_tokens, room), 0)
        name = [abs(x) for x in (*request.stream, index, len(request.prefix))]
        ids = np.random.default_rng(name).choice(self.drawn, count)
        captured = {what: self._captured(what, ids) for what in request.capture}
        stop = Stop.length if count == request.sampling.max_tokens else Stop.context
        return Completion(tuple(ids.tolist()), tuple(self.logp[ids].tolist()), stop, captured)

    def _captured(self, what: str, ids: Any) -> tuple[Any, ...]:
        if not what.startswith("topk"):
            return tuple(self.entropy[ids].tolist())
        count = int(what.partition("=")[2] or 5)
        pairs = zip(ids.tolist(), self.logp[ids].tolist(), strict=True)
        return tuple(tuple((i + k, logp - k) for k in range(count)) for i, logp in pairs)


class Drawer:
    """A sampler of what the stand-in draws."""

    def __init__(self, said: StandIn, model: Policy, **_: Any) -> None:
        self.said, self.stats, self.context_length = said, Stats(), model.context_length
        self.text, self.encode = model.text, model.encode
        self._waiting: list[Generate] = []
        self._answered = 0

    def submit(self, request: Generate) -> int:
        self._waiting.append(request)
        return self._answered + len(self._waiting)

    def poll(self) -> list[tuple[int, list[Completion]]]:
        waiting, self._waiting, first = self._waiting, [], self._answered + 1
        self._answered += len(waiting)
        return [(first + i, self._completions(request)) for i, request in enumerate(waiting)]

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        return [self._completions(request) for request in requests]

    def _completions(self, request: Generate) -> list[Completion]:
        made = [self.said.completion(request, request.first + i, self.context_length) for i in range(request.n)]
        self.stats.sampled += sum(len(c.ids) for c in made)
        return made


class Clock:
    """Seconds of this thread by stage, each without those of the stages inside it."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inside: list[float] = []

    def put(self, owner: Any, name: str, stage: str | Callable[..., str]) -> None:
        """Time a function of a module or class from now on."""
        function = getattr(owner, name)

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            begun = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.thread_time() - begun
                where = stage if isinstance(stage, str) else stage(*args, **kwargs)
                self.spent[where] = self.spent.get(where, 0.0) + took - self._inside.pop()
                if self._inside:
                    self._inside[-1] += took

        setattr(owner, name, timed)


def replaced(mixed: bool) -> StandIn:
    """Put the stand-in where models and samplers are."""
    model = policy.load("podium/tiny")
    said: Any = StandIn(model, mixed)
    changed: Any = Policy
    changed._evaluate = lambda *asked: said.answer(*asked)
    changed.states = lambda _, sequences, *, grad=False, layers=None: said.states(sequences, layers)
    changed._check_lengths = lambda *_: None
    policy.load = lambda *_, **__: model  # type: ignore[assignment]
    build.LocalSampler = partial(Drawer, said)  # type: ignore[misc, assignment]
    learner.Learner.step = lambda *_: 0.0  # type: ignore[method-assign]
    return said


def timed() -> Clock:
    """A clock of the stages of a step."""
    clock = Clock()
    for owner, name, stage in (
        *((Policy, name, "model") for name in ("_evaluate", "states")),
        (Drawer, "poll", "model"),
        (build.Driver, "collect", "collect"),
        (Run, "collect", "annotate"),
        (batches, "from_rollouts", "batch"),
        (Run, "apply", lambda _, parts, batch: parts[0].stage if parts else "other"),
        (Policy, "signals", "ask"),
        (trainer, "backward", "objective"),
        (trainer.Trainer, "split", "split"),
        (RunDirectory, "write_rollouts", "store"),
        *((Memories, name, "memories") for name in ("observe", "of_batch", "of_tasks")),
        (loop, "with_replayed", "memories"),
        *((Metrics, name, "metrics") for name in ("count_sampled", "describe", "report", "report_columns", "line")),
        (loop, "iterate", "other"),
    ):
        clock.put(owner, name, stage)
    return clock


def measure(name: str, steps: int, mixed: bool, profiled: bool) -> dict[str, Any]:
    """The least milliseconds of some steps after a first one, in all and by stage."""
    said, clock = replaced(mixed), timed()
    method = methods.get(name, **({"kl": 0.0} if name == BASE else {})).each(sized)
    settings = {"tasks": PROMPTS, "max_tokens": LIMIT, "lr": 0.0, "micro_tokens": MICRO_TOKENS}
    run = build.build_run(configure(method, world=f"{__file__}:Words", **settings))
    directory = RunDirectory(tempfile.mkdtemp())
    torch.use_deterministic_algorithms(True, warn_only=True)  # as a run does

    def step() -> float:
        clock.spent.clear()
        said.scored.clear()
        batch, line = loop.iterate(run)
        directory.write_rollouts(run.iteration, batch)
        return float(line["tokens.sampled"])

    found: list[dict[str, float]] = []
    for number in range(1 + steps):
        sampled = step()
        if number:
            found.append({stage: 1000 * s for stage, s in clock.spent.items() if stage != "model"})
    scored = sum(said.scored)
    if profiled:
        profile = cProfile.Profile()
        profile.runcall(step)
        for order, rows in (("tottime", 25), ("cumulative", 70)):
            pstats.Stats(profile).sort_stats(order).print_stats(rows)
    stages = {stage: min(f.get(stage, 0.0) for f in found) for stage in sorted({s for f in found for s in f})}
    return {"host": min(sum(f.values()) for f in found), "stages": stages, "scored": scored, "sampled": sampled}


def row(name: str, own: dict[str, Any], base: dict[str, Any], stages: bool) -> str:
    """A method beside GRPO; with the stages in which it takes 3 ms more or less, and GRPO with all."""
    if "refused" in own:
        return f"{name:<26} {own['refused'][:90]}"
    scored, sampled = (own[what] / base[what] for what in ("scored", "sampled"))
    line = f"{name:<26} {own['host']:8.1f} ms {own['host'] - base['host']:+8.1f}   {scored:5.2f} {sampled:5.2f}"
    more = {s: t - (0.0 if name == BASE else base["stages"].get(s, 0.0)) for s, t in own["stages"].items()}
    shown = sorted((item for item in more.items() if abs(item[1]) > 3), key=lambda item: -abs(item[1]))
    return f"{line}   {', '.join(f'{s} {m:+.0f}' for s, m in shown)}" if stages else line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tokens", choices=("words", "mixed"), default="words")
    parser.add_argument("--stages", action="store_true", help="where a method takes more than GRPO")
    parser.add_argument("--profile", action="store_true", help="the functions in which the methods spend their time")
    parser.add_argument("--json", help="write the numbers there too")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for name in dict.fromkeys([BASE, *(given.methods or methods.CATALOGUE)]):
        steps = given.steps * (3 if name == BASE else 1)  # all are compared with it
        profiled = given.profile and name in given.methods
        found[name] = apart(partial(measure, name, steps, given.tokens == "mixed", profiled))
        print(row(name, found[name], found[BASE], given.stages), flush=True)
        if given.json:
            Path(given.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
