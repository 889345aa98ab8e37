"""Packing: every distinct beginning once, and every sequence still whole."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.policy.forward.pack import common_prefix, pack

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=12)


@given(SEQUENCES)
@settings(max_examples=200, deadline=None)
def test_nodes_are_the_distinct_beginnings(sequences: list[tuple[int, ...]]) -> None:
    packed = pack(sequences)
    distinct = {s[:end] for s in sequences for end in range(1, len(s) + 1)}
    assert packed.count == len(distinct)
    for sequence, nodes in zip(sequences, packed.nodes, strict=True):
        assert tuple(packed.ids[nodes].tolist()) == sequence
        assert packed.position[nodes].tolist() == list(range(len(sequence)))


@given(SEQUENCES, st.sampled_from([1, 4, 16]))
@settings(max_examples=100, deadline=None)
def test_every_node_attends_to_its_own_path_and_nothing_else(sequences: list[tuple[int, ...]], grain: int) -> None:
    packed = pack(sequences, grain=grain)
    path = {int(nodes[end]): nodes[: end + 1].tolist() for nodes in packed.nodes for end in range(len(nodes))}
    seen: dict[int, list[list[int]]] = {}
    offset = 0
    for bucket in packed.buckets:
        rows, width = bucket.queries.shape
        length = bucket.keys.shape[1]
        mask = torch.ones(width, length, dtype=torch.bool).tril().expand(rows, 1, width, length)
        mask = mask if bucket.mask is None else bucket.mask
        for row in range(rows):
            for column in range(width):
                place = offset + row * width + column
                for node in (packed.back[: packed.count] == place).nonzero().view(-1).tolist():
                    assert int(bucket.queries[row, column]) == node
                    seen.setdefault(node, []).append(bucket.keys[row][mask[row, 0, column]].tolist())
        offset += rows * width
    assert seen == {node: [nodes] for node, nodes in path.items()}


def test_given_nodes_are_not_computed_again() -> None:
    packed = pack([(5, 6, 7, 8), (5, 6, 9)], given=[(10, 2), (10, 2)], total=20)
    assert packed.count == 3
    assert packed.nodes[0].tolist()[:2] == [10, 11]
    assert packed.nodes[1].tolist()[:2] == [10, 11]
    assert min(packed.nodes[0].tolist()[2:]) >= 20


def test_the_last_token_is_never_taken_as_given() -> None:
    packed = pack([(5, 6)], given=[(0, 2)], total=2)
    assert packed.count == 1


@given(st.lists(st.integers(0, 1), max_size=200), st.lists(st.integers(0, 1), max_size=200))
def test_common_prefix_is_the_longest(a: list[int], b: list[int]) -> None:
    n = common_prefix(tuple(a), tuple(b))
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]
