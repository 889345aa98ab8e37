"""Rows of a table as sentences: a language model with a planted prior decides, beside a forest and a small network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.people import optional_package
from podium.labs.trial import Quantity, Trial
from podium.policy import Policy, load
from podium.tables.group_gaps import change_probe, group_metrics, metric_differences
from podium.worlds.texts.people import GROUPS, TableRow, draw_row, merit_of, row_question

__all__ = ["STUDY", "RowSize", "decided", "fine_tuned"]

Ints = NDArray[np.int64]
Examples = Sequence[tuple[TableRow, bool]]
MODEL, SHOWN, BATCH, RATE = "podium/tiny2", 4, 16, 1e-3
PARITY = Quantity("parity", "gap of approval rates (SP)", (0.0, 1.0))
OPPORTUNITY = Quantity("opportunity", "gap of true-positive rates (EoO)", (0.0, 1.0))
ACCURACY = Quantity("accuracy", "accuracy", (0.0, 1.0))
CHANGED = Quantity("changed", "decisions that another group word changes", (0.0, 1.0))


class RowSize(StudySize):
    """How many rows are decided on, how many are learned from, and for how many updates."""

    rows: int = 240
    learned: int = 200
    updates: int = 60


def _rows(count: int, rng: Random) -> tuple[list[TableRow], Ints]:
    """People whose group says nothing about them, and whether merit speaks for them."""
    rows = [draw_row(rng) for _ in range(count)]
    return rows, np.array([int(merit_of(row) > 0) for row in rows])


def _other(row: TableRow) -> TableRow:
    """The same person of the other group."""
    return row._replace(group=GROUPS[1 - GROUPS.index(row.group)])


def _answer_logits(policy: Policy, questions: Sequence[str]) -> Tensor:
    """[question, vocabulary] the logits of the first token of the answer."""
    tokenizer = policy.tokenizer
    chats = [
        tokenizer.apply_chat_template([{"role": "user", "content": q}], add_generation_prompt=True, tokenize=False)
        for q in questions
    ]
    ids = [tokenizer(chat, add_special_tokens=False)["input_ids"] for chat in chats]
    longest = max(map(len, ids))
    padded = torch.tensor([x + [0] * (longest - len(x)) for x in ids])
    mask = torch.tensor([[1] * len(x) + [0] * (longest - len(x)) for x in ids])
    logits = policy.model(input_ids=padded, attention_mask=mask).logits
    return logits[torch.arange(len(ids)), mask.sum(1) - 1]


def _words(policy: Policy) -> tuple[int, int]:
    """The first tokens of `no` and `yes`."""
    no, yes = (policy.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("no", "yes"))
    return no, yes


@torch.no_grad()
def decided(policy: Policy, rows: Sequence[TableRow], examples: Sequence[Examples] | None = None) -> Ints:
    """[row] whether `yes` is more likely than `no`, below the examples of each row."""
    shown = examples or [()] * len(rows)
    questions = [row_question(row, e) for row, e in zip(rows, shown, strict=True)]
    no, yes = _words(policy)
    parts = [_answer_logits(policy, questions[at : at + 64]) for at in range(0, len(questions), 64)]
    logits = torch.cat(parts)
    return (logits[:, yes] > logits[:, no]).long().numpy()


def fine_tuned(rows: Sequence[TableRow], label: Ints, updates: int, seed: int) -> Policy:
    """The model after so many updates of likelihood on labelled rows."""
    policy, draw = load(MODEL), np.random.default_rng(seed)
    answers = torch.tensor(_words(policy))
    optimizer = torch.optim.Adam(policy.parameters(), lr=RATE)
    for _ in range(updates):
        batch = draw.integers(len(rows), size=BATCH)
        logits = _answer_logits(policy, [row_question(rows[n]) for n in batch])
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(logits, answers[torch.as_tensor(label[batch])]))
        optimizer.step()
    policy.bump()
    return policy


def _features(rows: Sequence[TableRow]) -> NDArray[np.float64]:
    return np.array([[GROUPS.index(row.group), *row[1:]] for row in rows], dtype=float)


@lru_cache(maxsize=1)
def _model() -> Policy:
    return load(MODEL)


def _measures(label: Ints, decision: Ints, other: Ints, rows: Sequence[TableRow]) -> Mapping[str, Any]:
    """The gaps of the paper's metrics, and the share of decisions that change with the group word."""
    group = [row.group for row in rows]
    metrics, accuracy = group_metrics(label, decision, group)
    gap = metric_differences(metrics)
    merit = np.array([merit_of(row) for row in rows])
    edges = np.quantile(merit, np.linspace(0, 1, 6))
    places = np.clip(np.searchsorted(edges, merit, "right") - 1, 0, 4)
    first = np.array([name == GROUPS[0] for name in group])
    favour = np.where(first, decision - other, other - decision)  # of the favoured word, at equal merit
    return {
        "parity": abs(gap["SP"] or 0.0),
        "opportunity": abs(gap["EoO"] or 0.0),
        "accuracy": accuracy,
        "changed": change_probe(decision, other, group)["change_rate"],
        "fifth": np.arange(1.0, 6.0),
        "curve": np.array([favour[places == n].mean() for n in range(5)]),
    }


def _language(how: str, seed: int, size: RowSize) -> Mapping[str, Any]:
    """The language model: without examples, with four, with four whose labels are flipped, or fine-tuned."""
    rng = Random(f"rows {seed}")
    rows, label = _rows(size.rows, rng)
    learned, answers = _rows(size.learned, rng)
    policy = fine_tuned(learned, answers, size.updates, seed) if how == "tuned" else _model()
    examples: list[Examples] | None = None
    if how in ("shown", "flipped"):
        places = [rng.sample(range(size.learned), SHOWN) for _ in rows]
        examples = [[(learned[n], bool(answers[n]) == (how == "shown")) for n in place] for place in places]
    decision = decided(policy, rows, examples)
    return _measures(label, decision, decided(policy, [_other(row) for row in rows], examples), rows)


def _classic(how: str, seed: int, size: RowSize) -> Mapping[str, Any]:
    """A random forest or a small network of scikit-learn, fitted to the rows that the language model is tuned on."""
    rng = Random(f"rows {seed}")
    rows, label = _rows(size.rows, rng)
    learned, answers = _rows(size.learned, rng)
    x, new = _features(learned), _features(rows)
    if how == "forest":
        ensemble = optional_package("sklearn.ensemble", "podium lab llm-tabular-fairness")
        model = ensemble.RandomForestClassifier(100, random_state=seed)
    else:
        network = optional_package("sklearn.neural_network", "podium lab llm-tabular-fairness")
        model = network.MLPClassifier((16,), max_iter=2000, random_state=seed, solver="lbfgs")
    mean, scale = x.mean(0), x.std(0)
    model.fit((x - mean) / scale, answers)
    swapped = _features([_other(row) for row in rows])
    decision, other = (np.asarray(model.predict((rows_ - mean) / scale)) for rows_ in (new, swapped))
    return _measures(label, decision, other, rows)


ZERO, SHOWN_ARM, FLIPPED, TUNED = "zero-shot", "four examples", "four flipped examples", "fine-tuned"
FOREST, NETWORK = "random forest", "small network"

STUDY = Trial(
    "llm-tabular-fairness",
    "Does a language model bring a bias to tables that classifiers of the table do not have, and what lowers it?",
    arms={
        ZERO: partial(_language, "zero"),
        SHOWN_ARM: partial(_language, "shown"),
        FLIPPED: partial(_language, "flipped"),
        TUNED: partial(_language, "tuned"),
        FOREST: partial(_classic, "forest"),
        NETWORK: partial(_classic, "network"),
    },
    claims=(
        Claim("the gap of a language model is above that of a random forest", PARITY, ZERO, FOREST),
        Claim("it stays above it after fine-tuning", PARITY, TUNED, FOREST),
        Claim("examples in the prompt lower it", PARITY, ZERO, SHOWN_ARM),
        Claim("fine-tuning lowers it", PARITY, ZERO, TUNED),
        Claim("flipping the labels of the examples lowers it further", PARITY, SHOWN_ARM, FLIPPED),
    ),
    readings=(PARITY, OPPORTUNITY, ACCURACY, CHANGED),
    charts=(traced("curve", over="fifth", title="favour of a group word at equal merit", x_label="fifth of merit"),),
    size=RowSize(seeds=6),
    quick=RowSize(seeds=2, rows=80, learned=80, updates=15),
)
