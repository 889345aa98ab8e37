"""Rows that continue cached texts in place."""

from __future__ import annotations

import pytest
import torch

from podium.policy.native import library
from podium.policy.native.step import NativeCache
from podium.sampler import Completion, Generate, Sampling
from podium.sampler.local import LocalSampler
from tests.policy import tiny
from tests.sampler.test_local import contexts, ending, rescored

pytestmark = pytest.mark.skipif(library() is None, reason="the kernels were not built: there is no C compiler")
WRITTEN = Sampling(max_tokens=6)


def answers(sampler: LocalSampler, turns: list[Generate]) -> list[Completion]:
    """One answer to each; all numbers are those of the trainer."""
    found = [answer for answers in sampler.generate(turns) for answer in answers]
    asked = [turn for turn in turns for _ in range(turn.n)]
    for turn, answer in zip(asked, found, strict=True):
        expected = rescored(sampler.policy, turn, answer)
        torch.testing.assert_close(torch.tensor(answer.logp), expected, atol=1e-5, rtol=1e-5)
    return found


def followed(turn: Generate, answer: Completion, said: tuple[int, ...], stream: tuple[int, ...]) -> Generate:
    """The turn after an answer and what the world said to it."""
    return Generate((*turn.context, *turn.prefix, *answer.ids, *said), sampling=WRITTEN, stream=stream)


@pytest.mark.parametrize("family", ["llama", "llama-grouped", "qwen2"])
def test_turns_of_episodes_go_on_without_a_copy(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("keys and values were copied")

    sampler = LocalSampler(ending(tiny.policy(family)))
    turns = [Generate(c, sampling=WRITTEN, stream=(0, i)) for i, c in enumerate(contexts(20, low=4))]
    for number in range(1, 5):
        found = answers(sampler, turns)
        monkeypatch.setattr(NativeCache, "read", refuse)
        monkeypatch.setattr(NativeCache, "copy", lambda cache, pairs, length: refuse() if pairs else None)
        said = contexts(len(turns), seed=number, high=40)
        turns = [followed(t, a, s, (number, i)) for i, (t, a, s) in enumerate(zip(turns, found, said, strict=True))]
        before = sampler.stats.encoded
    answers(sampler, turns)
    # Between what was read so far and the last token, which the first step reads: the last answer's end, what was said.
    assert sampler.stats.encoded - before == sum(len(s) for s in said)


def test_several_go_on_from_one_text() -> None:
    policy = tiny.policy()
    policy.chat.end_ids = ()
    sampler = LocalSampler(policy)
    first = Generate(contexts(1, low=12, high=12)[0], sampling=Sampling(max_tokens=8))
    (answer,) = answers(sampler, [first])
    whole = (*first.context, *answer.ids)
    group = Generate((*whole, 30, 31), n=3, sampling=WRITTEN, stream=(1,))
    other = Generate((*whole, 40, 41, 42), sampling=WRITTEN, stream=(2,))
    fork = Generate(whole[:15], n=2, sampling=WRITTEN, stream=(3,))
    before = sampler.stats.encoded
    answers(sampler, [group, other, fork])
    assert sampler.stats.encoded - before == 2 + 3  # the group's new tokens were read once


def test_what_finds_no_line_is_copied_elsewhere_and_found_there() -> None:
    sampler = LocalSampler(ending(tiny.policy()), slots=16)
    turns = [Generate(c, sampling=WRITTEN, stream=(0, i)) for i, c in enumerate(contexts(40, low=4))]
    found = answers(sampler, turns)
    assert len(sampler.engine.prefix_cache.kept) <= 2 * 16 < len(sampler.engine.prefixes)  # type: ignore[attr-defined]
    before = sampler.stats.encoded
    answers(sampler, [followed(t, a, (30, 31), (1, i)) for i, (t, a) in enumerate(zip(turns, found, strict=True))])
    assert sampler.stats.encoded - before <= 2 * len(turns)


def test_the_last_bit_does_not_depend_on_earlier_work() -> None:
    policy = ending(tiny.policy())
    fresh, used = LocalSampler(policy), LocalSampler(policy)
    used.generate([Generate(c, n=9, sampling=Sampling(max_tokens=40)) for c in contexts(9, seed=5, high=60)])
    for sampler in (fresh, used):
        sampler.forget()
    turns = [Generate(c, n=4, sampling=WRITTEN, stream=(0, i)) for i, c in enumerate(contexts(5, low=4))]
    for number in range(1, 4):
        ours, theirs = fresh.generate(turns), used.generate(turns)
        assert ours == theirs
        turns = [
            Generate(
                (*turn.context, *c.ids, *contexts(1, seed=number)[0]), n=2, sampling=WRITTEN, stream=(number, i, k)
            )
            for i, (turn, found) in enumerate(zip(turns, ours, strict=True))
            for k, c in enumerate(found)
        ][:24]


def test_lines_are_freed() -> None:
    sampler = LocalSampler(ending(tiny.policy()))
    turns = [Generate(c, n=3, sampling=WRITTEN, stream=(i,)) for i, c in enumerate(contexts(8))]
    answers(sampler, turns)
    sampler.forget()
    answers(sampler, [Generate((5, 6, 7), keep=False)])
    cache = sampler.engine.cache  # type: ignore[attr-defined]
    assert sorted(cache.free) == list(range(1, cache.rows + 1))
    assert not cache.line.any()
