"""A small network on the characters of a text, as tensors in the state of a memory, and how it learns.

Everything is a pure function of its arguments: the state after a few steps depends on the state before, the labels and
a seed, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["Network", "caption_scores", "helpful_loss", "new_network", "ranking_loss", "trained_network"]

Network = dict[str, Tensor]  # parameters by name; `m.NAME` and `v.NAME` are Adam's moments, `steps` counts
BYTES = 256  # what a text is made of; 0 is padding
TIE = 2  # the label of two captions of which neither is better
CHUNK = 256  # texts that are scored at once
BETAS, EPSILON = (0.9, 0.999), 1e-8


def new_network(width: int, seed: int) -> Network:
    """An untrained network: embedded characters, three convolutions with pooling, and a hidden layer."""
    chance = torch.Generator().manual_seed(seed)
    shapes = {
        "characters": (BYTES, width // 2),
        "near": (width, width // 2, 7),
        "far": (width, width, 7),
        "last": (width, width, 3),
        "hidden": (width, width),
        "score": (1, width),
    }
    network: Network = {"steps": torch.zeros(1)}
    for name, shape in shapes.items():
        inputs = 1 if name == "characters" else torch.Size(shape[1:]).numel()
        network[name] = torch.randn(shape, generator=chance) * (2 / inputs) ** 0.5
        if name != "characters":
            network[f"{name}.bias"] = torch.zeros(shape[0])
    return network


def caption_scores(network: Network, texts: Sequence[str], length: int) -> Tensor:
    """[text] the score s(m) of each, from its first `length` characters."""
    scores = [_scores(network, encoded(texts[i : i + CHUNK], length)) for i in range(0, len(texts), CHUNK)]
    return torch.cat(scores) if scores else torch.zeros(0)


def encoded(texts: Sequence[str], length: int) -> Tensor:
    """[text, character] as bytes, filled up with 0 to the longest."""
    rows = [text.encode()[:length] for text in texts]
    width = max(map(len, rows), default=0) or 1
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=torch.long).reshape(-1, width)


def _scores(network: Network, characters: Tensor) -> Tensor:
    # Where a text has ended everything is 0, so that its score does not depend on the longest text beside it.
    inside = (characters > 0)[:, None].float()
    x = F.embedding(characters, network["characters"]).transpose(1, 2) * inside
    for name in ("near", "far", "last"):
        kernel = network[name]
        x = F.conv1d(x, kernel, network[f"{name}.bias"], padding=kernel.shape[-1] // 2).relu() * inside
        x, inside = (F.max_pool1d(y, 3, ceil_mode=True) for y in (x, inside))
    x = x.amax(-1)
    x = F.linear(x, network["hidden"], network["hidden.bias"]).relu()
    return F.linear(x, network["score"], network["score.bias"]).squeeze(-1)


def helpful_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of P(helpful) = σ(s) with labels 0 and 1."""
    return F.binary_cross_entropy_with_logits(scores, labels)


def ranking_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of softmax(s of the first, s of the second) with labels 0, 1, or 2 for a tie: half of each."""
    second = torch.where(labels == TIE, torch.full_like(scores[:, 0], 0.5), labels.to(scores.dtype))
    return helpful_loss(scores[:, 1] - scores[:, 0], second)


def trained_network(
    network: Network,
    examples: Sequence[tuple[Sequence[str], float]],
    *,
    length: int,
    steps: int,
    batch: int,
    lr: float,
    seed: int,
) -> Network:
    """The network after `steps` steps of Adam on random batches of labelled captions, or of labelled pairs."""
    chance = torch.Generator().manual_seed(seed)
    texts = sorted({text for captions, _ in examples for text in captions})
    place, characters = {text: n for n, text in enumerate(texts)}, encoded(texts, length)
    captions = torch.tensor([[place[text] for text in given] for given, _ in examples])
    labels = torch.tensor([label for _, label in examples], dtype=torch.float32)
    names = [name for name in network if not name.startswith(("m.", "v.", "steps"))]
    for _ in range(steps):
        rows = torch.randperm(len(examples), generator=chance)[:batch]
        weights = {name: network[name].detach().requires_grad_() for name in names}
        scores = _scores(weights, characters[captions[rows].reshape(-1)]).reshape(len(rows), -1)
        pairs = scores.shape[1] == 2
        loss = ranking_loss(scores, labels[rows]) if pairs else helpful_loss(scores[:, 0], labels[rows])
        gradients = dict(zip(names, torch.autograd.grad(loss, [weights[name] for name in names]), strict=True))
        network = _adam(network, gradients, lr)
    return network


def _adam(network: Network, gradients: Network, lr: float) -> Network:
    """The network one step of Adam later."""
    step = network["steps"] + 1
    after: Network = {"steps": step}
    for name, gradient in gradients.items():
        m, v = (network.get(f"{kind}.{name}", torch.zeros_like(gradient)) for kind in ("m", "v"))
        m, v = torch.lerp(gradient, m, BETAS[0]), torch.lerp(gradient.square(), v, BETAS[1])
        mean, square = m / (1 - BETAS[0] ** step), v / (1 - BETAS[1] ** step)
        after |= {f"m.{name}": m, f"v.{name}": v}
        after[name] = network[name].detach() - lr * mean / (square.sqrt() + EPSILON)
    return after
