"""Makes podium/tiny: its tokenizer, its training text, the model, and the table of what it can do.

    python tools/pretrain.py --out DIR --steps 4000 --seed 0 --eval --report DIR/table.json

The model is half-taught on purpose. Its text comes from the embedded worlds: questions with solutions in several
styles, of which some go wrong at one step and follow from there to a wrong answer. How often is set per world and
level in `DIALS`, so that reinforcement learning has something to do, and entropy something to lose. Nothing of the
test split is in the text. A few minutes on a GPU; `--batch 128 --steps 300` tries it on a CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from podium import worlds
from podium.worlds import Puzzle, Task


class Dial(NamedTuple):
    share: float  # of the training text
    right: float  # share of its solutions that are right


# How much of each world and level is in the text, and how much of that is right.
DIALS: dict[str, dict[int, Dial]] = {
    "echo": {1: Dial(1, 0.45), 2: Dial(1, 0.35), 3: Dial(1, 0.25), 4: Dial(1, 0.10)},
    "sums": {1: Dial(3, 0.55), 2: Dial(4, 0.40), 3: Dial(4, 0.22), 4: Dial(3, 0.08), 5: Dial(4, 0.015)},
    "countdown": {1: Dial(4, 0.60), 2: Dial(8, 0.55), 3: Dial(8, 0.40), 4: Dial(5, 0.25), 5: Dial(4, 0.03)},
    "rules": {1: Dial(3, 0.55), 2: Dial(3, 0.40), 3: Dial(3, 0.22), 4: Dial(3, 0.08), 5: Dial(3, 0.012)},
}


class Manner(NamedTuple):
    share: float
    risk: float  # the chance of a right solution is right ** risk: below 1 is more careful than others


# How solutions are written, and which ways go wrong more often: which way to go is itself something to learn.
STYLES: dict[str, dict[str, Manner]] = {
    "echo": {"short": Manner(3, 1.0), "long": Manner(1, 0.8), "backward": Manner(1, 1.3)},
    "sums": {"short": Manner(4, 1.0), "long": Manner(2, 0.8), "grouped": Manner(2, 1.0), "columns": Manner(2, 1.4)},
    "countdown": {"short": Manner(4, 1.0), "long": Manner(3, 0.8), "backward": Manner(3, 1.2)},
    "rules": {"short": Manner(4, 1.0), "long": Manner(3, 0.8), "alternative": Manner(3, 1.3)},
}
DOMAIN_RISK = {"": 1.0, "paint": 0.7, "order": 0.9, "lamps": 1.1, "liars": 1.4}

FIRST_TASK = 1_000_000  # the text uses other tasks of the training split than a training run, which begins at 0
CHUNK = 5_000  # examples that one process writes at a time
VOCABULARY = 1024
CONTEXT = 512
CONTROL = ["<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
RESERVED = [f"<|reserved_{i}|>" for i in range(32)]
MARKERS = [f"<{slash}{name}>" for name in ("think", "answer", "tool_call", "tool_result") for slash in ("", "/")]
CHAT = (
    "{{ '<|begin|>' }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant', 'tool'] %}"
    "{{ raise_exception('Unknown role ' + message['role'] + ': system, user, assistant and tool are known.') }}"
    "{% endif %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# Words of worlds to come, so that many-turn and tool formats get whole tokens too.
WORDS = """
go north south east west up down left right open close take drop use put look read search find ask tell give key door
room chest box lamp table shelf window wall garden kitchen hall cellar locked unlocked empty inventory you are in the
a an and or not is was has have there here nothing something can cannot do does it to of from with on at by for turn
step action observation state goal reward done start stop next previous question query result page id name value city
country river capital person born year who what where when which why how many much true false yes no unknown error
tool call calculator add subtract multiply divide sum mean max min count row column args json null list number text
user agent judge hint wish please want need would like red blue green small large old new first last more less same
different because so then if else but therefore check again wait try maybe wrong right think answer one two three four
five six seven eight nine ten hundred thousand half double total each every all some any other another both only also
very time day week month hour minute price cost money pay buy sell apple bread water house street school book paper
music animal dog cat bird fish tree flower fruit food eat drink sleep walk run make see hear say write speak know
learn remember forget begin end continue move carry hold send receive return choose change keep leave place thing part
group world game player score win lose round board card move legal plan note message system request response function
parameter string object search snippet source cite document title author date between before after above below inside
outside near far long short high low good bad best worst possible impossible
"""


def worlds_of_text(only: list[str] | None = None) -> list[tuple[Puzzle, Dial]]:
    found = []
    for name, levels in DIALS.items():
        for level, dial in levels.items():
            if only and f"{name}-{level}" not in only:
                continue
            world = worlds.get(name, level=level)
            assert isinstance(world, Puzzle)
            found.append((world, dial))
    return found


def example(world: Puzzle, dial: Dial, index: int, rng: Random) -> tuple[Task, str]:
    """A task and a solution that is right as often as the dials say."""
    task = world.task(FIRST_TASK + index)
    manners = STYLES[world.name]
    style = rng.choices(list(manners), [m.share for m in manners.values()])[0]
    right = dial.right ** (manners[style].risk * DOMAIN_RISK[task.domain])
    return task, world.attempt(task, style, right=right)


# The tokenizer


def build_tokenizer(out: Path, seed: int) -> None:
    """Byte-level BPE; words may take the space before them along, digits and signs stand alone."""
    tokenizer = Tokenizer(models.BPE())
    pattern = Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKERS),
        special_tokens=CONTROL + RESERVED,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_tokenizer_text(seed), trainer)
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in MARKERS])
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"The text gives {tokenizer.get_vocab_size()} tokens, not {VOCABULARY}.")
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": CONTEXT,
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "additional_special_tokens": [t for t in CONTROL if t not in ("<|begin|>", "<|end|>", "<|pad|>")],
        "padding_side": "left",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def _tokenizer_text(seed: int) -> Iterator[str]:
    rng = Random(seed)
    for world, dial in worlds_of_text():
        for index in range(200):
            task, solution = example(world, dial, index, rng)
            yield f"{task.prompt}\n{solution}"
            yield world.replace(instructions=True).task(index).prompt
    for _ in range(20):
        yield " ".join(WORDS.split())


# The text


class Text(NamedTuple):
    """Examples one after the other: token ids, where each begins (and the last ends), where its answer begins."""

    ids: np.ndarray
    starts: np.ndarray
    prompts: np.ndarray


def make_text(
    tokenizer: str, only: list[str] | None, examples: int, seed: int, processes: int
) -> tuple[Text, dict[str, float]]:
    """The training text and the share of right solutions in it, per world and level."""
    jobs = [(tokenizer, only, seed, first, min(CHUNK, examples - first)) for first in range(0, examples, CHUNK)]
    if processes > 1:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            parts = pool.map(_chunk, jobs, chunksize=1)
    else:
        parts = [_chunk(job) for job in jobs]
    lengths = np.concatenate([p[1] for p in parts])
    text = Text(
        np.concatenate([p[0] for p in parts]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([p[2] for p in parts]),
    )
    right: dict[str, list[int]] = {}
    for part in parts:
        for name, (good, total) in part[3].items():
            sums = right.setdefault(name, [0, 0])
            sums[0] += good
            sums[1] += total
    return text, {name: good / total for name, (good, total) in sorted(right.items())}


def _chunk(
    job: tuple[str, list[str] | None, int, int, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, list[int]]]:
    """A part of the text that depends on its place alone, not on the process that makes it."""
    path, only, seed, first, count = job
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(str(Path(path) / "tokenizer.json"))
    sources = worlds_of_text(only)
    shares = [dial.share for _, dial in sources]
    rng = Random(f"{seed}/{first}")
    prompts, answers = [], []
    right: dict[str, list[int]] = {}
    for index in range(first, first + count):
        world, dial = rng.choices(sources, shares)[0]
        task, solution = example(world, dial, index, rng)
        prompts.append(f"<|begin|><|user|>{task.prompt}<|end|><|assistant|>")
        answers.append(f"{solution}<|end|>")
        if index % 10 == 0:
            tally = right.setdefault(f"{world.name} {world.level}", [0, 0])
            tally[0] += bool(world.grade(task, solution).info["correct"])
            tally[1] += 1
    before = [e.ids for e in tokenizer.encode_batch(prompts)]
    after = [e.ids for e in tokenizer.encode_batch(answers)]
    ids = np.array([i for pair in zip(before, after, strict=True) for part in pair for i in part], np.int16)
    lengths = np.array([len(b) + len(a) for b, a in zip(before, after, strict=True)], np.int64)
    return ids, lengths, np.array([len(b) for b in before], np.int16), right


# The model


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


def train(model: LlamaForCausalLM, text: Text, args: argparse.Namespace, device: str) -> None:
    """Next tokens of the answers, given the questions."""
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

    def scale(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, args.steps - warmup)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, scale)
    ids = torch.from_numpy(text.ids).to(device)
    starts = torch.from_numpy(text.starts).to(device)
    prompts = torch.from_numpy(text.prompts).to(device)
    longest = np.diff(text.starts)
    precision = torch.autocast("cuda", torch.bfloat16) if args.bf16 and device == "cuda" else nullcontext()
    began, tokens, loss = time.perf_counter(), 0, torch.zeros(())
    for step, rows in enumerate(batches(text, args.batch, args.steps, args.seed)):
        width = int(longest[rows].max())
        tokens += width * len(rows)
        row = torch.from_numpy(rows).to(device)
        place = torch.arange(width, device=device)
        inside = place < (starts[row + 1] - starts[row])[:, None]
        batch = ids[(starts[row][:, None] + place).clamp(max=len(ids) - 1)].long() * inside  # padding is token 0
        answer = (inside & (place >= prompts[row][:, None]))[:, 1:]
        with precision:
            hidden = model.model(input_ids=batch[:, :-1], use_cache=False).last_hidden_state
            logits = model.lm_head(hidden[answer])
        loss = F.cross_entropy(logits.float(), batch[:, 1:][answer])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(1, args.steps // 20) == 0 or step == args.steps - 1:
            speed = tokens / (time.perf_counter() - began)
            print(f"  step {step:>6}  loss {loss.item():.4f}  {speed:,.0f} tokens/s", flush=True)
            model.save_pretrained(args.out)  # a run that is stopped leaves something to look at


# What it can do


@torch.no_grad()
def sample(model: Any, tokenizer: Any, prompts: list[str], limit: int, seed: int) -> tuple[list[str], Tensor, Tensor]:
    """One answer a prompt at temperature 1: texts, numbers of tokens, mean entropy of the tokens."""
    device = model.device
    chat = {
        p: tokenizer.apply_chat_template([{"role": "user", "content": p}], add_generation_prompt=True, tokenize=False)
        for p in set(prompts)
    }
    chats = [chat[p] for p in prompts]
    coded = tokenizer(chats, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
    mask, ids = coded["attention_mask"], coded["input_ids"]
    position = (mask.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    generator = torch.Generator(device).manual_seed(seed)
    live = torch.ones(len(prompts), dtype=torch.bool, device=device)
    length = torch.zeros(len(prompts), device=device)
    entropy = torch.zeros(len(prompts), device=device)
    written = []
    for _ in range(limit):
        result = model(
            input_ids=ids, attention_mask=mask, position_ids=position, past_key_values=cache, logits_to_keep=1
        )
        logp = result.logits[:, -1].float().log_softmax(-1)
        p = logp.exp()
        chosen = torch.multinomial(p, 1, generator=generator)
        entropy += torch.where(live, -(p * logp).sum(-1), 0)
        length += live
        written.append(torch.where(live[:, None], chosen, tokenizer.pad_token_id))
        live &= chosen[:, 0] != tokenizer.eos_token_id
        if not live.any():
            break
        ids, position = chosen, position[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(chosen)], 1)
    texts = tokenizer.batch_decode(torch.cat(written, 1), skip_special_tokens=True)
    return texts, length.cpu(), (entropy / length).cpu()


def pass_at(k: int, n: int, right: int) -> float:
    """Unbiased chance that k of the n samples hold a right one."""
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def evaluate(model: Any, tokenizer: Any, args: argparse.Namespace) -> list[dict[str, Any]]:
    """pass@k, entropy and length per world and level, on held-out tasks."""
    model.eval()
    tasks, n = args.eval_tasks, args.eval_samples
    ks = [k for k in (1, 8, 64) if k <= n]
    rows = []
    print("world      level  " + "  ".join(f"pass@{k:<3}" for k in ks) + "  entropy  length  ways", flush=True)
    for world, _ in worlds_of_text(args.only):
        asked = [world.task(i, "test") for i in range(tasks)]
        copies = [task for task in asked for _ in range(n)]
        texts: list[str] = []
        lengths, entropies = [], []
        for at in range(0, len(copies), args.eval_batch):
            part = [task.prompt for task in copies[at : at + args.eval_batch]]
            said, length, entropy = sample(model, tokenizer, part, world.max_tokens, args.seed + at)
            texts += said
            lengths.append(length)
            entropies.append(entropy)
        graded = [world.grade(task, text).info for task, text in zip(copies, texts, strict=True)]
        groups = [graded[i : i + n] for i in range(0, len(graded), n)]
        right = [sum(info["correct"] for info in group) for group in groups]
        row: dict[str, Any] = {"world": world.name, "level": world.level}
        row |= {f"pass@{k}": float(np.mean([pass_at(k, n, r) for r in right])) for k in ks}
        row["entropy"] = float(torch.cat(entropies).mean())
        row["length"] = float(torch.cat(lengths).mean())
        row["ways"] = float(np.mean([len({i["answer"] for i in group if i["correct"]}) for group in groups]))
        by_domain: dict[str, list[int]] = {}
        for task, r in zip(asked, right, strict=True):
            by_domain.setdefault(task.domain, []).append(r)
        if len(by_domain) > 1:
            row["domains"] = {name: float(np.mean(r)) / n for name, r in sorted(by_domain.items())}
        rows.append(row)
        values = "  ".join(f"{row[f'pass@{k}']:<8.3f}" for k in ks)
        domains = "  ".join(f"{name} {value:.3f}" for name, value in row.get("domains", {}).items())
        print(
            f"{world.name:<10} {world.level:>5}  {values}  {row['entropy']:<7.3f}  {row['length']:<6.1f}  "
            f"{row['ways']:<4.1f}  {domains}",
            flush=True,
        )
        if args.show:
            for text, info in list(zip(texts, graded, strict=True))[: args.show]:
                print(f"    {asked[0].prompt!r} {text!r} {'right' if info['correct'] else 'wrong'}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--steps", type=int, default=4000, help="optimiser steps; 0: only evaluate what is in --out")
    parser.add_argument("--batch", type=int, default=1024, help="examples a step")
    parser.add_argument("--examples", type=int, help="examples of text (default: as many as the steps take, up to 4 M)")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that write the text")
    parser.add_argument("--bf16", action="store_true", help="train in bfloat16 on a GPU")
    parser.add_argument("--only", nargs="+", metavar="WORLD-LEVEL", help="a smaller text for a trial: sums-1 sums-2")
    parser.add_argument("--eval", action="store_true", help="print the table")
    parser.add_argument("--eval-tasks", type=int, default=128, help="held-out tasks a level")
    parser.add_argument("--eval-samples", type=int, default=64, help="answers a task")
    parser.add_argument("--eval-batch", type=int, default=4096, help="answers written at once")
    parser.add_argument("--show", type=int, default=0, help="samples of each level to print")
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
        build_tokenizer(args.out, args.seed)
        phase("tokenizer", began)

        began = time.perf_counter()
        examples = args.examples or min(args.steps * args.batch, 4_000_000)
        text, right = make_text(str(args.out), args.only, examples, args.seed, args.processes)
        answers = np.diff(text.starts) - text.prompts
        print(
            f"{examples:,} examples, {len(text.ids):,} tokens; prompts {text.prompts.mean():.1f} (at most "
            f"{text.prompts.max()}), answers {answers.mean():.1f} (at most {answers.max()})"
        )
        print("right in the text: " + ", ".join(f"{name} {share:.3f}" for name, share in right.items()))
        report |= {"examples": examples, "tokens": len(text.ids), "right": right}
        phase("text", began)

        began = time.perf_counter()
        model = build_model(args.seed).to(device)
        print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
        train(model, text, args, device)
        phase("training", began)

    if args.eval:
        began = time.perf_counter()
        tokenizer = AutoTokenizer.from_pretrained(args.out)
        model = AutoModelForCausalLM.from_pretrained(args.out, use_safetensors=True).to(device)
        report["table"] = evaluate(model, tokenizer, args)
        phase("evaluation", began)
    report["seconds"] = seconds
    if args.report:
        args.report.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
