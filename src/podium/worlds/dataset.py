"""Your own data: questions, chats and answers from a file, a folder or the hub, with fields that are found by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError, nearest
from podium.protocols.pieces import Dialogue, joined
from podium.protocols.world import Feedback, Task
from podium.store.data_rows import DataRow, read_splits
from podium.worlds.data_pictures import pictures_of, with_pictures
from podium.worlds.file_rows import at_least_one
from podium.worlds.graded import FORMAT
from podium.worlds.jsonl import ANSWERS, DOMAINS, PROMPTS, Jsonl, JsonlRow
from podium.worlds.rewarding import Earned

__all__ = ["Dataset", "Fields"]

CHATS = ("messages", "conversations", "conversation")
TRUTH = (
    "reward_model.ground_truth",
    "ground_truth",
    "gold",
    "correct_answer",
    "answerKey",
    "label",
    "output",
    "response",
)
SYSTEMS = ("system", "system_prompt")
CHOICES = ("choices", "options")
IMAGES = ("image", "images", "picture", "pictures")
SHAREGPT = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
RIGHT_ABOVE = 0.5  # without answers, a completion with a larger reward counts as right
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Fields:
    """Which fields of the rows are what; empty: none."""

    prompt: str
    answer: str = ""
    system: str = ""
    choices: str = ""
    domain: str = ""
    image: str = ""

    def __str__(self) -> str:
        named = [(kind, name) for kind, name in vars(self).items() if name]
        return ", ".join(f"{kind} from {name!r}" for kind, name in named)


class Dataset(Jsonl):
    """Questions from JSON lines, JSON, CSV, parquet, a data set saved by Hugging Face's `datasets`, or the hub.

    A prompt is a text or a list of messages with roles. Held-out tasks come from `test_file`, from the data's own test
    or validation split, or are a share of the rows, chosen by a hash of the prompt. Answers are graded as in `jsonl`;
    without answers, or beside them, reward functions grade (`reward_functions`).
    """

    name = "data"
    summary = "your own questions: JSON lines, CSV, parquet, a saved data set, or the hub"
    system: str = ""  # a system prompt for every row that has none
    system_field: str = ""  # empty: system or system_prompt, if rows have one
    image_field: str = ""  # a picture, or several: paths, base64 or bytes; empty: image, images, …, if rows have one
    choices_field: str = ""  # a list of texts to choose from; empty: choices or options, if rows have one

    @cached_property
    def source(self) -> Mapping[str, Sequence[DataRow]]:
        """The rows as they stand, by split."""
        if not self.file:
            raise PodiumError("data needs a source: data:questions.jsonl.")
        splits = read_splits(self.file)
        return splits | {"test": read_splits(self.test_file)["train"]} if self.test_file else splits

    @cached_property
    def fields(self) -> Fields:
        """The fields that are read, found in the first row."""
        first = next(row for rows in self.source.values() for row in rows)
        return self.find_fields(first)

    @property
    def folder(self) -> Path:
        """Where the paths of pictures begin."""
        source = Path(self.file).expanduser()
        return source if source.is_dir() else source.parent

    def find_fields(self, row: DataRow) -> Fields:
        """The fields of a row that are read."""
        usual = (*PROMPTS, "instruction", *CHATS)
        prompt = self.prompt_field or next((name for name in usual if row.data.get(name) is not None), "")
        if not prompt:
            raise PodiumError(
                f"{row.where}: no field looks like a prompt (it has {', '.join(map(str, row.data))}). Name it: "
                "--prompt-field FIELD (prompt_field)."
            )
        for setting in ("prompt_field", "answer_field", "system_field", "choices_field", "image_field"):
            name = getattr(self, setting)
            if name and _at(row.data, name) is None:
                raise PodiumError(f"{row.where}: the row has no field {name!r} ({setting}). {nearest(name, row.data)}")

        def found(setting: str, usual: Sequence[str]) -> str:
            return setting or next((n for n in usual if n != prompt and _at(row.data, n) is not None), "")

        return Fields(
            prompt,
            found(self.answer_field, (*ANSWERS, *TRUTH)),
            found(self.system_field, SYSTEMS),
            found(self.choices_field, CHOICES),
            found(self.domain_field, DOMAINS),
            found(self.image_field, IMAGES),
        )

    @cached_property
    def rows(self) -> Mapping[str, Sequence[JsonlRow]]:
        """The rows of each split."""
        self.check_grader()
        rows = {split: [self.read_row(row, self.fields) for row in listed] for split, listed in self.source.items()}
        return rows if "test" in rows else at_least_one("jsonl", rows["train"], self.held_out)

    def read_row(self, row: DataRow, fields: Fields) -> JsonlRow:
        """A row as a task; an error says where it stands and what it lacks."""
        data = row.data
        prompt, said = _prompt(_at(data, fields.prompt), fields.prompt, row.where)
        if fields.image and (value := _at(data, fields.image)) not in (None, "", []):
            prompt = with_pictures(prompt, pictures_of(value, self.folder, row.where), row.where)
        answer = _at(data, fields.answer) if fields.answer else said
        options = _choices(_at(data, fields.choices), row.where) if fields.choices else {}
        if answer is None and not self.reward_functions:
            missing = (
                f"the field {fields.answer!r} is empty" if fields.answer else f"it has {', '.join(map(str, data))}"
            )
            raise PodiumError(
                f"{row.where}: there is no answer to grade by ({missing}). Name its field, --answer-field FIELD "
                "(answer_field), or grade with a function, --reward my_file.py:my_reward."
            )
        if options and isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(options):
            answer = list(options)[answer]  # the number of a choice
        if options and not all(text in prompt for text in options.values()):
            prompt = joined("\n", (prompt, *(f"{letter}) {text}" for letter, text in options.items())))
        system = _at(data, fields.system) if fields.system else None
        system = self.system if system in (None, "") else str(system)
        if system and not (isinstance(prompt, Dialogue) and prompt.messages[0][0] in ("system", "developer")):
            messages = prompt.messages if isinstance(prompt, Dialogue) else (("user", prompt),)
            prompt = Dialogue(("system", system), *messages)
        domain = str(_at(data, fields.domain) or "") if fields.domain else ""
        given = "" if answer is None else _text(answer, fields.answer, row.where)
        parsed = JsonlRow(row.line, prompt, given, "", {}, (), domain, data, options)
        return self._parsed(parsed, row.where) if given or not self.reward_functions else parsed

    def task(self, index: int, split: str = "train") -> Task:
        task = super().task(index, split)
        row = self.rows[split][index]
        return replace(task, prompt=self.asked(row), data={**task.data, "choices": row.choices, "columns": row.columns})

    def asked(self, row: JsonlRow) -> str:
        """The prompt of a row as the model sees it: a plain question with the format to answer in."""
        plain = not self.instructions or isinstance(row.prompt, Dialogue) or bool(self.reward_functions)
        return row.prompt if plain else joined("\n", (row.prompt, FORMAT))

    def columns(self, task: Task) -> Mapping[str, Any]:
        truth = {"ground_truth": task.data["answer"]} if task.data["answer"] else {}
        return {"answer": task.data["answer"], **truth, **task.data["columns"]}

    def grade(self, task: Task, text: str, seed: int = 0) -> Feedback:
        if task.data["answer"]:
            return super().grade(task, text, seed)
        return self.rewarded(task, text, Feedback(state=task.key, info={"correct": False, "answer": ""}))

    def paid(self, task: Task, feedback: Feedback, earned: Earned) -> Feedback:
        paid = super().paid(task, feedback, earned)
        if task.data["answer"]:
            return paid
        return replace(paid, info={**paid.info, "correct": earned.total > RIGHT_ABOVE})

    def why(self, task: Task, text: str) -> str:
        return super().why(task, text) if task.data["answer"] else f"its reward is not above {RIGHT_ABOVE}"

    def remarks(self) -> tuple[str, ...]:
        sizes = {split: len(rows) for split, rows in self.rows.items()}
        if self.test_file:
            held = f"the {sizes['test']:,} rows of {self.test_file} are held out"
        elif "test" in self.source:
            held = f"its own test split of {sizes['test']:,} rows is held out"
        else:
            held = f"there is no test split, so {sizes['test']:,} are held out (held_out), by a hash of the prompt"
        name = Path(self.file).name or self.file
        notes = [f"{name}: {sum(sizes.values()):,} rows, {self.fields}; {held}."]
        if not self.fields.answer and not any(row.answer for row in self.rows["train"][:1]):
            notes.append(f"The rows have no answers: a completion counts as right if its reward exceeds {RIGHT_ABOVE}.")
        return tuple(notes)


def _at(data: Mapping[str, Any], path: str) -> Any:
    """The value of a field, or of a field of a field: `reward_model.ground_truth`."""
    if path in data:
        return data[path]
    head, _, rest = path.partition(".")
    inner = data.get(head)
    return _at(inner, rest) if rest and isinstance(inner, Mapping) else None


def _text(value: Any, field: str, where: str) -> str:
    """An answer as text."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (Mapping, list, tuple, bytes)):
        raise PodiumError(
            f"{where}: the field {field!r} holds a {type(value).__name__}; text or a number is needed (answer_field)."
        )
    return str(value)


def _prompt(value: Any, field: str, where: str) -> tuple[str, str | None]:
    """The prompt in a field, and what the assistant says at its end, where it is a whole conversation."""
    if value is None or value in ("", []):
        raise PodiumError(f"{where}: the prompt is empty (the field {field!r}).")
    if not isinstance(value, (list, tuple)):
        return _text(value, field, where), None
    messages = [_message(each, field, where) for each in value]
    said = messages.pop()[1] if messages[-1][0] == "assistant" and len(messages) > 1 else None
    return Dialogue(*messages), said


def _message(message: Any, field: str, where: str) -> tuple[str, str]:
    """The role and the text of a message, in OpenAI's form or ShareGPT's."""
    problem = f"{where}: the field {field!r} holds a list, whose elements must be messages with a role and a content"
    if not isinstance(message, Mapping):
        raise PodiumError(f"{problem}, not {str(message)[:40]!r}.")
    role = message.get("role") or SHAREGPT.get(str(message.get("from")))
    content = message.get("content", message.get("value"))
    if isinstance(content, (list, tuple)):  # parts
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = None if None in texts or len(texts) < len(content) else "".join(map(str, texts))
    if not isinstance(role, str) or not isinstance(content, str):
        raise PodiumError(f"{problem} that is text, not {str(dict(message))[:60]!r}.")
    return role, content


def _choices(value: Any, where: str) -> dict[str, str]:
    """The choices of a row by letter, from a list, from {"A": …}, or from {"text": […], "label": […]}."""
    if isinstance(value, Mapping) and isinstance(value.get("text"), (list, tuple)):
        labels = value.get("label") or LETTERS
        return {str(label): str(text) for label, text in zip(labels, value["text"], strict=False)}
    if isinstance(value, Mapping):
        return {str(letter): str(text) for letter, text in value.items()}
    if isinstance(value, (list, tuple)) and len(value) <= len(LETTERS):
        return {letter: str(text) for letter, text in zip(LETTERS, value, strict=False)}
    if value is None:
        return {}
    raise PodiumError(f"{where}: choices must be a list of at most {len(LETTERS)} texts.")
