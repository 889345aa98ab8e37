"""Environments of the package verifiers. `make parity` runs these tests where the package is."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.pieces import Dialogue
from podium.protocols.world import Episode, FailedAction, Feedback, World
from podium.sessions.evaluate import evaluate
from podium.sessions.train import train
from podium.training.config import Config

HERE = Path(__file__).parent / "verifiers_environments"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verifiers")
    monkeypatch.syspath_prepend(str(HERE))


def guesses(**settings: object) -> World:
    return worlds.get("verifiers:podium-guess", **settings)


def played(episode: Episode, *texts: str) -> list[Feedback]:
    return [episode.act(text) for text in texts]


def test_a_missing_package_or_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PodiumError, match="name of an environment"):
        worlds.get("verifiers:")
    monkeypatch.setitem(__import__("sys").modules, "verifiers", None)
    with pytest.raises(PodiumError, match=r"pip install 'podium-rl\[verifiers\]'"):
        worlds.get("verifiers:not-tried-before")


def test_an_unknown_environment_and_wrong_arguments_are_refused(installed: None) -> None:
    with pytest.raises(PodiumError, match="there is no such environment here"):
        worlds.get("verifiers:podium-nothing")
    with pytest.raises(PodiumError, match="unexpected keyword argument 'size'"):
        guesses(size=3)


def test_turns_and_the_rubric_are_the_environment_s_own(installed: None) -> None:
    world = guesses()
    places = [(n, split) for split in ("train", "test") for n in range(world.size(split) or 0)]
    task = next(t for t in (world.task(*place) for place in places) if t.data["reference"] == "7")
    assert isinstance(task.prompt, Dialogue)
    assert task.prompt.messages == (("system", "Be brief."), ("user", "Guess a number below 24."))
    first, second, last = played(world.reset(task), "3", "9", "7")
    assert (first.observation, second.observation) == ("higher", "lower")
    assert (first.done, first.reward, last.done) == (False, 0.0, True)
    assert last.reward == pytest.approx(1.0 - 0.03)
    assert last.info["correct"]
    values = {"found": 1.0, "brief": -3.0, "picky": 0.0, "num_turns": 3.0}
    assert {name: last.info[f"reward.{name}"] for name in values} == values
    assert {f"rollout.reward.{name}" for name in values} <= set(world.provides)
    assert world.max_turns == 3


def test_copies_play_the_turns_again_and_are_independent(installed: None) -> None:
    world = guesses()
    episode = world.reset(world.task(0))
    episode.act("30")
    twin = episode.copy()
    assert twin.act("31").observation == "lower"
    assert episode.act("30").observation == "lower"
    assert twin.act("31").info["reward.brief"] == -6.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [("break", "the environment failed: ToolCallError"), ("oops", "picky raised ValueError: no such word")],
)
def test_failures_of_environments_and_rubrics_have_their_reason(installed: None, text: str, reason: str) -> None:
    world = guesses()
    with pytest.raises(FailedAction, match=reason):
        played(world.reset(world.task(0)), text, "40", "40")


def test_an_environment_that_hangs_is_given_up(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.worlds.verifiers.Verifiers.act_limit_s", 1.0)
    world = guesses()
    with pytest.raises(FailedAction, match="did not answer within 1 s"):
        world.reset(world.task(0)).act("hang")
    assert world.reset(world.task(0)).act("40").observation == "lower"


def test_tools_are_told_called_and_answered(installed: None) -> None:
    world = worlds.get("verifiers:podium-adder")
    assert (world.size(), world.size("test")) == (24, 8)
    episode = world.reset(world.task(5))
    assert isinstance(episode.observation, Dialogue)
    assert '"name": "add"' in episode.observation.messages[0][1]
    call = '{"name": "add", "arguments": {"a": 5, "b": 10}}'
    feedback = episode.act(f"I add.\n<tool_call>{call}</tool_call><tool_call>{call}</tool_call>")
    assert feedback.observation == "\n".join(["<tool_response>\n15\n</tool_response>"] * 2)
    last = episode.act("15")
    assert (last.done, last.reward, last.info["reward.add_calls"]) == (True, 1.0, 2.0)
    assert world.reset(world.task(5)).act("<tool_call>{not json</tool_call>").done


def test_training_counts_failures_and_shows_the_rubric(installed: None, tmp_path: Path) -> None:
    size = {"iterations": 2, "tasks": 4, "n": 4, "eval_tasks": 4, "eval_samples": 1, "eval_every": 0, "max_tokens": 8}
    n = size.pop("n")
    from podium import methods

    method = methods.get("grpo", n=n)
    result = train(method, world="verifiers:podium-guess", out=tmp_path / "run", **size)
    last = result.metrics[-1]
    assert last["rollouts"] == 16
    assert last["reward.brief"] < 0
    assert last["reward"] == pytest.approx(last["reward.found"] + 0.01 * last["reward.brief"], abs=1e-6)
    assert evaluate(tmp_path / "run", tasks=4, samples=1, ks=[1])["reward"].mean < 1
    with pytest.raises(PodiumError, match=r"an installed package|outside this project"):
        Config.from_yaml("world: verifiers:antigravity\nmethod: {Method: {name: x}}\n")


def test_functions_that_compare_the_rollouts_of_a_task_see_them_all(installed: None, tmp_path: Path) -> None:
    size = {"iterations": 1, "tasks": 3, "eval_tasks": 4, "eval_samples": 2, "eval_every": 0, "max_tokens": 8}
    settings = {"together": True}
    result = train("grpo", world="verifiers:podium-guess", world_settings=settings, out=tmp_path / "run", **size)
    last = result.metrics[-1]
    assert last["reward.first_of_group"] == pytest.approx(1 / 8)
    assert result.metrics[0]["eval.reward"] < 1
