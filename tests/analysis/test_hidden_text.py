"""Bits that are hidden in a model's own text."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from podium.analysis.coupling import action_law
from podium.analysis.hidden_text import _Beliefs, _law, _number, found_in, hidden_in, surplus
from podium.core.errors import PodiumError
from podium.policy import Policy
from podium.policy.model.load import load


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load("podium/tiny2")


@pytest.fixture(scope="module")
def contexts(policy: Policy) -> list[tuple[int, ...]]:
    return [policy.encode([{"role": "user", "content": f"sum: {n} + {n + 5}"}]) for n in range(60)]


@pytest.mark.parametrize("length", [1, 8, 19])
def test_what_is_hidden_is_found(policy: Policy, contexts: list[tuple[int, ...]], length: int) -> None:
    rng = np.random.default_rng(length)
    for seed in range(2):
        message = rng.integers(2, size=length).tolist()
        answers = hidden_in(policy, contexts, message, seed)
        assert found_in(policy, contexts, answers, length) == message


def test_averaged_over_messages_a_token_has_the_law_of_the_model(
    policy: Policy, contexts: list[tuple[int, ...]]
) -> None:
    law = _law(policy, contexts[0])
    joint = _Beliefs(3).joint(law)
    assert joint is not None
    rows = [action_law(joint, _number(message)) for message in product((0, 1), repeat=3)]
    np.testing.assert_allclose(np.mean(rows, 0), law, atol=1e-12)
    assert max(np.abs(row - law).sum() for row in rows) > 0.5  # and a single message changes it


def test_text_is_as_surprising_as_the_models_own(policy: Policy, contexts: list[tuple[int, ...]]) -> None:
    rng, total, spread = np.random.default_rng(0), 0.0, 0.0
    for seed in range(6):
        answers = hidden_in(policy, contexts, rng.integers(2, size=16).tolist(), seed)
        excess, variance = surplus(policy, contexts, answers)
        assert len(excess) == sum(map(len, answers))
        total, spread = total + excess.sum(), spread + variance.sum()
    assert abs(total) < 4 * spread**0.5


def test_too_few_answers_and_what_is_no_message_are_refused(policy: Policy, contexts: list[tuple[int, ...]]) -> None:
    with pytest.raises(PodiumError, match=r"1 answers of up to 2 tokens told \d+ of 40 bits: give more contexts"):
        hidden_in(policy, contexts[:1], [1] * 40, max_tokens=2)
    with pytest.raises(PodiumError, match="each 0 or 1"):
        hidden_in(policy, contexts, [2])
    with pytest.raises(PodiumError, match="tell 0 of 8 bits"):
        found_in(policy, contexts[:1], [()], 8)
