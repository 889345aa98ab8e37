"""What the model can do: pass@k per world and level, on held-out tasks."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from podium.protocols.context import Exchange, History, Wrote
from podium.protocols.scaffold import with_hint
from podium.worlds import Puzzle, Task, World
from tools.pretrain.dials import worlds_of_text


@torch.no_grad()
def sample(model: Any, tokenizer: Any, chats: Sequence[str], limit: int, seed: int) -> tuple[list[str], Tensor, Tensor]:
    """One turn after each chat at temperature 1: texts, numbers of tokens, mean entropy of the tokens."""
    device = model.device
    coded = tokenizer(list(chats), return_tensors="pt", padding=True, add_special_tokens=False).to(device)
    mask, ids = coded["attention_mask"], coded["input_ids"]
    position = (mask.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    generator = torch.Generator(device).manual_seed(seed)
    live = torch.ones(len(chats), dtype=torch.bool, device=device)
    length = torch.zeros(len(chats), device=device)
    entropy = torch.zeros(len(chats), device=device)
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


class Outcome(NamedTuple):
    correct: bool
    answer: str
    length: float  # tokens that the model wrote
    entropy: float  # mean over them


class Sampler:
    """The model, writing for many at once."""

    def __init__(self, model: Any, tokenizer: Any, size: int, seed: int) -> None:
        self.model, self.tokenizer, self.size, self.seed = model.eval(), tokenizer, size, seed

    def __call__(self, chats: Sequence[str], limit: int) -> list[tuple[str, float, float]]:
        said: list[tuple[str, float, float]] = []
        for at in range(0, len(chats), self.size):
            self.seed += 1
            texts, lengths, entropies = sample(self.model, self.tokenizer, chats[at : at + self.size], limit, self.seed)
            said += zip(texts, lengths.tolist(), entropies.tolist(), strict=True)
        return said

    def play(self, world: World, tasks: Sequence[Task], prompts: Sequence[str] | None = None) -> list[Outcome]:
        """An episode of each task, all of them turn by turn; `prompts` may say more than the tasks do."""
        episodes = [world.reset(task, seed) for seed, task in enumerate(tasks)]
        starts = [e.observation for e in episodes] if prompts is None else prompts
        turns: list[list[Exchange]] = [[] for _ in tasks]
        lengths, entropies = np.zeros(len(tasks)), np.zeros(len(tasks))
        info: list[Any] = [{}] * len(tasks)
        live = list(range(len(tasks)))
        for _ in range(world.max_turns):
            if not live:
                break
            chats = [self._chat(world, History(starts[i], tuple(turns[i]), episodes[i].recap)) for i in live]
            going = []
            for i, (text, length, entropy) in zip(live, self(chats, world.max_tokens), strict=True):
                feedback = episodes[i].act(text)
                turns[i].append(Exchange(Wrote((len(turns[i]),)), text, feedback.observation))
                lengths[i] += length
                entropies[i] += length * entropy
                info[i] = feedback.info
                if not feedback.done:
                    going.append(i)
            live = going
        return [
            Outcome(bool(known["correct"]), known["answer"], length, entropy / length)
            for known, length, entropy in zip(info, lengths, entropies, strict=True)
        ]

    def _chat(self, world: World, history: History) -> str:
        texts = [x.text for x in history.exchanges]
        return self.chat([texts[m.ids[0]] if isinstance(m, Wrote) else m for m in world.context(history)])

    def chat(self, texts: Sequence[str]) -> str:
        """A conversation in which the model comes next."""
        roles = ("user", "assistant")
        messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
        chat: str = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return chat


def pass_at(k: int, n: int, right: int) -> float:
    """Unbiased chance that k of the n samples hold a right one."""
    return 1 - math.comb(n - right, k) / math.comb(n, k)


def evaluate(model: Any, tokenizer: Any, args: argparse.Namespace) -> list[dict[str, Any]]:
    """pass@k, entropy and length per world and level; `hinted` is pass@1 after the first half of a solution's lines."""
    sampler = Sampler(model, tokenizer, args.eval_batch, args.seed)
    rows = []
    print("world      level  pass@1    pass@8    pass@64   hinted    entropy  length  ways", flush=True)
    for world, _ in worlds_of_text(args.only):
        n = args.eval_samples if isinstance(world, Puzzle) else min(args.eval_samples, args.eval_episodes)
        asked = [world.task(i, "test") for i in range(args.eval_tasks)]
        outcomes = sampler.play(world, [task for task in asked for _ in range(n)])
        groups = [outcomes[i : i + n] for i in range(0, len(outcomes), n)]
        right = [sum(o.correct for o in group) for group in groups]
        row: dict[str, Any] = {"world": world.name, "level": world.level}
        row |= {f"pass@{k}": float(np.mean([pass_at(k, n, r) for r in right])) for k in (1, 8, 64) if k <= n}
        if isinstance(world, Puzzle):
            few = [task for task in asked for _ in range(min(n, args.eval_episodes))]
            helped = sampler.play(world, few, [with_hint(task.prompt, half_of(world, task)) for task in few])
            row["hinted"] = float(np.mean([o.correct for o in helped]))
        row["entropy"] = float(np.mean([o.entropy for o in outcomes]))
        row["length"] = float(np.mean([o.length for o in outcomes]))
        row["ways"] = float(np.mean([len({o.answer for o in group if o.correct}) for group in groups]))
        by_domain: dict[str, list[int]] = {}
        for task, r in zip(asked, right, strict=True):
            by_domain.setdefault(task.domain, []).append(r)
        if len(by_domain) > 1:
            row["domains"] = {name: float(np.mean(r)) / n for name, r in sorted(by_domain.items())}
        rows.append(row)
        values = [row.get(name) for name in ("pass@1", "pass@8", "pass@64", "hinted")]
        domains = "  ".join(f"{name} {value:.3f}" for name, value in row.get("domains", {}).items())
        print(
            f"{world.name:<10} {world.level:>5}  "
            + "  ".join(" " * 8 if value is None else f"{value:<8.3f}" for value in values)
            + f"  {row['entropy']:<7.3f}  {row['length']:<6.1f}  {row['ways']:<4.1f}  {domains}",
            flush=True,
        )
    return rows


def half_of(world: Puzzle, task: Task) -> str:
    """The first half of a solution's lines, at least one."""
    lines = world.solve(task).splitlines()
    return "\n".join(lines[: max(len(lines) // 2, 1)])
