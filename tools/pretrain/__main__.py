"""Two stages, some minutes on a GPU:

    python -m tools.pretrain --bf16 --steps 6000 --out FIRST
    python -m tools.pretrain --bf16 --steps 1600 --tasks 700000 --start FIRST --stage 2 --lr 1e-3 --seed 1 --out DIR

`--batch 48 --steps 260 --lr 4e-4 --only WORLD-LEVEL …` with `--start` and `--stage 2` then sets single levels right on
a CPU in minutes, as was done for the hardest levels and for echo, lookup and tools.
`--steps 0 --eval` prints the table.

podium/tiny2 is made from podium/tiny by a third stage, with a table of what both can do:

    python -m tools.pretrain --bf16 --stage 3 --start src/podium/models/tiny --steps 9500 --seconds 330 \
        --tasks 1800000 --lr 1e-3 --seed 2 --out DIR --eval --eval-batch 8192 --eval-samples 24 --eval-episodes 4 \
        --report DIR/rates.json
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from tools.pretrain.model import build_model, train
from tools.pretrain.rates import compare
from tools.pretrain.sources import THIRD
from tools.pretrain.table import evaluate
from tools.pretrain.text import CHUNK, Text, build_tokenizer, make_text, shares_right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--steps", type=int, default=5800, help="optimiser steps; 0: only evaluate what is in --out")
    parser.add_argument("--batch", type=int, default=1024, help="examples a step")
    parser.add_argument(
        "--tasks", type=int, help="tasks in the text (default: as many as half the steps take, or 2.5 M)"
    )
    parser.add_argument("--parts", type=int, default=20, help="parts of the text, which are trained on one by one")
    parser.add_argument("--stage", type=int, default=1, choices=(1, 2, 3), help="which dials the text follows")
    parser.add_argument("--seconds", type=float, help="of training at most: the learning rate has decayed by then")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that write the text")
    parser.add_argument("--bf16", action="store_true", help="train in bfloat16 on a GPU")
    parser.add_argument("--only", nargs="+", metavar="WORLD-LEVEL", help="a smaller text for a trial: sums-1 sums-2")
    parser.add_argument("--start", type=Path, help="folder of a model to go on from, with its tokenizer")
    parser.add_argument("--eval", action="store_true", help="print the table")
    parser.add_argument("--eval-tasks", type=int, default=128, help="held-out tasks a level")
    parser.add_argument("--eval-samples", type=int, default=64, help="answers a task")
    parser.add_argument(
        "--eval-episodes", type=int, default=16, help="episodes a task, and answers to a hinted question"
    )
    parser.add_argument("--eval-batch", type=int, default=4096, help="answers written at once")
    parser.add_argument("--report", type=Path, help="file for the table as JSON")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    disable_progress_bar()
    seconds: dict[str, float] = {}
    report: dict[str, Any] = {"settings": {k: str(v) for k, v in vars(args).items()}, "device": device}

    def phase(name: str, began: float) -> None:
        seconds[name] = round(time.perf_counter() - began, 1)
        print(f"{name}: {seconds[name]} s", flush=True)

    if args.steps:
        began = time.perf_counter()
        if args.start:
            args.out.mkdir(parents=True, exist_ok=True)
            for name in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copyfile(args.start / name, args.out / name)
            model = LlamaForCausalLM.from_pretrained(args.start, use_safetensors=True).to(device)
        else:
            build_tokenizer(args.out, args.seed)
            model = build_model(args.seed).to(device)
        print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
        phase("tokenizer", began)

        began = time.perf_counter()
        tasks = args.tasks or min(args.steps * args.batch // 2, 2_500_000)
        args.parts = min(args.parts, -(-tasks // CHUNK))
        right: Counter[tuple[str, bool]] = Counter()

        def counted(parts: Iterator[Text]) -> Iterator[Text]:
            for number, part in enumerate(parts):
                right.update(part.right)
                if not number:
                    print(f"{args.parts} parts such as {len(part):,} examples of {len(part.ids):,} tokens", flush=True)
                yield part

        train(
            model,
            counted(make_text(str(args.out), args.only, args.stage, tasks, args.parts, args.seed, args.processes)),
            args,
            device,
        )
        report["right"] = shares_right(right)
        print("right in the text: " + ", ".join(f"{name} {share:.3f}" for name, share in report["right"].items()))
        phase("training", began)

    if args.eval:
        began = time.perf_counter()
        tokenizer = AutoTokenizer.from_pretrained(args.out)
        model = AutoModelForCausalLM.from_pretrained(args.out, use_safetensors=True).to(device)
        if args.stage == THIRD:
            before = AutoModelForCausalLM.from_pretrained(args.start, use_safetensors=True).to(device)
            report["rates"] = [rate._asdict() for rate in compare(before, model, tokenizer, args)]
        else:
            report["table"] = evaluate(model, tokenizer, args)
        phase("evaluation", began)
    report["seconds"] = seconds
    if args.report:
        args.report.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
