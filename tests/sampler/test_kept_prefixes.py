"""The LRU store of kept prefixes."""

from __future__ import annotations

import torch

from podium.sampler.kept_prefixes import KeptPrefixes


def held(count: int) -> torch.Tensor:
    return torch.arange(count).view(1, count, 1, 1)


def add(store: KeptPrefixes, *ids: int) -> None:
    store.add(ids, (held(len(ids)), held(len(ids))))


def test_the_longest_common_beginning_is_found() -> None:
    store = KeptPrefixes(100)
    for text in ((1, 2, 3), (1, 2, 4, 5, 6), (2,)):
        add(store, *text)
    for query, shared in (((1, 2, 4, 5, 9), 4), ((1, 2, 3, 7), 3), ((1, 9), 1), ((2, 2), 1)):
        found = store.find(query)
        assert found is not None
        assert found[2] == shared
        assert found[0][:shared] == query[:shared]
    assert store.find((3, 1)) is None


def test_it_wants_only_what_is_new_and_drops_what_is_contained() -> None:
    store = KeptPrefixes(100)
    add(store, 1, 2, 3)
    assert not store.wants((1, 2))
    assert not store.wants((1, 2, 3))
    assert store.wants((1, 2, 4))
    add(store, 1, 2, 3, 4)
    assert len(store) == 1
    assert store.size == 4


def test_the_least_recently_used_goes_first() -> None:
    store = KeptPrefixes(6)
    add(store, 1, 1)
    add(store, 2, 2)
    add(store, 3, 3)
    store.find((1, 1))
    add(store, 4, 4)
    assert store.find((2, 2)) is None
    assert store.find((1, 1)) is not None
    assert store.size == 6
    assert not store.wants((5,) * 7)
    store.clear()
    assert len(store) == store.size == 0
