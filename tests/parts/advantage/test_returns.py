"""Returns and GAE along the tokens of a rollout, with and without tokens that the world wrote."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.parts.advantage import GAE, Returns


def batch(given: bool) -> Batch:
    """One rollout of three tokens with one of the world after the first, which may be part of the batch or not."""
    mask = torch.tensor([[1, 0, 1, 1]])
    columns = {
        "token.reward": torch.tensor([[1.0, 7.0, 2.0, 4.0]], dtype=torch.float64),
        "token.old.value": torch.tensor([[0.5, 9.0, 0.25, 1.0]], dtype=torch.float64),
    }
    return Batch.from_padded(mask, [0], columns, given=given)


@pytest.mark.parametrize("given", [False, True])
def test_a_return_passes_over_the_worlds_tokens_without_decay(given: bool) -> None:
    b = batch(given)
    returns = Returns(gamma=0.5)(b)["token.return"][b.action]
    assert returns.tolist() == [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4]


def test_a_token_of_the_world_stops_the_return_where_told_to() -> None:
    b = batch(given=True)
    returns = Returns(gamma=0.5, given="stop")(b)["token.return"][b.action]
    assert returns.tolist() == [1, 2 + 0.5 * 4, 4]


@pytest.mark.parametrize("given", [False, True])
def test_gae_keeps_float64_and_steps_over_the_worlds_tokens(given: bool) -> None:
    b, gamma, lam = batch(given), 0.9, 0.7
    last = 4 - 1.0
    middle = 2 + gamma * 1.0 - 0.25 + gamma * lam * last
    first = 1 + gamma * 0.25 - 0.5 + gamma * lam * middle
    advantage = GAE(gamma=gamma, lam=lam)(b)["token.advantage"][b.action]
    # In float32 the product gamma · lam alone would be off by 1e-8.
    assert advantage.tolist() == pytest.approx([first, middle, last], rel=1e-14)


@pytest.mark.parametrize("given", [False, True])
def test_what_is_paid_at_once_is_added_where_the_policy_wrote(given: bool) -> None:
    b = batch(given)
    paid = b.with_columns({"token.bonus": torch.full_like(b["token.reward"], 10.0)})
    found = Returns(gamma=0.5, immediate="token.bonus")(paid)["token.return"]
    assert found[b.action].tolist() == [13.0, 14.0, 14.0]
    assert found[~b.action].tolist() == ([4.0] if given else [])  # what follows it, undecayed, without the bonus
