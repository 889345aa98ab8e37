"""Advantages, by numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from podium.core import Relation
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.parts.advantage import (
    BoundaryDifference,
    JensenGap,
    Mixture,
    MixtureComponent,
    NestedHistories,
    NodeDifference,
    PairwiseDifferences,
    PositionDifference,
    PotentialCredit,
    RiskBundles,
    SplitHalves,
    TokenWeighted,
)
from podium.parts.advantage.shrunk_baseline import ShrunkBaseline
from tests.batches import sampled


def listed(x: Any) -> Any:
    return pytest.approx(x, abs=1e-6)


def test_halves_are_compared_with_each_other_and_within() -> None:
    columns = {"rollout.metric": torch.tensor([1.0, 2.0, 3.0, 4.0, 1.0], dtype=torch.float64)}
    batch = sampled([0.0, 1.0, 1.0, 3.0, 2.0], [0, 0, 0, 0, 1], "ab", **columns)
    part = SplitHalves(metric="rollout.metric", mu=0.25, discount=0.5, discounted="low", shift=0.5, divisor=2.0)
    found = part(batch)
    # Low half 0 and 1, high half 1 and 3: means ½ and 2. inter: ½ r − 2 − ½ below, r − ¼ + ½ above; intra: r − mean.
    inter = [-2.5, -2.0, 1.25, 3.25]
    intra = [-0.5, 0.5, -1.0, 1.0]
    expected = [(0.25 * a + 0.75 * b) / 2 for a, b in zip(inter, intra, strict=True)]
    assert found["rollout.advantage"][:4].tolist() == listed(expected)
    assert found["group.halves.gap"][:1].tolist() == listed([1.5])
    # A rollout alone is in the high half and is compared with 0: ¼·(2 + ½) + ¾·2.
    assert found["rollout.advantage"][4:].tolist() == listed([(0.25 * 2.5 + 0.75 * 2.0) / 2])


def test_differences_of_pairs_with_and_without_rollouts_that_do_not_count() -> None:
    pairs = Relation(
        "rollout",
        torch.tensor([0, 0, 1]),
        torch.tensor([1, 2, 2]),
        {"difference": torch.tensor([1.0, 2.0, 3.0]).double()},
    )
    links = {("rollout", "group"): torch.zeros(3, dtype=torch.long)}
    batch = Batch(links, {"rollout.reward": torch.zeros(3).double()}, relations={"pair": pairs})
    found = PairwiseDifferences(epsilon=0.25)(batch)["rollout.advantage"]
    # Means (1 + 2)/3, (3 − 1)/3, (−2 − 3)/3; of squares 2·(1 + 4 + 9) / (2·3·2) + ¼.
    spread = math.sqrt(28 / 12 + 0.25)
    assert found.tolist() == listed([1 / spread, 2 / 3 / spread, -5 / 3 / spread])
    purpose = {"rollout.purpose": torch.tensor([int(Purpose.train), int(Purpose.train), int(Purpose.probe)])}
    counted = PairwiseDifferences(epsilon=0.25)(batch.with_columns(purpose))["rollout.advantage"]
    # Only the first pair counts: ±1 over two rollouts, and squares 2·1 / (2·2·1) + ¼.
    spread = math.sqrt(0.5 + 0.25)
    assert counted[:2].tolist() == listed([0.5 / spread, -0.5 / spread])
    purpose = {"rollout.purpose": torch.tensor([int(Purpose.probe), int(Purpose.train), int(Purpose.train)])}
    counted = PairwiseDifferences(epsilon=0.25)(batch.with_columns(purpose))["rollout.advantage"]
    spread = math.sqrt(9 / 2 + 0.25)  # the last pair alone: 3² at both of two rollouts
    assert counted[1:].tolist() == listed([1.5 / spread, -1.5 / spread])
    empty = Relation("rollout", torch.zeros(0).long(), torch.zeros(0).long(), {"difference": torch.zeros(0).double()})
    alone = Batch(
        {("rollout", "group"): torch.zeros(1, dtype=torch.long)},
        {"rollout.reward": torch.zeros(1).double()},
        relations={"pair": empty},
    )
    assert PairwiseDifferences(epsilon=0.0)(alone)["rollout.advantage"].tolist() == [0.0]


def test_boundaries_credit_the_tokens_between_them() -> None:
    def own(reward: float, logp: list[float], index: int) -> Rollout:
        columns = {"reward": reward, "purpose": int(Purpose.train), "parent": -1, "fork": -1, "index": index}
        return Rollout(0, [Turn([1] * len(logp), tokens={"old.logp": logp})], columns=columns | {"truncated": False})

    def probe(reward: float, parent: int, fork: int, index: int, cut: bool = False) -> Rollout:
        columns = {"reward": reward, "purpose": int(Purpose.baseline), "parent": parent, "fork": fork, "index": index}
        return Rollout(0, [Turn([], tokens={"old.logp": []})], columns=columns | {"truncated": cut})

    logs = [math.log(0.5)] * 3 + [math.log(0.9)]  # 0.9 itself is not sure
    sure = math.log(0.95)
    rollouts = [
        own(1.0, [*logs[:3], sure], 0),
        own(0.0, logs, 1),
        probe(0.0, 0, 0, 2),
        probe(1.0, 0, 0, 3),
        probe(1.0, 0, 2, 4),
        probe(1.0, 0, 2, 5, cut=True),
        probe(1.0, 1, 0, 6),
    ]
    part = BoundaryDifference(sure=0.9, unfinished=0.5)
    found = part(Batch.from_rollouts(rollouts, dtype=torch.float64))["token.advantage"]
    # Values ½ at 0 and (1 + ½)/2 at 2: ¼ for the first two tokens, 1 − ¾ for the third; a sure token gets nothing.
    assert found.tolist() == listed([0.25, 0.25, 0.25, 0.0, -1.0, -1.0, -1.0, -1.0])
    own_reward = part.replace(unfinished=None)(Batch.from_rollouts(rollouts, dtype=torch.float64))["token.advantage"]
    assert own_reward[:3].tolist() == listed([0.5, 0.5, 0.0])


def test_nodes_are_scaled_by_the_spread_of_their_siblings() -> None:
    def leaf(names: list[str], reward: float, index: int) -> Rollout:
        turn = Turn([1] * len(names), tokens={"node": list(range(len(names)))})
        return Rollout(0, [turn], columns={"reward": reward, "index": index}, nodes={"key": names})

    batch = Batch.from_rollouts([leaf(["a"], 1.0, 0), leaf(["b"], 0.0, 1)], dtype=torch.float64)
    plain = NodeDifference()(batch)["node.advantage"].tolist()
    assert plain == listed([0.5, -0.5])
    scaled = NodeDifference(scale="std", epsilon=0.5)(batch)["node.advantage"].tolist()
    assert scaled == listed([0.5 / (0.5 + 0.5), -0.5 / (0.5 + 0.5)])  # the population std of 1 and 0 is ½


def test_histories_that_agree_are_compared() -> None:
    def rollout(states: list[str], reward: float, index: int) -> Rollout:
        turns = [
            Turn((1,), columns={"state": s, "reward": reward if i == len(states) - 1 else 0.0})
            for i, s in enumerate(states)
        ]
        return Rollout(0, turns, columns={"reward": reward, "index": index})

    batch = Batch.from_rollouts([rollout(["s", "t"], 1.0, 0), rollout(["s", "u"], 0.0, 1)], dtype=torch.float64)
    part = NestedHistories(gamma=1.0, history=0, scale="none", epsilon=0.5)
    found = part(batch)["step.advantage"].tolist()
    # One comparison at s, by the state alone (k = 1): ±½ with the weight 2 over 2 + ½; t and u are alone.
    assert found == listed([0.4, 0.0, -0.4, 0.0])
    same = Batch.from_rollouts([rollout(["s"], 1.0, 0), rollout(["s"], 1.0, 1)], dtype=torch.float64)
    assert part.replace(epsilon=0.0)(same)["step.advantage"].tolist() == [0.0, 0.0]


def test_potentials_that_rise_are_credited() -> None:
    def rollout(potentials: list[float], reward: float, index: int) -> Rollout:
        turn = Turn([1] * len(potentials), tokens={"segment": list(range(len(potentials)))})
        return Rollout(0, [turn], columns={"reward": reward, "index": index}, segments={"potential": potentials})

    batch = Batch.from_rollouts(
        [rollout([0.0, 0.95, 1.0], 1.0, 0), rollout([0.0, 0.9, 0.0], 0.0, 1)], dtype=torch.float64
    )
    found = PotentialCredit(alpha=0.5, xi=0.0, saturation=0.9)(batch)["segment.advantage"].tolist()
    # Outcomes ±½; after one solved step the credit decays by ½·(1 − 1/e). 0.9 itself does not solve.
    decayed = 0.5 * (1 - 0.5 * (1 - math.exp(-1)))
    assert found == listed([0.5, 0.5, decayed, -0.5, -0.5, -0.5])
    rising = PotentialCredit(alpha=0.0, xi=1.0, saturation=0.9)(batch)["segment.advantage"]
    # Rises 0, 0.95, 0.05 and 0, 0.9, −0.9, scaled to [0, 1] over all steps: (rise + 0.9) / 1.85.
    gains = [math.exp((x + 0.9) / 1.85) for x in (0.0, 0.95, 0.05, 0.0, 0.9, -0.9)]
    mean = sum(gains) / 6
    outcome = [0.5] * 3 + [-0.5] * 3
    assert rising.tolist() == listed([o + g - mean for o, g in zip(outcome, gains, strict=True)])
    flat = Batch.from_rollouts([rollout([0.5, 0.5], 1.0, 0), rollout([0.5], 0.0, 1)], dtype=torch.float64)
    assert PotentialCredit(alpha=0.0, xi=1.0)(flat)["segment.advantage"].tolist() == listed([0.5, 0.5, -0.5])
    # A rise of ¼ is the largest of the batch, and counts as 1.
    low = Batch.from_rollouts([rollout([0.5, 0.75], 0.0, 0)], dtype=torch.float64)
    half = (math.e - 1) / 2
    assert PotentialCredit(alpha=0.0, xi=1.0)(low)["segment.advantage"].tolist() == listed([-half, half])


def test_the_gain_in_the_mean_likelihood() -> None:
    x = torch.tensor([0.0, math.log(3), 5.0, math.log(2)], dtype=torch.float64)
    batch = sampled([0.0] * 4, [0, 0, 0, 1], "ab", (2,), **{"rollout.answer.score": x})
    found = JensenGap()(batch)["rollout.advantage"].tolist()
    # ln of the mean 2, less ln 3 and ln 1 without each; a rollout alone has no other: ln 2 itself.
    assert found[:2] == listed([math.log(2) - math.log(3), math.log(2)])
    assert found[3] == pytest.approx(math.log(2))


def test_components_are_mixed_by_their_shares() -> None:
    batch = Batch.from_rollouts(
        [Rollout(0, [Turn((1,), columns={"reward": r})], columns={"reward": r}) for r in (1.0, 0.0)],
        dtype=torch.float64,
    )
    alone = MixtureComponent(gamma=1.0, key=("group", "step.index"), share=0.25, scale="none")
    found = Mixture((alone, alone.replace(share=0.5)))(batch)
    assert found["step.advantage"].tolist() == listed([0.375, -0.375])
    one = batch.take("rollout", torch.tensor([0]))
    assert Mixture((alone, alone))(one)["rollout.alone"].tolist() == [1.0]


def test_tokens_weigh_the_mean_reward() -> None:
    rows = [Rollout(0, [Turn([1] * n)], columns={"reward": r}) for n, r in ((3, 1.0), (1, 0.0))]
    part = TokenWeighted(epsilon=1e-9, limit=5.0)
    found = part(Batch.from_rollouts(rows, dtype=torch.float64))["token.advantage"].tolist()
    # The mean over tokens is ¾, the std √(3/16).
    std = math.sqrt(3 / 16)
    assert found == listed([0.25 / std] * 3 + [-0.75 / std])
    grpo = part.replace(limit=1.0)(Batch.from_rollouts(rows, dtype=torch.float64))["token.advantage"].tolist()
    assert grpo == listed([0.5 / math.sqrt(0.5)] * 3 + [-0.5 / math.sqrt(0.5)])


def test_the_mean_score_of_bundles_is_reported() -> None:
    columns = {"index": torch.tensor([0, 0, 1, 1]), "group.bundle": torch.tensor([0, 0])}
    batch = sampled([1.0, 0.0, 1.0, 1.0], [0, 1, 0, 1], "ab", **columns)
    part = RiskBundles(quantiles="batch", credit="uniform", epsilon=0.5, natural_baseline=False, tail="none")
    assert part(batch)["batch.risk.score"].tolist() == listed([1.5])


def test_a_shrunk_baseline_says_how_much_of_it_is_the_prior() -> None:
    batch = sampled([1.0, 1.0, 1.0, 1.0], [0] * 4, ["a"]).with_columns({"group.prior": torch.zeros(1).double()})
    found = ShrunkBaseline()(batch)
    # The noise of four rollouts is ¼, D² = 1 − ¼ = ¾, so the mean weighs ¾ and the prior ¼.
    assert found["group.baseline"].tolist() == [0.75]
    assert found["group.prior.weight"].tolist() == [0.25]
    assert found["rollout.advantage"].tolist() == [0.25] * 4


def test_two_rollouts_are_compared_across_halves_of_one_each() -> None:
    columns = {"rollout.metric": torch.tensor([1.0, 2.0], dtype=torch.float64)}
    batch = sampled([0.0, 1.0], [0, 0], "a", **columns)
    part = SplitHalves(metric="rollout.metric", mu=0.0)
    assert part(batch)["rollout.advantage"].tolist() == [0.0, 0.0]  # within its half each is alone
    assert part.replace(mu=1.0)(batch)["rollout.advantage"].tolist() == [-1.0, 1.0]


def test_what_two_rollouts_and_what_one_add_to_a_bound() -> None:
    scores = {"rollout.answer.score": torch.tensor([math.log(3), 0.0, -2.0], dtype=torch.float64)}
    found = JensenGap()(sampled([0.0] * 3, [0, 0, 1], "ab", **scores))["rollout.advantage"].tolist()
    # The log of the mean 2 of 3 and 1, less those of the other alone: ln 2 − ln 1 and ln 2 − ln 3.
    assert found == listed([math.log(2), math.log(2) - math.log(3), -2.0])


def test_a_rollout_that_does_not_count_is_compared_with_the_one_that_does() -> None:
    one = Relation("rollout", torch.tensor([0]), torch.tensor([1]), {"difference": torch.tensor([3.0]).double()})
    links = {("rollout", "group"): torch.zeros(2, dtype=torch.long)}
    purpose = torch.tensor([int(Purpose.train), int(Purpose.probe)])
    columns = {"rollout.reward": torch.zeros(2).double(), "rollout.purpose": purpose}
    found = PairwiseDifferences(epsilon=0.25)(Batch(links, columns, relations={"pair": one}))["rollout.advantage"]
    # Over a group of one: no square that counts, so that the spread is √¼.
    assert found.tolist() == listed([0.0, -6.0])


def test_only_forks_that_were_made_as_baselines_are_probes() -> None:
    def row(reward: float, purpose: Purpose, parent: int, fork: int, index: int, tokens: int) -> Rollout:
        columns = {"reward": reward, "purpose": int(purpose), "parent": parent, "fork": fork, "index": index}
        turn = Turn([1] * tokens, tokens={"old.logp": [math.log(0.5)] * tokens})
        return Rollout(0, [turn], columns={**columns, "truncated": False})

    rows = [
        row(1.0, Purpose.train, -1, -1, 0, 2),
        row(0.0, Purpose.baseline, 0, 0, 1, 0),
        row(1.0, Purpose.train, 0, 0, 2, 0),  # trained: a fork, but no probe
        row(1.0, Purpose.baseline, -1, 0, 3, 0),  # of no rollout
    ]
    found = BoundaryDifference()(Batch.from_rollouts(rows, dtype=torch.float64))["token.advantage"]
    assert found.tolist() == [1.0, 1.0]  # 1 less the value 0 of the only probe


def test_a_fork_at_the_end_of_a_rollout_is_no_segment_of_it() -> None:
    """The parent of two tokens is right, the fork at 2 goes on for a third and is wrong."""
    rows = [
        Rollout(0, [Turn([1] * size)], columns={"reward": r, "parent": p, "fork": f, "index": i})
        for i, (size, r, p, f) in enumerate(((2, 1.0, -1, -1), (3, 0.0, 0, 2)))
    ]
    found = PositionDifference()(Batch.from_rollouts(rows, dtype=torch.float64))["token.advantage"]
    # Both have the positions 0 and 2, of value ½. The parent: 1 − ½. The fork: ½ − ½ up to 2, and 0 − ½ from there.
    assert found.tolist() == [0.5, 0.5, 0.0, 0.0, -0.5]


def test_histories_without_a_difference_have_no_weight() -> None:
    """From s the returns are 1, 1, 0, 0; after x and s both are 1, after y and s both 0."""
    rows = [
        Rollout(
            0,
            [Turn((1,), columns={"state": first, "reward": 0.0}), Turn((1,), columns={"state": "s", "reward": r})],
            columns={"reward": r, "index": i},
        )
        for i, (first, r) in enumerate((("x", 1.0), ("x", 1.0), ("y", 0.0), ("y", 0.0)))
    ]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    part = NestedHistories(gamma=0.0, history=1, epsilon=0.0)
    assert part(batch)["step.advantage"][1::2].tolist() == listed([1.0, 1.0, -1.0, -1.0])
    # With them, the weights are 2 and 3.
    kept = part.replace(drop_zero=False)(batch)["step.advantage"][1::2].tolist()
    assert kept == listed([0.4, 0.4, -0.4, -0.4])
    # One comparison of weight 1, with ε = ½ in both divisors: ½ / (½ + ½) / (1 + ½).
    even = part.replace(alpha=0.0, epsilon=0.5)(batch)["step.advantage"][1::2].tolist()
    assert even == listed([1 / 3, 1 / 3, -1 / 3, -1 / 3])


def test_papers_of_a_bundle_are_scaled_by_their_spread_if_there_are_two() -> None:
    columns = {
        "batch.risk.levels": torch.tensor([[0.2, 0.8]], dtype=torch.float64),
        "batch.risk.quantiles": torch.tensor([[0.0, 2.0]], dtype=torch.float64),
    }
    part = RiskBundles(tail="none", credit="uniform", natural_baseline=False, epsilon=0.4)
    two = {"index": torch.tensor([0, 0, 1, 1]), "group.bundle": torch.tensor([0, 0]), **columns}
    found = part(sampled([1.0, 1.0, 1.0, 0.0], [0, 1, 0, 1], "ab", **two))["rollout.advantage"].tolist()
    # Scores 2 and 1 above the quantile 0, over 0.6 + ε, and over their std √½ + ε.
    std = math.sqrt(0.5) + 0.4
    assert found == listed([2 / std, 2 / std, 1 / std, 1 / std])
    one = {"index": torch.tensor([0, 0]), "group.bundle": torch.tensor([0, 0]), **columns}
    alone = part(sampled([1.0, 1.0], [0, 1], "ab", **one))["rollout.advantage"].tolist()
    assert alone == listed([2 / 1.4, 2 / 1.4])
