"""A method that cannot run is refused before anything is sampled, with what to change."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest

from podium import methods, worlds
from podium.cli import main
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.method import Method
from podium.methods.catalogue import RECIPES
from podium.sampler.local import LocalSampler
from podium.strategies import Sample
from podium.worlds import Answer, Feedback, Task, World
from tests.methods.catalogue import SLUGS, Laps, fitting, lines, small


class Unlabelled(Answer):
    """A reward and nothing else: no verdicts, no answers, no solutions."""

    provides = ()

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"unlabelled/{split}/{index}", f"echo: {index}")

    def grade(self, task: Task, text: str) -> Feedback:
        return Feedback(0.0)


class Labelled(Unlabelled):
    """Verdicts and answers, but no solutions."""

    provides = ("rollout.correct", "rollout.answer")


def refusal(method: Method, world: World) -> str:
    """The message with which a run is refused, without a token sampled."""
    with (
        patch.object(LocalSampler, "submit", side_effect=AssertionError("something was sampled")),
        pytest.raises(PodiumError) as caught,
    ):
        lines(method, world)
    return str(caught.value)


def needing(*names: str) -> list[str]:
    """The methods of the catalogue that one of these must be given."""
    return [slug for slug in SLUGS if any(_reads(part, names) for part in _readers(small(slug)))]


def _readers(method: Method) -> list[object]:
    return [*method.parts(), *method.memories]


def _reads(part: object, names: tuple[str, ...]) -> bool:
    return any(need in names for need in part.needs)  # type: ignore[attr-defined]


def of(source: str) -> list[str]:
    """The methods that read a signal of this role."""
    return [
        slug
        for slug in SLUGS
        for needs in [[n for part in _readers(methods.get(slug)) for n in part.needs]]  # type: ignore[attr-defined]
        if any(isinstance(n, Signal) and n.of == source for n in needs)
    ]


@pytest.mark.parametrize("slug", needing("rollout.correct"))
def test_labels(slug: str) -> None:
    assert "Take a world that knows right answers: rollout.correct" in refusal(small(slug), Unlabelled())


@pytest.mark.parametrize("slug", needing("rollout.answer"))
def test_answers(slug: str) -> None:
    assert "Take a world that reads the answer in each text" in refusal(small(slug), Unlabelled())


@pytest.mark.parametrize("slug", needing("task.solution"))
def test_demonstrations(slug: str) -> None:
    assert "take an embedded world or a file of JSON lines" in refusal(small(slug), Labelled())


@pytest.mark.parametrize("slug", needing("step.state", "step.reward", "step.action", "step.next_state"))
def test_steps(slug: str) -> None:
    one_turn = [
        worlds.get(name)
        for name, world in worlds.EMBEDDED.items()
        # Sets of options and pictures are for policies that write no text.
        if not {"turn.state", "task.options", "task.drawing"} & {*world.provides}
    ]
    for world in one_turn:
        assert "Take a world of several turns" in refusal(small(slug), world)
    assert fitting(small(slug), [Laps()]) is not None


@pytest.mark.parametrize("slug", needing("pair.difference"))
def test_verdicts_of_a_judge(slug: str) -> None:
    without = small(slug).each(lambda m: m.with_(rollout=Sample(n=4)))
    assert "Let a judge compare the rollouts" in refusal(without, worlds.get("sums"))


@pytest.mark.parametrize("slug", of("ref"))
def test_a_reference(slug: str) -> None:
    method = small(slug)
    without = method.each(lambda m: m.with_(roles=tuple(r for r in m.roles if r.name != "ref")))
    assert "add Role('ref')" in refusal(without, worlds.get("sums"))


def test_a_learner() -> None:
    assert "add Role('critic')" in refusal(small("ppo").with_(roles=()), worlds.get("sums"))


HIDDEN = ("rank_dynamics", "similarity", "flow_score", "flow_error", "value")


def test_hidden_states_and_other_numbers_that_a_policy_does_not_compute() -> None:
    """A policy that gives log-probabilities alone, as a server does."""
    tried = 0
    for slug in SLUGS:
        method = methods.get(slug)
        names = {n.name for part in _readers(method) for n in part.needs if isinstance(n, Signal)}  # type: ignore[attr-defined]
        for name in names - {"logp"}:
            found = [str(f) for f in method.check(Laps.provides, signals=("logp",))]
            assert any(re.search(f"needs the signal '{name}', which the policy does not compute", f) for f in found)
            tried += name in HIDDEN
    assert tried


def test_groups_of_two() -> None:
    """Alone, a rollout of a method that compares has nothing to be compared with: said before the run."""
    [found] = methods.get("grpo", n=1).check()
    assert found.kind == "warning"
    assert "makes groups of one" in found.message
    assert found.message.endswith("sample more.")


def test_groups_of_two_are_asked_for_before_training_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_run = ["--iterations", "1", "--set", "tasks=1", "--set", "eval_tasks=1", "--world", "echo"]
    assert main(["train", "grpo", "--set", "n=1", *small_run, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert printed.index("has nothing to compare with: sample more.") < printed.index("Held-out pass@1")


def test_some_recipes_refuse_a_group_of_one_outright() -> None:
    with pytest.raises(PodiumError, match="take two or more"):
        RECIPES["implicit-prm"].build(n=1)
