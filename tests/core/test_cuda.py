"""The same numbers on a GPU as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from podium.core import Batch, Part, Relation, Table
from podium.core.gradient import backward
from podium.core.updates import Updates
from podium.parts.advantage import (
    GAE,
    GroupInGroup,
    NestedHistories,
    Normalize,
    PairwiseDifferences,
    Returns,
    RiskBundles,
)
from podium.parts.keep import KeepMixed
from podium.parts.objective import Clip, Entropy, GroupSoftmax, PolicyGradient
from podium.parts.reward import Overlong, TokenReward
from podium.parts.shape import DropCovariant, Rescale, SelectTokens, SharedEdges, Whiten
from tests.core.model import Policy, update

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def everything() -> Batch:
    """An update with columns for every part."""
    batch = update()
    turns, tokens = batch.size("turn"), batch.size("token")
    pairs = batch.pairs("rollout", "group")
    once = (pairs.left < pairs.right).nonzero().reshape(-1)
    return batch.with_columns(
        {
            "token.reward": torch.randn(tokens).double(),
            "token.now.logp": Policy().signals(batch)["logp"].detach(),
            "turn.reward": torch.randn(turns).double(),
            "turn.state": torch.arange(turns) % 3,
            "turn.action": ["left" if t % 2 else "right" for t in range(turns)],
            "turn.next_state": torch.arange(turns) % 2,
            "group.bundle": torch.tensor([0, 0, 1, 1]),
        }
    ).with_relation(
        "pair",
        Relation("rollout", pairs.left[once], pairs.right[once], {"difference": torch.randn(len(once)).double()}),
    )


PARTS: list[Part] = [
    Normalize(),
    Normalize(centre="leave_one_out", scale="std_of_others"),
    Normalize(centre="median", scale="mad"),
    Normalize(scale="none", weight="rollout.length"),
    Normalize(of="token.reward", key=("turn.state", "group")),
    Returns(gamma=0.9, given="stop"),
    GAE(gamma=0.99, lam=0.95),
    GroupInGroup(scale="std"),
    NestedHistories(),
    PairwiseDifferences(),
    RiskBundles(quantiles="batch"),
    TokenReward(),
    Overlong(max_length=6, buffer=3),
    KeepMixed(),
    Whiten(),
    Whiten(level="rollout", key=("group.bundle",)),
    Rescale(),
    SharedEdges(),
    SelectTokens("covariance", 0.3, rule="floor"),
    DropCovariant(share=0.3, low=-9.0, high=9.0),
]


def same(on_gpu: Any, on_cpu: Any) -> None:
    if isinstance(on_cpu, Tensor):
        assert on_gpu.device.type == "cuda"
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-10, atol=1e-10, equal_nan=True)
    else:
        assert on_gpu == on_cpu


def same_batch(on_gpu: Batch, on_cpu: Batch) -> None:
    for level in ("token", "turn", "rollout"):
        same(on_gpu.link(level, "group"), on_cpu.link(level, "group"))
    for name in on_cpu.columns:
        same(on_gpu[name], on_cpu[name])


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_a_part_gives_the_same_columns(part: Part) -> None:
    batch = everything()
    for name, column in part(batch).items():  # type: ignore[operator]
        same(part(batch.to("cuda"))[name], column)  # type: ignore[operator]


@pytest.mark.parametrize(
    "verb",
    [
        lambda b: b.random("token", "x"),
        lambda b: b.random("group", "x"),
        lambda b: b.scan(b["token.reward"], "token", decay=0.9, reverse=False),
        lambda b: b.following(b["token.reward"], "token", where=b.action),
        lambda b: b.history("turn", "turn.state", 2)[0],
        lambda b: b.by("token", "group").rank(b["token.reward"].round()),
        lambda b: b.by("rollout", "group").softmax(b["rollout.advantage"]),
        lambda b: b.by("rollout", "group").agg.entropy("reward"),
        lambda b: b.by("turn", "turn.action").by("turn.action").agg.count(),
        lambda b: b.pairs("rollout", "group").right,
    ],
)
def test_a_verb_gives_the_same_values(verb: Callable[[Batch], Tensor]) -> None:
    same(verb(everything().to("cuda")), verb(everything()))


def test_subsets_are_the_same() -> None:
    batch = everything()
    for level, chosen in (("rollout", [5, 2, 8]), ("group", [2, 0, 2])):
        same_batch(
            batch.to("cuda").take(level, torch.tensor(chosen, device="cuda")), batch.take(level, torch.tensor(chosen))
        )
    same_batch(Batch.concat([batch.to("cuda")] * 2), Batch.concat([batch] * 2))
    plan = Updates(mini_batches=2, epochs=2)
    for on_gpu, on_cpu in zip(plan(batch.to("cuda")), plan(batch), strict=True):
        same_batch(on_gpu, on_cpu)


def test_padded_tensors_stay_where_they_are() -> None:
    mask, x = torch.rand(5, 7) < 0.6, torch.randn(5, 7)
    turn = torch.arange(7).expand(5, -1) // 3
    for given in (True, False):
        cpu = Batch.from_padded(mask, [0, 1, 0, 1, 1], {"token.x": x}, given=given, turn=turn)
        gpu = Batch.from_padded(mask.cuda(), [0, 1, 0, 1, 1], {"token.x": x.cuda()}, given=given, turn=turn.cuda())
        same_batch(gpu, cpu)
        same(gpu.to_padded(gpu["token.x"]), cpu.to_padded(cpu["token.x"]))


def test_gradients_are_the_same() -> None:
    live = (SelectTokens("covariance", 0.3, rule="floor"),)
    terms = (PolicyGradient(clip=Clip()), Entropy(where="token.selected"), GroupSoftmax())
    splits = [[0, 1, 3, 7], [2, 4, 6, 9], [5, 8, 10]]
    found = []
    for device in ("cpu", "cuda"):
        policy = Policy().to(device)
        rows = [torch.tensor(part, device=device) for part in splits]
        step = backward(terms, update().to(device), policy, rows, live)
        found.append((step.loss, [g.cpu() for g in policy.gradient()]))
    assert found[0][0] == pytest.approx(found[1][0])
    for a, b in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_a_table_is_read_on_the_cpu_and_moves_with_the_batch() -> None:
    table = Table({"a": (1.0,)}, default=(0.0,)).write(["b"], torch.tensor([[2.0]], device="cuda"))
    assert table.read(["a", "b"]).tolist() == [[1.0], [2.0]]
