"""Ordered verbs along a parent, against plain Python loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from podium.core import Batch, PodiumError
from tests.core.hierarchy import Hierarchy, close, hierarchies, runs, tensor


def one_rollout(n: int) -> Batch:
    return Batch.from_padded(torch.ones(1, n), [0])


def scanned(x: list[float], decay: list[float], parents: list[int], reverse: bool) -> list[float]:
    y = [0.0] * len(x)
    for members in runs(parents):
        carry = 0.0
        for i in reversed(members) if reverse else members:
            carry = x[i] + decay[i] * carry
            y[i] = carry
    return y


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_scan_is_the_plain_recurrence(h: Hierarchy) -> None:
    batch = h.batch()
    for level, parent in (("token", "rollout"), ("token", "turn"), ("turn", "rollout")):
        x, decay, parents = h.numbers(level), h.numbers(level, (0.0, 0.5, 1.0, -1.5)), h.link(level, parent)
        for reverse in (True, False):
            found = batch.scan(tensor(x), level, parent, decay=tensor(decay), reverse=reverse)
            close(found, scanned(x, decay, parents, reverse))
            close(
                batch.scan(tensor(x), level, parent, decay=0.9, reverse=reverse),
                scanned(x, [0.9] * len(x), parents, reverse),
            )


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1024, 1025, 5000])
def test_scan_is_exact_beyond_the_size_of_its_blocks(n: int) -> None:
    torch.manual_seed(n)
    lengths = torch.randint(1, 70, (n // 20 + 1,))
    mask = torch.arange(70)[None] < lengths[:, None]
    batch = Batch.from_padded(mask, torch.zeros(len(lengths), dtype=torch.long))
    x, decay = torch.randn(batch.size("token")).double(), torch.rand(batch.size("token")).double()
    parents = batch.link("token", "rollout").tolist()
    close(batch.scan(x, "token", decay=decay), scanned(x.tolist(), decay.tolist(), parents, True), 1e-11)
    whole = one_rollout(n)
    x = torch.randn(n).double()
    close(whole.scan(x, "token"), scanned(x.tolist(), [1.0] * n, [0] * n, True), 1e-11)


def test_a_decay_of_zero_resets_the_scan() -> None:
    batch, x = one_rollout(5), tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    close(batch.scan(x, "token", decay=tensor([1.0, 0.0, 1.0, 1.0, 1.0])), [3, 2, 12, 9, 5])


def test_scan_is_differentiable_in_values_and_decays() -> None:
    batch = Batch.from_padded(torch.tensor([[1] * 40, [1] * 7 + [0] * 33]), [0, 1])
    n = batch.size("token")
    x = torch.randn(n, dtype=torch.float64, requires_grad=True)
    decay = torch.rand(n, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: batch.scan(a, "token", decay=b), (x, decay))


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_shift_diff_position_first_and_last_are_those_of_plain_python(h: Hierarchy) -> None:
    batch = h.batch()
    for level, parent in (("token", "rollout"), ("token", "turn"), ("turn", "rollout")):
        x, parents, where = h.numbers(level), h.link(level, parent), h.mask(level)
        for by in (-4, -1, 0, 1, 2, 300):
            expected = [-7.0] * len(x)
            for members in runs(parents):
                for place, i in enumerate(members):
                    if 0 <= place - by < len(members):
                        expected[i] = x[members[place - by]]
            close(batch.shift(tensor(x), level, parent, by=by, fill=-7), expected)
        position, first, last, difference = ([0] * len(x) for _ in range(4))
        for members in runs(parents):
            entering = [i for i in members if where[i]]
            for place, i in enumerate(members):
                position[i], first[i], last[i] = place, [i] == entering[:1], [i] == entering[-1:]
                difference[i] = x[i] - (x[members[place - 1]] if place else 0.25)
        mask = torch.tensor(where, dtype=torch.bool)
        assert batch.position(level, parent).tolist() == position
        assert batch.first(level, parent, where=mask).tolist() == first
        assert batch.last(level, parent, where=mask).tolist() == last
        ends = [members[-1] for members in runs(parents)]
        assert batch.last(level, parent).nonzero().reshape(-1).tolist() == sorted(ends)
        starts = [members[0] for members in runs(parents)]
        assert batch.first(level, parent).nonzero().reshape(-1).tolist() == sorted(starts)
        close(batch.diff(tensor(x), level, parent, start=0.25), difference)


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_following_is_the_next_element_that_enters(h: Hierarchy) -> None:
    batch = h.batch()
    for share in (0.5, 1.0):
        x, parents, where = h.numbers("token"), h.link("token", "rollout"), h.mask("token", share)
        ends = h.numbers("rollout")
        expected = [ends[parent] for parent in parents]
        for members in runs(parents):
            for place, i in enumerate(members):
                after = [j for j in members[place + 1 :] if where[j]]
                if after:
                    expected[i] = x[after[0]]
        mask = torch.tensor(where, dtype=torch.bool)
        close(batch.following(tensor(x), "token", where=mask, fill=tensor(ends)), expected)
        assert batch.following(tensor(x), "token", where=mask, fill=-3.0).shape == mask.shape


@given(hierarchies())
@settings(deadline=None, max_examples=60)
def test_history_tells_apart_exactly_the_different_last_values(h: Hierarchy) -> None:
    words = [h.random.choice("ab") for _ in range(h.sizes["turn"])]
    batch = h.batch({"turn.state": words})
    for k in (1, 2, 3):
        codes, enough = batch.history("turn", "turn.state", k)
        pasts = [""] * len(words)
        for members in runs(h.turns):
            for place, i in enumerate(members):
                pasts[i] = "".join(words[j] for j in members[max(0, place - k + 1) : place + 1])
        assert enough.tolist() == [len(past) == k for past in pasts]
        for i, a in enumerate(pasts):
            assert [int(c) == int(codes[i]) for c in codes] == [a == b for b in pasts]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.scan(torch.zeros(2), "token"), "2 values for the 3 elements"),
        (lambda b: b.scan(torch.zeros(3), "token", decay=torch.zeros(2)), "decay has 2 values for the 3 elements"),
        (lambda b: b.shift(torch.zeros(4), "token"), "4 values for the 3 elements"),
        (lambda b: b.following(torch.zeros(3), "token", where=torch.ones(2).bool()), "where has 2 values"),
        (lambda b: b.history("token", "token.position", 0), "k must be at least 1"),
        (lambda b: b.spread(torch.zeros(3), "rollout", "token"), "3 values for the 1 rollouts"),
        (lambda b: b.reduce(torch.zeros(2), "token", "rollout", "sum"), "2 values for the 3 elements"),
        (lambda b: b.reduce(torch.zeros(3), "token", "rollout", "men"), "Cannot reduce by 'men'. Did you mean 'mean'"),
    ],
)
def test_lengths_that_do_not_fit_are_refused_before_any_memory_is_read(call, message) -> None:  # type: ignore[no-untyped-def]
    batch = Batch.from_padded(torch.ones(1, 3), [0], {"token.position": torch.tensor([[0, 1, 2]])})
    with pytest.raises(PodiumError, match=message):
        call(batch)
