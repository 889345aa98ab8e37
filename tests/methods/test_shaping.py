"""Bounded changes of rewards and advantages by entropy, perplexity, place and phrase."""

from __future__ import annotations

import pytest
import torch

from podium import methods
from podium.analysis.dynamics import bandit
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.schedule import Steps
from podium.parts.annotate import MarkPattern, MarkPhrases
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import PhaseEntropy
from podium.parts.shape import KeepSign, PerplexityFactor, PositionBonus, Tilt
from tests.conformance.helpers import differentiate
from tests.methods.entropy_cases import bandit_batch, random_update


def written(text: str, pieces: list[str]) -> Batch:
    """One rollout of one turn that says `text`, as tokens that are these pieces of it."""
    ends = torch.tensor([len("".join(pieces[: i + 1])) for i in range(len(pieces))], dtype=torch.float64)
    assert "".join(pieces) == text
    batch = Batch.from_padded(torch.ones(1, len(pieces)), [0], {"token.end": ends[None]})
    return batch.with_columns({"turn.text": [text]})


# -- marks -------------------------------------------------------------------------------------------------------------


def test_a_mark_covers_every_token_that_shares_a_character_with_it() -> None:
    batch = written("I think.</think>yes", ["I", " think", ".<", "/thi", "nk>", "yes"])
    assert MarkPattern()(batch)["token.end_of_thinking"].tolist() == [False, False, True, True, True, False]


def test_phrases_are_found_word_by_word_and_overlaps_count_once() -> None:
    batch = written("So, LET'S try another way", ["So", ",", " LET", "'S", " try", " another", " way"])
    part = MarkPhrases(("let's try", "try another"))
    assert part(batch)["token.planning"].tolist() == [False, False, True, True, True, True, False]


def test_a_pattern_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(PodiumError, match="cannot be read"):
        MarkPattern("(")


# -- hicra -------------------------------------------------------------------------------------------------------------


def test_without_phrases_or_tilt_hicra_is_grpo() -> None:
    batch = random_update()
    planning = torch.arange(batch.size("token")) % 2 == 0
    marked = batch.with_columns({"token.planning": planning})
    assert torch.equal(Tilt(0.0)(marked)["token.advantage"], batch["token.advantage"])
    unmarked = batch.with_columns({"token.planning": torch.zeros_like(planning)})
    assert torch.equal(Tilt()(unmarked)["token.advantage"], batch["token.advantage"])
    mine, grpo = methods.hicra(clip_high=0.2), methods.grpo(kl=0.0)
    assert [t.clip for t in mine.objective] == [t.clip for t in grpo.objective]


def test_the_tilt_never_changes_a_sign_and_never_lowers_the_sum() -> None:
    batch = random_update().with_columns({"token.planning": torch.ones(random_update().size("token")).bool()})
    before, after = batch["token.advantage"], Tilt(0.9)(batch)["token.advantage"]
    assert bool((before.sign() == after.sign()).all())
    assert float(after.sum()) >= float(before.sum())


# -- pear --------------------------------------------------------------------------------------------------------------


def _phases(entropy: list[float], end: int, correct: bool, alpha: float = 1.0) -> float:
    columns = {
        "token.sampler.entropy": torch.tensor([entropy], dtype=torch.float64),
        "token.end_of_thinking": torch.tensor([[i == end for i in range(len(entropy))]]),
        "rollout.correct": torch.tensor([correct]),
    }
    batch = Batch.from_padded(torch.ones(1, len(entropy)), [0], columns)
    return float(PhaseEntropy(alpha)(batch)["rollout.reward"])


def test_equally_uncertain_parts_keep_the_binary_reward() -> None:
    assert _phases([0.5, 0.5, 9.0, 0.5, 0.5], 2, True) == 1.0
    assert _phases([0.5, 0.5, 9.0, 0.5, 0.5], 2, True, alpha=2.0) == 1.0
    assert _phases([0.5, 0.5, 9.0, 0.1, 0.1], 2, False) == 0.0


def test_calmer_thinking_never_lowers_the_reward_of_a_right_answer() -> None:
    before = _phases([0.8, 0.6, 0.2, 0.1], 2, True)
    assert _phases([0.8, 0.4, 0.2, 0.1], 2, True) >= before
    assert _phases([0.8, 3.0, 0.2, 0.1], 2, True) < 0  # there is no lower bound


def test_without_a_marker_all_is_thinking() -> None:
    assert _phases([0.5, 0.5], -1, True) == pytest.approx(0.5)


def test_among_right_answers_the_order_of_advantages_is_that_of_their_calm() -> None:
    entropy = torch.tensor([[0.9, 0.0, 0.1], [0.5, 0.0, 0.1], [0.3, 0.0, 0.1]], dtype=torch.float64)
    columns = {
        "token.sampler.entropy": entropy,
        "token.end_of_thinking": torch.tensor([[False, True, False]] * 3),
        "rollout.correct": torch.tensor([True] * 3),
    }
    method = methods.pear(imitate=0)
    batch = Batch.from_padded(torch.ones(3, 3), [0] * 3, columns)
    batch = batch.with_columns(method.reward[-1](batch))
    assert method.advantage is not None
    assert bool((method.advantage(batch)["rollout.advantage"].diff() > 0).all())


# -- entropy-exchange-shaping ------------------------------------------------------------------------------------------


def test_exchange_shaping_of_size_zero_is_grpo() -> None:
    batch = random_update()
    for part in (PerplexityFactor(0.0), PositionBonus(0.0)):
        assert torch.equal(part(batch)["token.advantage"], batch["token.advantage"])


def test_weights_of_perplexity_sum_to_zero_and_likely_rollouts_count_more() -> None:
    batch = random_update()
    part = PerplexityFactor(0.1)
    assert float(part.weights(batch).sum()) == pytest.approx(0.0, abs=1e-12)
    ratio = part(batch)["token.advantage"] / batch["token.advantage"]
    by_rollout = batch.reduce(ratio, "token", "rollout", "mean")
    assert bool((by_rollout[part.log_perplexity(batch).argsort()].diff() <= 1e-12).all())


def test_even_a_large_factor_changes_no_sign() -> None:
    batch = random_update()
    shaped = PerplexityFactor(50.0)(batch)["token.advantage"]
    assert bool((shaped * batch["token.advantage"] >= 0).all())


def test_the_bonus_grows_along_a_rollout_and_depends_on_the_relative_place_alone() -> None:
    def bonus(length: int) -> torch.Tensor:
        batch = Batch.from_padded(torch.ones(1, length), [0], {"rollout.advantage": torch.ones(1).double()})
        return PositionBonus().bonus(batch)

    assert bool((bonus(6).diff() > 0).all())
    assert torch.allclose(bonus(3), bonus(6)[1::2])


def test_advantages_of_zero_stay_zero() -> None:
    batch = random_update().with_columns({"rollout.advantage": torch.zeros(6).double()})
    assert float(PositionBonus()(batch)["token.advantage"].abs().max()) == 0.0


# -- two-stage-negative ------------------------------------------------------------------------------------------------


def test_negative_advantages_alone_are_trained_and_every_token_stays_in_the_denominator() -> None:
    batch = random_update()
    part = KeepSign()
    shaped = batch.with_columns(part(batch))
    kept = shaped["rollout.advantage"]
    assert bool((kept <= 0).all())
    assert torch.equal(kept[kept < 0], batch["rollout.advantage"][batch["rollout.advantage"] < 0])
    assert int(shaped.trained("token").sum()) == batch.size("token")


def test_the_switch_is_a_schedule_and_off_it_is_grpo() -> None:
    batch = random_update()
    assert torch.equal(KeepSign(on=0.0)(batch)["rollout.advantage"], batch["rollout.advantage"])
    method = methods.two_stage_negative().set("shape.KeepSign.on", Steps((0.0, 1.0), (0, 10)))
    assert method.check(["rollout.correct"]) == []


def test_under_full_advantages_the_best_rare_arm_first_shrinks_and_then_takes_over() -> None:
    start, rewards = torch.tensor([0.55, 0.40, 0.05]).double(), torch.tensor([0.8, 0.1, 1.0]).double()
    steps = list(range(0, 601, 10))
    best = bandit(start, rewards, 1.0, steps)[:, 2]
    turn = int(best.argmin())
    assert 0 < turn < len(steps) - 1
    assert float(best[turn]) < 0.03 < 0.9 < float(best[-1])


def test_one_negative_step_leaves_more_entropy_than_the_full_step() -> None:
    logits, actions, advantages = torch.tensor([1.0, 0.0, -1.0]).double(), [0, 0, 1, 2], [1.0, 1.0, -1.0, -1.0]
    after = {}
    for name, kept in (("full", advantages), ("negative", [min(a, 0.0) for a in advantages])):
        batch, leaf = bandit_batch(logits, actions, kept)
        PolicyGradient()(batch).backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        z = logits - 0.3 * leaf.grad
        after[name] = float(-(z.softmax(-1) * z.log_softmax(-1)).sum())
    assert after["negative"] > after["full"]


def test_gspo_n_uses_the_ratio_of_sequences() -> None:
    method = methods.get("two-stage-negative@gspo-n")
    assert method.objective[0].ratio == "sequence"
    plain = methods.two_stage_negative()
    batch = random_update()
    expected = differentiate([PolicyGradient(clip=Clip(), aggregate=plain.objective[0].aggregate)], batch)
    assert differentiate([plain.objective[0]], batch).step.loss == expected.step.loss
