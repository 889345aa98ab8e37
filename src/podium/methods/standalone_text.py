"""The frame of a method that is written as one file: what is the same in all of them."""

from __future__ import annotations

__all__ = ["FRAME"]

FRAME = '''"""{name}: {summary}

{citation}

One file, torch alone: the advantage, the loss, and the updates on a batch. Shapes: [batch] is one value per rollout,
[batch, token] one per token of a padded answer; `mask` is True at the tokens that the policy wrote.

    python THIS_FILE    # trains a table of logits to write a number, as an example
"""

from __future__ import annotations

import math  # noqa: F401

import torch
from torch import Tensor

N = {n}  # rollouts per task
EPOCHS, MINI_BATCHES = {epochs}, {mini_batches}  # passes over a batch, optimiser steps per pass
MAX_NORM = 1.0  # of the gradient


def of_group(x: Tensor, group: Tensor) -> Tensor:
    """[batch] the sum of x over the group of each rollout; groups are numbered from 0."""
    return x.new_zeros(int(group.max()) + 1).index_add(0, group, x)[group]


def advantages(reward: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """[batch] the advantage of each rollout, from the rewards of the whole batch."""
{advantage}


{aggregates}


def objective(logp: Tensor, old_logp: Tensor, ref_logp: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    """The loss of an update. `logp` has a gradient; `old_logp` is the policy's before the first update of the batch,
    `ref_logp` that of the model before training; all are [batch, token]."""
{losses}
    return {total}


def update(policy, optimizer, batch: dict[str, Tensor]) -> list[float]:
    """Train on a batch: `policy(rows)` gives the log-probabilities of these rows' tokens, [row, token]."""
    advantage = advantages(batch["reward"], batch["group"], batch["mask"])
    group, losses = batch["group"], []
    for _ in range(EPOCHS):
        units = torch.unique({units})  # a mini-batch holds whole {unit}s
        for chosen in units[{order}].chunk(MINI_BATCHES):
            rows = torch.isin({units}, chosen).nonzero()[:, 0]
            part = {{name: batch[name][rows] for name in ("old_logp", "ref_logp", "mask")}}
            loss = objective(policy(rows), advantage=advantage[rows], **part)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], MAX_NORM)
            optimizer.step()
            losses.append(float(loss.detach()))
    return losses


def example(iterations: int = 60, tasks: int = 8, words: int = 6, length: int = 4, seed: int = 0) -> list[float]:
    """Each task wants one word written `length` times; the policy is a table. Returns the mean reward of iterations."""
    torch.manual_seed(seed)
    table = torch.zeros(tasks, length, words, requires_grad=True)
    optimizer, rewards = torch.optim.Adam([table], lr=0.05), []
    group = torch.arange(tasks).repeat_interleave(N)
    for _ in range(iterations):
        with torch.no_grad():
            words_of = torch.distributions.Categorical(logits=table[group]).sample()  # [batch, token]
            reward = (words_of == (group % words)[:, None]).float().mean(1)

        def logp(rows: Tensor, words_of: Tensor = words_of) -> Tensor:
            chosen = table[group[rows]].log_softmax(-1)
            return chosen.gather(-1, words_of[rows][..., None])[..., 0]

        everyone = torch.arange(len(group))
        reference = torch.full_like(words_of, 1 / words, dtype=torch.float32).log()
        batch = {{"reward": reward, "group": group, "mask": torch.ones_like(words_of, dtype=torch.bool)}}
        update(logp, optimizer, batch | {{"old_logp": logp(everyone).detach(), "ref_logp": reference}})
        rewards.append(float(reward.mean()))
    return rewards


if __name__ == "__main__":
    seen = example()
    print(f"mean reward: {{seen[0]:.2f}} at first, {{seen[-1]:.2f}} at last")
'''
