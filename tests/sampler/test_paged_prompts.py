"""Prompts of rows of pages: read as rows of steps, or encoded together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from podium.policy import Policy
from podium.policy.cuda.decode import PagedRead
from podium.policy.forward.decoder import Decoder
from podium.policy.model import lora
from podium.sampler import Generate, Sampling
from tests.policy import tiny
from tests.sampler.test_local import contexts, rescored
from tests.sampler.test_paged import DEVICE, FAMILY, WHOLE, paged, policy, texts


def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often prompts are encoded, and how many steps read them."""
    counts = {"encoded": 0, "read": 0}

    def counting(owner: Any, name: str, what: str) -> None:
        function = getattr(owner, name)

        def wrapper(*args: Any, **settings: Any) -> Any:
            counts[what] += 1
            return function(*args, **settings)

        monkeypatch.setattr(owner, name, wrapper)

    counting(Decoder, "encode", "encoded")
    counting(PagedRead, "__call__", "read")
    return counts


def groups(*shapes: tuple[int, int]) -> list[Generate]:
    """A group for each number of tokens of a prompt and of copies."""
    return [
        Generate(contexts(1, seed=i, low=length, high=length)[0], n=n, stream=(i,), sampling=Sampling(max_tokens=20))
        for i, (length, n) in enumerate(shapes)
    ]


# Nothing to read, less than a page, a page and one token more or less, several pages and a rest.
LENGTHS = ((1, 3), (2, 2), (9, 4), (16, 3), (17, 5), (18, 1), (33, 2), (70, 6))


@FAMILY
@pytest.mark.parametrize("slots", [5, 64])
def test_reading_prompts_equals_encoding_them(family: str, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = policy(family), groups(*LENGTHS)
    monkeypatch.setattr("podium.sampler.paged.READ", 10**6)
    # Steps of so few rows that texts go on from one to the next.
    monkeypatch.setattr("podium.sampler.paged.READ_ROWS", (WHOLE, WHOLE) if DEVICE == "cuda" else (16, 32))
    read = paged(model, slots=slots).generate(asked)
    monkeypatch.setattr("podium.sampler.paged.READ", -1)
    encoded = paged(model, slots=slots).generate(asked)
    assert texts(read) == texts(encoded)
    for one, other in zip((c for a in read for c in a), (c for a in encoded for c in a), strict=True):
        torch.testing.assert_close(torch.tensor(one.logp), torch.tensor(other.logp), atol=1e-5, rtol=1e-5)


def test_few_prompts_are_read_and_many_are_encoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model, counts = policy(), counted(monkeypatch)
    paged(model, slots=64).generate(groups((100, 8), (100, 8), (40, 8)))
    assert counts == {"encoded": 0, "read": 1}
    many = [(20, 1)] * 60  # most of them would come alone, and take a step each
    paged(model, slots=4).generate(groups(*many))
    assert counts == {"encoded": 1, "read": 1}


def test_long_prompts_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    model, counts = policy(max_position_embeddings=4096), counted(monkeypatch)
    paged(model).generate(groups((3000, 2)))
    assert counts == {"encoded": 1, "read": 0}


def test_a_prompt_is_read_once_for_all_its_rows_and_those_that_come_later_read_its_last_page() -> None:
    model = policy()
    model.chat.end_ids = ()
    sampler = paged(model, slots=4)
    (request,) = groups((40, 8))
    assert [len(c.ids) for c in sampler.generate([request])[0]] == [20] * 8
    # Of 39 tokens 32 fill pages, which the later rows have in common with one that waited and is still under way.
    assert sampler.stats.encoded == 39 + 7
    sampler = paged(model, slots=8)
    sampler.submit(replace(request, n=4))
    sampler._join()
    sampler.submit(replace(request, n=4, first=4))
    sampler._join()
    assert sampler.stats.encoded == 39 + 7


def test_only_what_is_new_of_a_conversation_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    model = policy()
    model.chat.end_ids = ()
    sampler = paged(model)
    (request,) = groups((40, 3))
    (answers,) = sampler.generate([request])
    before, counts = sampler.stats.encoded, counted(monkeypatch)
    told = [
        Generate((*request.context, *c.ids, 7, 8, 9), n=2, sampling=Sampling(max_tokens=9), stream=(1, i))
        for i, c in enumerate(answers)
    ]
    further = sampler.generate(told)
    assert counts == {"encoded": 0, "read": 1}
    assert sampler.stats.encoded - before == 3 * 3  # an answer's last token and all but the last that was told
    for asked, completions in zip(told, further, strict=True):
        for c in completions:
            torch.testing.assert_close(torch.tensor(c.logp), rescored(model, asked, c).cpu(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["llama-grouped", "qwen3"])
def test_in_a_low_precision_a_conversation_is_encoded_as_it_is_trained(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = policy(family)
    assert model.decoder is not None
    model.chat.end_ids, model.decoder.lower = (), torch.bfloat16  # as in training on a GPU
    sampler = paged(model)
    asked = groups((40, 3), (20, 2))
    answers, counts = sampler.generate(asked), counted(monkeypatch)
    sampler.engine.most_read = 0  # type: ignore[attr-defined]
    told = [
        Generate((*request.context, *c.ids, *range(7, 30)), sampling=Sampling(max_tokens=9), stream=(1, i))
        for request, group in zip(asked, answers, strict=True)
        for i, c in enumerate(group)
    ]
    reused = sampler.stats.reused
    further = sampler.generate(told)
    assert counts["encoded"] == 1
    assert sampler.stats.reused > reused
    gaps = [
        (torch.tensor(c.logp) - rescored(model, request, c).float().cpu()).abs()
        for request, (c,) in zip(told, further, strict=True)
    ]
    assert float(torch.cat(gaps).mean()) < 1e-5


@pytest.mark.parametrize("family", ["llama-grouped", "qwen3"])
def test_with_adapters_the_sampler_has_the_trainer_s_numbers_as_without(family: str) -> None:
    pytest.importorskip("peft")
    adapted = lora.attach(policy(family).model.bfloat16(), {"r": 4})
    model = Policy(adapted, tiny.tokenizer())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.data = torch.randn(parameter.shape, device=DEVICE) * 0.1
    assert model.decoder is not None
    model.chat.end_ids, model.decoder.lower = (), torch.bfloat16  # as in training on a GPU
    asked = groups((40, 3), (20, 2))
    gaps = [
        (torch.tensor(c.logp) - rescored(model, request, c).float().cpu()).abs()
        for request, group in zip(asked, paged(model).generate(asked), strict=True)
        for c in group
    ]
    assert float(torch.cat(gaps).mean()) < 1e-5
