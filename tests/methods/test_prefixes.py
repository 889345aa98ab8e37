"""Prefix Grouper: the prompt of a group is encoded once, and nothing else changes."""

from __future__ import annotations

import copy
import random

import pytest
import torch

from podium import methods
from podium.policy.forward.pack import pack
from tests.policy import tiny
from tests.policy.shared_prefixes import row_attention


def group(seed: int = 0, prompt: int = 24, answers: tuple[int, ...] = (9, 4, 13)) -> tuple[tuple, list[tuple]]:
    rng = random.Random(seed)
    draw = lambda n: tuple(rng.randrange(tiny.VOCABULARY) for _ in range(n))  # noqa: E731
    return draw(prompt), [draw(n) for n in answers]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_logprobs_and_gradients_agree_with_a_copy_of_the_prompt_for_each_answer(family: str) -> None:
    prompt, answers = group()
    policy = tiny.policy(family)
    own = copy.deepcopy(policy.model)
    together = torch.cat(policy.score([prompt] * 3, answers, grad=True))
    together.sum().backward()
    apart = []
    for answer in answers:
        logits = own(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
        apart.append(logits.log_softmax(-1).gather(-1, torch.tensor(answer)[:, None]).squeeze(-1))
    torch.cat(apart).sum().backward()
    torch.testing.assert_close(together, torch.cat(apart), atol=5e-6, rtol=1e-6)
    for (name, mine), theirs in zip(policy.model.named_parameters(), own.parameters(), strict=True):
        scale = float(theirs.grad.abs().max())
        torch.testing.assert_close(mine.grad, theirs.grad, atol=2e-5 * scale, rtol=1e-4, msg=name)


def test_the_prompt_is_in_the_pass_once() -> None:
    """24 + 9 + 4 + 13 = 50 tokens in place of 3 · 24 + 26 = 98; every answer begins at position 24."""
    prompt, answers = group()
    packed = pack([prompt + answer for answer in answers])
    assert (packed.count, packed.tokens) == (50, 98)
    ordered = [len(answer) for answer in sorted(answers)]
    expected = [*range(24), *(24 + t for length in ordered for t in range(length))]
    assert packed.position[: packed.count].tolist() == expected


def rows(lengths: list[int], seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(1, sum(lengths), 6, generator=generator, dtype=torch.float64) for _ in range(3)]


def test_permuting_the_answers_permutes_the_outputs_and_nothing_else() -> None:
    lengths = [5, 2, 4, 3]
    q, k, v = rows(lengths)
    out = row_attention(q, k, v, [lengths], heads=2)
    parts = torch.split(torch.arange(14), lengths)
    order = torch.cat([parts[0], parts[3], parts[1], parts[2]])
    turned = row_attention(*(x[:, order] for x in (q, k, v)), [[5, 3, 2, 4]], heads=2)
    torch.testing.assert_close(turned, out[:, order])


def test_an_answer_does_not_see_another() -> None:
    lengths = [5, 2, 4]
    q, k, v = rows(lengths)
    out = row_attention(q, k, v, [lengths])
    for x in (q, k, v):
        x[:, 5:7] += 1.0
    changed = row_attention(q, k, v, [lengths])
    assert not torch.equal(changed[:, 5:7], out[:, 5:7])
    torch.testing.assert_close(changed[:, [*range(5), *range(7, 11)]], out[:, [*range(5), *range(7, 11)]])


def test_one_answer_is_an_ordinary_row() -> None:
    q, k, v = rows([3, 4])
    causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(row_attention(q, k, v, [[3, 4]]), causal)


def test_rows_of_several_prompts_with_padding_and_different_numbers_of_answers() -> None:
    q, k, v = (torch.cat([a, b]) for a, b in zip(rows([3, 2, 2]), rows([7], seed=1), strict=True))
    out = row_attention(q, k, v, [[3, 2, 2], [2, 1, 1, 1]])
    torch.testing.assert_close(out[:1], row_attention(q[:1], k[:1], v[:1], [[3, 2, 2]]))
    assert not out[1, 5:].any()


def test_it_is_grpo() -> None:
    assert methods.get("prefix-grouper").objective == methods.get("grpo", kl=0.0).objective
