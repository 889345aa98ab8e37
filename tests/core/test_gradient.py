"""The gradient of an update does not depend on how it is split, and is that of the plain formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from podium.core import Batch, Shape
from podium.core.errors import PodiumError
from podium.core.gradient import backward, now_signals, whole_groups
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.parts.objective import (
    KL,
    BandPenalty,
    Clip,
    Entropy,
    GroupContrast,
    GroupSoftmax,
    Likelihood,
    PolicyGradient,
    RolloutLogistic,
    RolloutRegression,
    StayWithin,
    Target,
    ValueLoss,
)
from podium.parts.shape import DropCovariant, SelectTokens
from tests.core.model import NOW, OLD, Policy, update

ENTROPY = Signal("entropy", of="now")


class Spread(Term):
    """(log π − mean log π)² over the trained tokens of the update: every token meets every other."""

    couples = "update"  # type: ignore[assignment]
    needs = (NOW,)  # type: ignore[assignment]

    def loss(self, batch: Batch) -> Tensor:
        return batch.by("token", where=batch.trained("token")).centre(batch[NOW]).square()


class GroupShare(Term):
    """−reward · share of the rollout in its group's softmax of mean log-probabilities: coupled below its unit."""

    level = "rollout"
    couples = "group"  # type: ignore[assignment]
    needs = ("rollout.reward", NOW)  # type: ignore[assignment]

    def loss(self, batch: Batch) -> Tensor:
        score = batch.reduce(batch[NOW], "token", "rollout", "mean", where=batch.trained("token"))
        share = batch.partition("rollout", "group").softmax(score, batch.trained("rollout"))
        return -batch["rollout.reward"] * share


class EntropyWeighted(Term):
    """−H · log π with H held fixed: a signal of now that carries no gradient."""

    needs = (NOW, ENTROPY)  # type: ignore[assignment]

    def loss(self, batch: Batch) -> Tensor:
        return -batch[ENTROPY] * batch[NOW]


ROLLOUT_MEAN = Aggregate("token mean, rollout mean")
TERMS: dict[str, tuple[Term, ...]] = {
    "policy gradient, no ratio": (PolicyGradient(ratio="none", aggregate=Aggregate("token sum, rollout mean")),),
    "policy gradient, token": (PolicyGradient(clip=Clip(0.1, 0.2, dual=1.5)),),
    "policy gradient, turn": (PolicyGradient(ratio="turn", clip=Clip(0.05, 0.05)),),
    "policy gradient, sequence": (PolicyGradient(ratio="sequence", clip=Clip(0.05, 0.05), aggregate=ROLLOUT_MEAN),),
    "policy gradient, weight": (PolicyGradient(clip=Clip(1.0, 0.1, kind="weight")),),
    "policy gradient, bounds as columns": (PolicyGradient(clip=Clip("token.low", 0.1)),),
    "KL": tuple(KL(k, aggregate=ROLLOUT_MEAN, coefficient=0.3) for k in ("k1", "k2", "k3", "abs")),
    "entropy": (Entropy(coefficient=0.5),),
    "likelihood": (Likelihood(where="token.demonstrated"),),
    "likelihood over all": (Likelihood(where="token.demonstrated", over="all"),),
    "value": (ValueLoss(0.2), ValueLoss(None)),
    "group softmax": (GroupSoftmax(0.7),),
    "group softmax, no anchor": (GroupSoftmax(0.7, anchor=False, score="sum"),),
    "rollout logistic": (RolloutLogistic(0.7),),
    "rollout logistic, compared and balanced": (
        RolloutLogistic(0.7, "sum", centre="leave_one_out", groups="all", weights="balanced"),
    ),
    "rollout logistic, standardised": (RolloutLogistic(0.7, centre="mean", scale="std"),),
    "rollout regression": (RolloutRegression(0.7, centre="mean", scale="held"),),
    "group contrast and a constraint": (GroupContrast(2.0, max_length=5), StayWithin(0.0, 3.0, "k3")),
    "policy gradient, target": (PolicyGradient(clip=Target(0.3, 0.2, width=0.5, floor=0.1)),),
    "whole update": (Spread(),),
    "group share": (GroupShare(aggregate=Aggregate("rollout mean, group mean")),),
    "held signal": (EntropyWeighted(),),
    "actor and critic": (PolicyGradient(clip=Clip()), KL(coefficient=0.1), Entropy(), ValueLoss(0.2, coefficient=0.5)),
    "tokens, rollouts and groups": (PolicyGradient(ratio="sequence"), RolloutLogistic(), GroupSoftmax(), Entropy()),
    "everything": (
        PolicyGradient(clip=Clip(0.1, 0.2)),
        PolicyGradient(ratio="turn", coefficient=0.5),
        KL(coefficient=0.1),
        Entropy(),
        Likelihood(where="token.demonstrated", over="all"),
        ValueLoss(0.2),
        GroupSoftmax(),
        RolloutLogistic(),
        Spread(coefficient=0.2),
        GroupShare(aggregate=Aggregate("rollout sum")),
    ),
}
GROUPS = [0, 1, 0, 2, 1, 0, 2, 3, 2, 2, 1]
SPLITS: dict[str, tuple[str, list[list[int]] | None]] = {
    "whole": ("update", None),
    "whole, permuted": ("update", [[10, 3, 1, 0, 2, 4, 9, 8, 7, 6, 5]]),
    "rollout by rollout": ("rollout", [[r] for r in range(11)]),
    "ragged": ("rollout", [[0, 1, 2, 3, 4, 5], [6], [7, 8], [9, 10]]),
    "groups torn apart": ("rollout", [[0, 1, 3, 7], [2, 4, 6, 9], [5, 8, 10]]),
    "whole groups": ("group", [[r for r, g in enumerate(GROUPS) if g in pair] for pair in ((0, 2), (3, 1))]),
    "group by group": ("group", [[r for r, g in enumerate(GROUPS) if g == one] for one in range(4)]),
}
ORDER = ("token", "rollout", "group", "update")


def rows(split: list[list[int]] | None) -> list[Tensor] | None:
    return None if split is None else [torch.tensor(part) for part in split]


def plain(terms: Sequence[Term], batch: Batch, live: Sequence[Shape] = ()) -> tuple[float, list[Tensor]]:
    """The loss of the whole update and its gradient by one backward, with live parts on detached signals."""
    policy = Policy()
    found = policy.signals(batch)
    signals = {signal: found[signal.name] for signal in now_signals([*terms, *live])}
    batch = batch.with_columns({s: x.detach() for s, x in signals.items()})
    for part in live:
        batch = batch.with_columns(part(batch))
    batch = batch.with_columns({s: x if s.grad else x.detach() for s, x in signals.items()})
    loss = torch.stack([term(batch) for term in terms]).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach()), policy.gradient()


def assert_equal(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("terms", TERMS)
def test_the_gradient_of_every_split_is_the_plain_one(terms: str, split: str) -> None:
    unit, parts = SPLITS[split]
    batch, policy = update(), Policy()
    loss, expected = plain(TERMS[terms], batch)
    assert any(bool(g.any()) for g in expected)
    step = backward(TERMS[terms], batch, policy, rows(parts))
    assert_equal(policy.gradient(), expected)
    assert step.loss == pytest.approx(loss, rel=1e-10, abs=1e-12)
    coupled = max(ORDER.index(t.couples) for t in TERMS[terms]) > ORDER.index(unit)
    assert step.passes == (2 if coupled else 1)
    assert step.diagnostics.get("pass_gap", 0.0) < 1e-12


LIVE: dict[str, tuple[tuple[Shape, ...], tuple[Term, ...]]] = {
    "select": (
        (SelectTokens("covariance", 0.3, rule="floor"),),
        (PolicyGradient(), KL("abs", anchor="old", where="token.selected", over="all", coefficient=0.7)),
    ),
    "drop": ((DropCovariant(share=0.3, low=-9.0, high=9.0, clip=Clip()),), (PolicyGradient(clip=Clip()),)),
    "both, coupled": (
        (SelectTokens("covariance", 0.3, rule="floor"), DropCovariant(share=0.2, low=-9.0, high=9.0, clip=Clip())),
        (PolicyGradient(clip=Clip()), KL("k2", where="token.selected"), GroupSoftmax(), Entropy()),
    ),
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("case", LIVE)
def test_live_parts_see_the_whole_update_however_it_is_split(case: str, split: str) -> None:
    live, terms = LIVE[case]
    batch, policy = update(), Policy()
    loss, expected = plain(terms, batch, live)
    step = backward(terms, batch, policy, rows(SPLITS[split][1]), live)
    assert_equal(policy.gradient(), expected)
    assert step.loss == pytest.approx(loss, rel=1e-10)
    assert step.passes == 2  # one without a graph for the live parts
    assert expected[0].any()


def test_a_live_part_changes_the_gradient_that_it_is_part_of() -> None:
    live, terms = LIVE["drop"]
    assert not torch.allclose(plain(terms, update(), live)[1][0], plain(terms, update())[1][0])


def test_the_clipped_surrogate_with_k3_is_the_formula_written_out() -> None:
    batch, policy, reference = update(), Policy(), Policy()
    found = reference.signals(batch)["logp"]
    trained, rollout = batch.trained("token").tolist(), batch.link("token", "rollout").tolist()
    held: dict[int, list[Tensor]] = {}
    for t in range(batch.size("token")):
        if trained[t]:
            a, w = batch["token.advantage"][t], batch["token.weight.age"][t]
            ratio = (found[t] - batch["token.old.logp"][t]).exp()
            d = batch["token.ref.logp"][t] - found[t]
            loss = torch.maximum(-a * ratio, -a * ratio.clamp(0.8, 1.2)) + 0.04 * (d.exp() - d - 1)
            held.setdefault(rollout[t], []).append(w * loss)
    total = torch.stack([torch.stack(losses).mean() for losses in held.values()]).mean()
    total.backward()  # type: ignore[no-untyped-call]
    terms = (PolicyGradient(clip=Clip(), aggregate=ROLLOUT_MEAN), KL(coefficient=0.04, aggregate=ROLLOUT_MEAN))
    step = backward(terms, batch, policy, rows(SPLITS["ragged"][1]))
    assert step.loss == pytest.approx(float(total.detach()))
    assert_equal(policy.gradient(), reference.gradient())


# -- what need not be computed ---------------------------------------------------------------------------------------


def seen(policy: Policy) -> set[int]:
    return {row for call in policy.calls for row in call}


@pytest.mark.parametrize("split", SPLITS)
def test_rollouts_without_a_coefficient_are_not_forwarded_and_change_no_denominator(split: str) -> None:
    batch, policy = update(), Policy()
    # 4 is empty, 5 dropped by keep, 9 a probe; 2 and 7 get weight 0, which leaves them in the denominator.
    weight = torch.ones(len(batch)).double()
    weight[[2, 7]] = 0
    batch = batch.with_columns({"rollout.weight.off": weight})
    terms = (PolicyGradient(clip=Clip()), Entropy())
    full = plain(terms, batch)
    step = backward(terms, batch, policy, rows(SPLITS[split][1]))
    assert_equal(policy.gradient(), full[1])
    assert seen(policy) == {0, 1, 3, 6, 8, 10}
    assert all(policy.calls)
    without = plain(terms, batch.take("rollout", torch.tensor([0, 1, 3, 6, 8, 10])))
    assert abs(without[0] - step.loss) > 1e-3  # the two with weight 0 are still divided by


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "term", [PolicyGradient(clip=Clip()), PolicyGradient(ratio="sequence"), PolicyGradient("none")]
)
def test_rollouts_without_an_advantage_are_not_forwarded_and_change_no_gradient(split: str, term: Term) -> None:
    batch, policy = update(), Policy()
    advantage = batch["token.advantage"].clone()
    for row in (2, 7):
        advantage[batch.link("token", "rollout") == row] = 0
    batch = batch.with_columns({"token.advantage": advantage})
    step = backward([term], batch, policy, rows(SPLITS[split][1]))
    loss, gradient = plain([term], batch)
    assert step.loss == pytest.approx(loss, rel=1e-12)
    assert_equal(policy.gradient(), gradient)
    assert seen(policy).isdisjoint({2, 7})
    both = Policy()
    backward([term, Entropy()], batch, both, rows(SPLITS[split][1]))
    assert {2, 7} <= seen(both)  # another term has something to say


def test_a_group_that_a_coupled_term_compares_is_forwarded_as_a_whole() -> None:
    batch, policy = update(), Policy()
    chosen = torch.zeros(len(batch), dtype=torch.bool)
    chosen[0] = True  # of group 0, with rollouts 2 and 5
    term = GroupShare(where="rollout.chosen", aggregate=Aggregate("rollout sum"))
    batch = batch.with_columns({"rollout.chosen": chosen})
    for split in ("rollout by rollout", "group by group"):
        policy = Policy()
        backward([term], batch, policy, rows(SPLITS[split][1]))
        assert_equal(policy.gradient(), plain([term], batch)[1])
        assert seen(policy) == {0, 2, 5}


def test_the_second_pass_leaves_out_rollouts_without_a_slope() -> None:
    batch, policy = update(), Policy()
    # Only groups 0 to 2 hold trained rollouts of both classes; group 3 is a single right one.
    step = backward([GroupSoftmax()], batch, policy, rows(SPLITS["rollout by rollout"][1]))
    assert step.passes == 2
    forwarded = [call[0] for call in policy.calls]
    assert forwarded.count(7) == 1  # in the first pass alone
    assert forwarded.count(0) == 2


def test_an_update_with_nothing_to_train_costs_no_forward() -> None:
    batch, policy = update(), Policy()
    batch = batch.with_columns({"group.keep": torch.zeros(4, dtype=torch.bool)})
    for terms in ((PolicyGradient(),), (Spread(), GroupSoftmax())):
        step = backward(terms, batch, policy, rows(SPLITS["ragged"][1]))
        assert step.loss == 0
        assert policy.calls == []
        assert not any(g.any() for g in policy.gradient())


def test_tokens_that_are_not_trained_get_exactly_zero_gradient() -> None:
    batch = update()
    logp = Policy().signals(batch)["logp"].detach().requires_grad_()
    backward(
        [PolicyGradient(clip=Clip()), KL(), GroupSoftmax(), RolloutLogistic()],
        batch,
        lambda micro, signals: dict.fromkeys(signals, logp[micro["token.row"]]),
        rows(SPLITS["groups torn apart"][1]),
    )
    assert logp.grad is not None
    assert not logp.grad[~batch.trained("token")].any()
    assert logp.grad[batch.trained("token")].all()


# -- learners, signals, diagnostics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["whole", "ragged", "group by group"])
def test_actor_and_critic_of_one_update_each_get_their_own_gradient(split: str) -> None:
    batch, actor, critic = update(), Policy(seed=0), Policy(seed=1)

    def forward(micro: Batch, signals: Sequence[Signal]) -> dict[Signal, Tensor]:
        learner = {"value": critic, "logp": actor, "entropy": actor}
        return {s: learner[s.name].signals(micro)[s.name] for s in signals}

    policy_terms, critic_terms = (PolicyGradient(), GroupSoftmax()), (ValueLoss(0.2),)
    backward([*policy_terms, *critic_terms], batch, forward, rows(SPLITS[split][1]))
    assert {t.trains for t in policy_terms} == {"policy"}
    assert {t.trains for t in critic_terms} == {"critic"}
    for terms, learner, seed in ((policy_terms, actor, 0), (critic_terms, critic, 1)):
        alone = Policy(seed)
        backward(terms, batch, alone)
        assert_equal(learner.gradient(), alone.gradient())
        assert any(g.any() for g in alone.gradient())


@pytest.mark.parametrize("split", SPLITS)
def test_at_the_first_update_the_old_policy_is_the_first_pass(split: str) -> None:
    policy, batch = Policy(), update()
    own = Policy().signals(batch)["logp"].detach()
    terms = (PolicyGradient(clip=Clip()), GroupSoftmax())

    def forward(micro: Batch, signals: Sequence[Signal]) -> dict[Signal, Tensor]:
        found = dict(policy(micro, signals))
        return found if OLD in micro else found | {OLD: found[NOW].detach()}

    step = backward(terms, batch.without([OLD]), forward, rows(SPLITS[split][1]))
    expected = plain(terms, batch.with_columns({OLD: own}))
    assert_equal(policy.gradient(), expected[1])
    assert step.diagnostics["ratio"] == pytest.approx(1.0)


@pytest.mark.parametrize("split", SPLITS)
def test_diagnostics_are_means_over_the_update_however_it_is_split(split: str) -> None:
    terms = (PolicyGradient(clip=Clip(0.1, 0.1)), KL(coefficient=0.1), GroupSoftmax())
    batch = update()
    step = backward(terms, batch, Policy(), rows(SPLITS[split][1]))
    trained = batch.trained("token")
    ratio = (Policy().signals(batch)["logp"] - batch["token.old.logp"]).exp()[trained]
    assert step.diagnostics["ratio"] == pytest.approx(float(ratio.detach().mean()))
    assert step.terms.keys() == {"PolicyGradient", "KL", "GroupSoftmax"}
    assert sum(step.terms.values()) == pytest.approx(step.loss)
    assert 0 < step.diagnostics["clip_fraction"] < 1


def test_two_terms_that_watch_the_same_share_one_mean() -> None:
    batch = update()
    halves = torch.arange(batch.size("token")) % 2 == 0
    batch = batch.with_columns({"token.even": halves, "token.odd": ~halves})
    both = backward([PolicyGradient(where="token.even"), PolicyGradient(where="token.odd")], batch, Policy())
    one = backward([PolicyGradient()], batch, Policy())
    assert both.diagnostics["ratio"] == pytest.approx(one.diagnostics["ratio"])


def test_gradients_accumulate_over_updates_like_any_backward() -> None:
    batch, policy = update(), Policy()
    for _ in range(2):
        backward([Entropy()], batch, policy)
    assert_equal(policy.gradient(), [2 * g for g in plain([Entropy()], batch)[1]])


def test_a_policy_without_trainable_parameters_is_left_alone() -> None:
    batch, policy = update(), Policy()
    policy.requires_grad_(False)
    for terms in ([PolicyGradient()], [GroupSoftmax()]):
        step = backward(terms, batch, policy, rows(SPLITS["ragged"][1]))
        assert step.loss != 0
    assert not any(g.any() for g in policy.gradient())


def test_whole_groups_are_recognised() -> None:
    batch = update()
    for unit, parts in SPLITS.values():
        if parts is not None:
            assert whole_groups(batch, [torch.tensor(p) for p in parts]) == (unit != "rollout")


@pytest.mark.parametrize(
    "parts", [[[0, 1, 2]], [[r] for r in range(10)], [list(range(11)), [3]], [list(range(12))], []]
)
def test_micro_batches_that_lose_or_repeat_a_rollout_are_refused(parts: list[list[int]]) -> None:
    with pytest.raises(PodiumError, match="must hold each of the 11 rollouts of the update exactly once"):
        backward([PolicyGradient()], update(), Policy(), rows(parts))


def test_signals_are_asked_for_once_and_with_gradient_if_anyone_wants_it() -> None:
    parts: list[Any] = [
        SelectTokens("covariance", 0.002, rule="floor"),
        PolicyGradient(),
        KL(),
        ValueLoss(),
        EntropyWeighted(),
    ]
    wanted = now_signals(parts)
    assert [s.column for s in wanted] == ["token.now.logp", "token.now.value", "token.now.entropy"]
    assert [s.grad for s in wanted] == [True, True, False]


@pytest.mark.parametrize("split", ["whole", "rollout by rollout"])
def test_a_term_acts_on_the_tokens_that_it_gives_a_gradient(split: str) -> None:
    """Three tokens with ratios of 2, 1 and ½ and an advantage of 1, clipped to 1 ± 0.2: the first has no gradient. The
    step penalty is constant wherever it is paid: it gives none to any. Both count alike in one pass and in two."""
    logp = torch.tensor([2.0, 1.0, 0.5]).log().double().requires_grad_()
    batch = Batch.from_padded(torch.ones(3, 1), [0, 0, 0], {"token.advantage": torch.ones(3, 1).double()})
    zeros = torch.zeros(3).double()
    batch = batch.with_columns({OLD: zeros, "token.band.low": zeros - 1, "token.band.high": zeros - 0.5})
    entropy = Signal("entropy", of="now", grad=True)

    def forward(part: Batch, signals: Sequence[Signal]) -> dict[Signal, Tensor]:
        rows = part["token.row"]
        return {signal: logp[rows] if signal == NOW else 2 * logp[rows] for signal in signals}

    terms = (PolicyGradient(clip=Clip()), BandPenalty(), Entropy())
    assert entropy in now_signals(terms)
    parts = rows(None if split == "whole" else [[0], [1], [2]])
    for coupled in ((), (Spread(),)):
        acted = backward((*terms, *coupled), batch, forward, parts).acted
        counts = [acted[f"objective.{name}"] for name in ("PolicyGradient", "BandPenalty", "Entropy")]
        assert counts == [2, 0, 3]
