"""Divergences to a teacher, by hand, over the tokens that either of the two finds likely."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.parts.objective import Distil
from podium.parts.objective.distil import divergence_of

P, Q = (0.5, 0.25, 0.25), (0.25, 0.5, 0.25)
# KL(P ‖ Q) = 0.5 ln 2 + 0.25 ln 0.5 = 0.25 ln 2, and KL(Q ‖ P) is the same. m = (0.375, 0.375, 0.25):
# KL(P ‖ m) = 0.5 ln(4/3) + 0.25 ln(2/3).
KL = 0.25 * math.log(2)
JS = 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3)


def logs(*p: float) -> torch.Tensor:
    return torch.tensor([p], dtype=torch.float64).log()


@pytest.mark.parametrize(("kind", "value"), [("reverse", KL), ("forward", KL), ("js", JS)])
def test_the_divergences_by_hand(kind: str, value: float) -> None:
    assert divergence_of(logs(*P), logs(*Q), kind).tolist() == pytest.approx([value])
    assert divergence_of(logs(*P), logs(*P), kind).tolist() == pytest.approx([0.0], abs=1e-12)


def test_reverse_and_forward_differ_where_the_distributions_do_not_mirror_each_other() -> None:
    p, q = (0.9, 0.1), (0.5, 0.5)
    reverse = 0.9 * math.log(1.8) + 0.1 * math.log(0.2)
    forward = 0.5 * math.log(1 / 1.8) + 0.5 * math.log(5)
    assert divergence_of(logs(*p), logs(*q), "reverse").tolist() == pytest.approx([reverse])
    assert divergence_of(logs(*p), logs(*q), "forward").tolist() == pytest.approx([forward])


@pytest.mark.parametrize(("mix", "limit"), [(1e-6, "forward"), (1 - 1e-6, "reverse")])
def test_js_tends_to_the_share_times_a_kl(mix: float, limit: str) -> None:
    p, q = logs(0.9, 0.1), logs(0.5, 0.5)
    share = min(mix, 1 - mix)
    found = divergence_of(p, q, "js", mix).item() / share
    assert found == pytest.approx(divergence_of(p, q, limit).item(), rel=1e-4)


def scene(term: Distil, student: tuple[float, ...], teacher: tuple[float, ...], chosen: tuple[int, ...]) -> Batch:
    """One token, of whose likeliest `chosen` are given."""
    top, *rest = (need for need in term.needs if isinstance(need, Signal))
    of = {"now": student, "old": student, "teacher": teacher}
    columns: dict[str, torch.Tensor] = {}
    for need in (top, *rest):
        values = torch.tensor([[of[need.of][i] for i in chosen]], dtype=torch.float64).log()
        if need.name == "top":
            values = torch.stack([torch.tensor([chosen], dtype=torch.float64), values], -1)
        if need.name == "logp":
            values = torch.zeros(1, dtype=torch.float64)
        columns[need.column] = values
    batch = Batch.from_padded(torch.ones(1, 1, dtype=torch.float64), [0], {})
    return batch.with_columns(columns)


@pytest.mark.parametrize("support", ["teacher", "student"])
def test_tokens_beyond_the_k_are_a_bucket_renormalised_or_dropped(support: str) -> None:
    student, teacher, chosen = (0.5, 0.25, 0.15, 0.1), (0.25, 0.5, 0.05, 0.2), (0, 1)
    values = {
        "bucket": 0.5 * math.log(2) + 0.25 * math.log(0.5) + 0.25 * math.log(1.0),
        "renormalised": 2 / 3 * math.log(2) + 1 / 3 * math.log(0.5),
        "dropped": 0.5 * math.log(2) + 0.25 * math.log(0.5),
    }
    for others, value in values.items():
        term = Distil(k=2, divergence="reverse", support=support, others=others)
        assert term.loss(scene(term, student, teacher, chosen)).tolist() == pytest.approx([value])


def test_the_student_s_tokens_are_those_it_found_likely_when_it_sampled() -> None:
    term = Distil(k=5, support="student")
    top, teacher, student = term.needs
    assert top == Signal("top", of="old", k=5)
    assert teacher == Signal("logp_of", of="teacher", tokens=Signal("top", of="old", k=5).column)
    assert student == Signal("logp_of", of="now", grad=True, tokens=Signal("top", of="old", k=5).column)


def test_tokens_weigh_by_their_ratio_up_to_the_cap() -> None:
    term = Distil(k=2, divergence="reverse", others="dropped", cap=2.0)
    batch = scene(term, P, Q, (0, 1))
    plain = term.replace(cap=None).loss(batch)
    for ratio, weight in ((1.5, 1.5), (3.0, 2.0)):
        moved = batch.with_columns({Signal("logp", of="now"): torch.tensor([math.log(ratio)], dtype=torch.float64)})
        assert term.loss(moved).tolist() == pytest.approx((weight * plain).tolist())
    both = {Signal("logp", of=of): torch.tensor([x], dtype=torch.float64) for of, x in (("now", -1.0), ("old", -1.5))}
    assert term.loss(batch.with_columns(both)).tolist() == pytest.approx((math.exp(0.5) * plain).tolist())


def test_a_mixture_without_the_policy_is_refused() -> None:
    with pytest.raises(PodiumError, match="nothing of the policy"):
        Distil(mix=1.0)
