"""Reward models: a model with a value head that scores answers, fitted to pairs, ratings or feedback.

fit_reward(read_run(Path("runs/first")), "rm", estimator="bt")
podium.train(methods.grpo() | ModelReward() | Role("rm", source="rm"), world="sums")
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from podium import policy as policies
from podium.core.errors import PodiumError, nearest
from podium.core.streams import key
from podium.evaluation.resample import Measure
from podium.policy import Critic
from podium.policy.forward.pack import portions
from podium.policy.model.load import DTYPES
from podium.policy.policy import Policy
from podium.sessions.reward_data import JudgedAnswer, RewardData
from podium.sessions.reward_goals import FeedbackGoal, Goal, Item, PairGoal, RatingGoal
from podium.store.files import atomic_directory, atomic_text
from podium.store.manifest import write_manifest
from podium.training.config import Optimizer
from podium.training.learner import Learner

__all__ = ["ESTIMATORS", "FittedReward", "fit_reward", "usual_estimator"]

ESTIMATORS = {
    "bt": "Bradley-Terry on pairs",
    "regression": "squared error to ratings, a head for each",
    "naive": "squared error to feedback of 0 and 1",
    "surrogate": "the same, corrected for wrong feedback",
    "ips": "corrected, and weighted by the inverse probability that users react",
    "dr": "doubly robust: weighted, with imputed losses",
}
DESCRIPTION = "reward.json"
CHUNK = 8192  # tokens in one forward pass
Ids = tuple[int, ...]


@dataclass(frozen=True)
class FittedReward:
    """The outcome of a fit."""

    estimator: str
    heads: tuple[str, ...]
    trained: int  # pairs or answers
    held_out: int  # pairs or answers
    loss: float  # the mean over the last tenth of the steps
    measures: dict[str, Measure]  # of held-out prompts
    noise: tuple[float, float] | None = None  # the rates of wrong feedback that were used


def fit_reward(
    data: RewardData,
    out: str | Path,
    *,
    estimator: str = "",
    model: str = "podium/tiny",
    steps: int = 300,
    batch: int = 32,
    lr: float = 3e-4,
    frozen: bool = False,
    noise: tuple[float, float] | None = None,
    held_out: float = 0.2,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    lora: int | None = None,
) -> FittedReward:
    """Fit a reward model to judged answers, and save it as a directory that a role can name.

    With `frozen`, only a small network on the model's states is trained. `noise` are the rates (rho_01, rho_10) of
    wrong feedback; None: estimated by anchors. Whole prompts are held out to measure the model.
    """
    estimator = estimator or usual_estimator(data)
    if estimator not in ESTIMATORS:
        raise PodiumError(f"There is no estimator {estimator!r}. {nearest(estimator, ESTIMATORS)}")
    if not 0 < held_out < 1:
        raise PodiumError(
            f"held_out = {held_out:g} must lie between 0 and 1: it is the share of prompts to measure on."
        )
    for name, value in (("steps", steps), ("batch", batch), ("lr", lr)):
        if not 0 < value < math.inf:
            raise PodiumError(f"{name} = {value:g} must be above 0, and finite.")
    exact = "float32" if lora is None else dtype
    base = policies.load(model, dtype=exact, device=device, lora=None if lora is None else {"r": lora})
    texts = [_tokens(base, answer) for answer in data.answers]
    feedback = estimator not in ("bt", "regression")
    states = _last_states(base, texts) if frozen or feedback else torch.zeros(0)
    goal = _goal(data, estimator, held_out, states, noise)
    heads = data.names if estimator == "regression" else ("reward",)
    reader = policies.reward_model(base, len(heads), network=frozen)
    for parameter in reader.model.parameters():
        parameter.requires_grad_(parameter.requires_grad and not frozen)
    learner = Learner(reader, Optimizer(lr=lr, schedule="cosine", weight_decay=0.01, clip=1.0), DTYPES[dtype])

    def scores(numbers: Sequence[int]) -> Tensor:
        if frozen:
            value = reader.value_head(states[list(numbers)])
        else:
            value = policies.scores_of(reader, [texts[n] for n in numbers], grad=torch.is_grad_enabled())
        return value.reshape(len(numbers), len(heads)).float()

    def portioned(numbers: Sequence[int]) -> Tensor:
        held = [list(part) for part in _chunks([(n,) for n in numbers], texts)]
        return torch.cat([scores([n for (n,) in part]) for part in held])

    losses = []
    order = _batches(goal.train, batch, seed)
    for _ in range(steps):
        total = 0.0
        items = next(order)
        for part in _chunks(items, texts):
            loss = goal.losses(part, scores).sum() / len(items)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        learner.step(steps)
        goal.stepped()
        losses.append(total)
    goal.finish(reader.value_head)
    reader.bump()
    with torch.no_grad():
        measures = goal.measures(portioned)
    last = losses[-max(steps // 10, 1) :]
    used = goal.noise if isinstance(goal, FeedbackGoal) else None
    fitted = FittedReward(estimator, heads, len(goal.train), len(goal.test), sum(last) / len(last), measures, used)
    atomic_directory(Path(out), lambda part: _save(reader, part, fitted))
    return fitted


def usual_estimator(data: RewardData) -> str:
    """Pairs: Bradley-Terry; feedback: doubly robust; ratings: regression."""
    if data.pairs:
        return "bt"
    return "dr" if any(answer.observed for answer in data.answers) else "regression"


def _goal(data: RewardData, estimator: str, held_out: float, states: Tensor, noise: tuple[float, float] | None) -> Goal:
    if estimator == "bt":
        return PairGoal(data, held_out)
    if estimator == "regression":
        return RatingGoal(data, held_out)
    return FeedbackGoal(data, held_out, estimator=estimator, states=states, noise=noise)


def _tokens(base: Policy, answer: JudgedAnswer) -> Ids:
    """The conversation up to the last token of the answer, without the end of the turn."""
    messages = [{"role": role, "content": text} for role, text in answer.messages]
    return (*base.encode(messages), *base.written(answer.text, ended=False))


def _last_states(base: Policy, texts: Sequence[Ids]) -> Tensor:
    """[text, width] the state of the last token of each."""
    with torch.no_grad():
        return torch.stack([states[-1].float() for part in portions(texts) for states in base.states(part)])


def _batches(items: Sequence[Item], size: int, seed: int) -> Iterator[list[Item]]:
    """Batches without end; every item comes once before any comes again."""
    order, waiting = np.random.default_rng(key(seed, (0,))), list[Item]()
    while True:
        while len(waiting) < size:
            waiting += [items[int(n)] for n in order.permutation(len(items))]
        yield waiting[:size]
        waiting = waiting[size:]


def _chunks(items: Sequence[Item], texts: Sequence[Ids]) -> Iterator[list[Item]]:
    """Items in order, at most CHUNK tokens at a time unless a single one has more."""
    part: list[Item] = []
    size = 0
    for item in items:
        tokens = sum(len(texts[n]) for n in item)
        if part and size + tokens > CHUNK:
            yield part
            part, size = [], 0
        part.append(item)
        size += tokens
    if part:
        yield part


def _save(reader: Critic, path: Path, fitted: FittedReward) -> None:
    reader.save(path)
    measures = {name: measure.as_dict() for name, measure in fitted.measures.items()}
    what = {"estimator": fitted.estimator, "heads": fitted.heads, "held out": measures}
    atomic_text(path / DESCRIPTION, json.dumps(what, indent=1, ensure_ascii=False) + "\n")
    write_manifest(path, 0)
