"""The decoder against the models' own forward passes."""

from __future__ import annotations

import copy
import random

import pytest
import torch

from podium.policy.forward.decoder import Decoder, unsupported
from podium.policy.forward.pack import pack
from tests.policy import tiny

FAMILIES = pytest.mark.parametrize("family", tiny.FAMILIES)


def texts(seed: int = 0) -> list[tuple[int, ...]]:
    """Sequences of unequal length, some of which begin alike, one the beginning of another, two equal."""
    rng = random.Random(seed)
    draw = lambda n: tuple(rng.randrange(tiny.VOCABULARY) for _ in range(n))  # noqa: E731
    head = draw(11)
    made = [head + draw(rng.randint(1, 30)) for _ in range(5)] + [draw(n) for n in (1, 3, 40, 70)]
    return [*made, made[0][:13], made[1]]


def own_logits(model: torch.nn.Module, sequence: tuple[int, ...]) -> torch.Tensor:
    result: torch.Tensor = model(torch.tensor([sequence])).logits[0]
    return result


@FAMILIES
def test_encoding_gives_the_models_own_logits(family: str) -> None:
    model, sequences = tiny.model(family), texts()
    decoder, packed = Decoder(model), pack(texts())
    with torch.no_grad():
        logits = decoder.logits(decoder.encode(packed)[0])
        for sequence, nodes in zip(sequences, packed.nodes, strict=True):
            torch.testing.assert_close(logits[nodes], own_logits(model, sequence), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0},
        {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64},
    ],
)
def test_other_rotary_embeddings_are_the_models_own(rope: dict) -> None:
    model, sequence = tiny.model(rope_parameters=rope), texts()[8]
    assert unsupported(model) is None
    decoder = Decoder(model)
    with torch.no_grad():
        logits = decoder.logits(decoder.encode(pack([sequence]))[0])
        torch.testing.assert_close(logits, own_logits(model, sequence), atol=1e-5, rtol=1e-5)


@FAMILIES
@pytest.mark.parametrize("checkpointing", [False, True])
def test_encoding_gives_the_models_own_gradients(family: str, checkpointing: bool) -> None:
    model, sequences = tiny.model(family), texts()
    slopes = [torch.randn(len(s), tiny.VOCABULARY) for s in sequences]
    # In float64: the model's own float32 gradients are no nearer to these than ours.
    exact = copy.deepcopy(model).double()
    sum((own_logits(exact, s) * g).sum() for s, g in zip(sequences, slopes, strict=True)).backward()
    expected = {name: p.grad.float() for name, p in exact.named_parameters()}
    decoder, packed = Decoder(model), pack(sequences)
    decoder.checkpointing = checkpointing
    logits = decoder.logits(decoder.encode(packed)[0])
    sum((logits[nodes] * g).sum() for nodes, g in zip(packed.nodes, slopes, strict=True)).backward()
    for name, parameter in model.named_parameters():
        scale = float(expected[name].abs().max())
        torch.testing.assert_close(parameter.grad, expected[name], atol=2e-5 * scale, rtol=1e-4, msg=name)


@FAMILIES
def test_steps_give_the_models_own_logits(family: str) -> None:
    model, sequences = tiny.model(family), texts()
    decoder = Decoder(model)
    with torch.inference_mode():
        expected = [own_logits(model, s) for s in sequences]
        cache = decoder.cache(16, 0, 96)
        cache.vacate(range(16))
        token, position = torch.zeros(16, dtype=torch.long), torch.zeros(16, dtype=torch.long)
        for t in range(max(map(len, sequences))):
            for row, s in enumerate(sequences):  # rows that have ended stay where they are
                token[row], position[row] = s[min(t, len(s) - 1)], min(t, len(s) - 1)
            logits = decoder.step(cache, 16, 96 if t % 2 else -(-(t + 1) // 16) * 16)(token, position)
            for row, s in enumerate(sequences):
                if t < len(s):
                    torch.testing.assert_close(logits[row], expected[row][t], atol=1e-5, rtol=1e-5)


@FAMILIES
def test_encoding_after_known_keys_equals_encoding_all(family: str) -> None:
    decoder = Decoder(tiny.model(family))
    long = texts()[7]
    with torch.no_grad():
        whole, kept = decoder.encode(pack([long]), keep=True)
        past = [(k[:25], v[:25]) for k, v in kept]
        packed = pack([long], given=[(0, 25)], total=25)
        rest, _ = decoder.encode(packed, past)
    assert packed.count == len(long) - 25
    torch.testing.assert_close(rest[: packed.count], whole[25 : len(long)], atol=1e-5, rtol=1e-5)


# In float32 products may sum in another order for another number of rows: then equal means up to rounding.
@pytest.mark.parametrize(("dtype", "gap"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
def test_a_tokens_numbers_do_not_depend_on_what_else_is_packed(dtype: torch.dtype, gap: float) -> None:
    decoder, sequences = Decoder(tiny.model().to(dtype)), texts()
    with torch.no_grad():
        packed = pack(sequences, grain=16)
        together, _ = decoder.encode(packed)
        for sequence, nodes in zip(sequences, packed.nodes, strict=True):
            alone, _ = decoder.encode(pack([sequence], grain=16))
            torch.testing.assert_close(together[nodes], alone[: len(sequence)], atol=gap, rtol=gap)


def test_parameters_keep_their_place_when_optimised_and_are_found_again_when_moved() -> None:
    model = tiny.model()
    decoder, packed = Decoder(model), pack([(1, 2, 3)])
    decoder.sync()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.01)
        place = decoder.layout
        decoder.sync()
        assert decoder.layout == place
        hidden, _ = decoder.encode(packed)
        torch.testing.assert_close(decoder.logits(hidden)[:3], own_logits(model, (1, 2, 3)), atol=1e-5, rtol=1e-5)
        for p in model.parameters():
            p.data = p.data.clone() * 1.1
        hidden, _ = decoder.encode(packed)
        assert decoder.layout == place + 1
        torch.testing.assert_close(decoder.logits(hidden)[:3], own_logits(model, (1, 2, 3)), atol=1e-5, rtol=1e-5)


def test_there_is_one_copy_of_the_joined_weights() -> None:
    decoder = Decoder(tiny.model())
    layer = decoder.layers[0]
    assert layer.block.self_attn.k_proj.weight.untyped_storage().data_ptr() == layer.qkv.weight.data_ptr()
    assert layer.block.input_layernorm.weight.data_ptr() == layer.norm_in.weight.data_ptr()


def test_bfloat16_is_near_float32() -> None:
    model, sequence = tiny.model(), texts()[0]
    exact = own_logits(model, sequence).detach().log_softmax(-1)
    decoder = Decoder(model.to(torch.bfloat16))
    with torch.no_grad():
        logits = decoder.logits(decoder.encode(pack([sequence]))[0])[: len(sequence)]
        cache = decoder.cache(16, 0, 64)
        token, position = torch.zeros(16, dtype=torch.long), torch.zeros(16, dtype=torch.long)
        for t, i in enumerate(sequence):
            token[0], position[0] = i, t
            last = decoder.step(cache, 16, 64)(token, position)[0]
    assert logits.dtype == torch.bfloat16
    assert float((logits.float().log_softmax(-1) - exact).abs().mean()) < 0.05
    assert float((last.float() - logits[-1].float()).abs().mean()) < 0.05


@pytest.mark.parametrize(
    ("family", "settings", "reason"),
    [
        ("gpt2", {}, "architecture"),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "sliding window"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "rotary"),
        ("llama", {"hidden_act": "gelu"}, "activation"),
    ],
)
def test_what_it_cannot_do_goes_through_the_models_own_pass(family: str, settings: dict, reason: str) -> None:
    assert reason in str(unsupported(tiny.model(family, **settings)))
    policy = tiny.policy(family, **settings)
    assert policy.decoder is None
    assert any("slower" in note for note in policy.notes)
