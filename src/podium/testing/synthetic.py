"""Synthetic batches that have every column a part needs.

Ragged rollouts of several turns, groups of unequal size standing interleaved, tokens of the world in the middle, all in
float64. A column's numbers depend on the scene, the seed and its name alone, so batches of two settings of a part agree
on the columns that both read.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Origin, Purpose
from podium.core.partition import Partition
from podium.core.relation import Relation
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = ["ORDINARY", "SceneDraw", "SceneRules", "Scene", "names", "synthetic"]

VOCABULARY = 11
RELATIONS = ("pair",)
LEVELS = ("token", "turn", "rollout", "group", "batch")
TAGS = ("planning", "explore", "reflection", "none")
FORMS = ("search", "python", "answer")
# Answers as models write them: with tags and boxes, in sentences of several kinds, or empty.
REPLIES = (
    "<think>so it is</think><answer>So \\boxed{A}</answer>",
    "<think>or not</think><answer>\\boxed{B}</answer>",
    "Is it the one? It is not! The other one, of the two, is \\boxed{A}.",
    "A word and a word and the word. But the word is not a word.",
    "",
)
RISK_LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))


@dataclass(frozen=True)
class Scene:
    """What kind of batch to draw."""

    name: str
    groups: tuple[int, ...] = (4, 3, 5)  # rollouts of each
    rewards: str = "normal"  # normal, binary, equal, outliers (among ones), signs (plus and minus in turn)
    scale: float = 1.0  # of the rewards, or of the outliers
    purposes: bool = False  # rollouts that vote, demonstrate, probe, or are a baseline
    nobody: bool = False  # all rollouts are only recorded
    masks: bool = False  # `keep` and `weight` columns at several levels
    nothing_kept: bool = False
    only_given: bool = False  # no token is the model's
    empty: tuple[int, ...] = ()  # rollouts without tokens
    repeats: bool = False  # two groups of the same task
    log_ratio: float = 0.3  # how far the policies are apart
    entropy: tuple[float, float] = (0.1, 2.0)  # of tokens, from and to
    turns: int = 3  # at most


ORDINARY = (
    Scene("ordinary rewards"),
    Scene("binary rewards", groups=(4, 1, 5, 2), rewards="binary"),
    Scene("rollouts that are not trained", purposes=True, masks=True),
    Scene("binary rewards, rollouts that are not trained", rewards="binary", purposes=True, masks=True),
)


def names(*parts: Any) -> frozenset[str]:
    """The columns that these parts declare to need."""
    columns = set()
    for part in parts:
        needs = (*part.needs, *(part.routed if isinstance(part, Term) else ()))
        columns |= {need.column if isinstance(need, Signal) else need for need in needs}
    return frozenset(columns)


class SceneDraw:
    """Draws the columns of one batch: a stream of random numbers for each name."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene, self.seed = scene, seed

    def generator(self, name: str) -> torch.Generator:
        digest = hashlib.blake2b(f"{self.scene.groups}/{self.seed}/{name}".encode(), digest_size=7).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest, "little"))

    def normal(self, name: str, n: int) -> Tensor:
        return torch.randn(n, generator=self.generator(name), dtype=torch.float64)

    def uniform(self, name: str, n: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return low + (high - low) * torch.rand(n, generator=self.generator(name), dtype=torch.float64)

    def coin(self, name: str, n: int, share: float = 0.5) -> Tensor:
        return self.uniform(name, n) < share

    def integers(self, name: str, n: int, high: int) -> Tensor:
        return torch.randint(high, (n,), generator=self.generator(name))

    def text(self, name: str, n: int, kinds: int = 2) -> tuple[str, ...]:
        word = name.rpartition(".")[2]
        return tuple(f"{word} {k}" for k in self.integers(name, n, kinds).tolist())

    def calls(self, name: str, n: int) -> tuple[Any, ...]:
        """None, one or two calls of a tool, with one argument of one of two values."""
        count, value = self.integers(name, n, 3).tolist(), self.integers(f"{name} value", n, 2).tolist()
        return tuple(
            [{"name": "look", "arguments": {"x": (v + i) % 2}} for i in range(c)]
            for c, v in zip(count, value, strict=True)
        )

    def reward(self, name: str, n: int) -> Tensor:
        if self.scene.rewards == "equal":
            return torch.full((n,), 0.7 * self.scene.scale, dtype=torch.float64)
        if self.scene.rewards == "binary":
            return self.coin(name, n).double() * self.scene.scale
        if self.scene.rewards == "outliers":
            return torch.where(torch.arange(n) % 4 == 0, self.scene.scale, 1.0).double()
        if self.scene.rewards == "signs":
            return self.scene.scale * (1.0 - 2.0 * (torch.arange(n) % 2).double())
        return self.normal(name, n) * self.scene.scale

    def advantage(self, name: str, n: int) -> Tensor:
        """Like the rewards; with binary ones it is −1, 0 or 1, so that there are ties of either sign."""
        return self.integers(name, n, 3).double() - 1 if self.scene.rewards == "binary" else self.reward(name, n)

    def wide(self, name: str, n: int, k: int) -> Tensor:
        """[n, k, 2] the ids of k tokens and their log-probabilities, which leave something for the others."""
        share = torch.stack([self.normal(f"{name} {i}", n) for i in range(k + 1)], -1).softmax(-1)
        ids = torch.arange(k, dtype=torch.float64).expand(n, k)
        return torch.stack([ids, share[:, :k].log()], -1)

    def logp(self, name: str, n: int) -> Tensor:
        """Log-probabilities of different policies lie around the same ones."""
        return self.uniform("logp", n).clamp(min=1e-3).log() - 0.1 + self.scene.log_ratio * self.normal(name, n)


def _first(count: int) -> tuple[int, ...]:
    """So many ids: none, or the first ones."""
    return tuple(range(1, count + 1))


SceneRules = Mapping[str, Callable[[SceneDraw, str, int], Any]]  # how to draw a column of n values, by name

# By the last word of the column's name; anything else is standard normal.
KINDS: SceneRules = {
    "reward": SceneDraw.reward,
    "difference": SceneDraw.reward,
    "advantage": SceneDraw.advantage,
    "return": SceneDraw.reward,
    "target": SceneDraw.reward,
    "logp": SceneDraw.logp,
    "entropy": lambda d, name, n: d.uniform(name, n, *d.scene.entropy),
    "value": lambda d, name, n: d.uniform(name, n) if name.startswith("group.") else d.normal(name, n),
    "state": lambda d, name, n: d.text(name, n, 3),
    "action": SceneDraw.text,
    "next_state": SceneDraw.text,
    "agent": SceneDraw.text,
    "domain": SceneDraw.text,
    "code": lambda d, name, n: d.integers(name, n, 2),
    **dict.fromkeys(("rho_01", "rho_10"), lambda d, name, n: d.uniform(name, n, 0.0, 0.4)),
    "angle": lambda d, name, n: d.uniform(name, n, -45.0, 45.0),
    "scores": lambda d, name, n: torch.stack([d.reward(f"{name} {k}", n) for k in range(2)], -1),
    "observed": SceneDraw.coin,
    "declared": SceneDraw.coin,
    "majority": lambda d, name, n: d.coin(name, n).double(),
    "tool": lambda d, name, n: d.integers(name, n, 2),
    **dict.fromkeys(("written", "fresh"), lambda d, name, n: d.coin(name, n, 0.8)),
    **dict.fromkeys(("feasible", "infeasible"), lambda d, name, n: d.integers(name, n, 5).double()),
    "total": lambda d, name, n: 4 + d.integers(name, n, 5).double(),
    "vote": lambda d, name, n: d.integers(name, n, 3).double() - 1,
    "claim": SceneDraw.uniform,
    "consensus": lambda d, name, n: torch.tensor((0.5, 0.9, 1.0), dtype=torch.float64)[d.integers(name, n, 3)],
    "feedback": lambda d, name, n: d.coin(name, n).double(),
    **dict.fromkeys(("detect", "detected", "pruned", "replayed", "waiting"), SceneDraw.coin),
    "missing": lambda d, name, n: d.integers(name, n, 6),
    "quality": SceneDraw.uniform,
    "parent": lambda d, name, n: d.integers(name, n, 3) - 1,  # perhaps of a rollout that is not there, or a later one
    "fork": lambda d, name, n: d.integers(name, n, 5) - 1,
    "key": lambda d, name, n: d.integers(name, n, 2),
    "answer": lambda d, name, n: tuple(
        text if read else ""
        for text, read in zip(d.text(name, n), d.coin(f"{name} read", n, 0.8).tolist(), strict=True)
    ),
    "reference_answer": SceneDraw.text,
    "calls": lambda d, name, n: d.calls(name, n),
    "reference_calls": lambda d, name, n: d.calls(name, n),
    "tag": lambda d, name, n: tuple(TAGS[k] for k in d.integers(name, n, len(TAGS)).tolist()),
    "valid": lambda d, name, n: d.coin(name, n, 0.7),
    "available": SceneDraw.coin,
    **dict.fromkeys(("attacks", "attacked", "unsafe", "right", "formed"), SceneDraw.coin),
    "observation": SceneDraw.text,
    "penalty": SceneDraw.uniform,
    "completed": lambda d, name, n: d.coin(name, n, 0.8),
    "coverage": SceneDraw.uniform,
    "text": SceneDraw.text,
    "reply": lambda d, name, n: tuple(REPLIES[k] for k in d.integers(name, n, len(REPLIES)).tolist()),
    "letter": lambda d, name, n: tuple("AB"[k] for k in d.integers(name, n, 2).tolist()),
    "pair": lambda d, name, n: d.integers(name, n, 2),
    "searches": lambda d, name, n: d.integers(name, n, 5),
    "messages": lambda d, name, n: 2 * d.integers(name, n, 5),
    **dict.fromkeys(("matched", "searched", "formed"), lambda d, name, n: d.coin(name, n, 0.7)),
    "useful": SceneDraw.uniform,
    "judged": lambda d, name, n: tuple(("", "yes", "no", "unclear")[k] for k in d.integers(name, n, 4).tolist()),
    "cited": lambda d, name, n: tuple((1,) * k for k in d.integers(name, n, 3).tolist()),
    **dict.fromkeys(("picked", "evidence"), lambda d, name, n: tuple(map(_first, d.integers(name, n, 4).tolist()))),
    **dict.fromkeys(("overlap", "covered"), SceneDraw.uniform),
    **dict.fromkeys(("looked", "decided", "explained", "decision"), SceneDraw.coin),
    "options": lambda d, name, n: tuple(
        tuple((f"reference_answer {k}", x) for k, x in enumerate(row))
        for row in d.normal(name, 2 * n).reshape(n, 2).tolist()
    ),
    "rubrics": lambda d, name, n: (("<E0> of <E1>", "<E1> of <E2>"),) * n,
    "entities": lambda d, name, n: (tuple((f"E{k}", "x") for k in range(3)),) * n,
    "supported": lambda d, name, n: tuple((k > 1, k > 0) for k in d.integers(name, n, 3).tolist()),
    "belief": lambda d, name, n: (((0.4, 0.4, 0.2), (0.5, 0.5)),) * n,
    "allowed": lambda d, name, n: tuple(
        ((0, tuple(range(k))),)[: k + 1 if k else 0] for k in d.integers(name, n, 4).tolist()
    ),
    "asked": lambda d, name, n: tuple("size"[: 4 * k] for k in d.integers(name, n, 2).tolist()),
    "hints": lambda d, name, n: tuple((f"hint {k}",) * k for k in d.integers(name, n, 3).tolist()),
    "edits": lambda d, name, n: ('[{"operation": "ADD", "content": "text"}]',) * n,  # one plan for the batch
    "instruction": lambda d, name, n: torch.zeros(n),  # there is one at first
    "candidate": lambda d, name, n: tuple(("", "line 1", "line 2")[k] for k in d.integers(name, n, 3).tolist()),
    "prompt": SceneDraw.text,
    "train_context": lambda d, name, n: tuple((k, 1) for k in d.integers(name, n, VOCABULARY).tolist()),
    "prior": lambda d, name, n: d.uniform(name, n, -1.0, 1.0),
    "confidence": SceneDraw.uniform,
    **dict.fromkeys(("selected", "informed", "well_formed", "reworded", "all_tools"), SceneDraw.coin),
    **dict.fromkeys(("switch", "done", "planning", "trigger"), SceneDraw.coin),
    **dict.fromkeys(("plan_action", "plan_subgoal", "plan_switch", "plan_low"), SceneDraw.coin),
    "form": lambda d, name, n: tuple(FORMS[k] for k in d.integers(name, n, len(FORMS)).tolist()),
    "turn_entropy": lambda d, name, n: d.uniform(name, 3, 0.5, 1.5).expand(n, -1),
    "low": lambda d, name, n: d.uniform(name, n, 0.2, 0.8),
    "high": lambda d, name, n: d.uniform(name, n, 1.0, 1.8),
    "centre": lambda d, name, n: d.uniform(name, n, 0.8, 1.0),
    "difficulty": lambda d, name, n: d.integers(name, n, 3),
    "alpha": lambda d, name, n: d.uniform(name, 3, 0.1, 1.0).expand(n, -1),
    "beta": lambda d, name, n: d.uniform(name, 3, 0.5, 2.0).expand(n, -1),
    "end": lambda d, name, n: d.integers(name, n, 9),
    "end_of_thinking": lambda d, name, n: d.coin(name, n, 0.2),
    "sibling": SceneDraw.coin,
    "ids": lambda d, name, n: tuple((1,) * (1 + k) for k in d.integers(name, n, 3).tolist()),
    "truth": lambda d, name, n: d.integers(name, n, VOCABULARY).double(),
    "distilled": SceneDraw.coin,
    "top": lambda d, name, n: d.wide(name, n, 3),
    "logp_of": lambda d, name, n: d.wide(name, n, 3)[..., 1],
    "demonstration": lambda d, name, n: d.coin(name, n, 0.3),
    "correct": SceneDraw.coin,
    "truncated": SceneDraw.coin,
    "finished": SceneDraw.coin,
    "new": SceneDraw.coin,
    "keep": lambda d, name, n: d.coin(name, n, 0.8) & (not d.scene.nothing_kept),
    "weight": lambda d, name, n: d.uniform(name, n, 0.5, 1.5),
    "bundle": lambda d, name, n: torch.arange(n) % 2,
    **dict.fromkeys(("successes", "failures"), lambda d, name, n: d.uniform(name, n, 0.5, 5.0)),
    "random": lambda d, name, n: d.uniform(name, n, 0.01, 0.99),
    "deficit": SceneDraw.uniform,
    "seen": lambda d, name, n: d.coin(name, 1).expand(n),  # all or none
    "visits": lambda d, name, n: d.integers(name, n, 3),
    "number": lambda d, name, n: torch.argsort(d.uniform(name, n)),
    "rates": lambda d, name, n: d.integers(name, 3 * n, 4).double().reshape(n, 3) - 1,  # with some unknown
    "phase": lambda d, name, n: d.integers(name, n, 3),
    "spread": SceneDraw.uniform,
    **dict.fromkeys(("guided", "plain", "rewritten", "hinted", "replayed", "fresh"), SceneDraw.coin),
    "labelled": lambda d, name, n: torch.arange(n) >= n - max(n // 2, 1),
    "points": lambda d, name, n: tuple((1.0, 2.0, -1.0)[: 1 + k] for k in d.integers("criteria", n, 3).tolist()),
    "met": lambda d, name, n: tuple(
        tuple(x > 0 for x in row[: 1 + k])
        for k, row in zip(
            d.integers("criteria", n, 3).tolist(), d.normal(name, 3 * n).reshape(n, 3).tolist(), strict=True
        )
    ),
    "phrases": lambda d, name, n: (("text 0",),) * n,
    "curve": lambda d, name, n: tuple(map(tuple, d.uniform(name, 8 * n).reshape(n, 8).tolist())),
    "references": lambda d, name, n: (tuple(map(tuple, d.uniform(name, 18).reshape(2, 9).tolist())),) * n,
    "context": lambda d, name, n: tuple((k, 1) for k in d.integers(name, n, VOCABULARY).tolist()),
    "policy_shift": lambda d, name, n: d.uniform(name, n, 0.0, 0.03),
    "levels": lambda d, name, n: torch.tensor(RISK_LEVELS, dtype=torch.float64).expand(n, -1),
    "quantiles": lambda d, name, n: d.normal(name, len(RISK_LEVELS)).sort().values.expand(n, -1),
    "rank_dynamics": lambda d, name, n: d.normal(name, 3 * n).reshape(n, 3),
    "averages": lambda d, name, n: d.normal(name, 3 * n).reshape(n, 3),
    "statistics": lambda d, name, n: d.uniform(name, 3 * n, 0.5, 2.0).reshape(n, 3),  # count, mean, variance
    "caption": lambda d, name, n: tuple(f"caption {k}" for k in d.integers(name, n, 2).tolist()),
    # What an annotator is asked and says: numbered, those of a rollout together.
    "found": lambda d, name, n: tuple(((k, f"caption {k}", k - 1.0),) for k in range(n)),
    "queued": lambda d, name, n: tuple(((k, (f"caption {k}",)),) for k in range(n)),
    "labels": lambda d, name, n: tuple(((k, (f"caption {k}",), float(k % 2)),) for k in range(n)),
    "clip_low": lambda d, name, n: d.uniform(name, n, 0.05, 0.3),
    "clip_high": lambda d, name, n: d.uniform(name, n, 0.05, 0.3),
}


@functools.lru_cache(maxsize=4096)
def _drawn(scene: Scene, wanted: frozenset[str], seed: int) -> Batch:
    return synthetic(scene, wanted, seed, {})


def synthetic(scene: Scene, wanted: Iterable[str] = (), seed: int = 0, columns: SceneRules | None = None) -> Batch:
    """A batch of this kind with the columns `wanted`; `columns` says how to draw those that need care."""
    if columns is None:
        return _drawn(scene, frozenset(wanted), seed)
    draw = SceneDraw(scene, seed)
    batch = _structure(scene, seed, "rollout.purpose" in wanted, "token.origin" in wanted)
    for level in sorted({name.partition(".")[0] for name in wanted} - {*LEVELS, *RELATIONS, "step"}):
        # A further segmentation: turns cut in two.
        half = (batch.position("token", "turn") >= 2).long()
        batch = batch.with_level(level, 2 * batch.link("token", "turn") + half)
    found: dict[str, Any] = {}
    pairs: dict[str, Any] = {}
    relation = _pairs(draw, batch)
    for name in sorted(wanted):
        full = batch.name(name)
        level = full.partition(".")[0]
        if full in batch or full == "rollout.length":
            continue
        rule = columns.get(name) or KINDS.get(full.split("[")[0].rpartition(".")[2], SceneDraw.normal)
        if level in RELATIONS:
            pairs[full.partition(".")[2]] = rule(draw, full, relation.left.numel())
        else:
            found[full] = rule(draw, full, batch.size(level))
    batch = batch.with_columns(found)
    return batch.with_relation("pair", Relation("rollout", relation.left, relation.right, pairs)) if pairs else batch


@functools.lru_cache(maxsize=1024)
def _structure(scene: Scene, seed: int, baseline: bool, hints: bool) -> Batch:
    """The links, and the columns that every batch has."""
    draw, groups = SceneDraw(scene, seed), scene.groups
    group = torch.arange(len(groups)).repeat_interleave(torch.tensor(groups))
    n = group.numel()
    group = group[torch.randperm(n, generator=draw.generator("order"))]
    shuffled = torch.randperm(n, generator=draw.generator("index"))
    index = Partition(group, len(groups)).rank(shuffled.double())  # not the order in which the rows stand
    turn_of: list[int] = []
    rollout_of: list[int] = []
    origin: list[Origin] = []
    turns = draw.integers("turns", n, scene.turns) + 1
    for rollout in range(n):
        for place in range(int(turns[rollout])):
            turn = len(rollout_of)
            rollout_of.append(rollout)
            if rollout in scene.empty:
                continue
            tokens = [Origin.policy] * int(draw.integers(f"actions {rollout} {place}", 1, 3) + 1)
            if hints and place == 0 and rollout % 2:  # for parts that ask who wrote what
                tokens = [Origin.hint, *tokens]
            if place < int(turns[rollout]) - 1:  # the world answers
                tokens += [Origin.given] * int(draw.integers(f"given {rollout} {place}", 1, 2) + 1)
            turn_of += [turn] * len(tokens)
            origin += [Origin.given if scene.only_given else token for token in tokens]
    tasks = [f"task {i // 2 if scene.repeats else i}" for i in range(len(groups))]
    columns: dict[str, Any] = {
        "group.task": tasks,
        "rollout.index": index,
        "token.id": draw.integers("id", len(origin), VOCABULARY),
        "token.origin": torch.tensor(origin, dtype=torch.int8),
    }
    if scene.purposes or baseline:
        columns["rollout.purpose"] = _purposes(draw, group, index)
    if scene.nobody:
        columns["rollout.purpose"] = ["probe"] * n
    sizes = {"token": len(origin), "turn": len(rollout_of), "rollout": n, "group": len(groups)}
    if scene.masks or scene.nothing_kept:
        for name in ("token.keep", "rollout.keep.first", "rollout.keep.second", "token.weight", "rollout.weight.extra"):
            kind = "keep" if ".keep" in name else "weight"
            columns[name] = KINDS[kind](draw, name, sizes[name.partition(".")[0]])
    links = {
        ("token", "turn"): torch.tensor(turn_of, dtype=torch.long),
        ("turn", "rollout"): torch.tensor(rollout_of, dtype=torch.long),
        ("rollout", "group"): group,
    }
    return Batch(links, columns, sizes=sizes, seed=draw.seed)


def _purposes(draw: SceneDraw, group: Tensor, index: Tensor) -> Tensor:
    """In each group one rollout is a baseline, at least one is trained, the others are anything."""
    kinds = [Purpose.train, Purpose.train, Purpose.vote, Purpose.demo, Purpose.probe]
    purpose = torch.tensor([int(k) for k in kinds], dtype=torch.int8)[draw.integers("purpose", group.numel(), 5)]
    last = Partition(group, int(group.max()) + 1).max(index.double())
    purpose = torch.where(index == last, int(Purpose.baseline), purpose)
    return torch.where(index == 0, int(Purpose.train), purpose).to(torch.int8)


def _pairs(draw: SceneDraw, batch: Batch) -> Relation:
    """Each unordered pair of rollouts of a group once, in a random order."""
    every = batch.pairs("rollout", "group")
    once = every.left < every.right
    left, right = every.left[once], every.right[once]
    swap = draw.coin("pair order", left.numel())
    return Relation("rollout", torch.where(swap, right, left), torch.where(swap, left, right))
