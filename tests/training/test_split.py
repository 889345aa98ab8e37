"""Micro-batches: consecutive, of nearly equal size, a shared prompt counted once."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.policy.forward.pack import pack
from podium.policy.forward.score_request import score_request_of
from podium.training.config import Optimizer
from podium.training.learner import Learner
from podium.training.trainer import Trainer
from tests.policy import tiny


def groups(count: int, n: int, prompt: int, answer: int) -> Batch:
    draw = torch.Generator().manual_seed(0)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(tiny.VOCABULARY, (length,), generator=draw).tolist())

    rollouts = []
    for group in range(count):
        context = ids(prompt)
        rollouts += [Rollout(group, [Turn(ids(answer), context)], columns={"reward": 0.0}) for _ in range(n)]
    return Batch.from_rollouts(rollouts)


def trainer(micro_tokens: int) -> Trainer:
    return Trainer({"policy": Learner(tiny.policy(), Optimizer())}, {}, micro_tokens=micro_tokens)


def nodes(batch: Batch, rows: torch.Tensor) -> int:
    return pack(score_request_of(batch.take("rollout", rows), None)[0].sequences).count


def test_a_group_with_a_long_prompt_stays_together() -> None:
    batch = groups(2, 8, prompt=100, answer=10)
    parts = trainer(200).split(batch)
    assert [len(p) for p in parts] == [8, 8]


def test_no_part_goes_through_more_nodes_than_allowed_and_parts_are_alike() -> None:
    batch = groups(5, 4, prompt=30, answer=20)
    parts = trainer(160).split(batch)
    assert torch.cat(parts).tolist() == list(range(20))
    assert all(nodes(batch, p) <= 160 for p in parts)
    assert max(map(len, parts)) - min(map(len, parts)) <= 4


def test_a_rollout_that_is_too_long_is_alone() -> None:
    batch = groups(3, 1, prompt=50, answer=50)
    assert [len(p) for p in trainer(60).split(batch)] == [1, 1, 1]


def test_turns_that_go_on_from_each_other_are_counted_once() -> None:
    first = Turn((1, 2, 3), tuple(range(40)))
    second = Turn((4, 5), (*range(40), 1, 2, 3, 9))
    batch = Batch.from_rollouts([Rollout(k, [first, second], columns={"reward": 0.0}) for k in range(3)])
    assert [len(p) for p in trainer(100).split(batch)] == [3]
