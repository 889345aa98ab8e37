"""What is in a data set, and what is wrong with it: fields, prompts as a model sees them, lengths, duplicates, and rows
that cannot be read or graded, with the line of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from podium.core.errors import PodiumError
from podium.protocols.world import FailedAction
from podium.store.data_rows import DataRow, read_splits
from podium.worlds.dataset import Dataset, Fields
from podium.worlds.grading import grade_answer
from podium.worlds.jsonl import LONGEST, JsonlRow

__all__ = ["DataReport", "report_on"]

SOLUTION = "answer: {}"  # in the form that the grader reads in any case


@dataclass(frozen=True)
class DataReport:
    """The findings on a data set."""

    fields: Fields | None  # None: no row could be read
    rows: Mapping[str, int]  # by split, of those that can be used
    unused: Sequence[str]  # fields that are not read
    shown: Sequence[tuple[str, str]]  # the first prompts as they are asked, and their answers
    lengths: tuple[int, int, int] | None  # of prompts: median, 95th percentile, longest
    longest_at: str
    problems: Sequence[str] = field(default_factory=list)  # of rows that cannot be used
    warnings: Sequence[str] = field(default_factory=list)  # of rows that can


def report_on(world: Dataset, length: Callable[[str], int] = len, shown: int = 2) -> DataReport:
    """Read all rows of a data set, and grade each answer by itself; `length` measures a prompt."""
    problems: list[str] = []
    splits = read_splits(world.file, problems.append)
    if world.test_file:
        splits["test"] = read_splits(world.test_file, problems.append)["train"]
    first = next((row for rows in splits.values() for row in rows), None)
    fields = None if first is None else world.find_fields(first)
    read: dict[str, list[tuple[DataRow, JsonlRow]]] = {split: [] for split in splits}
    for split, rows in splits.items():
        for row in rows:
            assert fields is not None  # there is a row
            try:
                read[split].append((row, world.read_row(row, fields)))
            except PodiumError as error:
                problems.append(str(error))
    everything = [pair for pairs in read.values() for pair in pairs]
    ungraded = [] if world.reward_functions else [note for pair in everything if (note := _ungraded(world, *pair))]
    sizes = sorted((length(world.asked(parsed)), row.where) for row, parsed in everything)
    used = {name.partition(".")[0] for name in vars(fields).values()} if fields else set()
    return DataReport(
        fields,
        {split: len(pairs) for split, pairs in read.items()},
        [name for name in (first.data if first else ()) if name not in used],
        [(world.asked(parsed), parsed.answer) for _, parsed in everything[:shown]],
        (sizes[len(sizes) // 2][0], sizes[int(len(sizes) * 0.95)][0], sizes[-1][0]) if sizes else None,
        sizes[-1][1] if sizes else "",
        [*problems, *ungraded],
        [*_duplicates(everything), *_leaks(read)],
    )


def _ungraded(world: Dataset, row: DataRow, parsed: JsonlRow) -> str:
    """Why an answer cannot be graded; empty: it can."""
    if len(parsed.answer) > LONGEST:
        return f"{row.where}: the answer has {len(parsed.answer)} characters; at most {LONGEST} are compared."
    try:
        right = grade_answer(parsed.answer, SOLUTION.format(parsed.answer), world.equal, parsed.choices).correct
    except FailedAction as failure:
        return f"{row.where}: the answer {parsed.answer!r} cannot be graded: {failure}."
    return "" if right else f"{row.where}: the grader does not recognise the answer {parsed.answer[:60]!r} as itself."


def _duplicates(rows: Sequence[tuple[DataRow, JsonlRow]]) -> list[str]:
    """Prompts that occur several times, and whether their answers agree."""
    by_prompt: dict[str, list[tuple[str, str]]] = {}
    for row, parsed in rows:
        by_prompt.setdefault(parsed.prompt, []).append((row.where.rpartition(", ")[2], parsed.answer))
    notes = []
    for places in by_prompt.values():
        if len(places) > 1:
            differ = "" if len({answer for _, answer in places}) == 1 else ", with different answers"
            named = ", ".join(place for place, _ in places[:5])
            notes.append(f"The same prompt stands {len(places)} times{differ}: {named}.")
    return notes


def _leaks(read: Mapping[str, Sequence[tuple[DataRow, JsonlRow]]]) -> list[str]:
    """Held-out prompts that are trained on too."""
    trained = {parsed.prompt for _, parsed in read.get("train", ())}
    places = [row.where for row, parsed in read.get("test", ()) if parsed.prompt in trained]
    return [f"{len(places)} held-out prompts are in the training data too, such as {places[0]}."] if places else []
