"""Episodes of a Podium world as TRL's `rollout_func`, with the columns that methods of several turns read.

    episodes = WorldEpisodes("keydoor", tasks=64, level=1)
    trainer = PodiumTrainer("gigpo", …, train_dataset=Dataset.from_list(episodes.rows),
                            reward_funcs=episodes.reward, rollout_func=episodes)

The tokens come from Podium's own sampler, over a copy of the trainer's weights.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

import torch

from podium import worlds
from podium.collect.driver import Driver
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.protocols.sampling import Sampling
from podium.protocols.world import World, task_of
from podium.sampler.of_policy import sampler_of
from podium.strategies.requests import Plan, Play, TaskRequest

__all__ = ["WorldEpisodes"]

OWN = ("text", "length", "index", "purpose", "prompt", "stop", "failure")  # columns that the trainer has itself


class WorldEpisodes:
    """Plays the tasks of a world with the model that is being trained."""

    def __init__(self, world: str | World, tasks: int = 64, seed: int = 0, **settings: Any) -> None:
        self.world = worlds.isolated(world, settings)
        self.tasks = {t.prompt: t for t in (task_of(self.world, number, "train") for number in range(tasks))}
        self.seed, self.calls = seed, 0
        self._policy: Policy | None = None
        self._driver: Driver | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of a data set."""
        return [
            {"prompt": [{"role": "user", "content": str(t.prompt)}], "task": t.key, "domain": t.domain}
            for t in self.tasks.values()
        ]

    @staticmethod
    def reward(**columns: Any) -> list[float]:
        """TRL's reward function: what the world has paid."""
        return [float(value) for value in columns["rollout.reward"]]

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        driver = self._renewed(trainer)
        self.calls += 1
        sampling = Sampling(
            max_tokens=min(self.world.max_tokens, trainer.args.max_completion_length),
            temperature=trainer.args.temperature,
        )
        asked = [(text, len(list(same))) for text, same in groupby(map(_text, prompts))]
        process = trainer.accelerator.process_index
        plans = []
        for number, (text, count) in enumerate(asked):
            if text not in self.tasks:
                raise PodiumError(
                    f"{text[:60]!r} is not a task of these episodes: train on Dataset.from_list(episodes.rows)."
                )
            stream = (self.seed, self.calls, process, number)
            plans.append(_plan(TaskRequest(self.tasks[text], number, sampling, stream, world=self.world), count))
        rollouts = [rollout for group in driver.collect(plans) for rollout in group]
        found: dict[str, Any] = {}
        for row in map(_as_row, rollouts):
            for name, value in row.items():
                found.setdefault(name, []).append(value)
        return {name: values for name, values in found.items() if len(values) == len(rollouts)}

    def _renewed(self, trainer: Any) -> Driver:
        """The driver over a copy of the model with its current weights."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        if self._policy is None or self._driver is None:
            twin = copy.deepcopy(model)
            twin.__dict__.pop("forward", None)  # TRL's fused head
            policy = self._policy = Policy(twin, trainer.processing_class, name="the trainer's model")
            self._driver = Driver(
                sampler_of(policy), self.world, follow_up=policy.follow_up, written=policy.written, ends=policy.ends
            )
        with torch.no_grad():
            for mine, theirs in zip(self._policy.parameters(), model.parameters(), strict=True):
                mine.copy_(theirs)
        self._policy.bump()
        return self._driver


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])


def _plan(request: TaskRequest, count: int) -> Plan:
    (rollouts,) = yield [Play(request, count)]
    return rollouts  # type: ignore[return-value]


def _as_row(rollout: Rollout) -> dict[str, Any]:
    """A rollout as one completion, with the world's texts between its turns masked out."""
    ids: list[int] = []
    mask: list[int] = []
    turn: list[int] = []
    logps: list[float] = []

    def add(tokens: Sequence[int], number: int, written: bool, values: Sequence[float]) -> None:
        ids.extend(tokens)
        mask.extend([int(written)] * len(tokens))
        turn.extend([number] * len(tokens))
        logps.extend(values)

    first = rollout.turns[0]
    add(first.ids, 0, True, first.tokens["sampler.logp"])
    for number, (before, after) in enumerate(pairwise(rollout.turns), start=1):
        told = (*before.context, *before.ids)
        if tuple(after.context[: len(told)]) != told:
            raise PodiumError(
                "TRL trains one growing text a rollout, and this world rebuilds the context of each turn."
            )
        between = after.context[len(told) :]
        add(between, number, False, [0.0] * len(between))
        add(after.ids, number, True, after.tokens["sampler.logp"])
    row: dict[str, Any] = {"prompt_ids": list(first.context), "completion_ids": ids, "logprobs": logps}
    row |= {"env_mask": mask, "turn": turn}
    row |= {f"rollout.{k}": v for k, v in rollout.columns.items() if k not in OWN and isinstance(v, (str, int, float))}
    names = dict.fromkeys(name for t in rollout.turns for name in t.columns)
    return row | {f"turn.{name}": [t.columns.get(name) for t in rollout.turns] for name in names}
