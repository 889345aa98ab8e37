"""Instructions that compete: draws by the group's stream, and candidates that are tried."""

from __future__ import annotations

from podium.core.columns import Purpose
from podium.memories.instructions import Instruction, Population
from podium.protocols.sampling import Sampling
from podium.protocols.scaffold import Scaffold
from podium.protocols.world import Task
from podium.strategies import AdviceMutator, Instructed
from podium.strategies.requests import TaskRequest


def _tasks(population: Population, count: int) -> list[TaskRequest]:
    recalled = {"group.instructions": population}
    return [TaskRequest(Task(f"t{g}", "q"), g, Sampling(), (0, 0, g), recalled) for g in range(count)]


def test_instructions_are_drawn_by_their_probabilities() -> None:
    population = Population((Instruction(("a",)), Instruction(("b",))), (0.25, 0.75))
    strategy = Instructed()
    drawn = [strategy.chosen(task) for task in _tasks(population, 400)]
    assert drawn == [strategy.chosen(task) for task in _tasks(population, 400)]
    assert 0.68 < sum(drawn) / 400 < 0.82


def test_a_group_shares_an_instruction_and_candidates_are_probes() -> None:
    members = (Instruction(("a",), 0.5), Instruction(("b",), 0.2))
    population = Population(members, (1.0, 0.0), evolves=True, kept=(0,))
    strategy = Instructed(n=3, proposer=AdviceMutator(lines=("a", "b", "c")), verify=1)
    (plan,) = strategy.plans(_tasks(population, 2))
    wave = next(plan)
    assert [play.n for play in wave] == [3, 3, 1, 1]
    assert [play.context for play in wave] == [Scaffold(above=f"advice: {line}") for line in "aaac"]  # b is known
    assert [play.purpose for play in wave[2:]] == [Purpose.probe] * 2
    assert [play.columns["candidate"] for play in wave] == ["", "", "a", "c"]
    assert strategy.taught({"group.instructions": (population,)}) == ("advice: a", "")


def test_without_lines_the_question_stands_alone() -> None:
    population = Population((Instruction(()),), (1.0,))
    plan = Instructed(n=2).plan(*_tasks(population, 1))
    assert [play.context for play in next(plan)] == [None]
