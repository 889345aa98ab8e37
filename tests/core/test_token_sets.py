"""Sets of tokens as texts, as codes, and as masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.memory import decode_state, encode_state
from podium.core.token_sets import CODES, SETS, TokenSets, set_codes, token_sets

VOCABULARY = 60_000  # with tokens at and beyond the code points that are no characters


def masks() -> torch.Tensor:
    mask = torch.zeros(4, VOCABULARY, dtype=torch.bool)
    mask[0, [0, 5, 0xD7FF, 0xD800, 0xDFFF, VOCABULARY - 1]] = True
    mask[1] = True
    mask[1, 7] = False
    mask[3] = True
    return mask


def test_a_set_lists_what_it_has_or_what_it_lacks() -> None:
    few, most, none, whole = token_sets(masks().numpy())
    assert (len(few), few[0]) == (7, "+")
    assert most == "-\x07"
    assert (none, whole) == ("+", "-")
    assert token_sets(np.zeros((0, 5), dtype=bool)) == []


def test_masks_come_back_by_the_numbers_of_sets() -> None:
    mask = masks()
    sets = TokenSets(token_sets(mask.numpy()), torch.device("cpu"))
    found = sets.mask(torch.tensor([2, 0, 1, 2, 3]), VOCABULARY)
    assert found[1].all()  # 0 is the whole vocabulary
    for row, expected in zip((0, 2, 3, 4), (1, 0, 1, 2), strict=True):
        assert torch.equal(found[row], mask[expected])
    with pytest.raises(PodiumError, match="roles must share the policy's tokenizer"):
        sets.mask(torch.tensor([1]), 100)


def test_each_set_of_a_rollout_stands_once() -> None:
    assert set_codes(["+a", None, "+b", "+a", 0.0]) == ([1, 0, 2, 1, 0], ("+a", "+b"))


def batch(*sets: tuple[str | None, ...]) -> Batch:
    turns = [Turn(range(len(s)), (1,), tokens={"sampler.allowed": s, "sampler.logp": [0.0] * len(s)}) for s in sets]
    return Batch.from_rollouts([Rollout(f"task {i}", [turn]) for i, turn in enumerate(turns)])


def test_a_batch_keeps_its_sets_when_it_is_cut_joined_and_stored() -> None:
    first, second = batch(("+a", None), ("+b", "+a")), batch(("-c", "+a"))
    joined = Batch.concat([first.take("rollout", torch.tensor([1])), second])
    tensors: dict[str, torch.Tensor] = {}
    stored = decode_state(encode_state(joined, tensors), tensors)
    for one in (joined, stored):
        assert one[SETS] == (("+b", "+a"), ("-c", "+a"))
        assert one[CODES].tolist() == [1, 2, 1, 2]
        sets, numbers = TokenSets.of(one, torch.device("cpu"))
        masks = sets.mask(numbers, 200)
        assert [row.nonzero().flatten().tolist() for row in masks[[0, 1, 3]]] == [[98], [97], [97]]
        assert (~masks[2]).nonzero().flatten().tolist() == [99]


def test_a_turn_without_sets_was_drawn_from_all_tokens() -> None:
    turns = [Turn((1, 2), (1,), tokens={"sampler.allowed": ("+a", None)}), Turn((3,), (1,))]
    assert Batch.from_rollouts([Rollout("task", turns)])[CODES].tolist() == [1, 0, 0]
    short = Rollout("task", [Turn((1, 2), (1,), tokens={"sampler.allowed": ("+a",)})])
    with pytest.raises(PodiumError, match="2 tokens and 1 sets"):
        Batch.from_rollouts([short])
