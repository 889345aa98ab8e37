"""An update whose passes another trainer makes has the plain gradient, however that trainer splits it."""

from __future__ import annotations

import pytest
import torch

from podium.core.gradient import HostedUpdate
from podium.parts.shape import DropCovariant
from tests.core.model import Policy, update
from tests.core.test_gradient import SPLITS, TERMS, assert_equal, plain, rows

LIVE = {"": (), "live": (DropCovariant(),)}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("live", LIVE)
def test_losses_of_micro_batches_add_up_to_the_update(terms: str, split: str, live: str) -> None:
    batch, policy, parts = update(), Policy(), LIVE[live]
    hosted = HostedUpdate(TERMS[terms], batch, parts)
    splits = rows(SPLITS[split][1]) or [torch.arange(len(batch))]
    now = {s: torch.zeros(batch.size("token")).double() for s in hosted.first_pass}
    with torch.no_grad():
        for part in splits if now else []:
            micro = hosted.update.take("rollout", part)
            for signal, value in policy(micro, hosted.first_pass).items():
                now[signal][micro["token.row"]] = value
    hosted.fix(now)
    for part in splits:
        loss = hosted.loss(part, policy(hosted.update.take("rollout", part), hosted.signals))
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
    expected, gradient = plain(TERMS[terms], batch, parts)
    assert_equal(policy.gradient(), gradient)
    assert hosted.result().loss == pytest.approx(expected)
