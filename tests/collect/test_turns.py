"""Episodes of several turns: what each turn sees, why episodes end, worlds that are slow, and who acts in them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch

from podium import methods, worlds
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.protocols.context import Context, Exchange, Full, History, Rebuild, Window, Wrote
from podium.protocols.sampling import Sampling
from podium.protocols.world import Episode, Feedback, Task, World
from podium.sampler.local import LocalSampler
from podium.sessions.train import configure, train
from podium.strategies import Draw, Sample
from podium.strategies.requests import Recite, TaskRequest
from podium.training.metrics import Metrics
from tests.policy import tiny


class Count(World):
    """Counts turns aloud."""

    name = "count"
    isolation = "inline"
    max_tokens = 4
    max_turns = 6
    provides = (*World.provides, "turn.valid")
    blank: ClassVar[dict[str, Any]] = {"valid": False}
    long: int = 5  # turns until it is over
    wordy: int = 1
    dies: int = 0  # the turn in which it raises

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"count/{split}/{index}", f"{index} plus 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Count(task.prompt, self)


class _Count(Episode):
    def __init__(self, observation: str, world: Count) -> None:
        super().__init__(observation, state="0")
        self.world, self.turn = world, 0

    def act(self, text: str) -> Feedback:
        self.turn += 1
        if self.turn == self.world.dies:
            raise ConnectionError("gone")
        self.recap = f"had {self.turn - 1}"
        said = f"{self.turn} plus " * self.world.wordy
        info = {"correct": False, "answer": "", "valid": bool(text.strip())}
        return Feedback(0.5, self.turn >= self.world.long, said, str(self.turn), info)


def driver(world: World, **settings: Any) -> Driver:
    policy = tiny.policy()
    return Driver(LocalSampler(policy), world, follow_up=policy.follow_up, written=policy.written, **settings)


def collect(world: World, strategy: Sample | None = None, groups: int = 2, **settings: Any) -> list[Rollout]:
    at = driver(world, **settings)
    sampling = Sampling(max_tokens=world.max_tokens)
    requests = [TaskRequest(world.task(i), i, sampling, (0, 0, i)) for i in range(groups)]
    plans = [(strategy or Sample(n=3)).plan(request) for request in requests]
    return [rollout for group in at.collect(plans) for rollout in group]


def words(ids: Any) -> str:
    return str(tiny.policy().tokenizer.decode(list(ids)))


# -- contexts ----------------------------------------------------------------------------------------------------------

HISTORY = History("start", tuple(Exchange(Wrote((i,)), f"t{i}", f"o{i}") for i in (1, 2, 3)), "known")


@pytest.mark.parametrize(
    ("context", "messages"),
    [
        (Full(), ["start", Wrote((1,)), "o1", Wrote((2,)), "o2", Wrote((3,)), "o3"]),
        (Window(2), ["start\no1", Wrote((2,)), "o2", Wrote((3,)), "o3"]),
        (Window(1), ["start\no2", Wrote((3,)), "o3"]),
        (Window(0), ["start\no3"]),
        (Rebuild(), ["start\nknown\no3"]),
    ],
)
def test_what_a_builder_shows(context: Context, messages: list[Any]) -> None:
    assert list(context(HISTORY)) == messages
    assert list(context(History("start"))) == ["start"]


def test_a_window_at_least_as_long_as_the_episode_is_all_of_it() -> None:
    assert list(Window(3)(HISTORY)) == list(Window(9)(HISTORY)) == list(Full()(HISTORY))


def test_a_window_with_room_forgets_several_exchanges_at_once() -> None:
    window = Window(2, most=4)
    kept = []
    for n in range(12):
        exchanges = tuple(Exchange(Wrote((i,)), f"a{i}", f"o{i}") for i in range(n))
        messages = list(window(History("start", exchanges)))
        last = [m.ids[0] for m in messages if isinstance(m, Wrote)]
        assert last == list(range(n - len(last), n))
        kept.append(len(last))
    assert kept == [0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2]
    assert list(Window(2, most=2)(HISTORY)) == list(Window(2)(HISTORY))
    with pytest.raises(PodiumError, match="most"):
        Window(3, most=2)


def test_notes_are_carried_until_there_are_new_ones() -> None:
    told = tuple(Exchange(Wrote((1,)), text, "o") for text in ("<notes>a</notes>", "x <notes> b </notes> y", "nothing"))
    assert list(Rebuild("notes")(History("start", told))) == ["start\n<notes>b</notes>\no"]
    assert list(Rebuild("other")(History("start", told))) == ["start\no"]


def test_a_window_below_zero_is_refused() -> None:
    with pytest.raises(PodiumError, match="turns"):
        Window(-1)


def test_full_contexts_extend_one_another_token_by_token() -> None:
    for rollout in collect(Count()):
        for before, after in zip(rollout.turns, rollout.turns[1:], strict=False):
            assert after.context[: len(before.context) + len(before.ids)] == (*before.context, *before.ids)


def test_windowed_and_rebuilt_contexts_forget_and_are_what_the_sampler_saw() -> None:
    for context in (Window(1), Rebuild()):
        rollouts = collect(Count(), Sample(n=3, draw=Draw(context=context)))
        policy = tiny.policy()
        for rollout in rollouts:
            assert len(rollout.turns) == 5
            last = words(rollout.turns[-1].context)
            assert "4 plus" in last
            assert "1 plus" not in last.partition("plus 2")[2]
        batch = Batch.from_rollouts(rollouts)
        with torch.no_grad():
            scored = policy.score(
                [t.context for r in rollouts for t in r.turns], [t.ids for r in rollouts for t in r.turns]
            )
        torch.testing.assert_close(torch.cat(scored).float(), batch["token.sampler.logp"], atol=1e-4, rtol=1e-3)
    assert "had 3" in words(rollouts[0].turns[-1].context)


def test_a_turn_may_be_trained_under_another_context_than_it_was_written_in() -> None:
    shown, full = (collect(Count(), Sample(n=2, draw=Draw(context=Window(1), train_context=c))) for c in (None, Full()))
    for one, other in zip(shown, full, strict=True):
        assert [t.context for t in one.turns] == [t.context for t in other.turns]
        assert all(t.train_context is None for t in one.turns)
        longest = other.turns[-1].train_context
        assert longest is not None
        assert len(longest) > len(other.turns[-1].context)
    batch = Batch.from_rollouts(full)
    assert batch["turn.context"] != batch["turn.train_context"]


def test_the_world_chooses_the_context_unless_the_strategy_does() -> None:
    class Short(Count):
        context = Window(0)

    one, other = collect(Short()), collect(Short(), Sample(n=3, draw=Draw(context=Full())))
    assert len(one[0].turns[-1].context) < len(other[0].turns[-1].context)


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_finished_episode_ends_as_its_last_turn_did() -> None:
    for rollout in collect(Count()):
        assert rollout.columns["stop"] in ("end", "length")
        assert len(rollout.turns) == 5
        assert rollout.columns["reward"] == 2.5


@pytest.mark.parametrize(("strategy", "turns"), [(Sample(n=2), 6), (Sample(n=2, draw=Draw(max_turns=3)), 3)])
def test_the_limit_of_turns_is_a_stated_end(strategy: Sample, turns: int) -> None:
    for rollout in collect(Count(long=99), strategy):
        assert len(rollout.turns) == turns
        assert (rollout.columns["stop"], rollout.columns["truncated"]) == ("turns", True)


def test_a_full_context_is_a_stated_end_and_a_window_goes_on() -> None:
    for rollout in collect(Count(wordy=30)):
        assert (rollout.columns["stop"], rollout.columns["truncated"]) == ("context", True)
        assert len(rollout.turns) < 5
    assert all(len(r.turns) == 5 for r in collect(Count(wordy=30), Sample(n=3, draw=Draw(context=Window(0)))))


@pytest.mark.parametrize("isolation", ["inline", "thread"])
def test_a_world_that_dies_ends_the_episode_with_what_was_earned_and_the_reason(isolation: str) -> None:
    class Mortal(Count):
        pass

    Mortal.isolation = isolation
    for rollout in collect(Mortal(dies=3)):
        assert len(rollout.turns) == 3
        assert rollout.columns["stop"] == "failed"
        assert rollout.columns["failure"] == "the world raised ConnectionError: gone"
        assert rollout.columns["reward"] == 1.0
        assert [t.columns["valid"] for t in rollout.turns][-1] is False  # the world's blank
        assert [t.columns["state"] for t in rollout.turns] == ["0", "1", "2"]


def test_metrics_tell_turns_ends_and_actions_that_were_none() -> None:
    def line(world: World, **settings: Any) -> dict[str, Any]:
        batch = Batch.from_rollouts(collect(world, **settings))
        metrics = Metrics()
        metrics.count_sampled(batch)
        return metrics.line(1)

    found = line(Count(long=99))
    assert (found["turns"], found["stop.turns"], found["stop.context"]) == (6, 1, 0)
    assert 0 <= found["invalid"] < 1
    assert line(Count(dies=2))["failures"] == 6


def test_empty_actions_are_turns_that_are_not_valid() -> None:
    at = driver(Count(long=2))
    request = TaskRequest(Count().task(0), 0, Sampling(max_tokens=4), (0,))

    def plan() -> Any:
        answers = yield [Recite(request, ("", "1"))]
        return answers[0]

    ((rollout,),) = at.collect([plan()])
    assert [t.columns["valid"] for t in rollout.turns] == [False, True]


@pytest.mark.parametrize("name", ["lookup", "tools", "clarify"])
def test_demonstrations_of_several_turns_are_right_and_are_rollouts_of_their_turns(name: str) -> None:
    world = worlds.get(name, level=2)
    at = driver(world)
    at.context_length = 10_000
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0,))

    def plan() -> Any:
        answers = yield [Recite(request, style=style) for style in world.styles]  # type: ignore[attr-defined]
        return [rollout for answer in answers for rollout in answer]

    (rollouts,) = at.collect([plan()])
    for rollout in rollouts:
        assert rollout.columns["correct"]
        assert len(rollout.turns) > 1
        assert rollout.columns["stop"] == "end"


@pytest.mark.parametrize(
    "world",
    [
        worlds.get("keydoor", level=2, slip=0.4, horizon=60),
        worlds.get("tools", level=2, down=0.4),
        worlds.get("lookup", level=2, miss=0.5),
        worlds.get("clarify", level=2, unsure=0.5),
    ],
    ids=lambda world: world.name,
)
def test_a_recited_solution_meets_the_chance_of_its_own_episode(world: World) -> None:
    at = driver(world)
    at.context_length = 10_000
    requests = [TaskRequest(world.task(i), i, Sampling(max_tokens=4), (0, 0, i)) for i in range(4)]

    def plan(request: TaskRequest) -> Any:
        answers = yield [Recite(request, index=index) for index in range(4)]
        return [rollout for answer in answers for rollout in answer]

    groups = at.collect([plan(request) for request in requests])
    assert all(rollout.columns["correct"] for group in groups for rollout in group)
    lengths = {len(rollout.turns) for rollout in groups[0]}
    assert len(lengths) > 1 or world.name in ("lookup", "clarify")  # whose chance belongs to the task


# -- agents ------------------------------------------------------------------------------------------------------------


class Pair(Count):
    """Two take turns; each sees what it is told alone."""

    name = "pair"
    agents = ("left", "right", "judge")
    first: str = "left"
    then: str = "right"

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Pair(task.prompt, self)


class _Pair(_Count):
    def __init__(self, observation: str, world: Pair) -> None:
        super().__init__(observation, world)
        self.pair, self.agent = world, world.first

    def act(self, text: str) -> Feedback:
        self.agent = self.pair.then if self.agent == self.pair.first else self.pair.first
        return super().act(text)


def test_each_agent_sees_its_own_history_and_one_that_never_acts_is_named() -> None:
    for rollout in collect(Pair()):
        assert [t.columns["agent"] for t in rollout.turns] == ["left", "right", "left", "right", "left"]
        assert rollout.columns["idle"] == "judge"
        assert "2 plus" in words(rollout.turns[2].context)
        assert "1 plus" not in words(rollout.turns[2].context).partition("plus 2")[2]  # that was for the other
        assert words(rollout.turns[1].context).count("plus") == 1
    batch = Batch.from_rollouts(collect(Pair()))
    metrics = Metrics()
    metrics.count_sampled(batch)
    assert metrics.line(1)["idle"] == 1.0


def test_an_agent_that_the_world_does_not_name_is_a_failure() -> None:
    for rollout in collect(Pair(then="ghost")):
        assert rollout.columns["stop"] == "failed"
        assert "lets 'ghost' act, who is none of its agents: left, right, judge" in rollout.columns["failure"]
        assert len(rollout.turns) == 1


# -- slow worlds -------------------------------------------------------------------------------------------------------


class Slow(Count):
    """Takes its time: some episodes to open, all to act."""

    name = "slow"
    isolation = ""
    opening: float = 0.0
    acting: float = 0.0

    def reset(self, task: Task, seed: int = 0) -> Episode:
        time.sleep(self.opening)
        return _Slow(task.prompt, self)


class _Slow(_Count):
    def __init__(self, observation: str, world: Slow) -> None:
        super().__init__(observation, world)
        self.slow = world

    def act(self, text: str) -> Feedback:
        time.sleep(self.slow.acting)
        return super().act(text)


def of_worlds() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name == "podium-world"}


@pytest.fixture
def leaves_no_thread() -> Iterator[None]:
    """Whatever threads the test has begun have ended soon after it."""
    before = of_worlds()  # those of another test whose world hangs
    yield
    until = time.monotonic() + 2
    while of_worlds() - before and time.monotonic() < until:
        time.sleep(0.01)
    assert not of_worlds() - before


@pytest.mark.usefixtures("leaves_no_thread")
def test_slow_episodes_wait_together_and_not_one_after_another() -> None:
    quick = Slow(long=3)
    collect(quick, Sample(n=16))
    begun = time.monotonic()
    collect(quick, Sample(n=16))
    own = time.monotonic() - begun
    begun = time.monotonic()
    rollouts = collect(Slow(long=3, opening=0.3, acting=0.3), Sample(n=16))
    taken = time.monotonic() - begun
    assert len(rollouts) == 32
    assert taken < 4 * 0.3 + 3 * own + 1.5  # one after another: 38 s; eight at a time: 5 s


@pytest.mark.usefixtures("leaves_no_thread")
def test_threads_end_with_the_collection_also_where_a_world_hangs() -> None:
    rollouts = collect(Slow(acting=0.6), Sample(n=2), act_limit_s=0.1)
    assert {r.columns["stop"] for r in rollouts} == {"failed"}


@pytest.mark.usefixtures("leaves_no_thread")
def test_a_driver_collects_again_after_its_threads_have_ended() -> None:
    at = driver(Slow(long=2))
    for run in range(2):
        request = TaskRequest(Count().task(0), 0, Sampling(max_tokens=4), (run,))
        (rollouts,) = at.collect([Sample(n=2).plan(request)])
        assert [r.columns["failure"] for r in rollouts] == ["", ""]


def test_the_same_rollouts_come_of_a_slow_world_and_a_quick_one() -> None:
    def tokens(world: World) -> list[Any]:
        return [[tuple(t.ids) for t in r.turns] for r in collect(world)]

    assert tokens(Slow(acting=0.02)) == tokens(Count())


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lookup", "tools", "clarify"])
def test_a_method_trains_on_a_world_of_several_turns(name: str, tmp_path: Any) -> None:
    method = methods.get("grpo", n=4)
    config = configure(method, world=name, tasks=2, eval_tasks=1, eval_samples=1, iterations=2, max_tokens=12)
    result = train(config, out=tmp_path / "run")
    assert result.finished
    assert all(line["turns"] >= 1 and 0 <= line["invalid"] <= 1 for line in result.metrics if "turns" in line)
    assert any("turns" in line for line in result.metrics)
