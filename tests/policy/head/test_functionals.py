"""Signals of a batch, probes and hidden states, against the model's own forward pass."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from podium.core import Batch, PodiumError, Rollout, Signal, Turn
from podium.policy import FUNCTIONALS, HeadRows, Policy, functional
from podium.policy.forward import packed
from podium.policy.head.functionals import LEVELS, evaluate_functionals
from tests.policy import tiny

LOGP = Signal("logp", of="now", grad=True)
ENTROPY = Signal("entropy", of="old")
EITHER = pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])


def random_ids(rng: random.Random, low: int, high: int) -> tuple[int, ...]:
    return tuple(rng.randrange(5, tiny.VOCABULARY) for _ in range(rng.randint(low, high)))


def rollouts(seed: int = 0) -> list[Rollout]:
    """Groups with a common prompt, one-turn and three-turn rollouts, an empty answer, a rebuilt context, twins."""
    rng = random.Random(seed)
    made = []
    for group in range(3):
        prompt = random_ids(rng, 4, 12)
        for _ in range(3):
            turns = [Turn(random_ids(rng, 1, 9), context=prompt)]
            for _ in range(2 if group == 1 else 0):
                grown = (*turns[-1].context, *turns[-1].ids, *random_ids(rng, 1, 4))
                turns.append(Turn(random_ids(rng, 1, 6), context=grown))
            made.append(Rollout(task=group, turns=turns))
        made.append(made[-1])  # a twin
    made.append(Rollout(task=9, turns=[Turn((), context=random_ids(rng, 3, 3))]))
    hinted = Turn(random_ids(rng, 5, 5), context=random_ids(rng, 9, 9), train_context=random_ids(rng, 4, 4))
    made.append(Rollout(task=9, turns=[hinted]))
    return made


def by_hand(policy: Policy, made: list[Rollout], temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies, one forward pass a turn."""
    logps, entropies = [], []
    for turn in (t for r in made for t in r.turns):
        if not turn.ids:
            continue
        context = turn.context if turn.train_context is None else turn.train_context
        logits = policy.model(torch.tensor([[*context, *turn.ids]])).logits[0, len(context) - 1 : -1]
        log_p = (logits / temperature).log_softmax(-1)
        logps.append(log_p.gather(1, torch.tensor(turn.ids)[:, None])[:, 0])
        entropies.append(-(log_p.exp() * log_p).sum(-1))
    return torch.cat(logps), torch.cat(entropies)


@EITHER
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_signals_are_those_of_separate_forward_passes(family: str, temperature: float) -> None:
    policy, made = tiny.policy(family), rollouts()
    found = policy.signals(Batch.from_rollouts(made), [LOGP, ENTROPY], temperature=temperature)
    logp, entropy = by_hand(policy, made, temperature)
    torch.testing.assert_close(found[LOGP], logp.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[ENTROPY], entropy.detach(), atol=1e-5, rtol=1e-5)
    assert not found[LOGP].requires_grad


@EITHER
def test_shared_beginnings_give_the_gradients_of_separate_passes(family: str) -> None:
    policy, made = tiny.policy(family), rollouts()
    logp, _ = by_hand(policy, made)
    slope = torch.randn(logp.shape)
    (logp * slope).sum().backward()
    expected = {n: p.grad.clone() for n, p in policy.named_parameters()}
    policy.model.zero_grad()
    found = policy.signals(Batch.from_rollouts(made), [LOGP, ENTROPY], grad=True)
    assert not found[ENTROPY].requires_grad
    (found[LOGP] * slope).sum().backward()
    for name, parameter in policy.named_parameters():
        scale = float(expected[name].abs().max())
        torch.testing.assert_close(parameter.grad, expected[name], atol=2e-5 * scale, rtol=1e-4, msg=name)


@EITHER
def test_recomputed_activations_change_no_gradient(family: str) -> None:
    batch, gradients = Batch.from_rollouts(rollouts()), []
    for on in (False, True):
        policy = tiny.policy(family)
        policy.checkpoint_activations(on)
        policy.signals(batch, [LOGP], grad=True)[LOGP].sum().backward()
        gradients.append([p.grad for p in policy.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_signals_do_not_depend_on_the_order_or_the_split_of_rollouts() -> None:
    policy, batch = tiny.policy(), Batch.from_rollouts(rollouts())
    whole = policy.signals(batch, [LOGP])[LOGP]
    numbered = batch.with_columns({"token.row": torch.arange(batch.size("token"))})
    for part in torch.randperm(len(batch)).split(5):
        piece = numbered.take("rollout", part)
        if piece.size("token"):
            torch.testing.assert_close(
                policy.signals(piece, [LOGP])[LOGP], whole[piece["token.row"]], atol=1e-5, rtol=1e-5
            )


def test_the_turns_of_a_rollout_share_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    real = packed.pack
    monkeypatch.setattr(packed, "pack", lambda *a, **k: counts.append(p := real(*a, **k)) or p)
    first = Turn((7, 8, 9), context=(1, 2, 3, 4))
    second = Turn((5, 5), context=(1, 2, 3, 4, 7, 8, 9, 6))
    tiny.policy().signals(Batch.from_rollouts([Rollout(task=0, turns=[first, second])]), [LOGP])
    assert counts[0].count == 9  # the second turn's context and all but the last of its tokens


def test_tokens_outside_where_get_zero_and_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, batch = tiny.policy(), Batch.from_rollouts(rollouts())
    whole = policy.signals(batch, [LOGP])[LOGP]
    chosen = torch.zeros(batch.size("token"), dtype=torch.bool)
    chosen[[1, 5, 6]] = True
    seen = []
    real = packed.pack
    monkeypatch.setattr(packed, "pack", lambda *a, **k: seen.append(a[0]) or real(*a, **k))
    part = policy.signals(batch, [LOGP], where=chosen)[LOGP]
    torch.testing.assert_close(part, torch.where(chosen, whole, torch.zeros(())), atol=1e-5, rtol=1e-5)
    assert len(seen[0]) <= 3
    nothing = policy.signals(batch, [LOGP], where=torch.zeros_like(chosen))[LOGP]
    assert torch.equal(nothing, torch.zeros(batch.size("token")))


def test_old_and_now_of_one_functional_are_computed_once() -> None:
    calls = []
    policy, batch = tiny.policy(), Batch.from_rollouts(rollouts())
    real = FUNCTIONALS["logp"]
    FUNCTIONALS["logp"] = lambda rows: calls.append(1) or real(rows)
    try:
        found = policy.signals(batch, [LOGP, Signal("logp", of="old")], grad=True)
    finally:
        FUNCTIONALS["logp"] = real
    assert len(calls) == 1
    assert found[LOGP].requires_grad
    assert not found[Signal("logp", of="old")].requires_grad


# -- functionals ---------------------------------------------------------------------------------------------------


def given_rows(p: Tensor) -> HeadRows:
    return HeadRows(p.log(), torch.zeros(len(p), dtype=torch.long), lambda x: x)


def test_nucleus_entropy_leaves_the_crossing_token_out() -> None:
    # The worked example of SIREN with p = 0.8.
    p = torch.tensor(
        [[0.5, 0.25, 0.15, 0.1], [0.85, 0.05, 0.05, 0.05], [0.4, 0.3, 0.2, 0.1], [0.25] * 4, [0.7, 0.15, 0.1, 0.05]]
    )
    nucleus = FUNCTIONALS["entropy"](given_rows(p), top_p=0.8)
    full = FUNCTIONALS["entropy"](given_rows(p))
    torch.testing.assert_close(nucleus, torch.tensor([0.636514, 0, 0.682908, 1.098612, 0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        full, torch.tensor([1.207974, 0.587501, 1.279854, 1.386294, 0.914286]), atol=1e-5, rtol=0
    )


def test_nucleus_entropy_has_no_slope_outside_the_nucleus() -> None:
    logits = torch.tensor([[2.0, 1.5, 1.0, -1.0], [9.0, 0.0, 0.0, 0.0]], requires_grad=True)
    FUNCTIONALS["entropy"](HeadRows(logits, torch.zeros(2, dtype=torch.long), lambda x: x), top_p=0.8).sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert float(logits.grad[0, 0].abs()) > 0
    assert torch.equal(logits.grad[0, 2:], torch.zeros(2))
    assert torch.equal(logits.grad[1], torch.zeros(4))


@pytest.mark.parametrize("wanted", [[("logp", ())], [("logp", ()), ("entropy", ())], [("entropy", (("top_p", 0.9),))]])
def test_a_chunked_head_gives_the_values_and_gradients_of_a_whole_one(wanted: list) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(50, 8), torch.randn(30, 8)
    ids = torch.randint(0, 30, (50,))
    results = []
    for chunk in (1 << 20, 7 * 30):
        h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        rows = HeadRows(h, ids, lambda x, w=w: x @ w.t(), temperature=0.8)
        values = evaluate_functionals(rows, [(name, True) for name in wanted], 30, chunk=chunk)
        sum((v * torch.linspace(-1, 1, 50)).sum() for v in values).backward()
        results.append([*values, h.grad, w.grad])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_memory_of_the_head_does_not_grow_with_the_vocabulary_times_the_tokens() -> None:
    vocabulary, width = 5000, 4
    weight = torch.randn(vocabulary, width, requires_grad=True)

    def saved(tokens: int) -> int:
        sizes: list[int] = []
        rows = HeadRows(
            torch.randn(tokens, width, requires_grad=True),
            torch.zeros(tokens, dtype=torch.long),
            lambda x: x @ weight.t(),
        )
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            evaluate_functionals(rows, [(("logp", ()), True)], vocabulary, chunk=16 * vocabulary)
        return sum(sizes)

    assert saved(256) < 256 * vocabulary / 8
    assert saved(512) - saved(256) < 256 * 64


def test_a_functional_of_ones_own_takes_a_few_lines() -> None:
    @functional("top_probability")
    def top_probability(rows: HeadRows) -> Tensor:
        return rows.log_softmax.amax(-1).exp()

    try:
        signal = Signal("top_probability", of="old")
        value = tiny.policy().signals(Batch.from_rollouts(rollouts()), [signal])[signal]
    finally:
        del FUNCTIONALS["top_probability"]
    assert bool((value > 1 / tiny.VOCABULARY).all())
    assert bool((value <= 1).all())


def test_a_signal_may_set_its_own_temperature() -> None:
    policy, made = tiny.policy(), rollouts()
    cold = Signal("logp", of="old", temperature=0.5)
    found = policy.signals(Batch.from_rollouts(made), [cold, LOGP])
    torch.testing.assert_close(found[cold], by_hand(policy, made, 0.5)[0].detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[LOGP], by_hand(policy, made)[0].detach(), atol=1e-5, rtol=1e-5)


# -- probes and hidden states --------------------------------------------------------------------------------------


@EITHER
def test_a_probe_scores_texts_under_other_contexts_with_gradient(family: str) -> None:
    policy = tiny.policy(family)
    contexts, targets = [(5, 6, 7), (5, 6, 8), (9,)], [(10, 11), (), (12, 13, 14)]
    found = policy.score(contexts, targets, grad=True)
    assert [len(v) for v in found] == [2, 0, 3]
    for context, target, value in zip(contexts, targets, found, strict=True):
        if target:
            logits = policy.model(torch.tensor([[*context, *target]])).logits[0, len(context) - 1 : -1]
            expected = logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None])[:, 0]
            torch.testing.assert_close(value, expected, atol=1e-5, rtol=1e-5)
    assert found[0].requires_grad
    assert not policy.score(contexts, targets)[0].requires_grad


@EITHER
def test_hidden_states_are_the_models_own(family: str) -> None:
    policy = tiny.policy(family)
    sequences = [(5, 6, 7), (5, 6, 8, 9)]
    with torch.no_grad():
        expected = [policy.model(torch.tensor([s]), output_hidden_states=True).hidden_states[-1][0] for s in sequences]
    for value, own in zip(policy.states(sequences), expected, strict=True):
        torch.testing.assert_close(value, own, atol=1e-5, rtol=1e-5)


# -- bad input -----------------------------------------------------------------------------------------------------


def test_unknown_signals_and_settings_are_refused_by_name() -> None:
    policy, batch = tiny.policy(), Batch.from_rollouts(rollouts())
    with pytest.raises(PodiumError, match="Did you mean 'entropy'"):
        policy.signals(batch, [Signal("entropie")])
    with pytest.raises(PodiumError, match="top_q"):
        policy.signals(batch, [Signal("entropy", top_q=0.5)])
    with pytest.raises(PodiumError, match="value head"):
        policy.signals(batch, [Signal("value")])
    with pytest.raises(PodiumError, match="level of tokens"):
        policy.signals(batch, [Signal("logp", level="rollout")])


def test_a_text_longer_than_the_context_is_refused_with_both_numbers() -> None:
    long = Rollout(task=0, turns=[Turn(tuple(range(5, 105)), context=tuple(range(5, 205)))])
    with pytest.raises(PodiumError, match=r"299 tokens .* 256 tokens"):
        tiny.policy().signals(Batch.from_rollouts([long]), [LOGP])


def test_a_turn_without_context_is_refused() -> None:
    with pytest.raises(PodiumError, match="nothing predicts its first token"):
        tiny.policy().signals(Batch.from_rollouts([Rollout(task=0, turns=[Turn((5, 6))])]), [LOGP])
    with pytest.raises(PodiumError, match="no context"):
        tiny.policy().score([()], [(5,)])


@pytest.fixture
def drift() -> Iterator[Signal]:
    """A functional of whole rollouts: how many rows, the path of the hidden states, the summed log-probability."""

    @functional("drift", level="rollout")
    def drift(rows: HeadRows, scale: float = 1.0) -> Tensor:
        path = rows.hidden.double().diff(dim=0).norm(dim=-1).sum().float()
        logp = rows.log_softmax.gather(-1, rows.ids[:, None]).sum()
        return torch.stack([torch.tensor(float(len(rows.ids))), scale * path, logp])

    yield Signal("drift", of="now", level="rollout", grad=True)
    FUNCTIONALS.pop("drift")
    LEVELS.pop("drift")


@EITHER
def test_a_functional_of_a_rollout_sees_the_tokens_that_the_model_wrote_there(family: str, drift: Signal) -> None:
    policy, made = tiny.policy(family), rollouts()
    batch = Batch.from_rollouts(made)
    found = policy.signals(batch, [drift, LOGP], grad=True)
    logp, _ = by_hand(policy, made)
    summed = batch.reduce(logp, "token", "rollout", "sum")
    torch.testing.assert_close(found[drift][:, 2], summed, atol=1e-4, rtol=1e-5)
    assert found[drift][:, 0].tolist() == [sum(len(t.ids) for t in r.turns) for r in made]  # 0 for the empty answer
    wanted = torch.autograd.grad(summed.sum(), list(policy.parameters()), allow_unused=True)
    got = torch.autograd.grad(found[drift][:, 2].sum(), list(policy.parameters()), allow_unused=True)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)


@EITHER
def test_functionals_of_rollouts_do_not_depend_on_the_split(family: str, drift: Signal) -> None:
    policy, batch = tiny.policy(family), Batch.from_rollouts(rollouts())
    whole = policy.signals(batch, [drift])[drift]
    for part in torch.randperm(len(batch)).split(4):
        torch.testing.assert_close(
            policy.signals(batch.take("rollout", part), [drift])[drift], whole[part], atol=1e-4, rtol=1e-4
        )


def test_a_signal_is_asked_for_at_the_level_of_its_functional(drift: Signal) -> None:
    batch = Batch.from_rollouts(rollouts())
    with pytest.raises(PodiumError, match="level of rollouts"):
        tiny.policy().signals(batch, [Signal("drift")])
    with pytest.raises(PodiumError, match="'token' or of a whole 'rollout'"):
        functional("wide", level="group")


@EITHER
def test_a_rollout_in_which_the_world_wrote_everything_counts_as_empty(family: str, drift: Signal) -> None:
    given = Rollout(task=0, turns=[Turn((7, 8, 9), context=(5, 6), origin=["given"] * 3)])
    written = Rollout(task=0, turns=[Turn((7, 8), context=(5, 6))])
    policy = tiny.policy(family)
    for made, rows in (([given], [0]), ([given, written], [0, 2])):
        found = policy.signals(Batch.from_rollouts(made), [drift, LOGP])
        assert found[drift][:, 0].tolist() == rows
