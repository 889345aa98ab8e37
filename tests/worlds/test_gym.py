"""The bridge to reasoning-gym."""

from __future__ import annotations

import pytest

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.protocols.world import FailedAction
from podium.sandbox import Limits, unconfinable
from podium.sandbox.graders import GYM, gym_workers
from podium.worlds import Gym, gym

pytest.importorskip("reasoning_gym", reason="needs the extra `gym`")
pytestmark = pytest.mark.skipif(bool(unconfinable()), reason=unconfinable())


def get(name: str, **settings: object) -> Gym:
    world = worlds.get(name, **settings)
    assert isinstance(world, Gym)
    return world


@pytest.mark.parametrize("name", ["chain_sum", "word_sorting", "spell_backward", "propositional_logic"])
def test_the_checker_finds_nothing(name: str) -> None:
    assert worlds.check_world(get(f"gym:{name}"), tasks=5) == []


def test_settings_of_the_task_are_passed_on() -> None:
    world = get("gym:chain_sum", min_terms=2, max_terms=2, max_digits=1, level=1)
    for i in range(20):
        entry = world.task(i).data["entry"]
        assert entry["metadata"]["num_terms"] == 2
        assert world.grade(world.task(i), f"so\nanswer: {entry['answer']}").info["correct"]
        assert not world.grade(world.task(i), "answer: 1000").info["correct"]


def test_test_questions_do_not_occur_in_training() -> None:
    world = get("gym:chain_sum", min_terms=2, max_terms=2, max_digits=1)
    train, test = ({world.task(i, split).prompt for i in range(100)} for split in ("train", "test"))
    assert not train & test


def test_part_of_the_credit_only_on_request() -> None:
    strict, lenient = get("gym:spell_backward"), get("gym:spell_backward", partial=True)
    task = strict.task(0)
    right = task.data["entry"]["answer"]
    nearly = f"answer: {right[:-1]}"
    assert strict.grade(task, nearly).reward == 0
    assert 0 < lenient.grade(task, nearly).reward < 1
    assert lenient.grade(task, nearly).info["correct"] is False
    assert lenient.grade(task, f"answer: {right}").reward == 1


def test_answers_are_read_as_general_models_write_them_unless_a_mark_is_demanded() -> None:
    world = get("gym:chain_sum", min_terms=2, max_terms=2, max_digits=1)
    task = world.task(0)
    right = task.data["entry"]["answer"]
    for text in (right, f"The answer is {right}.", f"1 + 1 = {right}", f"<answer>{right}</answer>", f"answer: {right}"):
        assert world.grade(task, text).info["correct"], text
        assert world.replace(marked=True).grade(task, text).info["correct"] is text.startswith("answer:"), text


def test_answers_of_several_lines_are_read_whole() -> None:
    world = get("gym:rotate_matrix")
    task = world.task(0)
    assert "\n" in task.data["entry"]["answer"]
    assert world.grade(task, world.solve(task)).info["correct"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [("chain_sum", {"min_terms": 3, "max_terms": 3}), ("decimal_chain_sum", {"min_terms": 3, "max_terms": 3})],
)
def test_chains_of_sums_are_solved_equation_by_equation(name: str, settings: dict[str, int]) -> None:
    world = get(f"gym:{name}", **settings)
    for i in range(10):
        task = world.task(i)
        first, second, answer = world.solve(task).splitlines()
        assert first.startswith(" ".join(task.data["entry"]["metadata"]["expression"].split()[:3]) + " = ")
        assert second.startswith(first.rpartition("= ")[2] + " ")
        assert answer == f"answer: {task.data['entry']['answer']}"
        assert world.grade(task, "\n".join((first, second))).info["correct"]


def test_methods_with_demonstrations_accept_it() -> None:
    assert not [f for f in methods.get("hpt").check(get("gym:chain_sum").provides) if f.kind == "error"]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("gym:chain_sums", {}, "'chain_sum'"),
        ("gym:chain_sum", {"min_term": 2}, "'min_terms'"),
        ("gym:chain_sum", {"min_terms": 0}, "min_terms must be positive"),
        ("gym:chain_sum", {"seed": 3}, "no setting 'seed'"),
    ],
)
def test_unknown_tasks_and_settings_get_a_remedy(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        worlds.get(name, **settings)
    assert message in str(error.value)


SLOW_TO_MAKE = {"acre", "sokoban", "knight_swap", "intermediate_integration"}


def test_ordinary_answers_score_as_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym, "POSITIONS", 20)
    monkeypatch.setattr(gym, "GYM", gym_workers(Limits(wall_s=30)))  # one of its own, for its many data sets
    factory = gym._factory()
    made = []
    for name in sorted(set(factory.DATASETS) - SLOW_TO_MAKE - {"composite"}):
        world = Gym(task_name=name, partial=True)
        made.append((world, world.dataset[0]))
        assert world.scorer  # prepares it
    compared = 0
    for world, entry in made:
        for answer in (entry.get("answer"), "7", "no answer"):
            if answer is not None:
                task = worlds.Task("t", entry["question"], data={"entry": entry})
                try:
                    score = float(world.dataset.score_answer(answer, entry))
                except Exception:
                    score = 0.0
                assert world.verdict(task, answer).score == min(max(score, 0.0), 1.0), (world, answer)
                compared += 1
    assert compared > 250
    gym.GYM.close()


def test_an_answer_that_is_a_program_or_hangs_is_a_failed_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    GYM.close()
    monkeypatch.setattr(GYM.sandbox, "limits", Limits(wall_s=10, cpu_s=0.3))
    world = get("gym:polynomial_multiplication")
    task = world.task(0)
    for answer, reason in (("__import__('os').getpid()", r"violation.*'__import__'"), ("9**9**9**9", "timeout")):
        with pytest.raises(FailedAction, match=reason):
            world.grade(task, f"answer: {answer}")
    assert world.grade(task, world.solve(task)).reward == 1
    world.close()
    assert world.grade(task, world.solve(task)).reward == 1  # the next use starts it again
    world.close()


def test_a_system_that_cannot_confine_scorers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym, "unconfinable", lambda: "Plan 9 has no seccomp")
    with pytest.raises(PodiumError, match=r"cannot score answers on this system.*Plan 9 has no seccomp"):
        worlds.get("gym:chain_sum")
