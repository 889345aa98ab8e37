"""How many rollouts a task gets: second waves, rounds across tasks, forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.memories import SolvedTasks
from podium.memories.score_history import routing_score
from podium.memories.solved_tasks import neighbours, prompt_similarity
from podium.policy import embed
from podium.protocols.sampling import Sampling
from podium.sessions.value_model import success_pairs
from podium.strategies import Allocated, Rounds, SecondWave
from podium.strategies.budgets.allocation import allocate, expected_failures, extra_rollouts, half_width, mass
from podium.strategies.requests import Embed, Play, TaskRequest
from podium.worlds import Task
from tests.conformance.helpers import credited
from tests.methods.catalogue import Wrong, lines, small, tiny
from tests.methods.support import short_run


def request(number: int, **recalled: Any) -> TaskRequest:
    named = {name.replace("__", "."): value for name, value in recalled.items()}
    return TaskRequest(Task(f"task {number}", f"question {number}"), number, Sampling(), (0, 0, number), named)


def answered(wave: Sequence[Any], right: Any) -> list[Any]:
    """Rollouts for each `Play`; right(task, index) says whether one succeeds."""
    found = []
    for play in wave:
        assert isinstance(play, Play)
        indices = range(play.first, play.first + play.n)
        task = play.request.group
        found.append(
            [
                Rollout(play.request.task.key, [Turn((1,))], task, {"reward": float(right(task, i)), **play.columns})
                for i in indices
            ]
        )
    return found


def played(strategy: Any, tasks: Sequence[TaskRequest], right: Any) -> tuple[list[Rollout], list[list[Play]]]:
    """What a strategy makes of these tasks, and the waves that it asked for."""
    (plan,) = strategy.plans(tasks) if isinstance(strategy, Rounds | Allocated) else [strategy.plan(tasks[0])]
    waves: list[Any] = []
    wave: Any = next(plan)
    while True:
        waves.append(wave)
        try:
            wave = plan.send(answered(wave, right))
        except StopIteration as end:
            return end.value, waves


# -- dars --------------------------------------------------------------------------------------------------------------

ACCURACY = torch.arange(0, 33, dtype=torch.float64) / 32


@pytest.mark.parametrize("std", [False, True])
def test_dars_equal_treatment_lifts_every_hard_task_to_the_peak_unless_the_ceiling_binds(std: bool) -> None:
    extra = extra_rollouts(ACCURACY, 8, 10_000, "equal", std)
    p = ACCURACY.where(ACCURACY > 0, 0.5 / 8)
    lifted = (8 + extra) * mass(p, std)
    assert bool((lifted[p < 0.5] >= 8 * mass(torch.tensor(0.5).double(), std) - 1e-9).all())


@pytest.mark.parametrize("schedule", ["equal", "hardness"])
def test_dars_extra_rollouts_fall_with_accuracy_and_are_none_from_one_half_on(schedule: str) -> None:
    extra = extra_rollouts(ACCURACY[1:], 32, 512, schedule)
    assert bool((extra[1:] <= extra[:-1]).all())
    assert bool((extra[ACCURACY[1:] >= 0.5] == 0).all())


def test_dars_hardness_gives_at_least_what_equal_treatment_gives() -> None:
    hard, equal = (extra_rollouts(ACCURACY, 8, 64, schedule) for schedule in ("hardness", "equal"))
    assert bool((hard >= equal).all())


def test_dars_without_a_second_wave_is_dr_grpo_with_flat_groups_dropped() -> None:
    method = methods.dars(n=4, most=4)
    _, waves = played(method.rollout, [request(0)], lambda task, index: False)
    assert len(waves) == 1
    batch = Batch.from_rewards(torch.tensor([1.0, 0, 0, 1, 1, 1]), [0, 0, 0, 1, 1, 1])
    assert torch.equal(
        credited(method, batch)["rollout.advantage"], credited(methods.dr_grpo(), batch)["rollout.advantage"]
    )
    assert method.keep[0](batch)["group.keep"].tolist() == [True, False]


def test_dars_both_waves_are_one_group() -> None:
    rollouts, waves = played(SecondWave(n=8, most=32), [request(0)], lambda task, index: index == 3)
    assert [wave[0].n for wave in waves] == [8, 11]
    assert len(rollouts) == 19
    assert [r.columns["extra"] for r in rollouts] == [0.0] * 8 + [1.0] * 11
    assert waves[1][0].first == 8
    assert waves[1][0].wave == 1  # other random numbers


def test_dars_a_group_of_one_is_worth_nothing_beside_larger_ones_and_its_reward_where_all_are() -> None:
    method = methods.dars()
    beside = credited(method, Batch.from_rewards(torch.tensor([1.0, 0, 1]), [0, 0, 1]))["rollout.advantage"]
    assert beside.tolist() == [0.5, -0.5, 0.0]
    alone = credited(method, Batch.from_rewards(torch.tensor([1.0, 0.5]), [0, 1]))["rollout.advantage"]
    assert alone.tolist() == [1.0, 0.5]


def test_dars_a_batch_of_which_nothing_is_left_trains_nothing_and_says_what_it_cost() -> None:
    (line,) = lines(small("dars", n=2), Wrong(), max_tokens=12)
    assert line["updates"] == 0
    assert line["groups.dropped"] == 2
    assert line["tokens.dropped"] == line["tokens"]


# -- xrpo --------------------------------------------------------------------------------------------------------------


def test_xrpo_the_bonus_is_never_above_the_cap_and_never_for_a_wrong_answer() -> None:
    method, generator = methods.xrpo(), torch.Generator().manual_seed(0)
    logp = -3 * torch.rand(6, 4, generator=generator, dtype=torch.float64)
    reward = torch.tensor([1.0, 1, 0, 0, 1, 0], dtype=torch.float64)
    batch = Batch.from_padded(torch.ones(6, 4), [0] * 6, {"token.old.logp": logp, "rollout.reward": reward})
    plain = credited(method.with_(shape=()), batch)["rollout.advantage"]
    gained = credited(method, batch)["rollout.advantage"] - plain
    assert bool((gained[reward == 0] == 0).all())
    assert bool((gained <= 0.5 * plain.clamp(min=0) + 1e-12).all())
    assert float(gained.max()) > 0
    off = credited(methods.xrpo(novelty=0.0), batch)["rollout.advantage"]
    assert torch.equal(off, plain)


def test_xrpo_of_equally_sampled_tasks_those_with_varied_rewards_get_more_and_nobody_starves() -> None:
    strategy = Rounds(n=8, first=4, rounds=2)
    assert strategy.shares([[1, 1, 1, 1], [0, 1, 0, 1]], 4)[1] > strategy.shares([[1, 1, 1, 1], [0, 1, 0, 1]], 4)[0]
    assert strategy.shares([[1, 1, 1, 1], [0, 1, 0, 1]], 40)[0] > 0


def test_xrpo_rounds_spend_the_budget_of_uniform_sampling() -> None:
    tasks = [request(number, batch__solved=(("question", "solution"),)) for number in range(5)]
    rates = (0.0, 0.25, 0.5, 0.75, 1.0)
    rollouts, waves = played(
        Rounds(n=8, first=4, rounds=3, bonus=0.1), tasks, lambda task, i: (i % 4) < 4 * rates[task]
    )
    assert len(rollouts) == 40
    assert all(play.n == 4 for play in waves[0])
    got = {r.group: r.columns["budget"] for r in rollouts}
    assert got[0] == 8  # failed: the rest after examples
    assert got[2] > got[4]
    indices = sorted((r.group, i) for g in range(5) for i, r in enumerate([r for r in rollouts if r.group == g]))
    assert len(indices) == 40


def test_xrpo_tasks_that_only_fail_are_sampled_after_examples_that_resemble_them() -> None:
    solved = (("question 12", "one"), ("something else", "two"), ("question 3", "three"), ("question 0", "own"))
    task = request(0, batch__solved=solved)
    _, waves = played(Rounds(n=6, first=2, examples=2), [task], lambda *_: False)
    (play,) = waves[1]
    assert play.n == 4
    shown = play.context.above  # type: ignore[union-attr]
    assert "one" in shown
    assert "three" in shown
    assert "two" not in shown
    assert "own" not in shown  # its own solution would be the answer
    assert play.train_context is None  # trained after what it was sampled after
    _, waves = played(Rounds(n=6, first=2, trained="plain"), [task], lambda *_: False)
    assert waves[1][0].train_context is not None


def test_xrpo_an_embedder_says_which_questions_resemble_each_other() -> None:
    solved = (("question 12", "one"), ("something else", "two"), ("far away", "three"))
    places = {"question 0": (1.0, 0.0), "question 12": (0.0, 1.0), "something else": (0.8, 0.6), "far away": (0.6, 0.8)}
    (plan,) = Rounds(n=6, first=2, examples=2, embedder="embedder").plans([request(0, batch__solved=solved)])
    asked = plan.send(answered(next(plan), lambda *_: False))
    assert [(e.text, e.role) for e in asked if isinstance(e, Embed)] == [(text, "embedder") for text in places]
    (play,) = plan.send([list(places[e.text]) for e in asked])
    assert "two" in play.context.above  # though it shares no word with the question
    assert "three" in play.context.above
    assert "one" not in play.context.above


def test_xrpo_nothing_is_embedded_where_nothing_failed_or_nothing_is_solved() -> None:
    strategy = Rounds(n=4, first=2, embedder="policy")
    for known, right in (((("a", "b"),), True), ((), False)):
        _, waves = played(strategy, [request(0, batch__solved=known)], lambda *_, right=right: right)
        assert all(isinstance(play, Play) for wave in waves for play in wave)


def test_xrpo_the_embedder_is_the_policy_or_a_model_of_its_own() -> None:
    assert methods.get("xrpo@embedding").rollout.embedder == "policy"  # type: ignore[union-attr]
    assert methods.get("xrpo@embedding").roles == ()
    own = methods.xrpo(embedder="podium/tiny", pool="last")
    assert [(role.name, role.source) for role in own.roles] == [("embedder", "podium/tiny")]
    missing = own.with_(roles=()).check(("rollout.correct",))
    assert any("asks 'embedder', which is no role of the method" in finding.message for finding in missing)


@pytest.mark.parametrize("embedder", ["policy", "podium/tiny"])
def test_xrpo_embeds_in_training_and_counts_what_that_costs(embedder: str) -> None:
    world, settings = worlds.get("sums", level=2), {"iterations": 3, "tasks": 4, "seed": 1}
    plain, embedded = (
        lines(methods.xrpo(n=6, first=2, embedder=e), world, **settings)  # type: ignore[arg-type]
        for e in (None, embedder)
    )
    seeded = [number for number, line in enumerate(embedded) if line["seeded"]]
    assert seeded
    assert embedded[seeded[0]]["tokens.encoded"] > plain[seeded[0]]["tokens.encoded"]


@pytest.mark.parametrize("pool", ["mean", "last"])
def test_embedded_texts_have_length_one_and_are_nearest_to_themselves(pool: str) -> None:
    texts = [worlds.get("sums", level=2).task(number).prompt for number in range(3)]
    vectors = embed(tiny(), [*texts, texts[0]], pool)
    assert vectors.norm(dim=1).tolist() == pytest.approx([1.0] * 4, abs=1e-5)
    assert torch.allclose(vectors[0], vectors[3], atol=1e-5)
    assert float(vectors[0] @ vectors[1]) < 1 - 1e-6
    long = embed(tiny(), ["1+1=2 " * 2000], pool)  # longer than the context
    assert bool(long.isfinite().all())
    with pytest.raises(PodiumError, match="cannot be embedded by 'first'"):
        embed(tiny(), texts, "first")


def test_xrpo_one_rollout_a_task_is_refused() -> None:
    with pytest.raises(PodiumError, match=r"Rounds\.n = 1 is out of range \[2, inf\]"):
        methods.xrpo(n=1)


def test_xrpo_without_a_solved_neighbour_the_plain_prompt_is_sampled_again() -> None:
    rollouts, waves = played(Rounds(n=6, first=2), [request(0, batch__solved=())], lambda *_: False)
    assert waves[1][0].context is None
    assert len(rollouts) == 6
    assert {r.columns["seeded"] for r in rollouts} == {0.0}


def test_xrpo_examples_that_leave_no_room_to_answer_are_left_out() -> None:
    task = request(0, batch__solved=(("question 1", "long " * 1000),))
    (plan,) = Rounds(n=6, first=2).plans([task])
    (first,) = next(plan)
    wave = plan.send(answered([first], lambda *_: False))
    assert wave[0].context is not None
    wave = plan.send([[]])  # what a sampler answers where a context is too long
    assert wave[0].context is None
    with pytest.raises(StopIteration) as end:
        plan.send(answered(wave, lambda *_: False))
    assert len(end.value.value) == 6


def test_xrpo_an_interval_of_one_value_or_of_equal_ones_has_no_width() -> None:
    assert half_width(torch.tensor([0.0, 0.0]).double(), torch.tensor([1.0, 5.0]).double()).tolist() == [0.0, 0.0]
    with pytest.raises(PodiumError, match=r"Rounds\.first = 1"):
        Rounds(first=1)


def test_xrpo_first_rollouts_for_all_and_no_novelty_is_grpo_without_kl() -> None:
    method = methods.xrpo(n=4, first=4, novelty=0.0)
    _, waves = played(method.rollout, [request(0), request(1)], lambda *_: False)
    assert [play.n for wave in waves for play in wave] == [4, 4]


def test_solved_tasks_keeps_the_newest_one_solution_each_cut_to_length() -> None:
    memory = SolvedTasks(size=2, longest=3)
    state = memory.initial()
    for number in range(4):
        columns = {
            "rollout.prompt": (f"q{number}", f"q{number}", "q9"),
            "rollout.text": ("longer", "again", "wrong"),
            "rollout.correct": torch.tensor([True, True, False]),
        }
        state = memory.observe(state, Batch.from_rewards([1.0, 1.0, 0.0], [0, 0, 1], columns))
    assert state["solved"] == (("q2", "aga"), ("q3", "aga"))


def test_similar_questions_are_those_that_share_words() -> None:
    assert prompt_similarity("abc", "abc") == pytest.approx(1.0)
    assert prompt_similarity("abc", "xyz") == 0.0
    assert prompt_similarity("", "") == pytest.approx(1.0)
    corpus = (("add 3 and 4", "7"), ("name a city", "Rome"))
    assert neighbours("add 5 and 6", corpus, 1) == (("add 3 and 4", "7"),)
    assert neighbours("name a city", corpus, 5) == (("add 3 and 4", "7"),)


def test_xrpo_seeds_in_training_and_counts_it(tmp_path: Path) -> None:
    world = worlds.get("sums", level=2)
    short_run(methods.xrpo(n=6, first=2), tmp_path / "run", world=world, iterations=3, tasks=4, seed=1)
    rows = [
        row for file in sorted((tmp_path / "run/rollouts").glob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]
    seeded = [row for row in rows if row["seeded"]]
    assert seeded
    assert len(rows) == 3 * 4 * 6
    assert {row["iteration"] for row in seeded} <= {2, 3}  # at first nothing is solved


# -- v0 ----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(0, 20), st.sampled_from(["mixed", "failures"]))
def test_v0_a_budget_is_spent_within_its_bounds(rates: list[float], more: int, utility: str) -> None:
    p, total = torch.tensor(rates, dtype=torch.float64), 2 * len(rates) + more
    found = allocate(p, total, 2, 8, utility)
    assert int(found.min()) >= 2
    assert int(found.max()) <= 8
    assert int(found.sum()) == min(total, 8 * len(rates))


def test_v0_the_symmetric_utility_gives_p_and_1_minus_p_the_same() -> None:
    p = torch.tensor([0.1, 0.9, 0.3, 0.7], dtype=torch.float64)
    found = allocate(p, 32, 2, 16, "mixed").tolist()
    assert found[0] == found[1]
    assert found[2] == found[3]


def test_v0_a_budget_below_one_rollout_a_task_is_refused_in_words() -> None:
    with pytest.raises(PodiumError, match="A budget of 3 rollouts is too small for 4 tasks"):
        allocate(torch.full((4,), 0.5), 3, 1, 8)
    with pytest.raises(PodiumError, match=r"Allocated\.least = 4"):
        Allocated(n=2, least=4)


def test_v0_no_rollouts_are_worth_nothing_even_of_a_task_that_is_always_solved() -> None:
    p = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    assert expected_failures(p, torch.zeros(3).double()).tolist() == [0.0, 0.0, 0.0]


def test_v0_the_pair_loss_does_not_change_if_a_context_gains_a_constant_and_ignores_a_last_row_alone() -> None:
    logits = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shifted = logits + torch.tensor([[0.0, 3.0]])
    assert float(success_pairs(shifted)) == pytest.approx(float(success_pairs(logits)))
    assert float(success_pairs(logits[:5])) == pytest.approx(float(success_pairs(logits[:4])))
    assert float(success_pairs(logits[:1])) == 0.0


def test_v0_tasks_get_what_their_expected_success_deserves() -> None:
    tasks = [request(i, group__value=torch.tensor(p)) for i, p in enumerate((0.05, 0.3, 0.5, 0.95))]
    rollouts, waves = played(Allocated(n=8, least=2, most=16), tasks, lambda *_: True)
    assert [play.n for play in waves[0]] == [10, 7, 5, 10]
    assert len(rollouts) == 32
    with pytest.raises(PodiumError, match="add a memory that recalls it"):
        played(Allocated(), [request(0)], lambda *_: True)


def test_v0_routing_weighs_success_against_cost() -> None:
    rate, cost = torch.tensor([0.9, 0.6]), torch.tensor([10.0, 1.0])
    assert routing_score(rate, cost, 1.0).argmax() == 0
    assert routing_score(rate, cost, 0.5).argmax() == 1


def test_v0_equal_limits_are_grpo() -> None:
    method = methods.v0(n=4, least=4, most=4, predictor="beliefs")
    tasks = [request(i, group__belief__mean=torch.tensor(0.5)) for i in range(3)]
    _, waves = played(method.rollout, tasks, lambda *_: True)
    assert [play.n for play in waves[0]] == [4, 4, 4]


def test_v0_hard_tasks_get_more_rollouts_once_that_is_known(tmp_path: Path) -> None:
    method = methods.get("one-shot-rlvr", n=6, shots=4, entropy=0.0, kl=0.0)
    known = methods.v0(n=6, utility="mixed", predictor="beliefs")
    joined = method.with_(rollout=known.rollout, memories=(*method.memories, *known.memories))
    found = short_run(joined, tmp_path / "run", world=worlds.get("sums", level=2), iterations=4, tasks=4).metrics[1:]
    assert all(line["rollouts"] == 24 for line in found)
    assert found[0]["budget"] == 6.0  # nothing is known: all alike
    assert any(line["budget"] > 6.0 for line in found[1:])  # the mean over rollouts: unequal groups
