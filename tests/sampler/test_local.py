"""The in-process sampler: what it draws, when it stops, and what it does not compute twice."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from podium.core import PodiumError
from podium.policy import Policy, functional
from podium.policy.head.functionals import FUNCTIONALS, HeadRows
from podium.sampler import Completion, Generate, Sampling, Stop
from podium.sampler.local import LocalSampler
from tests.policy import tiny

EITHER = pytest.mark.parametrize("family", ["llama", "llama-grouped", "qwen2", "qwen3", "gpt2"])


def contexts(count: int, seed: int = 0, low: int = 1, high: int = 20) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    return [tuple(rng.randrange(5, 300) for _ in range(rng.randint(low, high))) for _ in range(count)]


def requests(count: int = 12, seed: int = 0, **settings: Any) -> list[Generate]:
    """Requests of unequal contexts, numbers of completions and limits."""
    rng = random.Random(seed)
    return [
        Generate(
            context,
            n=rng.randint(1, 6),
            sampling=Sampling(max_tokens=rng.randint(1, 30), **settings),
            stream=(seed, number),
            capture=("entropy",),
        )
        for number, context in enumerate(contexts(count, seed))
    ]


def ending(policy: Policy, count: int = 12) -> Policy:
    """A policy some of whose ordinary tokens end a turn, so that lengths differ."""
    policy.chat.end_ids = (1, *range(5, 5 + count))
    return policy


def rescored(policy: Policy, request: Generate, completion: Completion, **settings: Any) -> torch.Tensor:
    return policy.score([(*request.context, *request.prefix)], [completion.ids], **settings)[0]


def agree(answers: list[list[Completion]], others: list[list[Completion]]) -> None:
    """The same tokens and ends. On some CPUs the last bits of their numbers depend on what else was in a step."""
    assert [[(c.ids, c.stop) for c in a] for a in answers] == [[(c.ids, c.stop) for c in a] for a in others]
    for one, other in zip((c for a in answers for c in a), (c for a in others for c in a), strict=True):
        assert one.logp == pytest.approx(other.logp, abs=1e-5)
        assert one.captured["entropy"] == pytest.approx(other.captured["entropy"], abs=1e-4)


# -- what is drawn -------------------------------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_are_the_trainers(family: str, temperature: float) -> None:
    policy = ending(tiny.policy(family))
    asked = requests(temperature=temperature)
    answers = LocalSampler(policy, slots=16).generate(asked)
    for request, completions in zip(asked, answers, strict=True):
        assert len(completions) == request.n
        for c in completions:
            expected = rescored(policy, request, c, temperature=temperature)
            torch.testing.assert_close(torch.tensor(c.logp), expected, atol=1e-5, rtol=1e-5)
            entropy = rescored(policy, request, c, name="entropy", temperature=temperature)
            torch.testing.assert_close(torch.tensor(c.captured["entropy"]), entropy, atol=1e-4, rtol=1e-5)


@EITHER
def test_the_same_seed_gives_the_same_tokens_whatever_the_batching(family: str) -> None:
    policy = ending(tiny.policy(family))
    asked = requests(20)
    first = LocalSampler(policy, slots=4).generate(asked)
    for slots in (16, 64):
        again = LocalSampler(policy, slots=slots).generate(asked)
        assert [[c.ids for c in a] for a in again] == [[c.ids for c in a] for a in first]
        assert [[c.stop for c in a] for a in again] == [[c.stop for c in a] for a in first]
    order = random.Random(1).sample(range(20), 20)
    shuffled = LocalSampler(policy, slots=16).generate([asked[i] for i in order])
    assert [[c.ids for c in a] for a in shuffled] == [[c.ids for c in first[i]] for i in order]


def test_work_may_come_while_other_work_is_under_way() -> None:
    policy = ending(tiny.policy())
    asked = requests(15)
    expected = LocalSampler(policy).generate(asked)
    sampler = LocalSampler(policy, slots=8)
    tickets = {sampler.submit(r): i for i, r in enumerate(asked[:3])}
    found: dict[int, list[Completion]] = {}
    late = iter(range(3, 15))
    while answers := sampler.poll():
        for ticket, completions in answers:
            found[tickets[ticket]] = completions
            for i in [n for _ in range(2) if (n := next(late, None)) is not None]:
                tickets[sampler.submit(asked[i])] = i
    assert [[c.ids for c in found[i]] for i in range(15)] == [[c.ids for c in a] for a in expected]
    assert sampler.poll() == []


def test_an_answer_that_nobody_has_fetched_is_not_lost() -> None:
    sampler = LocalSampler(tiny.policy())
    ticket = sampler.submit(Generate((5, 6), sampling=Sampling(max_tokens=3), stream=(1,)))
    sampler.generate([Generate((7, 8), sampling=Sampling(max_tokens=20), stream=(2,))])
    assert [t for t, _ in sampler.poll()] == [ticket]


def test_copies_of_a_task_differ_and_parts_of_a_group_fit_together() -> None:
    sampler = LocalSampler(tiny.policy())
    settings = Sampling(max_tokens=12)
    whole, other, later = sampler.generate(
        [
            Generate((5, 6, 7), n=6, sampling=settings, stream=(0, 3)),
            Generate((5, 6, 7), n=6, sampling=settings, stream=(0, 4)),
            Generate((5, 6, 7), n=2, sampling=settings, stream=(0, 3), first=4),
        ]
    )
    assert len({c.ids for c in (*whole, *other)}) == 12
    assert [c.ids for c in later] == [c.ids for c in whole[4:]]
    seeded = LocalSampler(tiny.policy(), seed=1).generate([Generate((5, 6, 7), n=6, sampling=settings, stream=(0, 3))])
    assert [c.ids for c in seeded[0]] != [c.ids for c in whole]


def test_first_tokens_come_as_often_as_the_model_says() -> None:
    policy = tiny.policy()
    (answers,) = LocalSampler(policy).generate([Generate((5, 6, 7), n=4000, sampling=Sampling(max_tokens=1))])
    with torch.no_grad():
        p = policy.model(torch.tensor([[5, 6, 7]])).logits[0, -1].softmax(-1)
    counts = torch.bincount(torch.tensor([c.ids[0] for c in answers]), minlength=len(p)).float()
    top = p.topk(20).indices
    found, expected = counts[top], 4000 * p[top]
    rest = torch.tensor([4000 - found.sum(), 4000 - expected.sum()])
    chi = float(((found - expected) ** 2 / expected).sum() + (rest[0] - rest[1]) ** 2 / rest[1])
    assert chi < 46  # 20 degrees of freedom: p < 0.001 beyond


@EITHER
def test_temperature_zero_takes_the_most_likely_token(family: str) -> None:
    policy = tiny.policy(family)
    greedy = Sampling(max_tokens=8, temperature=0.0)
    (answers,) = LocalSampler(policy).generate([Generate((5, 6, 7), n=2, sampling=greedy, capture=("entropy",))])
    sequence = [5, 6, 7]
    for _ in answers[0].ids:
        with torch.no_grad():
            sequence.append(int(policy.model(torch.tensor([sequence])).logits[0, -1].argmax()))
    assert list(answers[0].ids) == list(answers[1].ids) == sequence[3:]
    assert set(answers[0].logp) == {0.0}  # the distribution that was drawn from has one token
    assert set(answers[0].captured["entropy"]) == {0.0}


def test_truncated_sampling_gives_log_probabilities_of_the_truncated_distribution() -> None:
    policy = tiny.policy()
    asked = Generate((5, 6, 7), n=8, sampling=Sampling(max_tokens=6, top_k=3), capture=("topk=3",))
    for c in LocalSampler(policy).generate([asked])[0]:
        for position, (token, logp) in enumerate(zip(c.ids, c.logp, strict=True)):
            with torch.no_grad():
                logits = policy.model(torch.tensor([[5, 6, 7, *c.ids[:position]]])).logits[0, -1]
            top = logits.topk(3)
            expected = dict(zip(top.indices.tolist(), top.values.log_softmax(-1).tolist(), strict=True))
            assert logp == pytest.approx(expected[token], abs=1e-5)
            assert dict(c.captured["topk=3"][position]) == pytest.approx(expected, abs=1e-5)


def test_settings_of_one_request_do_not_touch_another() -> None:
    policy = ending(tiny.policy())
    plain = requests(6)
    odd = [
        Generate((8, 9), n=5, sampling=Sampling(max_tokens=25, temperature=0.3, top_p=0.5), stream=(9,)),
        Generate((8, 9, 10), n=5, sampling=Sampling(max_tokens=25, temperature=0.0), stream=(10,)),
        Generate((8, 9, 11), n=5, sampling=Sampling(max_tokens=25, stop=(" is",)), stream=(11,), capture=("topk",)),
    ]
    alone = LocalSampler(policy).generate(plain)
    mixed = LocalSampler(policy, slots=16).generate([*odd, *plain])[3:]
    agree(mixed, alone)


def test_a_functional_of_ones_own_can_be_captured() -> None:
    @functional("surprise")
    def surprise(rows: HeadRows) -> torch.Tensor:
        return -rows.log_softmax.gather(-1, rows.ids[:, None]).squeeze(-1)

    try:
        (answers,) = LocalSampler(tiny.policy()).generate([Generate((5, 6), capture=("surprise",))])
    finally:
        del FUNCTIONALS["surprise"]
    assert answers[0].captured["surprise"] == pytest.approx(tuple(-p for p in answers[0].logp), rel=1e-5)


# -- when it stops -------------------------------------------------------------------------------------------------


@EITHER
def test_completions_end_with_the_first_end_token_or_at_their_limit(family: str) -> None:
    policy = ending(tiny.policy(family))
    asked = requests(20)
    for request, answers in zip(asked, LocalSampler(policy, slots=16).generate(asked), strict=True):
        for c in answers:
            assert not any(i in policy.end_ids for i in c.ids[:-1])
            if c.stop is Stop.end:
                assert c.ids[-1] in policy.end_ids
            else:
                assert c.stop is Stop.length
                assert len(c.ids) == request.sampling.max_tokens


def test_a_full_context_ends_a_completion() -> None:
    policy = tiny.policy(max_position_embeddings=32)
    policy.chat.end_ids = ()
    (answers,) = LocalSampler(policy).generate([Generate(contexts(1, low=20, high=20)[0], n=2)])
    assert [len(c.ids) for c in answers] == [12, 12]
    assert {c.stop for c in answers} == {Stop.context}
    for c in answers:  # and the trainer can score all of it
        assert len(rescored(policy, Generate(contexts(1, low=20, high=20)[0]), c)) == 12


def forced(policy: Policy, ids: list[int]) -> Policy:
    """Make the model write a given text: the next token depends on the position alone."""

    class Step:
        def __call__(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            logits = torch.full((len(token), tiny.VOCABULARY), -30.0)
            for row, at in enumerate(position.tolist()):
                logits[row, ids[min(at, len(ids) - 1)]] = 30.0
            return logits

    assert policy.decoder is not None
    policy.decoder.step = lambda *_: Step()  # type: ignore[assignment, method-assign]
    return policy


@pytest.mark.parametrize(
    ("text", "stop", "kept"),
    [
        ("3 plus 4 is 7. The answer", ("is",), "3 plus 4 is"),
        ("3 plus 4 is 7. The answer", ("s 4 i",), "3 plus 4 is"),  # across tokens, completed inside one
        ("3 plus 4 is 7. The answer", ("never", "7."), "3 plus 4 is 7."),
        ("3 plus 4 is 7. The answer", ("3",), "3"),
        ("3 plus 4\nis", ("\n",), "3 plus 4\n"),
        ("naïve €5 café", ("€",), "naïve €"),  # several tokens make the character
        ("3 plus 4 is 7", ("no such text",), "3 plus 4 is 7"),
    ],
)
def test_a_stop_string_ends_with_the_token_that_completes_it(text: str, stop: tuple[str, ...], kept: str) -> None:
    policy = tiny.policy()
    ids: list[int] = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    sampler = LocalSampler(forced(policy, [*ids, 1]))
    (answers,) = sampler.generate([Generate((7,), n=2, sampling=Sampling(max_tokens=40, stop=stop))])
    for c in answers:
        written = sampler.text(c.ids)
        assert written.startswith(kept)
        if any(s in text for s in stop):
            assert c.stop is Stop.text
            assert not any(s in sampler.text(c.ids[:-1]) for s in stop)
            assert len(written) - len(kept) < len(sampler.text(c.ids[-1:]))
        else:
            assert c.stop is Stop.end


def test_a_stop_string_may_begin_in_the_prefix_but_not_lie_in_it() -> None:
    policy = tiny.policy()
    text: list[int] = policy.tokenizer("3 plus 4 is 7. 5 plus 4 is 9.", add_special_tokens=False)["input_ids"]
    sampler = LocalSampler(forced(policy, [*text, 1]))
    for end in range(1, len(text)):
        head = sampler.text(text[:end])
        request = Generate((7,), prefix=tuple(text[:end]), sampling=Sampling(max_tokens=40, stop=("plus 4 is",)))
        ((c,),) = sampler.generate([request])
        whole = head + sampler.text(c.ids)
        if head.count("plus 4 is") == 2:
            assert c.stop is Stop.end
        else:
            assert c.stop is Stop.text
            assert whole.count("plus 4 is") == head.count("plus 4 is") + 1


def test_a_special_token_can_be_a_stop_string() -> None:
    policy = tiny.policy()
    user = policy.tokenizer.convert_tokens_to_ids("<|user|>")
    sampler = LocalSampler(forced(policy, [20, 21, user, 22]))
    ((c,),) = sampler.generate([Generate((7,), sampling=Sampling(max_tokens=10, stop=("<|user|>",)))])
    assert c.ids == (20, 21, user)
    assert c.stop is Stop.text


# -- what is not computed twice ------------------------------------------------------------------------------------


def test_distinct_beginnings_are_encoded_once() -> None:
    sampler = LocalSampler(tiny.policy())
    head = contexts(1, low=12, high=12)[0]
    asked = [Generate((*head, i, 9), n=8, sampling=Sampling(max_tokens=4), stream=(i,)) for i in (5, 6, 7)]
    asked.append(Generate(asked[0].context, n=8, sampling=Sampling(max_tokens=4), stream=(8,)))
    sampler.generate(asked)
    assert sampler.stats.encoded == len(head) + 3  # a context's last token is read with the first step
    assert sampler.stats.sampled <= 4 * 8 * 4


def test_a_group_larger_than_the_batch_is_still_encoded_once() -> None:
    sampler = LocalSampler(tiny.policy(), slots=4)
    sampler.generate([Generate(contexts(1, low=12, high=12)[0], n=20, sampling=Sampling(max_tokens=6))])
    assert sampler.stats.encoded == 11


@pytest.mark.parametrize("family", ["llama", "llama-grouped", "qwen2", "qwen3"])
def test_a_continuation_equals_uninterrupted_sampling_and_encodes_nothing(family: str) -> None:
    policy = tiny.policy(family)
    policy.chat.end_ids = ()
    context = contexts(1, low=12, high=12)[0]
    whole = LocalSampler(policy).generate([Generate(context, n=3, sampling=Sampling(max_tokens=20), stream=(4,))])[0]
    sampler = LocalSampler(policy)
    parts = sampler.generate([Generate(context, n=3, sampling=Sampling(max_tokens=8), stream=(4,))])[0]
    encoded = sampler.stats.encoded
    assert encoded == 11
    resumed = sampler.generate(
        [
            Generate(context, prefix=c.ids, sampling=Sampling(max_tokens=12), stream=(4,), first=i)
            for i, c in enumerate(parts)
        ]
    )
    assert sampler.stats.encoded == encoded
    assert sampler.stats.reused == 3 * (12 + 8 - 1)
    for before, (after,), expected in zip(parts, resumed, whole, strict=True):
        assert before.ids + after.ids == expected.ids
        torch.testing.assert_close(torch.tensor(before.logp + after.logp), torch.tensor(expected.logp))


def test_a_next_turn_and_a_fork_encode_only_what_is_new() -> None:
    policy = tiny.policy()
    policy.chat.end_ids = ()
    sampler = LocalSampler(policy)
    context = contexts(1, low=12, high=12)[0]
    ((c,),) = sampler.generate([Generate(context, sampling=Sampling(max_tokens=8))])
    before = sampler.stats.encoded
    turn = Generate((*context, *c.ids, 30, 31, 32), n=2, sampling=Sampling(max_tokens=5), stream=(2,))
    (answers,) = sampler.generate([turn])
    assert sampler.stats.encoded - before == 3  # the last token of the first turn, and two of the three new ones
    before = sampler.stats.encoded
    fork = Generate(context, prefix=c.ids[:4], n=2, sampling=Sampling(max_tokens=5), stream=(3,))
    (forks,) = sampler.generate([fork])
    assert sampler.stats.encoded == before
    for request, found in ((turn, answers), (fork, forks)):
        for one in found:
            expected = rescored(policy, request, one)
            torch.testing.assert_close(torch.tensor(one.logp), expected, atol=1e-5, rtol=1e-5)


def test_what_is_kept_is_bounded_and_can_be_declined() -> None:
    policy = tiny.policy()
    sampler = LocalSampler(policy, memory=1 << 21)
    assert sampler.engine.prefixes.limit == (1 << 19) // sampler.engine.token_bytes  # type: ignore[attr-defined]
    for round_number in range(4):
        asked = [Generate(c, n=4, stream=(round_number, i)) for i, c in enumerate(contexts(10, seed=round_number))]
        sampler.generate(asked)
        assert 0 < sampler.engine.prefixes.size <= sampler.engine.prefixes.limit  # type: ignore[attr-defined]
    other = LocalSampler(policy)
    other.generate([Generate((5, 6, 7), n=4, keep=False)])
    assert len(other.engine.prefixes) == 0  # type: ignore[attr-defined]


def test_little_memory_means_fewer_rows_not_other_tokens() -> None:
    policy = ending(tiny.policy())
    asked = requests(12)
    row = 64 * LocalSampler(policy).engine.token_bytes  # type: ignore[attr-defined]
    small, large = LocalSampler(policy, memory=20 * row), LocalSampler(policy)
    agree(small.generate(asked), large.generate(asked))
    assert small.engine.cache.rows == 24 < large.engine.cache.rows  # type: ignore[attr-defined]
    agree(LocalSampler(policy, memory=1).generate(asked[:3]), large.generate(asked[:3]))


def test_many_long_contexts_are_encoded_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = ending(tiny.policy())
    asked = requests(12)
    expected = LocalSampler(policy).generate(asked)
    monkeypatch.setattr("podium.policy.forward.pack.PORTION", 25)
    agree(LocalSampler(policy).generate(asked), expected)


# -- new weights ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_an_optimiser_step_is_seen_at_once_and_old_caches_are_void(family: str) -> None:
    policy = tiny.policy(family)
    policy.chat.end_ids = ()
    sampler = LocalSampler(policy)
    context = contexts(1, low=12, high=12)[0]
    ((c,),) = sampler.generate([Generate(context, sampling=Sampling(max_tokens=8))])
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    policy.score([context], [c.ids], grad=True)[0].sum().backward()
    optimizer.step()
    policy.bump()
    request = Generate(context, prefix=c.ids, n=3, sampling=Sampling(max_tokens=8))
    for one in sampler.generate([request])[0]:
        expected = rescored(policy, request, one)
        torch.testing.assert_close(torch.tensor(one.logp), expected, atol=1e-5, rtol=1e-5)


def test_a_model_that_was_moved_between_two_rounds_is_found_again() -> None:
    policy = tiny.policy()
    sampler = LocalSampler(policy)
    sampler.generate([Generate((5, 6, 7), n=3, stream=(1,))])
    with torch.no_grad():
        for p in policy.parameters():
            p.data = p.data.clone() * 1.05
    policy.score([(5, 6)], [(7, 8)])  # the trainer notices first
    policy.bump()
    request = Generate((5, 6, 7), n=3, stream=(2,))
    for one in sampler.generate([request])[0]:
        expected = rescored(policy, request, one)
        torch.testing.assert_close(torch.tensor(one.logp), expected, atol=1e-5, rtol=1e-5)


def test_sampling_leaves_the_model_fit_for_training() -> None:
    policy = tiny.policy()
    LocalSampler(policy).generate([Generate((5, 6, 7), n=3)])
    policy.score([(5, 6)], [(7, 8)], grad=True)[0].sum().backward()
    assert all(p.grad is not None for p in policy.parameters())
    for p in policy.parameters():
        p.data = p.data.clone()  # as when a model is moved
    policy.bump()
    sampler = LocalSampler(policy)
    ((c,),) = sampler.generate([Generate((5, 6, 7))])
    policy.score([(5, 6, 7)], [c.ids], grad=True)[0].sum().backward()


def test_bfloat16_agrees_with_its_trainer() -> None:
    policy = tiny.policy()
    policy.model.to(torch.bfloat16)
    asked = requests(8)
    gaps = [
        (torch.tensor(c.logp) - rescored(policy, request, c)).abs()
        for request, answers in zip(asked, LocalSampler(policy).generate(asked), strict=True)
        for c in answers
    ]
    assert float(torch.cat(gaps).mean()) < 0.02


def test_it_works_where_deterministic_algorithms_are_demanded() -> None:
    policy = ending(tiny.policy())
    expected = LocalSampler(policy).generate(requests(6))
    torch.use_deterministic_algorithms(True)
    try:
        assert LocalSampler(policy).generate(requests(6)) == expected
        policy.score([(5, 6)], [(7, 8)], grad=True)[0].sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_numbers_of_the_cpu() -> None:
    host, device = ending(tiny.policy()), tiny.policy()
    device.model.to("cuda")
    device = ending(Policy(device.model, device.tokenizer))
    asked = requests(12)
    answers = LocalSampler(device, slots=16).generate(asked)
    assert [[c.ids for c in a] for a in answers] == [[c.ids for c in a] for a in LocalSampler(device).generate(asked)]
    for request, completions in zip(asked, answers, strict=True):
        for c in completions:
            torch.testing.assert_close(torch.tensor(c.logp), rescored(host, request, c), atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(torch.tensor(c.logp), rescored(device, request, c).cpu(), atol=1e-5, rtol=1e-5)


# -- bad input -----------------------------------------------------------------------------------------------------


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers() -> None:
    with pytest.raises(PodiumError, match=r"prompt of 256 tokens .* 256 tokens\. Use shorter prompts"):
        LocalSampler(tiny.policy()).submit(Generate(tuple(range(5, 261))))


def test_senseless_requests_are_refused() -> None:
    sampler = LocalSampler(tiny.policy())
    with pytest.raises(PodiumError, match="empty context"):
        sampler.submit(Generate(()))
    with pytest.raises(PodiumError, match=r"cannot capture 'entropi'.*'entropy'"):
        sampler.submit(Generate((5,), capture=("entropi",)))
    with pytest.raises(PodiumError, match="cannot capture 'value'"):
        sampler.submit(Generate((5,), capture=("value",)))
    with pytest.raises(PodiumError, match="slots = 0"):
        LocalSampler(tiny.policy(), slots=0)
    assert sampler.generate([Generate((5,), n=0)]) == [[]]
    assert sampler.generate([]) == []
