"""A toy: a few methods of the catalogue teach a table of logits to spell four words.

No language model is involved. The policy is one softmax per (word, position), an answer is three letters, and its
reward is 1 if the word is right and 0 otherwise. What is real is the path: rollouts become a batch, the method's own
parts write rewards, advantages and weights, and its objective gives the exact gradient. The numbers say nothing about
which method is better on a real task.

    python examples/bandit.py                 # the default methods
    python examples/bandit.py gspo grpo@nemo  # any method that needs nothing but log-probabilities and rewards
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from podium import Batch, Method, PodiumError, Signal, methods
from podium.core.gradient import backward
from podium.core.shares import scaled

LETTERS = "abcd"
WORDS = ("bad", "cab", "dad", "add")
METHODS = ("reinforce", "grpo", "rloo", "dapo", "gspo", "real")
ROLLOUTS = 32  # of each word, whatever the method would ask for
TARGET = torch.tensor([[LETTERS.index(letter) for letter in word] for word in WORDS])  # [word, position]


def logits_of(table: Tensor, batch: Batch) -> Tensor:
    """[token, letter]"""
    word = batch.spread(batch["group.task"], "group", "token")
    return table[word, batch["token.position"]]


def sample(table: Tensor, reference: Tensor, seed: int) -> Batch:
    """Rollouts of every word, with the log-probabilities that the methods read."""
    generator = torch.Generator().manual_seed(seed)
    word = torch.arange(len(WORDS)).repeat_interleave(ROLLOUTS)  # [rollout]
    probabilities = table.detach().softmax(-1)[word]  # [rollout, position, letter]
    ids = torch.multinomial(probabilities.flatten(0, 1), 1, generator=generator).reshape(len(word), -1)
    right = (ids == TARGET[word]).all(1).to(table.dtype)
    columns = {"token.id": ids, "rollout.reward": right, "rollout.correct": right}
    batch = Batch.from_padded(torch.ones_like(ids), word, columns, seed=seed)
    with torch.no_grad():
        logp = {f"token.{of}.logp": log_prob(t, batch) for of, t in (("old", table), ("ref", reference))}
    return batch.with_columns(logp)


def log_prob(table: Tensor, batch: Batch) -> Tensor:
    """[token] of the letters that were sampled."""
    return logits_of(table, batch).log_softmax(-1).gather(1, batch["token.id"][:, None])[:, 0]


def train(method: Method, iterations: int = 41, length: float = 1.0) -> list[float]:
    """The mean reward before each iteration. Steps have equal lengths, since the losses have different scales."""
    table = torch.zeros(*TARGET.shape, len(LETTERS), dtype=torch.float64, requires_grad=True)
    reference = table.detach().clone()

    def forward(batch: Batch, signals: Sequence[Signal]) -> Mapping[Signal, Tensor]:
        return {signal: log_prob(table, batch) for signal in signals}

    method = scaled(method, {"iterations": iterations, "max_tokens": TARGET.shape[1]})  # lengths and times as numbers
    live = [part for part in method.shape if part.live]
    fixed = [part for part in method.shape if not part.live]
    history = []
    for iteration in range(iterations):
        batch = sample(table, reference, seed=iteration)
        history.append(float(batch["rollout.reward"].mean()))
        for part in (*method.reward, *method.keep, *filter(None, [method.advantage]), *fixed):
            batch = batch.with_columns(part(batch))
        updates = list(method.updates(batch))
        for update in updates:
            table.grad = None
            backward(method.objective, update, forward, live=live)
            if table.grad is not None:
                table.data -= length / len(updates) * table.grad / table.grad.norm().clamp(min=1e-12)
    return history


def checked(method: Method) -> Method:
    """The method, unless it needs more than this toy gives."""
    for finding in method.check(("rollout.correct",), signals=("logp",)):
        if finding.kind == "error":
            raise PodiumError(f"The toy cannot run {method.name}: {finding.message}")
    return method


def main(names: Sequence[str]) -> int:
    torch.set_num_threads(1)  # the tensors are tiny
    try:
        histories = {name: train(checked(methods.get(name))) for name in names}
    except PodiumError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    print(f"A toy: a table of logits learns to spell {', '.join(WORDS)}; the chance of a word is 1/64 at the start.")
    print(f"Share of right answers among {len(WORDS)} × {ROLLOUTS} rollouts, before the iteration of each row:\n")
    widths = [max(len(name), 5) for name in names]
    print("iteration  " + "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True)))
    for iteration in range(0, 41, 5):
        values = "  ".join(f"{h[iteration]:.2f}".rjust(w) for h, w in zip(histories.values(), widths, strict=True))
        print(f"{iteration:>9}  {values}")
    print("\npodium methods lists the catalogue; podium methods show grpo explains one of its methods.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or METHODS))
