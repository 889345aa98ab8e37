"""Your own questions over your own documents: search, read, answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from podium.core.errors import PodiumError, within
from podium.protocols.answer_text import ANSWER_MARK, LONGEST, bare_answer, plain
from podium.protocols.world import Feedback, Task
from podium.store.json_lines import objects, text_of
from podium.worlds.bm25 import Bm25Search
from podium.worlds.documents import Passage, read_passages
from podium.worlds.graded import hashed_uniform
from podium.worlds.puzzle import Slip, task_key
from podium.worlds.quest import Quest, QuestStep

__all__ = ["LookupFolder"]

QUESTIONS = "questions.jsonl"
ANSWERS = ("answer", "answers", "golden_answers")
SPLITS = ("train", "test")
KNOWN = "known"  # the domain of questions that need no search
LEAST = 20  # characters of a result that are worth showing
FULL = f"no room for more results: write {ANSWER_MARK}"


@dataclass(frozen=True)
class _Row:
    line: int
    question: str
    answers: tuple[str, ...]
    split: str  # empty: the file does not say
    domain: str


class LookupFolder(Quest):
    """Questions in `questions.jsonl` over the documents beside it: .txt, .md, or .jsonl with `id`, `title`, `text`.

    `search: …` shows the passages that fit best by BM25, numbered; `answer: …` ends the episode. An answer is right if
    it is one of the question's without case, punctuation and articles. `turn.useful` says whether a search has shown
    one of these answers. `rollout.evidence` is one fact, the answer, or none where the question's domain is `known`.
    Without questions whose `split` is `test`, a share is held out.
    """

    name = "lookup"
    summary = "questions over a folder of documents: search, answer"
    styles = ("short",)
    provides = (*Quest.provides, "turn.searched", "turn.useful", "rollout.evidence")
    blank = {**Quest.blank, "searched": False, "useful": False, "evidence": ()}
    max_tokens = 64
    max_turns = 6
    instructions: bool = True
    folder: str = ""
    results: int = 3  # passages that a search shows
    passage: int = 400  # characters of a passage; longer documents are cut into several
    room: int = 4000  # characters of all results of an episode, so that they fit the model's context
    held_out: float = 0.1  # the share of questions that is held out, where the file does not say which
    stopwords: str = "en"  # the language whose most frequent words are not searched for; none: all are

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "results", 1, 50)
        within(self, "passage", LEAST, 100_000)
        within(self, "room", LEAST)
        within(self, "held_out", 0, 1)
        if not self.folder:
            raise PodiumError("lookup: needs a folder: lookup:path/to/folder, or the world lookup without a colon.")
        if not Path(self.folder).is_dir():
            kind = "is a file, not a folder" if Path(self.folder).exists() else "is not there"
            raise PodiumError(f"lookup: {self.folder} {kind} (looked in {Path.cwd()}).")

    @property
    def _file(self) -> Path:
        return Path(self.folder) / QUESTIONS

    @cached_property
    def passages(self) -> Sequence[Passage]:
        """What can be found, in the order of the files."""
        return read_passages(Path(self.folder), self.passage, self._file)

    @cached_property
    def engine(self) -> Bm25Search:
        """The search engine over the passages."""
        owner = repr((str(Path(self.folder).resolve()), self.passage, self.stopwords))
        return Bm25Search([str(passage) for passage in self.passages], self.stopwords, owner)

    @cached_property
    def _questions(self) -> Sequence[_Row]:
        if not self._file.is_file():
            raise PodiumError(f'{self._file} is missing: write lines such as {{"question": "…", "answer": "…"}}.')
        rows = [_row(data, f"{self._file}, line {line}", line) for line, data in objects(self._file)]
        said = next((row for row in rows if row.split), None)
        unsaid = next((row for row in rows if not row.split), None)
        if said and unsaid:
            raise PodiumError(
                f"{self._file}, line {unsaid.line}: the row has no split, though line {said.line} has one; give every "
                "row one, or none."
            )
        return rows

    @cached_property
    def rows(self) -> Mapping[str, Sequence[_Row]]:
        """The questions of each split."""
        rows = self._questions
        if self._splits_itself:
            chance = [hashed_uniform("lookup", row.question) for row in rows]
            # However few questions there are, the first by the hash is held out, and the last is not.
            limit = min(max(self.held_out, min(chance) * (1 + 1e-9)), max(chance)) if self.held_out else 0.0
            return {
                "train": [row for row, u in zip(rows, chance, strict=True) if u >= limit],
                "test": [row for row, u in zip(rows, chance, strict=True) if u < limit],
            }
        return {split: [row for row in rows if row.split == split] for split in SPLITS}

    @property
    def _splits_itself(self) -> bool:
        return not any(row.split == "test" for row in self._questions)

    def remarks(self) -> tuple[str, ...]:
        if not self._splits_itself:
            return ()
        count, total = len(self.rows["test"]), len(self._questions)
        return (
            f"{self._file} says of no question that its split is test: {count:,} of {total:,} are held out, chosen by "
            "a hash of the question.",
        )

    def size(self, split: str = "train") -> int:
        task_key(self.name, split, 0)
        _ = self.engine  # mistakes in the documents are reported now, like those in the questions
        return len(self.rows[split])

    def task(self, index: int, split: str = "train") -> Task:
        key, rows = task_key(f"{self.name}-{Path(self.folder).resolve().name}", split, index), self.rows[split]
        if not rows:
            raise PodiumError(f"{self._file} leaves no {split} questions: add some, or change held_out or their split.")
        if index >= len(rows):
            raise PodiumError(f"{self._file} has {len(rows)} {split} questions; number {index} was asked for (from 0).")
        row = rows[index]
        prompt = f"{row.question}\n{self.explain()}" if self.instructions else row.question
        data = {"question": row.question, "answers": row.answers, "reference_answer": row.answers[0], "line": row.line}
        return Task(key, prompt, domain=row.domain, data=data)

    def explain(self) -> str:
        return (
            "Search the documents by a line `search: some words`, one search a turn. At the end write "
            f"`{ANSWER_MARK}` and the answer, as short as possible."
        )

    def reset(self, task: Task, seed: int = 0) -> _FolderSearch:
        return _FolderSearch(self, task)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        answer = "unknown" if slip() else task.data["answers"][0]
        return f"search: {task.data['question']}", f"{ANSWER_MARK} {answer}"


class _FolderSearch(QuestStep):
    verbs = ("search",)

    def __init__(self, world: LookupFolder, task: Task) -> None:
        super().__init__(world, task)
        self.lookup = world
        self.accepted = tuple(_form(answer) for answer in task.data["answers"])
        self.seen: dict[int, str] = {}  # results by the numbers of their passages
        self.room = world.room  # characters of results that are left
        self.found = False  # whether an answer has been shown

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        self.recap = "\n".join(self.seen.values())
        numbers = self.lookup.engine.best(rest, self.lookup.results)
        shown: dict[int, str] = {}
        for number in numbers:
            result = _cut(f"[{number + 1}] {self.lookup.passages[number]}", self.room)
            if result:
                shown[number] = result
                self.room -= len(result)
        self.seen |= shown
        useful = any(self._holds(result) for result in shown.values())
        self.found |= useful
        told = "\n".join(shown.values()) or (FULL if numbers else "nothing found")
        return self.say(told, searched=True, useful=useful)

    def _holds(self, result: str) -> bool:
        """Whether a result has the words of an answer, apart from its number."""
        words = f" {bare_answer(result.partition('] ')[2])} "
        return any(f" {answer} " in words for answer in self.accepted)

    def reached(self) -> str:
        """The passages that were seen, and the room that is left."""
        return f"{','.join(map(str, sorted(self.seen)))}/{self.room}" if self.seen else ""

    def missing(self) -> int:
        return int(not self.found)

    def right(self, answer: str) -> bool:
        return answer in self.accepted

    def columns(self) -> dict[str, Any]:
        return {"evidence": () if self.task.domain == KNOWN else (1,)}

    def answer(self, answer: str, text: str) -> Feedback:
        given = _form(answer)
        return super().answer(self.accepted[0] if given in self.accepted else given, text)


def _form(answer: str) -> str:
    """An answer as it is compared; one of articles and punctuation alone is compared as it is."""
    return bare_answer(answer) or plain(answer)


def _cut(result: str, room: int) -> str:
    """A result in the room that is left; empty if there is too little of it."""
    if len(result) <= room:
        return result
    return f"{result[: room - 1].rstrip()}…" if room >= LEAST else ""


def _row(data: Mapping[str, Any], where: str, line: int) -> _Row:
    question = _text(data.get("question"), "question", where)
    field = next((name for name in ANSWERS if name in data), None)
    if field is None:
        raise PodiumError(f"{where}: the question has no answer: add a field answer, with a text or a list of texts.")
    listed = data[field] if isinstance(data[field], list) else [data[field]]
    answers = tuple(_text(one, field, where) for one in listed or [None])
    for answer in answers:
        if len(answer) >= LONGEST:
            raise PodiumError(f"{where}: an answer has {len(answer):,} characters; fewer than {LONGEST:,} are needed.")
        if not _form(answer):
            raise PodiumError(f"{where}: the answer {answer!r} is nothing but punctuation.")
    split, domain = data.get("split", ""), data.get("domain", "")
    if split not in ("", *SPLITS):
        raise PodiumError(f"{where}: the split is {split!r}, but must be train or test.")
    return _Row(line, question, answers, split, domain if isinstance(domain, str) else "")


def _text(value: Any, field: str, where: str) -> str:
    """A text or a number of a row, on one line."""
    text = "" if value is None else " ".join(text_of({field: value}, field, (), field, where).split())
    if not text:
        raise PodiumError(f"{where}: the field {field!r} is empty or missing. Fill it, or leave the row out.")
    return text
