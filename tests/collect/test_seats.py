"""Several seats: rewards by agent, private views, moves at the same time, and a role or a player for each seat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podium import methods
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.method import Method, Phases, Role
from podium.parts.objective import PolicyGradient
from podium.protocols.context import History
from podium.protocols.sampling import Sampling
from podium.protocols.seats import Player, Seat
from podium.protocols.world import Episode, Feedback, Task, World
from podium.report.conversation import conversation_text, read_rollouts
from podium.sampler.local import LocalSampler
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.store.tables import rollout_files
from podium.strategies import Draw, Sample, SelfPlay
from podium.strategies.requests import TaskRequest
from podium.training.preemption import StopRequest
from podium.worlds.checker import check_world
from podium.worlds.isolated import isolated
from podium.worlds.table import MoveOutcome, TableEpisode
from tests.policy import tiny
from tests.sessions.test_preemption import signalled
from tests.sessions.test_train import numbers


class Longer(World):
    """Two rounds in which both write at once: the longer text gets 1, the other loses 1; each knows its own number."""

    name = "longer"
    isolation = "inline"
    max_tokens, max_turns = 4, 4
    agents = ("ann", "bob")
    provides = (*World.provides, "turn.reward", "turn.state", "turn.next_state", "turn.action")

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"longer/{split}/{index}", f"{index} plus 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Longer()


class _Longer(TableEpisode):
    def __init__(self) -> None:
        self.rounds = 0
        super().__init__()

    def to_move(self) -> tuple[str, ...]:
        return ("ann", "bob")

    def view(self, agent: str) -> str:
        return f"{1 if agent == 'ann' else 2} plus {self.rounds}"

    def key(self, agent: str) -> str:
        return f"{agent} {self.rounds}"

    def resolve(self, moves: Mapping[str, str]) -> MoveOutcome:
        self.rounds += 1
        lead = (len(moves["ann"]) > len(moves["bob"])) - (len(moves["ann"]) < len(moves["bob"]))
        info = {"correct": lead > 0, "answer": ""}
        return MoveOutcome({"ann": float(lead), "bob": -2.0 * lead}, self.rounds == 2, info)


class Parrot(Player):
    """Says its number, a word, and how many exchanges it has seen."""

    word: str = "six"

    def __call__(self, history: History, seed: int) -> str:
        return f"{history.prompt[0]} {self.word} {len(history.exchanges)}"


def played(*seats: Seat, world: World | None = None, n: int = 2) -> list[Rollout]:
    world, policy = world or Longer(), tiny.policy()
    driver = Driver(LocalSampler(policy), world, follow_up=policy.follow_up, written=policy.written, ends=policy.ends)
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0, 0, 0))
    (rollouts,) = driver.collect([Sample(n=n, draw=Draw(seats=seats)).plan(request)])
    return rollouts


BOTH = (Seat("ann", Parrot("seven")), Seat("bob", Parrot()))


def test_what_an_agent_earns_while_another_acts_is_booked_to_its_own_last_turn() -> None:
    rollout = played(*BOTH, n=1)[0]
    assert [turn.columns["agent"] for turn in rollout.turns] == ["ann", "bob", "ann", "bob"]
    assert [turn.columns["reward"] for turn in rollout.turns] == [1.0, -2.0, 1.0, -2.0]
    earned = {name: rollout.columns[name] for name in ("reward", "reward.ann", "reward.bob")}
    assert earned == {"reward": -2.0, "reward.ann": 2.0, "reward.bob": -4.0}


def test_agents_that_move_at_once_do_not_see_each_others_moves() -> None:
    rollout = played(*BOTH, n=1)[0]
    policy = tiny.policy()
    texts = [policy.text(turn.context) for turn in rollout.turns]
    assert "seven" not in texts[1]
    assert "2 plus 0" in texts[1]
    assert "1 plus" not in texts[1]
    assert "seven 0" in texts[2]
    assert "2 plus" not in texts[2]


def test_the_turns_of_a_player_are_given_and_those_of_the_policy_are_trained() -> None:
    batch = Batch.from_rollouts(played(Seat("bob", Parrot())))
    assert batch["turn.role"] == ("policy", "scripted") * 4
    assert batch["turn.by.policy"].tolist() == [True, False] * 4
    by_policy = batch.spread_column("turn.by.policy", "token")
    assert (batch["token.origin"] == Origin.given).tolist() == (~by_policy).tolist()
    assert batch.trained("token").tolist() == by_policy.tolist()


class Early(Longer):
    """Pays somebody at the first turn."""

    to: str = "bob"

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Early(self.to)


class _Early(Episode):
    agent = "ann"

    def __init__(self, to: str) -> None:
        super().__init__("1 plus 2", state="start")
        self.to = to

    def act(self, text: str) -> Feedback:
        return Feedback(0.0, True, "", "over", {"correct": False, "answer": ""}, {self.to: 1.0})


@pytest.mark.parametrize(("to", "reason"), [("bob", "who has not acted yet"), ("cid", "who is none of its agents")])
def test_an_agent_that_cannot_be_paid_fails_the_rollout_with_a_reason(to: str, reason: str) -> None:
    (rollout,) = played(world=Early(to=to), n=1)
    assert reason in rollout.columns["failure"]
    assert rollout.columns["reward"] == 0.0
    assert any(reason in finding for finding in check_world(Early(to=to), tasks=1))


def test_a_sound_world_of_several_passes_its_check() -> None:
    findings = check_world(Longer(), tasks=2)
    assert findings == []


@pytest.mark.parametrize("reward", [float("nan"), True, "1", 1e31])
def test_rewards_of_others_must_be_numbers(reward: Any) -> None:
    from podium.protocols.world_problems import feedback_problem

    assert "reward of 'bob'" in feedback_problem(Feedback(rewards={"bob": reward}))


def test_rewards_by_agent_leave_a_process() -> None:
    world = isolated(f"{__file__}:Longer", isolation="process")
    try:
        episode = world.reset(world.task(0))
        assert episode.act("one").rewards == {}
        feedback = episode.act("three")
        assert (feedback.reward, feedback.rewards) == (2.0, {"ann": -1.0})
    finally:
        world.close()


def duel(**settings: Any) -> Method:
    """The policy plays ann, a second learner plays bob; each learns from its own turns."""
    terms = (
        PolicyGradient(where="turn.by.policy"),
        PolicyGradient(where="turn.by.rival", behaviour="rival", trains="rival"),
    )
    method = methods.get("mars", kl=0.0, agent="turn.agent", mini_batches=1, game=None)
    rollout = Sample(n=4, draw=Draw(seats=(Seat("bob", "rival"),)))
    return method.with_(rollout=rollout, objective=terms, roles=(Role("rival"),), **settings)


RUN: dict[str, Any] = {"world": Longer(), "tasks": 2, "eval_tasks": 1, "eval_samples": 1, "eval_every": 0}


def weights(path: Path, role: str) -> bytes:
    return (RunDirectory(path).checkpoints()[-1] / role / "model.safetensors").read_bytes()


def test_two_learners_play_against_each_other_and_resume_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(duel(), iterations=2, lr=3e-4, **RUN)
    train(config, out=tmp_path / "whole")
    with monkeypatch.context() as patched:
        signalled(patched, StopRequest, "forbid", 4)
        assert train(config, out=tmp_path / "cut").saved == 1
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    for role in ("policy", "rival"):
        assert weights(tmp_path / "cut", role) == weights(tmp_path / "whole", role)
    assert weights(tmp_path / "whole", "policy") != weights(tmp_path / "whole", "rival")


def test_rollouts_show_who_said_what_and_earned_what(tmp_path: Path) -> None:
    train(duel(), out=tmp_path / "run", iterations=1, **RUN)
    text = conversation_text(read_rollouts(rollout_files(tmp_path / "run")[1])[0])
    assert "ann earned" in text
    assert "bob earned" in text
    assert "bob (rival), turn 2" in text
    assert "ann, turn 1" in text
    assert "to bob:" in text


def test_a_seat_for_nobody_and_a_role_that_is_missing_are_refused(tmp_path: Path) -> None:
    strategy = Sample(n=2, draw=Draw(seats=(Seat("cid", Parrot()),)))
    with pytest.raises(PodiumError, match="agent 'cid', whom the world does not have: ann, bob"):
        train(methods.get("mars", kl=0.0).with_(rollout=strategy), out=tmp_path / "run", iterations=1, **RUN)
    with pytest.raises(PodiumError, match=r"asks 'rival', which is no role of the method: add Role\('rival'\)"):
        train(duel().with_(roles=(), objective=PolicyGradient()), out=tmp_path / "run", iterations=1, **RUN)
    with pytest.raises(PodiumError, match="name an agent twice"):
        Draw(seats=(Seat("ann"), Seat("ann", "rival")))
    with pytest.raises(PodiumError, match="needs an agent of the world"):
        Seat("", "rival")


def league(refresh: int | str = 1, keep: int = 2) -> Method:
    """The policy plays ann against one of its past selves."""
    rollout = Sample(n=2, draw=Draw(seats=(Seat("bob", "past"),)))
    method = methods.get("mars", kl=0.0, agent="turn.agent", mini_batches=1, game=None)
    return method.with_(rollout=rollout, roles=(Role("past", refresh=refresh, keep=keep),))


def test_past_selves_are_the_last_policies_and_resume_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(league(), iterations=3, lr=3e-4, checkpoint_every=1, keep_checkpoints=9, **RUN)
    train(config, out=tmp_path / "whole")
    with monkeypatch.context() as patched:
        signalled(patched, StopRequest, "forbid", 5)
        assert train(config, out=tmp_path / "cut").saved == 2
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    last = RunDirectory(tmp_path / "whole").checkpoints()[-1]
    before = RunDirectory(tmp_path / "whole").checkpoints()[-2]

    def of(checkpoint: Path, role: str) -> bytes:
        return (checkpoint / role / "model.safetensors").read_bytes()

    assert of(last, "past") == of(last, "policy")
    assert of(last, "past.1") == of(before, "policy")
    assert of(last, "past") != of(last, "past.1")


def test_a_past_self_is_made_when_a_phase_begins_and_not_between(tmp_path: Path) -> None:
    course = Phases(league("phase").until(2), league("phase"))
    train(course, out=tmp_path / "run", iterations=4, lr=3e-4, checkpoint_every=1, keep_checkpoints=9, **RUN)
    saved = {int(path.name.split("-")[-1]): path for path in RunDirectory(tmp_path / "run").checkpoints()}

    def of(iteration: int, role: str) -> bytes:
        return (saved[iteration] / role / "model.safetensors").read_bytes()

    assert of(1, "past") == of(1, "past.1")  # both are the first weights
    assert of(1, "past") != of(1, "policy")
    for iteration in (3, 4):
        assert of(iteration, "past") == of(2, "policy")
        assert of(iteration, "past.1") == of(1, "past")


def test_each_group_meets_one_past_self_drawn_from_its_stream() -> None:
    world, policy = Longer(), tiny.policy()
    met: dict[str, list[int]] = {"past": [], "past.1": []}

    class Watched(LocalSampler):
        def __init__(self, name: str) -> None:
            super().__init__(policy)
            self.name = name

        def submit(self, request: Any) -> int:
            met[self.name].append(request.stream[2])
            return super().submit(request)

    driver = Driver(
        *(LocalSampler(policy), world),
        follow_up=policy.follow_up,
        written=policy.written,
        others={name: Watched(name) for name in met},
        copies=lambda role: tuple(met) if role == "past" else (role,),
    )
    requests = [TaskRequest(world.task(i), i, Sampling(max_tokens=4), (0, 0, i)) for i in range(8)]
    groups = driver.collect([league().rollout.plan(request) for request in requests])  # type: ignore[union-attr]
    assert set(met["past"]) | set(met["past.1"]) == set(range(8))
    assert not set(met["past"]) & set(met["past.1"])
    assert met["past"]
    assert met["past.1"]
    assert {turn.columns["role"] for group in groups for r in group for turn in r.turns} == {"policy", "past"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"keep": 2}, "say when one is made"),
        ({"refresh": "often"}, "phase"),
        ({"refresh": 0}, "out of range"),
        ({"refresh": 2, "source": "policy"}, "leave source and decay out"),
    ],
)
def test_a_role_that_cannot_be_refreshed_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(PodiumError, match=reason):
        Role("past", **settings)


def test_a_share_of_groups_meets_a_past_self() -> None:
    world = Longer()
    requests = [
        TaskRequest(world.task(i), i, Sampling(max_tokens=4), (0, 0, i), world=world)
        for i in range(400)  # each with a stream of its own
    ]
    seats = [next(SelfPlay(n=3, share=0.25).plan(request))[0].seats for request in requests]
    met = [seat for each in seats for seat in each]
    assert 70 < len(met) < 130
    assert {seat.by for seat in met} == {"past"}
    assert 0.35 < sum(seat.agent == "ann" for seat in met) / len(met) < 0.65
    assert all(not next(SelfPlay(share=0.0).plan(request))[0].seats for request in requests)
    assert SelfPlay().writers == ("past",)
