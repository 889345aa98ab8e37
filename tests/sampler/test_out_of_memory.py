"""What does not fit in a GPU's memory after all is sampled in smaller numbers, or named with what to change."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from podium.policy.cuda.pages import PagedCache
from podium.policy.forward.decoder import Decoder
from podium.sampler import Generate
from podium.sampler.local import LocalSampler
from podium.sampler.row_engine import RowsDoNotFit
from tests.sampler.test_local import requests
from tests.sampler.test_paged import paged, policy, texts


@pytest.mark.parametrize("way", [True, False])
def test_rows_that_do_not_fit_after_all_leave_room_for_fewer(way: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    engine: Any = LocalSampler(policy(), paged=way).engine
    engine.reserve(16, 1, 20, 20, busy=False)
    asked = 48, 3, 40, 60
    assert engine.fits(*asked)
    with monkeypatch.context() as patch:
        for name in ("zeros", "empty"):
            patch.setattr(torch, name, full)
        patch.setattr(torch.Tensor, "new_zeros", full)
        with (
            pytest.warns(UserWarning, match=r"no room for the keys and values of 48 rollouts .* fewer are sampled"),
            pytest.raises(RowsDoNotFit, match="use a smaller max_tokens, a smaller micro_tokens"),
        ):
            engine.reserve(*asked, busy=False)
    assert not engine.fits(*asked)
    assert engine.fits(16, 1, 40, 60)
    engine.reserve(16, 1, 40, 60, busy=False)


def test_prompts_that_do_not_fit_together_are_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = policy()
    asked = requests(9)
    expected = texts(LocalSampler(model, paged=False).generate(asked))
    real, tried = Decoder.encode, []

    def encode(self: Decoder, packed: Any, *rest: Any, **named: Any) -> Any:
        tried.append(packed.count)
        if packed.count > 30:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, packed, *rest, **named)

    monkeypatch.setattr(Decoder, "encode", encode)
    assert texts(LocalSampler(model, paged=False).generate(asked)) == expected
    assert max(tried) > 30


@pytest.mark.parametrize("way", [True, False])
@pytest.mark.parametrize("most", [20, 60])
def test_rollouts_that_do_not_fit_together_are_sampled_in_smaller_numbers(
    way: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = policy()
    asked = requests(20)
    expected = texts(LocalSampler(model, paged=way).generate(asked))
    owner, name = (PagedCache, "__init__") if way else (Decoder, "cache")
    real, tried = getattr(owner, name), []

    def narrow(self: Any, *given: Any, **named: Any) -> Any:
        rows = given[1] if way else given[0]
        tried.append(rows)
        if rows > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, *given, **named)

    monkeypatch.setattr(owner, name, narrow)
    sampler = LocalSampler(model, paged=way)
    with pytest.warns(UserWarning, match="from now on fewer are sampled at once"):
        assert texts(sampler.generate(asked)) == expected
    assert max(tried) > most


def test_a_single_rollout_that_does_not_fit_names_the_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = paged(policy())

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(PagedCache, "__init__", full)
    with pytest.raises(RowsDoNotFit, match=r"no room for the keys and values of a rollout .* use a smaller max_tokens"):
        sampler.generate([Generate((5, 6))])
