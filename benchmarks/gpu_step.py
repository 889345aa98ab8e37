"""A whole GRPO step on one GPU against TRL's: sampling, rewards, one update; the same model, prompts and lengths.

    python benchmarks/gpu_step.py [--sides podium trl plain methods] [--steps 3] [--paths FOLDER] [--small] [--profile]

256 rollouts of 128 + 256 tokens, 8 to a prompt, a model of SmolLM2-135M's shape with random weights. Each side runs in
a process of its own. `plain` is for where TRL is not installed: `generate`, then a step through full logits with
autocast, which is what TRL's step comes to. `--paths` is appended to where Python looks for packages.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

import torch

from podium.worlds import Answer, Feedback, Task

ROOT = Path(__file__).resolve().parents[1]
PROMPTS, COPIES, LIMIT, WARM = 32, 8, 256, 1


def sizes(small: bool) -> tuple[int, int, int, str]:
    return (4, 4, 8, "small") if small else (PROMPTS, COPIES, LIMIT, "135M")


@cache
def words(tokens: int = 128) -> int:
    """How many digits make a prompt of so many tokens, with its template."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(ROOT / "src/podium/models/tiny")
    count = 1
    while True:
        message = [{"role": "user", "content": " ".join("5" * (count + 1))}]
        ids = tokenizer.apply_chat_template(message, add_generation_prompt=True)["input_ids"]
        if len(ids) > tokens:
            return count
        count += 1


def content(number: int) -> str:
    rng = Random(number)
    return " ".join(rng.choice("0123456789") for _ in range(words()))


def score(text: str) -> float:
    """A reward that differs within every group."""
    return sum(map(ord, text)) % 11 / 10


class Digits(Answer):
    """Prompts of one length, and a reward that has nothing to do with them."""

    name = "digits"
    max_tokens = LIMIT
    isolation = "inline"

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"digits/{split}/{index}", content(index))

    def grade(self, task: Task, text: str) -> Feedback:
        return Feedback(score(text), info={"correct": score(text) > 0.5, "answer": text})

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return ""


def _memory() -> float:
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def podium_side(path: str, steps: int, small: bool) -> dict[str, Any]:
    from podium import methods
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate

    prompts, copies, limit, _ = sizes(small)
    where = {"device": "cuda", "dtype": "bfloat16"} if torch.cuda.is_available() else {}
    settings = {"model": path, "tasks": prompts, "max_tokens": limit, "lr": 1e-6, **where}
    method = methods.get("grpo", n=copies, kl=0.0)
    run = build_run(configure(method, world=f"{__file__}:Digits", **settings))
    times, lines = [], []
    for number in range(WARM + 1 + steps):
        if number == WARM + 1 and torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        _synchronise()
        begun = time.perf_counter()
        _, line = iterate(run)
        _synchronise()
        times.append(time.perf_counter() - begun)
        lines.append(line)
    report = {"spent": lines[-1].get("seconds"), "sampler_gap": lines[-1].get("sampler_gap")}
    report |= {"memory": _memory(), "all": [round(t, 3) for t in times]}
    report["prompt"] = len(run.policy.encode([{"role": "user", "content": content(0)}]))
    if "--profile" in sys.argv:
        print(_host_profile(lambda: iterate(run)), file=sys.stderr)
    return {"seconds": times[WARM + 1 :], "length": lines[-1]["tokens"] / (prompts * copies), **report}


# Those for single answers that score and sample no more tokens than GRPO does where every group has a signal.
METHODS = (
    *("grpo", "dr-grpo", "gspo", "cispo", "opo", "luspo", "adora", "etr", "a-grae", "gpg", "hicra", "lite-ppo"),
    *("real", "drpo", "rover", "invisible-leash", "qwenlong-aepo", "two-stage-negative", "riskpo", "pacs", "bpo"),
    *("copo", "d3s"),
)


def methods_side(path: str, steps: int, small: bool) -> dict[str, Any]:
    """Whole steps of methods, each by turns with one of GRPO without its penalty, since a machine is faster at one time
    than at another: the least time of each, tokens scored and sampled; where the time goes, as it goes on."""
    from methods import count_scored, sized

    from podium import methods, policy
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate
    from podium.training.run import Run

    prompts, _, limit, _ = sizes(small)
    where = {"device": "cuda", "dtype": "bfloat16"} if torch.cuda.is_available() else {}
    settings = {"model": path, "tasks": prompts, "max_tokens": limit, "lr": 0.0, **where}
    loaded = policy.load(path, **where)
    policy.load = lambda *_, **__: loaded  # type: ignore[assignment]
    scored, base = count_scored(), list[float]()

    def made(name: str) -> Run:
        method = methods.get(name, **({"kl": 0.0} if name == "grpo" else {})).each(sized)
        return build_run(configure(method, world=f"{__file__}:Digits", **settings))

    def cost(run: Run) -> tuple[float, int, float, dict[str, float]]:
        scored.clear()
        _synchronise()
        begun = time.perf_counter()
        _, line = iterate(run)
        _synchronise()
        return time.perf_counter() - begun, sum(scored), line["tokens"], line["seconds"]

    grpo, beside = made("grpo"), dict[str, list[float]]()
    for name in METHODS:
        run = made(name)
        pairs = [(cost(run), cost(grpo)) for _ in range(WARM + steps)][WARM:]
        own, other = (min((pair[side] for pair in pairs), key=itemgetter(0)) for side in (0, 1))
        beside[name] = [round(x / y, 2) for x, y in zip(own[:3], other[:3], strict=True)]
        spent = {stage: f"{own[3][stage]:.3f} / {other[3].get(stage, 0):.3f}" for stage in own[3]}
        print(f"{name} {beside[name]} {spent}", file=sys.stderr, flush=True)
        base.append(other[0])
        run.close()
        del run
        gc.unfreeze()  # a run keeps the collector from what its first iteration has made
        gc.collect()
    rest = {
        "memory": 0.0,
        "time, scored, sampled beside grpo": beside,
        "grpo": [round(min(base), 3), round(max(base), 3)],
    }
    return {"seconds": base, "length": 0, **rest}


def _host_profile(work: Callable[[], Any]) -> str:
    """Where the host's time goes in one step."""
    import cProfile
    import io
    import pstats

    profile = cProfile.Profile()
    profile.runcall(work)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(45)
    rows = [line[:150] for line in text.getvalue().splitlines() if line.strip()]
    return "\n".join(rows[4:])


def trl_side(path: str, steps: int, small: bool) -> dict[str, Any]:
    import trl_steps

    prompts, copies, limit, _ = sizes(small)
    texts = [content(i) for i in range(prompts * (WARM + steps))]
    found = trl_steps.steps(path, texts, score, groups=prompts, copies=copies, limit=limit, warm=WARM, lr=1e-6)
    return {**found, "memory": _memory()}


def plain_side(path: str, steps: int, small: bool) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompts, copies, limit, _ = sizes(small)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModelForCausalLM.from_pretrained(path).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    times = []
    for step in range(WARM + steps):
        _synchronise()
        begun = time.perf_counter()
        texts = [[{"role": "user", "content": content(step * prompts + i)}] for i in range(prompts)]
        ids = tokenizer.apply_chat_template(texts, add_generation_prompt=True, return_tensors="pt")["input_ids"]
        ids = ids.to(device).repeat_interleave(copies, 0)
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                whole = model.generate(ids, do_sample=True, max_new_tokens=limit, top_k=0, pad_token_id=0)
            written = tokenizer.batch_decode(whole[:, ids.shape[1] :])
            rewards = torch.tensor([score(t) for t in written], device=device).view(prompts, copies)
            advantage = ((rewards - rewards.mean(1, True)) / (rewards.std(1, keepdim=True) + 1e-4)).view(-1, 1)
            logits = model(whole, logits_to_keep=whole.shape[1] - ids.shape[1] + 1).logits[:, :-1]
            logp = logits.float().log_softmax(-1).gather(-1, whole[:, ids.shape[1] :, None]).squeeze(-1)
        (-(logp - logp.detach()).exp() * advantage).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        _synchronise()
        times.append(time.perf_counter() - begun)
    return {"seconds": times[WARM:], "length": float(whole.shape[1] - ids.shape[1]), "memory": _memory()}


SIDES: dict[str, Callable[[str, int, bool], dict[str, Any]]] = {
    "podium": podium_side,
    "trl": trl_side,
    "plain": plain_side,
    "methods": methods_side,
}


def side(name: str, path: str, arguments: argparse.Namespace) -> dict[str, Any] | None:
    command = [sys.executable, __file__, "--side", name, "--model", path, "--steps", str(arguments.steps)]
    command += ["--small"] if arguments.small else []
    command += ["--profile"] if arguments.profile else []
    command += ["--paths", arguments.paths] if arguments.paths else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=400)
    if done.returncode != 0:
        print(f"The {name} side failed.", flush=True)
        return None
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="+", default=["podium", "trl"], choices=list(SIDES))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--paths", default="")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--profile", action="store_true", help="where the host's time goes in a step of Podium's")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.paths:
        sys.path.append(arguments.paths)
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments.model, arguments.steps, arguments.small)))
        return
    from gpu_update import policy

    folder = tempfile.mkdtemp()
    policy(sizes(arguments.small)[3], torch.float32, torch.device("cpu")).save(folder)
    middle: dict[str, tuple[float, float]] = {}
    failed: list[str] = []
    for name in arguments.sides:
        found = side(name, folder, arguments)
        if found is None:
            failed.append(name)
            continue
        took = sorted(found["seconds"])[len(found["seconds"]) // 2]
        middle[name] = took, found["memory"]
        rest = {k: v for k, v in found.items() if k not in ("seconds", "length", "memory")}
        print(
            f"{name:<7} {took:7.3f} s a step, {found['length']:.0f} tokens a rollout, {found['memory']:.1f} GiB {rest}",
            flush=True,
        )
    for other in [name for name in middle if name in ("trl", "plain") and "podium" in middle]:
        time_ratio, memory_ratio = (a / max(b, 1e-9) for a, b in zip(middle[other], middle["podium"], strict=True))
        print(f"against {other}: {time_ratio:.2f} times as fast, 1/{memory_ratio:.1f} of its memory")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
