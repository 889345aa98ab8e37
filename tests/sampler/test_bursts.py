"""How many tokens are drawn on a GPU before the host looks: more while rows that wait take the places of others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from podium.sampler import Sampling
from podium.sampler.local import LocalSampler
from podium.sampler.paged_row_state import PagedRowState
from podium.sampler.row_state import ALIVE
from tests.sampler.test_local import requests
from tests.sampler.test_paged import paged, policy, texts


@pytest.fixture
def bursts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The length of each burst, and whether rows wait in line."""
    seen: list[tuple[int, bool]] = []
    keep = LocalSampler._burst

    def watched(self: LocalSampler) -> int:
        seen.append((keep(self), self._rows.running > self.slots))
        return seen[-1][0]

    monkeypatch.setattr(LocalSampler, "_burst", watched)
    return seen


def asked(count: int, **settings: Any) -> list[Any]:
    return [replace(r, n=1, sampling=Sampling(max_tokens=150, **settings)) for r in requests(count)]


def test_bursts_grow_while_others_wait_and_are_short_again_at_the_end(
    bursts: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last bits of prompts that are encoded may depend on which of them come together.
    monkeypatch.setattr("podium.sampler.paged.READ", 10**6)
    model = policy()
    model.chat.end_ids = (1, 5)
    work = asked(200)
    expected = paged(model, slots=250).generate(work)  # nobody waits
    bursts.clear()
    assert texts(paged(model, slots=64).generate(work)) == texts(expected)
    assert max(count for count, waiting in bursts if waiting) == PagedRowState.max_burst
    assert {count for count, waiting in bursts if not waiting} <= {PagedRowState.burst}
    assert all(after <= max(2 * before, PagedRowState.burst) for (before, _), (after, _) in pairwise(bursts))


def test_bursts_are_short_where_rows_end_too_fast_for_those_that_wait(bursts: list[tuple[int, bool]]) -> None:
    model = policy()
    model.chat.end_ids = tuple(range(0, 512, 6))
    paged(model, slots=16).generate(asked(100))
    counts = [count for count, waiting in bursts if waiting]
    assert sum(counts) / len(counts) < 1.5 * PagedRowState.burst


def test_bursts_are_short_where_only_the_host_sees_an_end(bursts: list[tuple[int, bool]]) -> None:
    model = policy()
    model.chat.end_ids = ()
    paged(model, slots=16).generate(asked(40, stop=("zz",)))
    assert {count for count, _ in bursts} <= {PagedRowState.burst}


def test_no_burst_goes_beyond_where_all_come_to_their_limit(bursts: list[tuple[int, bool]]) -> None:
    model = policy()
    model.chat.end_ids = ()
    sampler = paged(model, slots=16)
    idle = []
    keep = PagedRowState._launch

    def watched(self: PagedRowState, *given: Any) -> None:
        keep(self, *given)
        idle.append(16 - int(self.lane_ints[ALIVE].sum()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PagedRowState, "_launch", watched)
        sampler.generate(asked(64))
    # All of a wave end together, and those that wait are a quarter of them: as short as ever, bursts leave lanes idle
    # for two of them at each of the first waves' ends.
    assert max(count for count, _ in bursts) > PagedRowState.burst
    assert sum(idle[: 150 * 3]) <= 3 * 2 * PagedRowState.burst * 12
