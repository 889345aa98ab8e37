"""Rows of pages, several tokens drawn ahead of the host: on a GPU by its kernels, elsewhere by plain torch."""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from podium.policy import Policy
from podium.policy.cuda import decode_reference as plain
from podium.policy.cuda.decode import Captured
from podium.policy.cuda.pages import PagedCache, launches, send_arrays
from podium.sampler import Completion, Generate, Sampling, Stop
from podium.sampler.local import LocalSampler
from podium.sampler.paged import PagedEngine
from podium.sampler.paged_row_state import PagedRowState
from tests.policy import tiny
from tests.sampler.test_local import contexts, ending, requests, rescored

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WHOLE = launches(torch.device(DEVICE)).ROWS
FAMILY = pytest.mark.parametrize("family", ["llama", "llama-grouped", "qwen2", "qwen3"])


def policy(family: str = "llama", **settings: Any) -> Policy:
    made = tiny.policy(family, **settings)
    return ending(Policy(made.model.to(DEVICE), made.tokenizer, name=made.name))


def paged(of: Policy, **settings: Any) -> LocalSampler:
    sampler = LocalSampler(of, paged=True, **settings)
    assert isinstance(sampler.engine, PagedEngine)
    return sampler


def texts(answers: list[list[Completion]]) -> list[list[tuple[tuple[int, ...], Stop]]]:
    return [[(c.ids, c.stop) for c in completions] for completions in answers]


@FAMILY
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_and_entropies_are_the_trainers(family: str, temperature: float) -> None:
    model = policy(family)
    asked = requests(temperature=temperature)
    for request, completions in zip(asked, paged(model, slots=16).generate(asked), strict=True):
        assert len(completions) == request.n
        for c in completions:
            expected = rescored(model, request, c, temperature=temperature).cpu()
            torch.testing.assert_close(torch.tensor(c.logp), expected, atol=1e-5, rtol=1e-5)
            entropy = rescored(model, request, c, name="entropy", temperature=temperature).cpu()
            torch.testing.assert_close(torch.tensor(c.captured["entropy"]), entropy, atol=1e-4, rtol=1e-5)


@FAMILY
def test_the_same_seed_gives_the_same_tokens_whatever_the_batching(family: str) -> None:
    model = policy(family)
    asked = requests(20)
    first = texts(paged(model, slots=4).generate(asked))
    for slots in (16, 64):
        assert texts(paged(model, slots=slots).generate(asked)) == first
    order = random.Random(1).sample(range(20), 20)
    shuffled = texts(paged(model, slots=16).generate([asked[i] for i in order]))
    assert shuffled == [first[i] for i in order]


@pytest.mark.parametrize("ahead", [1, 3, PagedRowState.burst])
def test_how_far_the_device_goes_ahead_changes_nothing(ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = policy()
    asked = [*requests(12), Generate((5, 6), n=3, sampling=Sampling(max_tokens=40, stop=(" is", "1")), stream=(7,))]
    expected = LocalSampler(model, paged=False).generate(asked)
    monkeypatch.setattr(PagedRowState, "burst", ahead)
    assert texts(paged(model, slots=16).generate(asked)) == texts(expected)


def test_work_may_come_while_other_work_is_under_way() -> None:
    model = policy()
    asked = requests(15)
    expected = paged(model).generate(asked)
    sampler = paged(model, slots=8)
    tickets = {sampler.submit(r): i for i, r in enumerate(asked[:3])}
    found: dict[int, list[Completion]] = {}
    late = iter(range(3, 15))
    while answers := sampler.poll():
        for ticket, completions in answers:
            found[tickets[ticket]] = completions
            for i in [n for _ in range(2) if (n := next(late, None)) is not None]:
                tickets[sampler.submit(asked[i])] = i
    assert texts([found[i] for i in range(15)]) == texts(expected)
    assert sampler.poll() == []


@pytest.mark.parametrize("slots", [5, 16, 40])
def test_rows_that_wait_begin_when_others_end_before_the_host_knows(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = policy()
    model.chat.end_ids = (1, 5, 6, 7)
    asked = [replace(r, n=1, sampling=Sampling(max_tokens=200)) for r in requests(6 * slots)]
    # The last bits of prompts that are encoded may depend on which of them come together.
    monkeypatch.setattr("podium.sampler.paged.READ", 10**6)
    expected = paged(model, slots=len(asked)).generate(asked)  # nobody waits
    sampler, going = paged(model, slots=slots), list[int]()
    keep = PagedRowState._launch

    def watched(self: PagedRowState, *given: Any) -> None:
        keep(self, *given)
        going.append(int(self.lane_ints[plain.ALIVE].sum()))

    monkeypatch.setattr(PagedRowState, "_launch", watched)
    monkeypatch.setenv("PODIUM_GRAPHS", "0")
    found = sampler.generate(asked)
    assert texts(found) == texts(expected)
    assert max(going) == slots
    # But for the beginning and the end, and where all that waited have ended before the host could send more.
    middle = going[PagedRowState.burst : sum(len(c.ids) for a in found for c in a) // slots // 2]
    assert sum(middle) > 0.97 * slots * len(middle)


def test_a_row_that_the_host_ends_is_free_for_another_at_once() -> None:
    model = policy()
    model.chat.end_ids = ()
    asked = [
        Generate(c, n=2, sampling=Sampling(max_tokens=40, stop=("a", "e", "i")), stream=(8, i))
        for i, c in enumerate(contexts(30, seed=8))
    ]
    expected = LocalSampler(model, paged=False).generate(asked)
    assert {c.stop for a in expected for c in a} == {Stop.text, Stop.length}
    for slots in (6, 20):
        assert texts(paged(model, slots=slots).generate(asked)) == texts(expected)


@pytest.mark.parametrize("seed", range(5))
def test_whoever_comes_and_goes_what_was_written_is_the_models_and_all_places_come_back(seed: int) -> None:
    model, chance = policy(), random.Random(seed)
    model.chat.end_ids = (1, *range(5, 5 + 8 * seed))
    settings: list[dict[str, Any]] = [{}, {}, {"stop": ("a", " is")}, {"capture": ("topk=3",)}]
    waiting = []
    for number, context in enumerate(chance.choices(contexts(6, seed=seed, low=1, high=50), k=30)):
        given = dict(chance.choice(settings))
        captured = given.pop("capture", ("entropy",))
        sampling = Sampling(max_tokens=chance.choice([1, 2, 7, 8, 9, 30, 60]), **given)
        n, keep = chance.choice([1, 1, 2, 5, 9]), chance.random() < 0.5
        waiting.append(Generate(context, n, sampling, stream=(seed, number), capture=captured, keep=keep))
    slots = chance.choice([1, 3, 8, 17])
    sampler = paged(model, slots=slots, memory=None if seed % 2 else 60 * 16 * paged(model).engine.token_bytes)
    under_way: dict[int, Generate] = {}
    while waiting or under_way:
        for request in [waiting.pop() for _ in range(min(len(waiting), chance.randint(not under_way, 6)))]:
            under_way[sampler.submit(request)] = request
        for ticket, completions in sampler.poll():
            request = under_way.pop(ticket)
            assert len(completions) == request.n
            for c in completions:
                ended = c.ids[-1] in model.chat.end_ids or c.stop is Stop.text
                assert ended or len(c.ids) == request.sampling.max_tokens
                assert not set(c.ids[:-1]) & set(model.chat.end_ids)
                torch.testing.assert_close(torch.tensor(c.logp), rescored(model, request, c).cpu(), atol=2e-4, rtol=0)
    pages, state = sampler.engine.pages, sampler.state  # type: ignore[attr-defined]
    assert sorted(pages._free) == list(range(1, pages.count))
    assert sorted(state.free) == list(range(1, len(state.kept["ids"])))
    assert sampler._rows.running == 0


def test_a_prompt_is_stored_once_for_all_its_rows_and_pages_come_back() -> None:
    model = policy()
    model.chat.end_ids = ()
    sampler = paged(model, slots=64)
    pages = sampler.engine.pages  # type: ignore[attr-defined]
    context = contexts(1, low=100, high=100)[0]
    sampler.submit(Generate(context, n=32, sampling=Sampling(max_tokens=8), keep=False))
    sampler._join()
    pages = sampler.engine.pages  # type: ignore[attr-defined]
    assert len(pages._shared) == 1
    shared = pages.table[:32, :6].tolist()
    assert all(row == shared[0] for row in shared)
    assert len(pages._free) == pages.count - 1 - 6 - 32
    sampler.poll()
    assert sorted(pages._free) == list(range(1, pages.count))


def test_a_continuation_equals_uninterrupted_sampling_and_encodes_nothing() -> None:
    model = policy()
    model.chat.end_ids = ()
    context = contexts(1, low=40, high=40)[0]
    whole = paged(model).generate([Generate(context, n=3, sampling=Sampling(max_tokens=20), stream=(4,))])[0]
    sampler = paged(model)
    parts = sampler.generate([Generate(context, n=3, sampling=Sampling(max_tokens=8), stream=(4,))])[0]
    encoded = sampler.stats.encoded
    resumed = sampler.generate(
        [
            Generate(context, prefix=c.ids, sampling=Sampling(max_tokens=12), stream=(4,), first=i)
            for i, c in enumerate(parts)
        ]
    )
    assert sampler.stats.encoded == encoded
    for before, (after,), expected in zip(parts, resumed, whole, strict=True):
        assert before.ids + after.ids == expected.ids


def test_little_memory_means_fewer_rows_not_other_tokens() -> None:
    model = policy()
    asked = requests(12)
    large = paged(model)
    small = paged(model, memory=40 * 16 * large.engine.token_bytes)  # type: ignore[attr-defined]
    assert texts(small.generate(asked)) == texts(large.generate(asked))
    assert small.engine.pages.count < large.engine.pages.count  # type: ignore[attr-defined]


@pytest.mark.parametrize("slots", [1, 5, 64, 100, 257, 1000, 2049])
def test_pages_are_for_those_that_go_on_and_those_that_wait_and_no_more(slots: int) -> None:
    engine: Any = paged(policy(), slots=slots).engine
    assert engine.max_rows == slots + slots // 4
    for rows in {1, slots, engine.max_rows}:
        reserved = engine._reserved(rows)
        assert rows <= reserved <= max(engine.bucket(slots), engine.max_rows)
        # There are tables for as many lanes as a step may have.
        assert -(-reserved // WHOLE) * WHOLE >= engine.bucket(min(rows, slots))


def test_steps_stay_captured_while_rows_of_other_contexts_come() -> None:
    model = policy()
    sampler = paged(model, slots=32)
    prompts = sorted(contexts(40, low=10, high=30), key=len)  # and longer ones
    asked = [Generate(c, n=8, sampling=Sampling(max_tokens=200), stream=(i,)) for i, c in enumerate(prompts)]
    for request in asked:
        sampler.submit(request)
    state: Any = sampler.state
    done, most, places = len(sampler.poll()), 0, state._drawn_for
    while ready := sampler.poll():
        done += len(ready)
        most = max(most, len(sampler._rows.texts))
        assert state._drawn_for == places
    assert done == len(asked)
    assert most > 2 * 5  # five contexts have forty rows: there was room for more than twice as many


def test_rounds_of_very_different_shapes_find_their_pages() -> None:
    model = policy()
    model.chat.end_ids = ()
    sampler = paged(model, slots=32)
    shapes = [(2, 60, 16, 150), (40, 100, 1, 5), (3, 20, 12, 120), (40, 120, 2, 3), (1, 10, 40, 200)]
    asked = [
        Generate(c, n=n, sampling=Sampling(max_tokens=tokens), stream=(round_number, i), keep=False)
        for round_number, (count, length, n, tokens) in enumerate(shapes)
        for i, c in enumerate(contexts(count, seed=round_number, low=length, high=length))
    ]
    answers = sampler.generate(asked)
    assert [len(c.ids) for a in answers for c in a] == [r.sampling.max_tokens for r in asked for _ in range(r.n)]
    pages = sampler.engine.pages  # type: ignore[attr-defined]
    assert sorted(pages._free) == list(range(1, pages.count))
    alone = paged(model, slots=32).generate(asked[-1:])
    assert texts(alone) == texts(answers[-1:])


def test_pages_are_added_where_they_are_too_few() -> None:
    model = policy()
    assert model.decoder is not None
    pages = PagedCache(model.decoder, 16, 1, 32, 16)
    layers, kv, size = len(model.decoder.layers), model.decoder.kv_heads, model.decoder.head_size
    keys, values = (torch.randn(layers, 32 * 16, kv, size, device=DEVICE) for _ in range(2))
    nodes = [np.arange(32 * i, 32 * i + 32 - i) for i in range(16)]
    texts = [(i,) * (33 - i) for i in range(16)]
    lacking = pages.lacking(texts)
    assert lacking > 0
    pages = pages.larger(spare=lacking)
    assert pages.lacking(texts) == 0
    pages.admit(range(16), keys, values, nodes, texts)
    for row in (0, 5, 15):
        found = pages.read(row, len(nodes[row]))
        assert torch.equal(found[0], keys[:, nodes[row]])
        assert torch.equal(found[1], values[:, nodes[row]])


def test_arrays_of_several_kinds_travel_together() -> None:
    given = [
        np.arange(5, dtype=np.int32),
        np.arange(6).reshape(2, 3).T,
        np.zeros((3, 0)),
        np.linspace(0, 1, 7),
        np.float32([[0.1], [0.2]]),
        range(3),
    ]
    for array, tensor in zip(given, send_arrays(torch.device(DEVICE), *given), strict=True):
        assert np.array_equal(tensor.cpu().numpy(), np.asarray(array))
        assert tensor.cpu().numpy().dtype == np.asarray(array).dtype


@pytest.mark.parametrize("few", [0, 100])
def test_where_random_numbers_are_made_changes_nothing(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = policy(), requests(12)
    expected = texts(paged(model, slots=16).generate(asked))
    monkeypatch.setattr(PagedRowState, "host_uniforms", few)
    assert texts(paged(model, slots=16).generate(asked)) == expected


def test_rows_longer_than_a_chunk() -> None:
    model = policy(max_position_embeddings=2048)
    model.chat.end_ids = ()
    asked = [
        Generate(contexts(1, seed=s, low=low, high=low)[0], n=2, sampling=Sampling(max_tokens=30), stream=(s,))
        for s, low in enumerate((3, 500, 1030, 1500))
    ]
    for request, completions in zip(asked, paged(model).generate(asked), strict=True):
        for c in completions:
            torch.testing.assert_close(torch.tensor(c.logp), rescored(model, request, c).cpu(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_an_optimiser_step_is_seen_at_once(family: str) -> None:
    model = policy(family)
    sampler = paged(model)
    context = contexts(1, low=12, high=12)[0]
    ((c,),) = sampler.generate([Generate(context, sampling=Sampling(max_tokens=8))])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.score([context], [c.ids], grad=True)[0].sum().backward()
    optimizer.step()
    model.bump()
    request = Generate(context, n=3, sampling=Sampling(max_tokens=8))
    for one in sampler.generate([request])[0]:
        torch.testing.assert_close(torch.tensor(one.logp), rescored(model, request, one).cpu(), atol=1e-5, rtol=1e-5)


def test_a_model_that_was_moved_is_found_again() -> None:
    model = policy()
    sampler = paged(model)
    sampler.generate([Generate((5, 6, 7), n=3, stream=(1,))])
    with torch.no_grad():
        for p in model.parameters():
            p.data = p.data.clone() * 1.05
    model.score([(5, 6)], [(7, 8)])
    model.bump()
    request = Generate((5, 6, 7), n=3, stream=(2,))
    for one in sampler.generate([request])[0]:
        torch.testing.assert_close(torch.tensor(one.logp), rescored(model, request, one).cpu(), atol=1e-5, rtol=1e-5)


@FAMILY
def test_bfloat16_agrees_with_its_trainer(family: str) -> None:
    model = policy(family)
    model.model.to(torch.bfloat16)
    asked = requests(8)
    gaps = [
        (torch.tensor(c.logp) - rescored(model, request, c).float().cpu()).abs()
        for request, answers in zip(asked, paged(model).generate(asked), strict=True)
        for c in answers
    ]
    # On a GPU both sides give the same states to the bit. On a CPU the trainer rounds more often than the kernels do.
    assert float(torch.cat(gaps).mean()) < (1e-5 if DEVICE == "cuda" else 0.02)


def test_a_gpu_without_kernels_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no such instruction\nand much more")

    monkeypatch.setattr("podium.sampler.paged.PagedStep", broken)
    with pytest.warns(UserWarning, match=r"sampled without fused kernels, which is slower: no such instruction\.$"):
        sampler = LocalSampler(policy(), paged=True)
    assert sampler.generate([Generate((5, 6))])


def test_a_graph_that_cannot_be_captured_is_done_without_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nand much more")

    monkeypatch.delenv("PODIUM_GRAPHS", raising=False)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", refused)
    launched: list[int] = []
    step = Captured(torch.device("cuda"))
    said = r"without a captured graph, more slowly: operation not permitted when stream is capturing$"
    with pytest.warns(UserWarning, match=said) as told:
        _ = [step(lambda: launched.append(1)) for _ in range(4)]
    assert len(told) == 1
    assert len(launched) == 4
    assert gc.isenabled()
