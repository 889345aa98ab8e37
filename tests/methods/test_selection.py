"""Which tasks are sampled: beliefs, information, domains, rankings, curricula."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from podium import methods, worlds
from podium.analysis.saturation import post_saturation, saturation
from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Select
from podium.memories import BetaBeliefs, DomainRewards, PassRates, Sweeps
from podium.memories.pass_rates import alignment
from podium.method import Phases
from podium.parts.keep import DuplicateHard
from podium.parts.select import ByDomain, HardFocus, InformationGain, Ranked, Thompson, Uncertain
from podium.parts.select.belief import information_gain
from podium.parts.select.domains import domain_shares
from podium.parts.select.history import hardest
from podium.protocols.sampling import Sampling
from podium.sessions.train import resume
from podium.store.run_directory import RunDirectory
from podium.strategies.budgets.allocation import mixed_probability
from tests.conformance.helpers import differentiate
from tests.methods.catalogue import lines, small
from tests.methods.support import short_run


def chance(n: int, step: int = 0) -> Tensor:
    """A random number for each of n tasks."""
    return torch.rand(n, generator=torch.Generator().manual_seed(step), dtype=torch.float64).clamp(1e-9, 1 - 1e-9)


def outcomes(tasks: list[int], right: Tensor) -> Batch:
    """A group of rollouts for each task; right [task, rollout]."""
    owner = torch.tensor(tasks).repeat_interleave(right.shape[1])
    return Batch.from_rewards(right.double().flatten(), owner, {"rollout.correct": right.flatten()})


# -- a draw by weight --------------------------------------------------------------------------------------------------


def test_a_draw_by_weight_takes_no_task_twice_and_follows_the_weights() -> None:
    select, value = Uncertain(explore=0.0), torch.tensor([0.5, 0.98, 0.0], dtype=torch.float64)
    first = [
        select.choose({"group.tracker.value": value, "group.random": chance(3, s)}, 2).tolist() for s in range(300)
    ]
    assert all(len(set(pair)) == 2 for pair in first)
    assert not any(2 in pair for pair in first)  # its weight is 0
    share = sum(pair[0] == 0 for pair in first) / 300
    assert share == pytest.approx(0.5 / (0.5 + 0.14), abs=0.08)


def test_where_more_are_wanted_than_there_are_tasks_come_again() -> None:
    select = Thompson()
    known = {name: torch.ones(2, dtype=torch.float64) for name in ("group.belief.successes", "group.belief.failures")}
    chosen = select.choose({**known, "group.random": chance(2)}, 5).tolist()
    assert sorted(chosen[:2]) == [0, 1]
    assert len(chosen) == 5


def test_no_task_left_to_choose_from_is_said() -> None:
    class Nothing(Select):
        """Nobody."""

        def __call__(self, columns: Any) -> Tensor:
            return torch.zeros(3)

    with pytest.raises(PodiumError, match="No task is left to choose from"):
        Nothing().choose({"group.random": chance(3)}, 1)


# -- vade --------------------------------------------------------------------------------------------------------------


def simulated(select: Any, memory: Memory, rate: Tensor, steps: int, count: int = 8, n: int = 8) -> list[float]:
    """The share of groups with both outcomes in each step, with tasks of these rates of success."""
    state, found = memory.initial(), []
    for step in range(steps):
        known = memory.recall(state, list(range(len(rate))))
        chosen = select.choose({**known, "group.random": chance(len(rate), step)}, count).tolist()
        generator = torch.Generator().manual_seed(1000 + step)
        right = torch.rand(count, n, generator=generator) < rate[chosen][:, None]
        found.append(float((right.any(1) & ~right.all(1)).double().mean()))
        state = memory.observe(state, outcomes(chosen, right))
    return found


RATES = torch.tensor([0.0, 0.01, 0.99, 1.0] * 30 + [0.5, 0.4] * 8)  # few of them teach


def test_vade_after_some_steps_far_more_groups_are_mixed_than_by_uniform_sampling() -> None:
    method = methods.vade()
    (memory,) = method.memories
    found = simulated(method.select, memory, RATES, 60)
    uniform = float(mixed_probability(RATES.double(), torch.tensor(8.0)).mean())
    assert sum(found[-20:]) / 20 > 3 * uniform


def test_vade_decay_follows_a_drifting_rate_where_counting_everything_lags() -> None:
    def error(decay: float) -> float:
        memory = BetaBeliefs(decay=decay)
        state = memory.initial()
        for step in range(60):
            right = torch.arange(8)[None] < round(8 * step / 60)
            state = memory.observe(state, outcomes([0], right))
        mean = float(memory.recall(state, [0])["group.belief.mean"])
        return abs(mean - 59 / 60)

    assert error(0.5) < 0.15 < error(1.0)


def test_vade_evidence_stays_bounded_and_fades_where_nobody_looks() -> None:
    memory = BetaBeliefs()
    state = memory.initial()
    for _ in range(40):
        state = memory.observe(state, outcomes([0], torch.tensor([[True] * 4 + [False] * 4])))
    a, b = (float(memory.recall(state, [0])[f"group.belief.{name}"]) for name in ("successes", "failures"))
    assert a + b == pytest.approx(2 + 8 / (1 - 0.5))
    for _ in range(69):
        state = memory.observe(state, outcomes([1], torch.ones(1, 8, dtype=torch.bool)))
    after = float(memory.recall(state, [0])["group.belief.successes"])
    assert after - 1 == pytest.approx((a - 1) / 2, rel=0.01)  # its half-life is 69 steps


def test_vade_without_decay_counts_successes_and_failures() -> None:
    memory = BetaBeliefs(decay=1.0, decay_rest=1.0)
    state = memory.observe(memory.initial(), outcomes([0, 1], torch.tensor([[True, False], [True, True]])))
    state = memory.observe(state, outcomes([0], torch.tensor([[False, False]])))
    assert memory.recall(state, [0, 1, 2])["group.belief.successes"].tolist() == [2, 3, 1]
    assert memory.recall(state, [0, 1, 2])["group.belief.failures"].tolist() == [4, 1, 1]


def test_vade_rewards_between_right_and_wrong_count_as_shares() -> None:
    memory = BetaBeliefs(of="rollout.reward")
    batch = Batch.from_rewards(torch.tensor([0.25, 0.5, 1.0, 0.0]).double(), [0, 0, 0, 0])
    known = memory.recall(memory.observe(memory.initial(), batch), [0])
    assert (float(known["group.belief.successes"]), float(known["group.belief.failures"])) == (2.75, 3.25)


def test_vade_takes_everything_where_as_many_are_wanted() -> None:
    known = {name: torch.ones(4, dtype=torch.float64) for name in ("group.belief.successes", "group.belief.failures")}
    assert sorted(Thompson().choose({**known, "group.random": chance(4)}, 4).tolist()) == [0, 1, 2, 3]


def test_a_share_of_uniform_picks_ignores_the_scores() -> None:
    counts = {"group.belief.successes": torch.tensor([50.0] * 4 + [1.0] * 60).double()}
    counts["group.belief.failures"] = torch.tensor([50.0] * 4 + [1e3] * 60).double()
    best = Thompson().choose({**counts, "group.random": chance(64)}, 4).tolist()
    mixed = Thompson(uniform=0.5).choose({**counts, "group.random": chance(64)}, 4).tolist()
    assert sorted(best) == [0, 1, 2, 3]
    assert mixed[:2] == best[:2]
    assert mixed[2:] != best[2:]


def test_beliefs_count_groups_that_were_sampled_and_dropped_too(tmp_path: Path) -> None:
    """Else a task that is always failed would never be known to be."""
    world = worlds.get("sums", level=4)
    method = methods.get("vade+dars").set("rollout.n", 2).set("rollout.most", 2)
    found = short_run(method, tmp_path / "run", world=world, iterations=4, checkpoint_every=4, pool=256)
    lines_ = found.metrics[1:]
    assert sum(line["groups.dropped"] for line in lines_) > 0
    state = (RunDirectory(tmp_path / "run").checkpoints()[-1] / "state.json").read_text()
    assert state.count("sums-4/train/") >= 16  # every task of every iteration


# -- insight -----------------------------------------------------------------------------------------------------------


def belief(*pairs: tuple[float, float]) -> dict[str, Tensor]:
    a, b = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    return {"group.belief.successes": a, "group.belief.failures": b, "group.random": chance(len(pairs))}


def test_insight_the_score_falls_as_evidence_grows_at_the_same_mean() -> None:
    scores = InformationGain()(belief((1, 1), (4, 4), (16, 16), (64, 64))).tolist()
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4


def test_insight_more_rollouts_say_more() -> None:
    a, b = torch.tensor([2.0]), torch.tensor([5.0])
    gains = [float(information_gain(a, b, k)) for k in (1, 2, 8, 32)]
    assert gains == sorted(gains)


def test_insight_without_a_preferred_rate_the_score_is_symmetric_and_with_one_harder_tasks_win() -> None:
    easy, hard = InformationGain(eta=0.0)(belief((6, 2), (2, 6))).tolist()
    assert easy == pytest.approx(hard)
    easy, hard = InformationGain()(belief((6, 2), (2, 6))).tolist()
    assert hard > easy


def test_insight_large_counts_use_the_limit_and_agree_with_it() -> None:
    exact, limit = information_gain(torch.tensor([4.9e4, 6e4]), torch.tensor([4.9e4, 6e4]), 8).tolist()
    assert exact == pytest.approx(0.5 * 8 / 9.8e4, rel=0.02)
    assert limit == pytest.approx(0.5 * 8 / 1.2e5, rel=1e-3)


def test_insight_the_same_beliefs_and_pool_give_the_same_ranking_and_fresh_ones_a_random_one() -> None:
    known = belief((1, 3), (2, 2), (5, 1), (3, 3))
    select = InformationGain(pool=None)
    assert select.choose(known, 3).tolist() == select.choose(known, 3).tolist()
    fresh = [select.choose({**belief(*[(1, 1)] * 20), "group.random": chance(20, s)}, 4).tolist() for s in range(3)]
    assert fresh[0] != fresh[1] != fresh[2]


def test_insight_compares_a_random_pool_alone() -> None:
    known = belief((2, 2), *[(1000, 1)] * 99)
    found = [InformationGain(pool=2).choose({**known, "group.random": chance(100, s)}, 1).item() for s in range(40)]
    assert 0 < sum(task == 0 for task in found) < 40


def test_insight_finds_more_mixed_groups_than_random_tasks() -> None:
    method = methods.insight()
    (memory,) = method.memories
    found = simulated(method.select, memory, RATES, 60)
    uniform = float(mixed_probability(RATES.double(), torch.tensor(8.0)).mean())
    assert sum(found[-20:]) / 20 > 3 * uniform


def test_insight_knows_the_tasks_better_than_choosing_by_difficulty_alone() -> None:
    rate = torch.rand(64, generator=torch.Generator().manual_seed(5))

    def error(select: Any) -> float:
        memory = BetaBeliefs(decay=1.0, decay_rest=1.0)
        state = memory.initial()
        for step in range(40):
            known = memory.recall(state, list(range(64)))
            chosen = select.choose({**known, "group.random": chance(64, step)}, 4).tolist()
            right = torch.rand(4, 4, generator=torch.Generator().manual_seed(100 + step)) < rate[chosen][:, None]
            state = memory.observe(state, outcomes(chosen, right))
        return float((memory.recall(state, list(range(64)))["group.belief.mean"] - rate).abs().mean())

    assert error(InformationGain(rollouts=4, eta=0.0)) < error(Thompson(draw="mean"))


def test_insight_its_baselines_choose_from_the_same_pool_each_by_its_own_score() -> None:
    """ "MoPPS (|sampled rate - .5| smallest), expected difficulty (|p - .5| smallest), inverse evidence (1/n)"."""
    known = belief((1, 4), (30, 31), (1, 2))
    best = {
        name: methods.get(f"insight@{name}").select.replace(pool=None).choose(known, 1).item()  # type: ignore[union-attr]
        for name in ("difficulty", "evidence")
    }
    assert best == {"difficulty": 1, "evidence": 2}
    assert methods.get("insight@evidence").select(known).tolist() == [1 / 5, 1 / 61, 1 / 3]  # type: ignore[misc]
    sure = belief((1, 9), (500, 500), (9, 1))
    mopps = methods.get("insight@mopps").select.replace(pool=None)  # type: ignore[union-attr]
    drawn = [mopps.choose({**sure, "group.random": chance(3, s)}, 1).item() for s in range(20)]
    assert sum(task == 1 for task in drawn) > 15
    many = belief(*[(2, 2)] * 9, (1, 1))
    found = [
        methods.get("insight@evidence").select.replace(pool=2).choose({**many, "group.random": chance(10, s)}, 1).item()  # type: ignore[union-attr]
        for s in range(40)
    ]
    assert 0 < sum(task == 9 for task in found) < 40
    with pytest.raises(PodiumError, match="insight: score = 'entropy' is not one of information, thompson"):
        methods.insight(score="entropy")


# -- rulereasoner ------------------------------------------------------------------------------------------------------


def test_rulereasoner_raising_a_domains_rewards_never_raises_its_weight() -> None:
    memory, select = DomainRewards(size=1), ByDomain()
    for variant in ("buffer", "ewma"):
        weights = []
        for right in range(5):
            batch = {"a": (float(right), 4.0), "b": (2.0, 4.0)}
            deficit, _ = memory.replace(variant=variant).deficits([batch], {})
            weights.append(float(select.weights(torch.tensor([deficit["a"], deficit["b"]]))[0]))
        assert weights == sorted(weights, reverse=True)


def test_rulereasoner_a_high_temperature_draws_domains_alike_and_a_low_one_the_weakest_alone() -> None:
    deficit = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    assert ByDomain(temperature=1e6).weights(deficit).tolist() == pytest.approx([1 / 3] * 3, abs=1e-5)
    assert ByDomain(temperature=1e-3).weights(deficit).tolist() == pytest.approx([0, 1, 0], abs=1e-9)


@pytest.mark.parametrize("weights", [[0.1, 0.2, 0.7], [1 / 3] * 3, [1.0, 0.0, 0.0], [0.001, 0.001, 0.998]])
def test_rulereasoner_places_add_up_and_starve_nobody_if_asked(weights: list[float]) -> None:
    for count in (3, 7, 64):
        w = torch.tensor(weights, dtype=torch.float64)
        assert int(domain_shares(w, count).sum()) == count
        kept = domain_shares(w, count, least=1)
        assert int(kept.sum()) == count
        assert int(kept.min()) >= 1
    assert domain_shares(torch.tensor([0.1, 0.2, 0.7]).double(), 2, least=1).tolist() == [0, 1, 1]  # no room for all


def test_rulereasoner_the_release_counts_a_domain_above_52_percent_as_solved() -> None:
    seen = {"a": (3.0, 5.0), "b": (1.0, 5.0)}
    kept, released = DomainRewards(every=1, size=4), DomainRewards(every=1, size=4, forget=True)
    domains, right = ["a"] * 5 + ["b"] * 5, torch.tensor([1, 1, 1, 0, 0, 1, 0, 0, 0, 0]).bool()
    batch = Batch.from_rewards(
        right.double(), list(range(10)), {"rollout.domain": tuple(domains), "rollout.correct": right}
    )
    states = {memory: memory.initial() for memory in (kept, released)}
    for memory in states:
        for _ in range(4):
            states[memory] = memory.observe(states[memory], batch)
    lacks = {
        memory: memory.recall(state, ["a", "b"])["group.domain.deficit"].tolist() for memory, state in states.items()
    }
    assert lacks[released][0] == 0.0
    assert lacks[kept][0] > 0.2  # 60 % is not mastery
    assert released.deficits([seen], {})[0]["a"] == 0.0


def test_rulereasoner_of_equal_domains_the_first_met_from_the_newest_batch_back_gets_the_place_left_over() -> None:
    """As in the release, which walks back where it damps by age and forward where it does not."""
    buffer = [{"a": (1.0, 1.0), "b": (1.0, 1.0)}, {"b": (1.0, 1.0), "a": (1.0, 1.0)}]
    for decay, first in (("harmonic", "b"), ("geometric", "b"), ("none", "a")):
        deficit, _ = DomainRewards(size=2, decay=decay).deficits(buffer, {})
        weights = ByDomain().weights(torch.tensor(list(deficit.values()), dtype=torch.float64))
        assert dict(zip(deficit, domain_shares(weights, 3).tolist(), strict=True))[first] == 2


def test_rulereasoner_a_domain_with_too_few_tasks_repeats_them_and_the_metrics_count_it(
    tmp_path: Path,
) -> None:
    columns = {
        "group.domain.code": torch.tensor([0, 1, 1]),
        "group.domain.deficit": torch.tensor([1.0, 0.0, 0.0]),
        "group.domain.seen": torch.ones(3, dtype=torch.bool),
        "group.visits": torch.zeros(3),
        "group.random": chance(3),
    }
    assert ByDomain(temperature=0.1).choose(columns, 4).tolist()[:3] == [0, 0, 0]
    rows = [{"question": f"{n} + 1", "answer": str(n + 1), "subject": "odd" if n else "even"} for n in range(3)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    world = worlds.get("jsonl", file=str(file), test_file=str(file))
    assert [world.task(n).domain for n in range(3)] == ["even", "odd", "odd"]
    (line,) = lines(methods.rulereasoner(n=2), world, tasks=6, max_tokens=4)
    assert line["groups"] == 6
    assert line["groups.repeated"] == 3
    with pytest.raises(PodiumError, match=r"the row has no field 'topic' \(domain_field\)"):
        worlds.get("jsonl", file=str(file), domain_field="topic").task(0)


def test_an_unknown_domain_is_refused_with_those_there_are() -> None:
    with pytest.raises(PodiumError, match=r"Rules\.domain = 'paints' is not one of 'all', 'order', 'paint'"):
        worlds.get("rules", domain="paints")


def test_rulereasoner_a_domain_that_was_not_seen_lacks_everything_and_is_not_lost() -> None:
    memory = DomainRewards(variant="ewma", every=1)
    state = {**memory.initial(), "deficit": {"a": 0.1}}
    assert memory.recall(state, ["a", "new"])["group.domain.deficit"].tolist() == [0.1, 1.0]


@pytest.mark.parametrize(("start", "weights"), [
    ("uniform", (1.0, 1.0)),
    ("root", (1.0, 0.5)),
    ("exponential", (math.e, math.exp(0.5))),
])  # fmt: skip
def test_rulereasoner_before_rewards_are_known_the_size_of_a_domain_may_count(
    start: str, weights: tuple[float, float]
) -> None:
    """ "Start weights: uniform (options: proportional to 1/sqrt(size) or to exp(1/sqrt(size)))"."""
    memory, select = DomainRewards(every=1), ByDomain(start=start, least=0)
    names = ["a", "b", "b", "b", "b"]
    columns = {
        "group.domain.code": torch.tensor([0, 1, 1, 1, 1]),
        "group.visits": torch.zeros(5),
        "group.random": chance(5),
    }
    whole = select({**columns, **memory.recall(memory.initial(), names)})
    assert float(whole[0]) == pytest.approx(weights[0] / sum(weights))
    assert float(whole[1:].sum()) == pytest.approx(weights[1] / sum(weights))
    known = {**memory.initial(), "deficit": {"a": 0.0, "b": 1.0}}
    after = {**columns, **memory.recall(known, names)}
    assert select(after).tolist() == ByDomain(least=0)(after).tolist()


def test_rulereasoner_tasks_of_a_domain_come_in_turn_and_then_again() -> None:
    columns = {
        "group.domain.code": torch.tensor([0, 0, 0, 1]),
        "group.domain.deficit": torch.tensor([1.0, 1.0, 1.0, 0.0]),
        "group.domain.seen": torch.ones(4, dtype=torch.bool),
        "group.visits": torch.tensor([1.0, 0.0, 0.0, 5.0]),
        "group.random": chance(4),
    }
    chosen = ByDomain(temperature=0.3).choose(columns, 4).tolist()
    assert sorted(chosen[:2]) == [1, 2]  # those that had no turn yet
    assert chosen[2:] == [0, 3]
    assert ByDomain(temperature=0.3).choose(columns, 8).tolist().count(3) == 1


def test_rulereasoner_the_weak_domain_fills_more_of_the_batch_in_training(tmp_path: Path) -> None:
    method = methods.rulereasoner(n=2, every=1, temperature=0.05)
    short_run(method, tmp_path / "run", world="rules", iterations=6, tasks=8)
    import pyarrow.parquet as pq

    rows = [pq.read_table(f).to_pylist() for f in sorted((tmp_path / "run/rollouts").glob("*.parquet"))]
    domains = sorted({row["domain"] for it in rows for row in it})
    assert len(domains) > 1
    assert all(len({row["domain"] for row in it}) == len(domains) for it in rows)  # at least one each
    first, last = ([sum(row["domain"] == d for row in it) for d in domains] for it in (rows[0], rows[-1]))
    assert max(first) - min(first) <= 2  # nothing is known: all alike
    assert max(last) > max(first)


# -- one-shot-rlvr -----------------------------------------------------------------------------------------------------


def test_one_shot_the_ranking_does_not_change_if_a_constant_is_added_to_a_history() -> None:
    rates: dict[str, tuple[float, ...]] = {"a": (0.0, 0.5, 0.25), "b": (0.1, 0.2, 0.1), "c": (0.3, 0.3, 0.3)}
    memory, select = PassRates(), Ranked()

    def order(found: dict[str, tuple[float, ...]]) -> list[int]:
        return select.order({**memory.recall({"rates": found}, list(found)), "group.number": torch.arange(3)}).tolist()

    assert order(rates) == [0, 1, 2] == order({t: tuple(x + 0.4 for x in r) for t, r in rates.items()})


def test_one_shot_a_history_shorter_than_two_visits_scores_nothing() -> None:
    found = PassRates().recall({"rates": {"a": (0.7,)}}, ["a", "b"])
    assert found["group.pass_rate.spread"].tolist() == [0.0, 0.0]
    assert alignment([]) == []
    assert alignment([(1.0, 1.0), (1.0, 1.0)]) == [0.0, 0.0]


def test_one_shot_copies_of_the_task_are_groups_with_statistics_of_their_own(tmp_path: Path) -> None:
    short_run(methods.one_shot_rlvr(n=4), tmp_path / "run", world=worlds.get("sums", level=2), iterations=1, tasks=4)
    import pyarrow.parquet as pq

    rows = pq.read_table(tmp_path / "run/rollouts/iteration-000001.parquet").to_pylist()
    assert len({row["task"] for row in rows}) == 1
    assert {row["group"] for row in rows} == {0, 1, 2, 3}
    assert len({row["text"] for row in rows}) > 1
    for group in range(4):
        own = [row for row in rows if row["group"] == group]
        rewards = torch.tensor([row["reward"] for row in own])
        expected = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        assert [row["advantage"] for row in own] == pytest.approx(expected.tolist(), abs=1e-4)


def test_one_shot_entropy_alone_has_the_gradient_of_the_entropy() -> None:
    method = methods.get("one-shot-rlvr@entropy-only", entropy=0.01)
    assert [type(t).__name__ for t in method.objective] == ["Entropy"]
    columns = {"token.now.logp": -torch.ones(2, 3).double(), "token.now.entropy": torch.rand(2, 3).double()}
    batch = Batch.from_padded(torch.ones(2, 3), [0, 1], columns)
    step = differentiate(method.objective, batch).step
    assert step.loss == pytest.approx(-0.01 * float(columns["token.now.entropy"].mean()))


def test_one_shot_ranks_by_what_an_earlier_run_has_logged(tmp_path: Path) -> None:
    world = worlds.get("sums", level=2)
    short_run(methods.one_shot_rlvr(n=4, shots=3), tmp_path / "first", world=world, iterations=4, tasks=3)
    memory = PassRates(source=str(tmp_path / "first"))
    rates = memory.initial()["rates"]
    assert len(rates) == 3
    assert all(len(r) == 4 for r in rates.values())
    best = max(rates, key=lambda task: torch.tensor(rates[task]).std(unbiased=False))
    method = methods.one_shot_rlvr(n=2, source=str(tmp_path / "first"))
    import pyarrow.parquet as pq

    short_run(method, tmp_path / "second", world=world, iterations=1, tasks=2)
    rows = pq.read_table(tmp_path / "second/rollouts/iteration-000001.parquet").to_pylist()
    assert {row["task"] for row in rows} == {best}
    with pytest.raises(PodiumError, match="no logged rollouts"):
        PassRates(source=str(tmp_path)).initial()


def test_post_saturation_is_what_is_gained_after_the_training_task_is_solved() -> None:
    accuracy = [0.2, 0.6, 1.0, 1.0, 1.0, 1.0]
    assert saturation(accuracy, window=2) == 4
    assert post_saturation(accuracy, {0: 0.1, 4: 0.4, 5: 0.45, 6: 0.5}, window=2) == pytest.approx({5: 0.05, 6: 0.1})
    assert post_saturation([0.1, 0.2], {1: 0.3}) == {}


# -- drive -------------------------------------------------------------------------------------------------------------


def test_drive_kept_sets_are_nested_and_no_dropped_task_is_harder_than_a_kept_one() -> None:
    rates = torch.rand(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sets = hardest(rates, torch.arange(30), (20, 9, 3))
    assert [int(s.sum()) for s in sets] == [20, 9, 3]
    before = torch.ones(30, dtype=torch.bool)
    for phase, kept in enumerate(sets):
        assert not bool((kept & ~before).any())
        gone = before & ~kept
        assert float(rates[kept, phase].max()) <= float(rates[gone, phase].min())
        before = kept


def test_drive_measures_before_every_phase_trains_the_hardest_and_lets_none_come_back() -> None:
    memory, select = Sweeps(iterations=(1, 1)), HardFocus(keep=(3, 2), pool=5)
    state, trained = memory.initial(), []
    rates = {0: 0.9, 1: 0.1, 2: 0.5, 3: 0.3, 4: 0.2}
    for step in range(8):
        known = memory.recall(state, list(range(8)))
        chosen = select.choose({**known, "group.number": torch.arange(8), "group.random": chance(8, step)}, 2).tolist()
        measuring = all(float(known["group.sweep.rates"][t, int(known["batch.sweep.phase"])]) == -1 for t in chosen)
        if not measuring:
            trained.append(set(chosen))
        right = torch.stack([torch.arange(10) < round(10 * rates[t]) for t in chosen])
        state = memory.observe(state, outcomes(chosen, right))
        rates[1] = 1.0 if trained else 0.1  # training solves it
    assert trained[0] <= {1, 3, 4}
    assert trained[-1] == {3, 4}
    assert len(trained) >= 2


def test_drive_of_one_phase_that_keeps_everything_is_grpo_on_its_tasks() -> None:
    method = methods.drive(n=8, first=1, keep=(175,), iterations=(1,))
    assert isinstance(method, Phases)
    first, second = method.children()
    assert first.advantage == second.advantage
    assert first.objective == second.objective == methods.get("grpo", kl=0.0).with_(objective=first.objective).objective


def test_drive_begins_by_imitating_solutions_where_asked_and_hard_tasks_twice() -> None:
    method = methods.drive(supervised=2, first=1, keep=(2,), iterations=(1,), pool=2, first_n=4, n=4)
    assert [child.name for child in method.children()] == ["imitate", "broad", "focus"]  # type: ignore[attr-defined]
    found = lines(method, worlds.get("sums", level=2), iterations=3, tasks=4)
    assert [line["phase"] for line in found] == [0, 0, 1]
    assert all(line["loss.Likelihood"] > 0 for line in found[:2])
    assert found[1]["loss.Likelihood"] != found[0]["loss.Likelihood"]
    assert "loss.Likelihood" not in found[2]
    assert any("written solutions" in f.message for f in method.check(("rollout.correct",)))
    assert not methods.drive().check(("rollout.correct",))  # without that stage it needs none


def test_drive_demonstrations_are_kept_by_how_hard_their_task_is() -> None:
    given = torch.tensor([False, False, True, True] * 3)
    columns = {
        "rollout.correct": torch.tensor([False, False, True, True, True, False, True, True, True, True, True, True]),
        "rollout.demonstration": given,
        "rollout.purpose": torch.where(given, int(Purpose.demo), int(Purpose.train)),
        "rollout.index": torch.arange(4).repeat(3),
    }
    batch = Batch.from_rewards(torch.zeros(12), [0] * 4 + [1] * 4 + [2] * 4, columns)
    found = DuplicateHard()(batch)
    assert found["rollout.imitated"].tolist() == [False, False, True, True, False, False, True, *[False] * 5]
    assert found["group.hard"].tolist() == [1.0, 0.0, 0.0]


def test_drive_answers_of_the_first_stage_have_less_room() -> None:
    first, focus = methods.drive().children()  # type: ignore[attr-defined]
    limit = Sampling(max_tokens=32)
    assert first.rollout.draw.sampling(limit).max_tokens == 24
    assert focus.rollout.draw.sampling(limit).max_tokens == 32
    assert len(methods.drive(first=0).children()) == 1  # type: ignore[attr-defined]


def test_drive_what_only_measures_is_not_trained() -> None:
    found = lines(small("drive"), worlds.get("sums", level=2), iterations=3)
    assert [line["phase"] for line in found] == [0, 1, 1]
    assert [line["updates"] for line in found] == [2, 0, 2]  # as many as there are groups
    assert found[1]["groups.dropped"] == 2
    assert found[1]["tokens.dropped"] == found[1]["tokens"] > 0


def test_drive_the_chance_of_a_group_with_both_outcomes_is_the_reason_for_many_rollouts() -> None:
    p = torch.tensor([0.02, 0.02], dtype=torch.float64)
    assert mixed_probability(p, torch.tensor([8.0, 64.0])).tolist() == pytest.approx([0.1492, 0.7255], abs=1e-4)


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug", ["vade", "insight"])
def test_selection_after_a_kill_goes_on_with_the_same_tasks(slug: str, tmp_path: Path) -> None:
    world = worlds.get("sums", level=2)
    short_run(small(slug), tmp_path / "whole", world=world, iterations=4, checkpoint_every=2, keep_checkpoints=5)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(RunDirectory(tmp_path / "cut").checkpoints()[-1])
    resume(tmp_path / "cut")
    a, b = (
        [{k: v for k, v in line.items() if k != "seconds"} for line in RunDirectory(tmp_path / name).metrics()]
        for name in ("whole", "cut")
    )
    assert a == b


def test_drive_keeps_shares_of_its_pool() -> None:
    """Of four tasks in the pool a half are the two hardest, then a quarter the one hardest of these."""
    part = HardFocus(keep=(0.5, 0.25), pool=4)
    rates = torch.tensor([[0.2, 0.5], [0.6, -1.0], [0.1, 0.7], [0.9, -1.0], [0.0, 0.0]], dtype=torch.float64)
    columns = {"group.sweep.rates": rates, "group.number": torch.arange(5.0)}
    assert part({**columns, "batch.sweep.phase": torch.tensor([0.0])}).tolist() == [1, 0, 1, 0, 0]
    assert part({**columns, "batch.sweep.phase": torch.tensor([1.0])}).tolist() == [1, 0, 0, 0, 0]


def test_drive_measures_and_focuses_within_a_run_of_twelve_iterations() -> None:
    found = lines(methods.drive(n=4, first_n=4), worlds.get("sums", level=2), iterations=12, tasks=4, pool=8)
    assert {line["phase"] for line in found} == {0, 1}
    assert max(line.get("sweep.phase", 0) for line in found) == 2  # the last of its three phases has begun
