"""Draws on a GPU that are truncated, warmed or greedy: by kernels of the captured step, elsewhere by plain torch."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch

from podium.policy.cuda import decode_reference as plain
from podium.policy.cuda.draw_check import check_draw_kernels
from podium.protocols.sampling import Warmth
from podium.sampler import Generate, Sampling
from podium.sampler.local import LocalSampler
from podium.sampler.row_state import RowState
from tests.sampler.test_local import contexts, requests
from tests.sampler.test_paged import DEVICE, FAMILY, paged, policy, texts

TRUNCATED = (
    Sampling(max_tokens=30, top_k=5),
    Sampling(max_tokens=30, top_k=1),
    Sampling(max_tokens=25, temperature=0.6, top_p=0.9),
    Sampling(max_tokens=20, temperature=1.5, min_p=0.1),
    Sampling(max_tokens=28, temperature=0.8, top_k=12, top_p=0.95, min_p=0.02),
    Sampling(max_tokens=15, temperature=0.0, top_p=0.9),
    Sampling(max_tokens=22, temperature=0.9),
    Sampling(max_tokens=22, temperature=0.9, warmth=Warmth(0.4, pivot=0.5, above=0.7, below=-0.3)),
    Sampling(max_tokens=22, top_p=0.8, warmth=Warmth(0.2, pivot=2.0, above=1.0, below=5.0)),
)


@FAMILY
def test_truncated_and_warmed_rows_are_drawn_ahead_as_others_are(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = policy(family)
    asked = [
        Generate(c, n=3, sampling=s, stream=(5, i), capture=("entropy",))
        for i, (c, s) in enumerate(zip(contexts(len(TRUNCATED), seed=3), TRUNCATED, strict=True))
    ]
    expected = LocalSampler(model, paged=False).generate(asked)
    monkeypatch.setattr(RowState, "advance", None)  # nothing is drawn one token at a time
    for slots in (4, 64):
        found = paged(model, slots=slots).generate(asked)
        assert texts(found) == texts(expected)
        for one, other in zip((c for a in found for c in a), (c for a in expected for c in a), strict=True):
            for a, b in ((one.logp, other.logp), (one.captured["entropy"], other.captured["entropy"])):
                torch.testing.assert_close(torch.tensor(a), torch.tensor(b), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("sampling", TRUNCATED, ids=repr)
def test_what_else_is_kept_of_tokens_is_of_the_distribution_drawn_from(sampling: Sampling) -> None:
    model, names = policy(), ("topk=3", "entropy[top_k=20]", "entropy", "divergence[metric=cosine-entropy,top_k=5]")
    asked = [
        Generate(c, n=3, sampling=sampling, stream=(6, i), capture=names[: i + 1])
        for i, c in enumerate(contexts(4, seed=4))
    ]
    expected = LocalSampler(model, paged=False).generate(asked)
    for slots in (4, 64):
        found = paged(model, slots=slots).generate(asked)
        assert texts(found) == texts(expected)
        for one, other in zip((c for a in found for c in a), (c for a in expected for c in a), strict=True):
            assert one.captured.keys() == other.captured.keys()
            for name, values in one.captured.items():
                x, y = (torch.tensor(v).float() for v in (values, other.captured[name]))
                for pairs in (x, y) if name == "topk=3" else ():
                    pairs[..., 0][pairs[..., 1].isinf()] = -1.0  # of tokens that are left out any may be named
                torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)


def test_kernels_of_truncated_draws_that_do_not_work_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    model = policy()
    asked = [replace(r, sampling=replace(r.sampling, top_k=5, top_p=0.8)) for r in requests(8)]
    expected = LocalSampler(model, paged=False).generate(asked)
    monkeypatch.setattr("podium.sampler.paged_row_state.check_draw_kernels", lambda *_: "no such instruction")
    with pytest.warns(UserWarning, match="go through torch here, which is slower: no such instruction") as said:
        found = paged(model, slots=16).generate(asked)
    assert texts(found) == texts(expected)
    assert len(said) == 1


def test_what_is_wrong_with_kernels_of_truncated_draws_is_found() -> None:
    class Wrong(ModuleType):
        """The plain functions, of which one does nothing, or fails."""

        def __init__(self, broken: Any) -> None:
            super().__init__("wrong")
            self.__dict__.update({**vars(plain), **broken})

    def fails(*_: Any) -> None:
        raise RuntimeError("out of resource: shared memory\nRequired: 300000")

    place = torch.device("cpu")
    assert check_draw_kernels(Wrong({}), 1000, place) is None
    for name in ("truncate", "warm"):
        assert "other numbers" in str(check_draw_kernels(Wrong({name: lambda *_: None}), 1000, place))
        assert check_draw_kernels(Wrong({name: fails}), 1000, place) == "out of resource: shared memory"


def test_settings_of_some_change_nothing_for_others() -> None:
    model = policy()
    plain = requests(6)
    odd = [
        Generate((8, 9), n=5, sampling=Sampling(max_tokens=25, temperature=0.3, top_p=0.5), stream=(9,)),
        Generate((8, 9, 10), n=5, sampling=Sampling(max_tokens=9, temperature=0.0), stream=(10,)),
        Generate((8, 9, 11), n=5, sampling=Sampling(max_tokens=25, stop=(" is",)), stream=(11,), capture=("topk",)),
    ]
    alone = texts(paged(model).generate(plain))
    assert texts(paged(model, slots=16).generate([*odd, *plain])[3:]) == alone
    assert texts(paged(model, slots=16).generate([*plain, *odd])[:6]) == alone


@FAMILY
def test_temperature_zero_takes_the_most_likely_token(family: str) -> None:
    model = policy(family)
    greedy = Sampling(max_tokens=8, temperature=0.0)
    (answers,) = paged(model).generate([Generate((5, 6, 7), n=2, sampling=greedy, capture=("entropy",))])
    sequence = [5, 6, 7]
    for _ in answers[0].ids:
        with torch.no_grad():
            logits = model.model(torch.tensor([sequence], device=DEVICE)).logits
        sequence.append(int(logits[0, -1].argmax()))
    assert list(answers[0].ids) == list(answers[1].ids) == sequence[3:]
    assert set(answers[0].logp) == set(answers[0].captured["entropy"]) == {0.0}
