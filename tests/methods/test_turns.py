"""Methods of many turns: what turns find out, turns updated one by one, branches, cuts, budgets, critics of turns."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from podium import methods, worlds
from podium.collect.annotations.passages import PLACEHOLDER, answer_after_turns, masked_observation
from podium.collect.annotations.registry import AnnotationContext
from podium.core import Clock, Signal
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.method import Method
from podium.parts.advantage import GatedGain, HierarchicalGAE, Normalize
from podium.parts.objective import BandPenalty, PolicyGradient
from podium.parts.reward import AnswerGain
from podium.parts.shape import EntropyModulation
from podium.parts.updates import CriticFirst
from podium.policy import load
from podium.strategies import NextTurn
from podium.strategies.budgets.turn_budget import granted
from podium.strategies.teachers.expert_turns import is_pivot
from tests.conformance.helpers import credited, differentiate
from tests.methods.catalogue import Laps, errors, finite, lines, small
from tests.methods.support import rewards

ANSWER = AnswerGain().needs[1]


def played(*rollouts: tuple[float, list[dict[str, Any]]], width: int = 2, task: Any = 0) -> Batch:
    """Rollouts of one group: the outcome, and the columns of each turn."""
    made = [
        Rollout(task, [Turn((0,) * width, columns=c) for c in turns], columns={"reward": r}) for r, turns in rollouts
    ]
    return Batch.from_rollouts(made, dtype=torch.float64)


# -- what turns find out -----------------------------------------------------------------------------------------------


def test_gains_of_the_turns_add_up_to_what_is_known_before_the_last_one() -> None:
    batch = played((1.0, [{}] * 4), (0.0, [{}] * 2))
    logp = torch.tensor([-2.0, -1.5, -1.7, -0.3, -1.0, -0.5]).double()
    found = AnswerGain()(batch.with_columns({ANSWER: logp}))
    p = logp.exp()
    assert_close(found["rollout.gain"], torch.stack([p[3] - p[0], p[5] - p[4]]))
    assert_close(found["turn.reward.gain"][[3, 5]], torch.tensor([1.0, 0.0]).double())


def test_rollouts_of_one_turn_make_igpo_grpo_with_the_population_std() -> None:
    batch = played(*[(r, [{}]) for r in (1.0, 0.0, 0.0, 1.0, 1.0)])
    batch = credited(methods.igpo(), batch.with_columns({ANSWER: torch.zeros(5).double()}))
    plain = Normalize(unbiased=False)(batch)["rollout.advantage"]
    assert_close(batch["turn.advantage"], plain, rtol=1e-5, atol=1e-6)


def test_a_group_that_is_all_wrong_still_learns_from_gains() -> None:
    batch = played((0.0, [{}] * 2), (0.0, [{}] * 2))
    batch = credited(methods.igpo(), batch.with_columns({ANSWER: torch.tensor([-2.0, -1.0, -2.0, -3.0]).double()}))
    assert bool((batch["turn.advantage"] != 0).all())


def test_without_weight_infopo_is_grpo_and_its_gate_shuts_where_outcomes_differ() -> None:
    turns = [{"gain": 0.4}, {"gain": 0.0}]
    batch = played((1.0, turns), (0.0, [{"gain": 0.1}, {"gain": 0.0}]), (0.0, turns))
    part = GatedGain(weight=0.0)
    plain = batch.spread(Normalize()(batch)["rollout.advantage"], "rollout", "turn")
    assert_close(part(batch)["turn.advantage"], plain)
    alike, apart = (GatedGain().gate(played((0.0, turns), (r, turns))) for r in (0.0, math.sqrt(0.5)))
    assert_close(alike, torch.full((2,), 0.5).double())
    assert_close(apart, torch.full((2,), 1 / (1 + math.exp(10))).double(), rtol=1e-3, atol=0)


def test_an_observation_is_replaced_within_the_template_and_the_placeholder_itself_tells_nothing() -> None:
    policy = load("podium/tiny")
    world = Laps()
    context = AnnotationContext(policy, world)
    task = world.task(0)

    def rollout(observation: str) -> Rollout:
        opening, ids = policy.encode([{"role": "user", "content": task.prompt}]), policy.written("answer: 1")
        after = (*opening, *ids, *policy.follow_up(observation, True))
        return Rollout(task.key, [Turn(ids, opening), Turn(ids, after)], columns={"reward": 0.0})

    told, nothing = masked_observation(context, task, [rollout("it is 7"), rollout(PLACEHOLDER)])
    assert [t.columns["informed"] for t in told.turns] == [False, True]
    assert [t.columns["informed"] for t in nothing.turns] == [False, False]
    real, masked = told.turns[1].context, told.turns[1].columns["blind.context"]
    assert len(real) == len(masked)
    assert real != masked
    assert policy.text(real[-2:]) == policy.text(masked[-2:])
    (answered,) = answer_after_turns(context, task, [rollout("it is 7")])
    assert answered.turns[0].columns["answer.ids"] == answered.turns[1].columns["answer.ids"]


@pytest.mark.parametrize("slug", ["infopo", "hiper", "archer", "pivotrl"])
def test_where_there_are_no_turns_they_are_refused_in_words(slug: str) -> None:
    assert errors(methods.get(slug), worlds.get("sums"))


# -- how sure the policy was -------------------------------------------------------------------------------------------


def entropies(*rollouts: tuple[float, list[float]]) -> Batch:
    made = [
        Rollout(0, [Turn((0,), tokens={"sampler.entropy": [h]}) for h in hs], columns={"advantage": a})
        for a, hs in rollouts
    ]
    return Batch.from_rollouts(made, dtype=torch.float64)


def test_empg_scales_have_mean_one_and_sure_turns_learn_more() -> None:
    batch = entropies((1.0, [0.2, 1.0, 0.5]), (-1.0, [0.6, 0.1]))
    part = EntropyModulation(zeta=0.0)
    assert float(part.factor(batch).mean()) == pytest.approx(1.0, abs=1e-6)
    credit = part.modulated(batch)
    assert credit[0] > credit[2] > credit[1]
    assert credit[4] < credit[3] < 0


def test_empg_without_k_and_zeta_is_the_advantage_minus_its_mean_over_turns() -> None:
    batch = entropies((1.0, [0.2, 1.0]), (-1.0, [0.6]))
    found = EntropyModulation(k=0.0, zeta=0.0)(batch)["turn.advantage"]
    assert_close(found, torch.tensor([2 / 3, 2 / 3, -4 / 3]).double(), rtol=1e-6, atol=1e-6)


def test_the_released_band_has_no_gradient_and_the_hinge_has_one() -> None:
    batch = Batch.from_padded(torch.ones(1, 3), [0], {"token.now.entropy": torch.tensor([[0.1, 1.0, 3.0]]).double()})
    sides = {"low": 0.8, "high": 1.2, "centre": 1.0}
    batch = batch.with_columns({f"token.band.{k}": torch.full((3,), v).double() for k, v in sides.items()})
    h = batch["token.now.entropy"].clone().requires_grad_()
    live = batch.with_columns({"token.now.entropy": h})
    assert not BandPenalty(coefficient=1.0)(live).requires_grad
    (slope,) = torch.autograd.grad(BandPenalty(kind="hinge", coefficient=1.0)(live), h)
    assert slope[0] < 0
    assert slope[1] == 0
    assert slope[2] > 0


def test_the_phase_falls_and_jumps_at_half_time() -> None:
    phase = methods.epo(over=150).objective[2].phase
    found = [phase.number(Clock(t)) for t in (0, 37, 75, 76, 112, 150)]
    assert found == pytest.approx([1, 0.874563, 0.827067, 0.768632, 0.182110, 0.039830], abs=1e-6)


# -- ratios of turns, and turns one after another ----------------------------------------------------------------------


def ratios(turn: Tensor, far: float = 1.0) -> Batch:
    torch.manual_seed(0)
    old, change = torch.randn(2, 6).double(), far * 0.3 * torch.randn(2, 6).double()
    columns = {"token.old.logp": old, "token.now.logp": old + change, "token.advantage": torch.randn(2, 6).double()}
    return Batch.from_padded(torch.ones(2, 6), [0, 1], columns, turn=turn)


def test_with_one_token_a_turn_the_turn_ratio_is_the_token_ratio() -> None:
    batch = ratios(torch.arange(6).expand(2, 6))
    turn, token = (methods.get(name).objective[0] for name in ("st-ppo@turn-ppo", "st-ppo@s-ppo"))
    assert_close(differentiate([turn], batch).grad_logp, differentiate([token], batch).grad_logp)


def test_damping_changes_the_length_of_the_gradient_and_not_its_direction() -> None:
    batch = ratios(torch.tensor([0, 0, 0, 1, 1, 1]).expand(2, 6))
    method = methods.st_ppo(floor=0.01)
    term = method.objective[0]
    plain = differentiate([term], batch).grad_logp
    damped = differentiate([term], batch, live=method.shape).grad_logp
    (part,) = method.shape
    assert_close(damped, part.scale(batch) * plain)
    assert float(part.scale(batch)) > 1 >= float(methods.st_ppo(floor=1.0).shape[0].scale(batch))


def test_far_off_policy_the_damped_update_stays_bounded() -> None:
    turn = torch.tensor([0, 0, 0, 1, 1, 1]).expand(2, 6)
    norms = []
    for far in (10.0, 30.0):
        batch = ratios(turn, far)
        norms.append(
            float(differentiate([methods.st_ppo().objective[0]], batch, live=methods.st_ppo().shape).grad_logp.norm())
        )
    assert norms[1] <= norms[0] + 1
    assert all(map(math.isfinite, norms))


def seen(method: Method, batch: Batch, move: float) -> list[Tensor]:
    """The credit of each update, where every update moves all log-probabilities."""
    asked = iter(range(100))
    return [
        u["token.advantage"]
        for u in method.updates(batch, lambda b: torch.full((b.size("token"),), move * next(asked)).double())
    ]


def test_updates_that_move_nothing_leave_every_turn_the_same_advantage() -> None:
    batch = credited(methods.seeupo(), played((1.0, [{}] * 3), (0.0, [{}] * 2)))
    still, moved = seen(methods.seeupo(), batch, 0.0), seen(methods.seeupo(), batch, 0.1)
    assert all(torch.equal(x, still[0]) for x in still)
    assert len(still) == 3
    assert not torch.equal(moved[0], moved[1])
    assert all(torch.equal(x, still[0]) for x in seen(methods.get("seeupo@joint"), batch, 0.1))


def test_the_last_turn_is_trained_first_and_each_turn_once() -> None:
    batch = credited(methods.seeupo(), played((1.0, [{}] * 3), (0.0, [{}] * 2)))
    trained = [update.trained("turn").nonzero().reshape(-1).tolist() for update in methods.seeupo().updates(batch)]
    assert trained == [[2], [1, 4], [0, 3]]


def test_with_one_turn_seeupo_is_one_update_of_gspo() -> None:
    batch = credited(methods.seeupo(), played((1.0, [{}]), (0.0, [{}])))
    (update,) = methods.seeupo().updates(batch)
    assert torch.equal(update["token.advantage"], batch["token.advantage"])
    assert isinstance(methods.seeupo().objective[0], PolicyGradient)
    assert methods.seeupo().objective[0].ratio == "sequence"


# -- branches, cuts, budgets -------------------------------------------------------------------------------------------


def test_the_chance_of_a_fork_is_a_half_and_grows_with_the_rise_of_entropy() -> None:
    strategy = methods.get("arpo@plain").rollout
    assert strategy.probability(1.0, 1.0) == 0.5
    assert strategy.probability(2.0, 1.0) == pytest.approx(0.7)
    assert strategy.forks(1.0, 1.0, 0.5)
    assert not strategy.forks(1.0, 1.0, 0.51)


def test_branches_share_their_first_turns_and_are_as_many_as_asked_for() -> None:
    from unittest.mock import patch

    from podium import policy as policies
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from tests.methods.catalogue import tiny  # loaded once for all tests

    method, source = methods.get("arpo@plain", n=6, initial=2, chance=1.0), tiny()
    with patch.object(policies, "load", lambda *_, **__: source.copy()):
        run = build_run(configure(method, world=Laps(level=1), tasks=1, iterations=1))
    rollouts = run.collect(method, run.requests(method, 1))
    assert len(rollouts) == 6
    assert [r.columns["index"] for r in rollouts] == list(range(6))
    forks = [r for r in rollouts if r.columns["forked"]]
    assert forks
    written = {t.columns["node"]: tuple(t.ids) for r in rollouts for t in r.turns}
    assert all(written[t.columns["node"]] == tuple(t.ids) for r in rollouts for t in r.turns)
    assert all(r.turns[0].columns["node"] in ("0.0", "1.0") for r in forks)


def archer_run(critic_epochs: int, iterations: int = 2, **settings: Any) -> dict[str, Any]:
    method = methods.archer(n=2, critic_epochs=critic_epochs, warmup=0, epochs=1, **settings)
    return lines(method, Laps(level=1), iterations=iterations)[-1]


def test_the_policy_of_archer_sees_what_the_critic_has_learned_in_its_epochs() -> None:
    few, more = (archer_run(epochs, iterations=1, memory=None)["grad_norm.policy"] for epochs in (1, 8))
    assert 0 < few < 0.9 * more  # on the values from before the epochs both would be the same


def test_archer_acts_anew_at_stored_states_and_q_learns_nothing_there() -> None:
    method = methods.archer(n=2, critic_epochs=1, warmup=0, revisits=3)
    (memory,) = method.memories
    assert memory.recall(memory.initial(), ["a", "b"])["group.revisits"] == ((), ())
    found = lines(method, Laps(level=1), iterations=2)
    assert [line["rollouts"] for line in found] == [4, 4 + 2 * 3]
    assert [line["replayed"] for line in found] == [0, 4]
    columns = {"reward": 0.0, "revisited": True}
    rollout = Rollout(0, [Turn((1, 2), columns={"reward": 0.0, "done": True})], columns=columns)
    batch = Batch.from_rollouts([rollout], dtype=torch.float64)
    loss = method.objective[1].replace(replayed=False)
    signals = {need: torch.full((2,), 0.5) for need in loss.needs if isinstance(need, Signal)}
    batch = batch.with_columns({s: x + (s.role == "target") for s, x in signals.items()})
    # V is 0.5 and its target Q̄ 1.5 at the action; Q's own error is left out.
    assert {k: v.item() for k, v in loss.errors(batch).items()} == {"q1": 0.0, "q2": 0.0, "v1": 1.0, "v2": 1.0}  # type: ignore[attr-defined]


def test_the_set_of_pivots_shrinks_with_the_threshold_and_above_one_is_the_mixed_groups() -> None:
    rewards = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    flat = torch.tensor([float(r) for group in rewards for r in group])
    batch = Batch.from_rewards(flat, [g for g in range(5) for _ in range(4)], {})
    kept = [int(methods.pivotrl(below=b, profile=0).keep[0](batch)["group.keep"].sum()) for b in (1.1, 0.75, 0.5, 0.25)]
    assert kept == [3, 2, 1, 0]


def test_a_pivot_is_a_turn_of_mixed_outcomes_and_few_successes() -> None:
    profiles = [[0.0] * 4, [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0] * 4]
    assert [is_pivot(rewards, 0.75) for rewards in profiles] == [False, True, False, False]


def test_pivots_are_found_by_the_frozen_policy_and_stay_the_same() -> None:
    strategy = NextTurn(n=2, profile=4)
    first, again = (collected_turns(strategy, iteration) for iteration in (0, 3))
    assert [r.columns["profiled"] for r in first[::2]] == [r.columns["profiled"] for r in again[::2]]
    assert all(r.columns["pivot"] == (0 < r.columns["profiled"] < 0.75) for r in first if r.columns["pivot"])


def collected_turns(strategy: NextTurn, iteration: int) -> list[Rollout]:
    from unittest.mock import patch

    from podium import policy as policies
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from tests.methods.catalogue import tiny  # loaded once for all tests

    method, source = methods.pivotrl(n=strategy.n, profile=strategy.profile), tiny()
    with patch.object(policies, "load", lambda *_, **__: source.copy()):
        run = build_run(configure(method, world=Laps(level=1), tasks=3, iterations=1))
    requests = [replace(r, stream=(r.stream[0], iteration, *r.stream[2:])) for r in run.requests(method, 3)]
    return run.collect(method, requests)


def test_a_group_is_compared_with_its_other_samples() -> None:
    (rewards, advantage) = torch.tensor([1.0, 0.0, 0.0, 1.0]).double(), methods.pivotrl().advantage
    assert advantage is not None
    found = advantage(Batch.from_rewards(rewards, [0] * 4))["rollout.advantage"]
    # The others of a success: 0, 0, 1, with mean 1/3 and unbiased std √(1/3).
    assert_close(found, torch.tensor([1.0, -1.0, -1.0, 1.0]).double() * (2 / 3) / (math.sqrt(1 / 3) + 1e-6))
    # Where the others are all alike there is no std to divide by.
    lone = advantage(Batch.from_rewards(torch.tensor([1.0, 0.0, 0.0]).double(), [0] * 3))["rollout.advantage"]
    assert lone[0] == 1


def test_experts_may_come_from_a_file(tmp_path: Path) -> None:
    world = worlds.get("keydoor", level=1)
    file = tmp_path / "traces.jsonl"
    rows = [{"task": world.task(i).key, "turns": list(world.demonstrate(world.task(i), "long"))} for i in range(9)]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    method = methods.pivotrl(n=2, profile=2, traces=str(file), below=1.1)
    assert "task.solution" not in method.rollout.needs  # type: ignore[union-attr]
    assert finite(lines(method, world, tasks=2))
    with pytest.raises(PodiumError, match="Name the tasks in the file as the world does"):
        method.rollout.prepare(worlds.get("lookup"))  # type: ignore[union-attr]
    file.write_text('{"task": "a", "turns": "go east"}', "utf-8")
    with pytest.raises(PodiumError, match="list of texts"):
        methods.pivotrl(traces=str(file)).rollout.prepare(world)  # type: ignore[union-attr]


def test_success_is_magnified_above_partial_credit() -> None:
    reward = methods.seeupo().reward[0](rewards([1.0, 0.9, 0.0, 1.2]))["rollout.reward"]
    assert reward.tolist() == pytest.approx([1.5, 0.45, 0.0, 1.6])  # 1 + ½ R where R ≥ 1, else ½ R


def test_a_budget_gives_what_is_needed_up_to_its_cap() -> None:
    assert granted(12, 45, 10, 62) == (45, 0)
    assert granted(60, 45, 10, 62) == (62, 2)
    assert granted(99, 45, 10, 62)[0] == 62


def test_half_the_turns_cost_about_a_quarter_to_read() -> None:
    cost = methods.turn_control().metric[0].replace(output=0.0)

    def price(turns: int) -> float:
        rollout = Rollout(0, [Turn((0,) * 5, (0,) * (10 * t)) for t in range(turns)], columns={"correct": True})
        return float(cost(Batch.from_rollouts([rollout]))["rollout.cost"])

    assert price(20) / price(40) == pytest.approx(0.25, abs=0.02)


def test_limits_follow_what_episodes_took_and_are_told() -> None:
    found = lines(small("turn-control"), Laps(level=1), iterations=2)
    assert finite(found)
    assert {"cost", "turns", "watched.extensions"} <= set(found[-1])


# -- critics of turns --------------------------------------------------------------------------------------------------


def stretches(values: list[float], switch: list[bool], rewards: list[float]) -> Batch:
    names = ("low.value", "high.value", "switch.value")
    turns = [
        {"switch": s, "done": i == len(switch) - 1, "reward": r, **dict.fromkeys(names, v)}
        for i, (s, r, v) in enumerate(zip(switch, rewards, values, strict=True))
    ]
    return played((1.0, turns))


def test_without_a_switch_the_action_is_credited_by_gae_over_turns() -> None:
    batch = stretches([0.5, 0.6, 0.8], [True, False, False], [0.0, 0.0, 1.0])
    found = HierarchicalGAE(normalize=False)(batch)["turn.action.advantage"]
    assert_close(found, torch.tensor([0.5, 0.4, 0.2]).double())


def test_values_that_are_the_true_returns_leave_nothing_to_credit() -> None:
    found = HierarchicalGAE(normalize=False)(stretches([1.0] * 4, [True, False, True, False], [0.0, 0.0, 0.0, 1.0]))
    for name in ("action", "subgoal", "switch"):
        assert_close(found[f"turn.{name}.advantage"], torch.zeros(4).double())


def test_a_later_stretch_s_values_of_actions_do_not_show_in_an_earlier_one() -> None:
    batch = stretches([0.1, 0.2, 0.3, 0.4], [True, False, True, False], [0.0, 0.0, 0.0, 1.0])
    other = batch.with_columns({"turn.low.value": torch.tensor([0.1, 0.2, 9.0, 9.0]).double()})
    one, two = (HierarchicalGAE(normalize=False)(b)["turn.action.advantage"] for b in (batch, other))
    assert_close(one[:2], two[:2])


def test_the_critic_s_value_of_a_first_turn_goes_to_gamma_times_that_of_the_second() -> None:
    method = methods.get("archer@light", critic_epochs=None)
    (critic,), loss = method.annotate, method.objective[1]
    batch = played((1.0, [{"reward": 0.0, "done": False}, {"reward": 1.0, "done": True}]))
    batch = batch.with_columns({f"token.old.value[head={h}]": torch.zeros(4).double() for h in range(4)})
    values = {h: torch.zeros(4, dtype=torch.float64, requires_grad=True) for h in range(4)}
    for _ in range(200):
        slow = {f"token.target.value[head={h}]": v.detach() for h, v in values.items()}
        update = batch.with_columns(slow)
        update = update.with_columns(critic(update))
        update = update.with_columns({f"token.now.value[head={h}]": v for h, v in values.items()})
        slopes = torch.autograd.grad(loss(update), list(values.values()))
        values = {h: (v - 0.5 * s).detach().requires_grad_() for (h, v), s in zip(values.items(), slopes, strict=True)}
    assert values[0][1].item() == pytest.approx(0.95, abs=1e-3)  # Q of the first turn, at its last token
    assert values[2][2].item() == pytest.approx(1.0, abs=1e-3)  # V of the second, at its first


def test_the_target_follows_the_critic_and_needs_one() -> None:
    method = methods.get("archer@light", critic_epochs=None)
    assert any("follows the critic" in m for m in errors(method.with_(objective=method.objective[:1]), Laps()))
    with pytest.raises(PodiumError, match="moving average"):
        method.roles[1].replace(source="somewhere")


def test_the_critic_may_learn_first_and_alone_with_its_copy() -> None:
    plan = CriticFirst(epochs=2, critic_epochs=3)
    batch = played((1.0, [{"reward": 0.0}]), (0.0, [{"reward": 0.0}]))
    assert [bool(update["batch.update.policy"][0]) for update in plan(batch)] == [False] * 3 + [True] * 2
    found = lines(methods.archer(n=2, critic_epochs=2, warmup=9), Laps(level=1), iterations=1)
    assert finite(found)
    assert found[0]["grad_norm.policy"] == 0
    assert found[0]["grad_norm.critic"] > 0


def test_q_learns_from_what_a_memory_brings_back_and_v_and_the_policy_do_not() -> None:
    method = methods.archer(memory=1000, critic_epochs=None, revisits=0)
    actor, loss = method.objective[0], method.objective[1]
    rows = [Rollout(task, [Turn((0, 0), columns={"reward": 1.0 - task, "done": True})]) for task in (0, 1)]
    batch = Batch.from_rollouts(rows, dtype=torch.float64)
    said = {f"token.{of}.value[head={h}]": torch.full((4,), 0.5).double() for of in ("now", "target") for h in range(4)}
    said["token.now.value[head=2]"] = torch.zeros(4).double()  # V_1
    found = loss.errors(batch.with_columns({**said, "group.fresh": torch.tensor([True, False])}))
    assert_close(found["q1"], torch.tensor([0.25, 0.25]).double())
    assert_close(found["v1"], torch.tensor([0.25, 0.0]).double())
    assert actor.where == "group.fresh"


def test_transitions_come_back_until_there_are_too_many() -> None:
    found = lines(methods.archer(n=2, epochs=1, critic_epochs=None, warmup=0, memory=14), Laps(level=1), iterations=4)
    assert finite(found)
    assert [line["replay.stored"] for line in found] == [0, 4, 7, 7]  # rollouts of two turns
    assert [line["replayed"] for line in found] == [0, 4, 4, 4]


def test_the_critic_of_turns_reads_signals_of_its_heads() -> None:
    assert Signal("value", of="target", head=0) in methods.archer().annotate[0].needs
