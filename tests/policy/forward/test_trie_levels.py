"""Attention by levels equals attention along every path, forward and backward; a shared prompt is encoded once."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from podium.policy.cuda import head
from podium.policy.cuda.attention import attend, attention
from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import Packed, pack
from podium.policy.model import lora
from tests.policy import tiny
from tests.policy.forward.test_decoder import texts

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=12)
LEAST = st.sampled_from([1, 2, 3, 5])


def along_paths(q: Tensor, k: Tensor, v: Tensor, packed: Packed) -> Tensor:
    """Attention of every node over its own path, one at a time."""
    out = torch.zeros_like(q)
    shared = q.shape[1] // k.shape[1]
    for nodes in packed.nodes:
        for end in range(len(nodes)):
            path, node = torch.from_numpy(nodes[: end + 1]), int(nodes[end])
            keys, values = (x[path].repeat_interleave(shared, 1) for x in (k, v))
            weight = (torch.einsum("hd,khd->hk", q[node], keys) * q.shape[-1] ** -0.5).softmax(-1)
            row = torch.einsum("hk,khd->hd", weight, values)
            out = out.index_put((torch.tensor([node]),), row[None])
    return out


@given(SEQUENCES, LEAST)
@settings(max_examples=60, deadline=None)
def test_attention_by_levels_is_attention_along_paths(sequences: list[tuple[int, ...]], least: int) -> None:
    packed = pack(sequences, least=least)
    for sequence, nodes in zip(sequences, packed.nodes, strict=True):
        assert tuple(packed.ids[nodes].tolist()) == sequence
    generator = torch.Generator().manual_seed(len(sequences))
    q, k, v = (
        torch.randn(len(packed.ids), h, 4, generator=generator, dtype=torch.float64).requires_grad_() for h in (4, 2, 2)
    )
    expected, found = along_paths(q, k, v, packed)[: packed.count], attention(q, k, v, packed.levels)[: packed.count]
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    g = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    for mine, theirs in zip(
        torch.autograd.grad(found, (q, k, v), g), torch.autograd.grad(expected, (q, k, v), g), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


@given(SEQUENCES, st.data())
@settings(max_examples=60, deadline=None)
def test_attention_after_given_keys_is_that_of_the_whole(sequences: list[tuple[int, ...]], data: st.DataObject) -> None:
    check_given_keys(sequences, [data.draw(st.integers(0, len(s))) for s in sequences])


def test_a_sequence_may_branch_off_within_given_nodes() -> None:
    """The branching point belongs to no new node: the leaf before it, which is shorter, must not be cut there."""
    sequences = [*[(0,)] * 4, (1, 0), (1, 1, 0, 0), (1, 1, 0, 1)]
    check_given_keys(sequences, [0, 0, 0, 0, 0, 3, 0])


def check_given_keys(sequences: list[tuple[int, ...]], counts: list[int]) -> None:
    whole = pack(sequences)
    begins = [sum(counts[:i]) for i in range(len(counts))]
    held = np.concatenate([nodes[:count] for nodes, count in zip(whole.nodes, counts, strict=True)])
    packed = pack(sequences, given=list(zip(begins, counts, strict=True)), total=len(held))
    same = np.zeros(len(packed.ids), dtype=np.int64)  # the node of the whole for each new one
    for mine, theirs in zip(packed.nodes, whole.nodes, strict=True):
        new = mine >= len(held)
        same[mine[new] - len(held)] = theirs[new]
    q, k, v = (torch.randn(len(whole.ids), h, 4, dtype=torch.float64) for h in (4, 2, 2))
    expected = along_paths(q, k, v, whole)[same]
    keys, values = (torch.cat([x[held], x[same]]) for x in (k, v))
    found, _ = attend(q[same], keys, values, packed.levels, 0.5)
    torch.testing.assert_close(found[: packed.count], expected[: packed.count], atol=1e-9, rtol=1e-9)


@given(SEQUENCES, LEAST)
@settings(max_examples=100, deadline=None)
def test_pieces_that_are_shared_are_long_enough(sequences: list[tuple[int, ...]], least: int) -> None:
    segments = pack(sequences, least=least).segments
    continued = {s.before for s in segments}
    assert all(s.length >= least for number, s in enumerate(segments) if number in continued)


def test_chance_agreements_of_answers_do_not_hide_the_prompt() -> None:
    prompt = tuple(range(40))
    answers = [(50, 51, 60), (50, 51, 61), (50, 70), (52, 71)]
    packed = pack([prompt + a for a in answers], least=16)
    assert packed.count == len(prompt) + sum(map(len, answers))
    assert len(packed.levels.ancestors) == 1


def grouped(seed: int = 0) -> list[tuple[int, ...]]:
    """Two groups of answers of unequal length, and a text that is alone."""
    rng = random.Random(seed)
    draw = lambda n: tuple(rng.randrange(tiny.VOCABULARY) for _ in range(n))  # noqa: E731
    groups = [(draw(n), [draw(rng.randint(1, 20)) for _ in range(4)]) for n in (17, 30)]
    return [prompt + answer for prompt, answers in groups for answer in answers] + [draw(25)]


class Wide(Decoder):
    """Fused blocks in the precision of the parameters."""

    @property
    def _fusible(self) -> bool:
        return True


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_fused_blocks_give_the_models_own_numbers_and_gradients(family: str, checkpointing: bool) -> None:
    model, sequences = tiny.model(family).double(), [*texts(), *grouped()]
    slopes = [torch.randn(len(s), tiny.VOCABULARY, dtype=torch.float64) for s in sequences]
    exact = copy.deepcopy(model)
    own = [exact(torch.tensor([s])).logits[0] for s in sequences]
    sum((x * g).sum() for x, g in zip(own, slopes, strict=True)).backward()
    decoder, packed = Wide(model), pack(sequences, least=8)
    decoder.checkpointing = checkpointing
    logits = decoder.logits(decoder.encode(packed)[0])
    for x, nodes in zip(own, packed.nodes, strict=True):
        torch.testing.assert_close(logits[nodes], x, atol=2e-5, rtol=2e-5)  # its norms and angles are float32
    sum((logits[nodes] * g).sum() for nodes, g in zip(packed.nodes, slopes, strict=True)).backward()
    for (name, mine), theirs in zip(model.named_parameters(), exact.parameters(), strict=True):
        scale = float(theirs.grad.abs().max())
        torch.testing.assert_close(mine.grad, theirs.grad, atol=2e-5 * scale, rtol=1e-4, msg=name)


def adapted(model: nn.Module, targets: str | list[str] = "all-linear") -> nn.Module:
    """The model with adapters that change what it computes."""
    pytest.importorskip("peft")
    changed = lora.attach(model, {"r": 3, "target_modules": targets}).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, p in changed.named_parameters():
            if "lora_B" in name:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.1)
    return changed


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "down_proj"]])
def test_adapters_folded_into_the_weights_give_the_models_own_numbers_and_gradients(
    family: str, targets: str | list[str]
) -> None:
    model, sequences = adapted(tiny.model(family), targets), grouped()
    exact = copy.deepcopy(model)
    slopes = [torch.randn(len(s), tiny.VOCABULARY, dtype=torch.float64) for s in sequences]
    own = [exact(torch.tensor([s])).logits[0] for s in sequences]
    sum((x * g).sum() for x, g in zip(own, slopes, strict=True)).backward()
    decoder, packed = Wide(model), pack(sequences, least=8)
    assert decoder.folds
    assert decoder.fused
    logits = decoder.logits(decoder.encode(packed)[0])
    for x, nodes in zip(own, packed.nodes, strict=True):
        torch.testing.assert_close(logits[nodes], x, atol=2e-5, rtol=2e-5)  # its norms and angles are float32
    sum((logits[nodes] * g).sum() for nodes, g in zip(packed.nodes, slopes, strict=True)).backward()
    trained = [n for n, p in model.named_parameters() if p.grad is not None]
    assert trained == [n for n, _ in model.named_parameters() if "lora_" in n]
    for (name, mine), theirs in zip(model.named_parameters(), exact.parameters(), strict=True):
        if theirs.grad is not None:
            scale = float(theirs.grad.abs().max())
            torch.testing.assert_close(mine.grad, theirs.grad, atol=2e-5 * scale, rtol=1e-4, msg=name)


def test_folded_weights_follow_the_adapters_in_place_and_the_base_stays() -> None:
    model = adapted(tiny.model("llama-grouped")).bfloat16()
    decoder, packed = Decoder(model), pack(texts())
    decoder.lower = torch.bfloat16
    base = {n: p.clone() for n, p in model.named_parameters() if "lora_" not in n}
    with torch.no_grad():
        before = decoder.encode(packed)[0]
        weights = decoder.weights
        assert weights is not None
        place = weights.layers[1].gate_up.data_ptr()
        for name, p in model.named_parameters():
            if "lora_A" in name:
                p.mul_(3)
        after = decoder.encode(packed)[0]
    assert not torch.equal(before, after)
    assert decoder.weights is weights
    assert weights.layers[1].gate_up.data_ptr() == place
    assert all(torch.equal(p, base[n]) for n, p in model.named_parameters() if n in base)


@pytest.mark.parametrize("kind", [{"use_dora": True}, {"use_rslora": True}])
def test_adapters_that_are_no_sum_run_by_themselves(kind: dict[str, bool]) -> None:
    pytest.importorskip("peft")
    decoder = Wide(lora.attach(tiny.model(), {"r": 3, **kind}))
    assert decoder.folds == ("use_dora" not in kind)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_fused_blocks_go_on_after_known_keys(family: str) -> None:
    decoder, sequences = Wide(tiny.model(family).double()), grouped()
    with torch.no_grad():
        whole = pack(sequences)
        expected, kept = decoder.encode(whole, keep=True)
        counts = [0, 5, 16, 17, 20, 30, 30, 31, 24]
        begins = [sum(counts[:i]) for i in range(len(counts))]
        held = np.concatenate([nodes[:count] for nodes, count in zip(whole.nodes, counts, strict=True)])
        packed = pack(sequences, given=list(zip(begins, counts, strict=True)), total=len(held))
        found, all_kept = decoder.encode(packed, [(k[held], v[held]) for k, v in kept], keep=True)
    assert packed.count < whole.count
    for mine, theirs in zip(packed.nodes, whole.nodes, strict=True):
        for (k, v), (whole_k, whole_v) in zip(all_kept, kept, strict=True):
            torch.testing.assert_close(k[mine], whole_k[theirs], atol=1e-6, rtol=1e-6)
            torch.testing.assert_close(v[mine], whole_v[theirs], atol=1e-6, rtol=1e-6)
        new = mine >= len(held)
        torch.testing.assert_close(found[mine[new] - len(held)], expected[theirs[new]], atol=1e-6, rtol=1e-6)


def test_a_prompt_shared_by_a_group_is_encoded_once() -> None:
    sequences = grouped()
    assert pack(sequences, least=16).count == 17 + 30 + 25 + sum(
        len(s) - n for s, n in zip(sequences, [17] * 4 + [30] * 4 + [25], strict=True)
    )


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_compute_weights_follow_the_parameters_in_place(family: str) -> None:
    model = tiny.model(family)
    decoder, packed = Decoder(model), pack(texts())
    decoder.lower = torch.bfloat16
    with torch.no_grad():
        before = decoder.encode(packed)[0]
        weights = decoder.weights
        assert weights is not None
        places = [layer.qkv.data_ptr() for layer in weights.layers]
        for p in model.parameters():
            p.mul_(1.5)
        after = decoder.encode(packed)[0]
    assert before.dtype == torch.bfloat16
    assert not torch.equal(before, after)
    assert decoder.weights is weights
    assert [layer.qkv.data_ptr() for layer in weights.layers] == places
    torch.testing.assert_close(weights.layers[0].qkv.float(), decoder.layers[0].qkv.weight, atol=0, rtol=2**-8)
    assert model.model.embed_tokens.weight.dtype == torch.float32


def test_lower_copies_are_near_float32_and_their_gradients_are_float32() -> None:
    model = tiny.model("llama-grouped")
    twin, sequences = copy.deepcopy(model), grouped()
    low, exact = Decoder(model), Decoder(twin)
    low.lower = torch.bfloat16
    packed = pack(sequences, least=8)
    results = []
    for decoder in (low, exact):
        logp = decoder.logits(decoder.encode(packed)[0]).float().log_softmax(-1)
        logp[:, 7].sum().backward()
        results.append(logp.detach())
    assert float((results[0] - results[1]).abs().mean()) < 0.02
    for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert mine.grad is not None
        assert mine.grad.dtype == torch.float32
        gap = (mine.grad - theirs.grad).norm() / theirs.grad.norm()
        assert float(gap) < 0.1, name


def test_the_head_in_chunks_is_the_head_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "CHUNK", 4 * 300)
    monkeypatch.setattr(head, "ROUND", 2)
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, 12, generator=generator, dtype=torch.float64).requires_grad_() for n in (21, 300))
    ids = torch.randint(0, 300, (21,), generator=generator)
    logp, entropy = head.read(hidden, weight.detach(), weight, ids, temperature=0.7)
    whole = (hidden @ weight.t() / 0.7).log_softmax(-1)
    expected = whole.gather(-1, ids[:, None]).squeeze(-1), -(whole.exp() * whole).sum(-1)
    torch.testing.assert_close((logp, entropy), expected)
    slopes = [torch.randn(21, generator=generator, dtype=torch.float64) for _ in range(2)]
    mine = torch.autograd.grad([logp, entropy], [hidden, weight], slopes)
    torch.testing.assert_close(mine, torch.autograd.grad(expected, [hidden, weight], slopes))
