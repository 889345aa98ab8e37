"""Monte Carlo tree search: rollouts grow as a tree of chunks, guided by values that are backed up from their ends."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Strategy
from podium.parts.select.history import unmeasured
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, Wave, Written, rollouts_of
from podium.strategies.sample.sample import Sample
from podium.strategies.trees.lineage import PLANTED, Path, length, planted

__all__ = ["Search", "backed_up"]

DEPTH_BONUS: dict[str, Callable[[int, int], float]] = {
    "sqrt": lambda depth, max_depth: math.sqrt(depth / max_depth),
    "linear": lambda depth, _: float(depth),
    "log": lambda depth, _: math.log(depth + 1),
}


@dataclass
class Node:
    """A chunk of text in the tree, with its statistics."""

    number: int
    parent: Node | None
    rollout: Rollout | None = None  # the text up to the end of the chunk; None: the root
    value: float = 0.0  # W
    visits: int = 0
    children: list[Node] = field(default_factory=list)
    depth: int = field(init=False)
    written: int = field(init=False)  # tokens up to the end of the chunk

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1
        self.written = 0 if self.rollout is None else length(self.rollout)

    @property
    def terminal(self) -> bool:
        return self.rollout is not None and bool(self.rollout.columns["finished"])

    @property
    def path(self) -> list[Node]:
        """The nodes from the root, which is left out, to this one."""
        nodes, node = [], self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    @property
    def mean(self) -> float:
        """Q = W / n."""
        return self.value / self.visits if self.visits else 0.0

    @property
    def chunk(self) -> list[float]:
        """The log-probabilities of the tokens of the chunk."""
        if self.rollout is None or self.parent is None:
            return []
        return list(self.rollout.turns[0].tokens["sampler.logp"])[self.parent.written :]


def backed_up(
    values: Sequence[float], visits: Sequence[int], verdict: float, floor: float
) -> tuple[list[float], list[int]]:
    """W and n of the nodes from the root to a leaf, after the leaf's verdict has been backed up.

    A node adds the verdict times max((depth + 1) / T, floor), with T the number of nodes. A success erases a negative
    value; a failure never lowers a positive one.
    """
    backed = []
    for depth, value in enumerate(values):
        weighted = max((depth + 1) / len(values), floor) * verdict
        backed.append(value + weighted if value * verdict >= 0 else weighted if verdict > 0 else value)
    return backed, [n + 1 for n in visits]


class Search(Strategy):
    """Monte Carlo tree search: a node's text is continued by `width` chunks at a time, until `n` leaves are recorded.

    After an expansion without a leaf, the child with the largest Q + c · √(ln n(parent) / n) is expanded next. After
    one with leaves, one of them is recorded (a correct one if there is any, then the most confident), its verdict is
    backed up, and the next node is that of the whole frontier with the largest quality · tanh Q(parent)
    [+ uncertainty · H] + depth_weight · bonus; the task itself where the frontier is empty.

    `node.worth` is W at the end of the search. Leaves that were not chosen are recorded but not trained;
    `rollout.side_tokens` counts the tokens in no recorded leaf. `budget` limits the tokens of a task: the search then
    ends with the leaves it has, at least one. Tasks that `SolvedTexts` recalls are not searched: they get their solved
    texts and ordinary rollouts. Nor are tasks that are to be measured before a round: they get `samples` rollouts.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    n: int = 8  # recorded leaves
    width: int = 8  # children of a node
    max_depth: int = 64  # chunks of a whole answer
    c: float = 2.0  # strength of the upper confidence bound
    quality: float = 0.4  # weight of the parent's value
    uncertainty: float = 0.0  # weight of the chunk's entropy; 0.4 where it is switched on
    depth_weight: float = 0.01
    depth_bonus: str = "sqrt"  # √(depth / max_depth); linear: depth; log: log(depth + 1)
    floor: float = 0.1  # smallest weight of a node in the backup
    incomplete: float = -1.0  # verdict on a truncated rollout without an answer
    budget: int | None = None  # tokens of a task
    samples: int = 4  # rollouts that measure how hard a task is
    draw: Draw = Draw()

    needs = ("rollout.correct", "rollout.answer")
    provides = (*PLANTED, "node.worth", "rollout.purpose", "rollout.side_tokens", "rollout.replayed")

    def __post_init__(self) -> None:
        for name in ("n", "width", "max_depth", "samples"):
            within(self, name, 1)
        within(self, "budget", 1, optional=True)
        within(self, "floor", 0, 1)
        one_of(self, "depth_bonus", tuple(DEPTH_BONUS))

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["replayed"] or rollout.columns["fork"] > 0 for rollout in rollouts)

    # -- the rules ---------------------------------------------------------------------------------------------------

    def local(self, parent: Node, child: Node) -> float:
        """Q + c · √(ln n(parent) / n(child)); Q alone before the first visit."""
        visited = parent.visits > 0 and child.visits > 0
        return child.mean + (self.c * math.sqrt(math.log(parent.visits) / child.visits) if visited else 0.0)

    def priority(self, parent_mean: float, depth: int, logp: Sequence[float]) -> float:
        """The score by which the next node of the frontier is chosen."""
        entropy = -sum(logp) / len(logp) if logp and self.uncertainty else 0.0
        bonus = DEPTH_BONUS[self.depth_bonus](depth, self.max_depth)
        return self.quality * math.tanh(parent_mean) + self.uncertainty * entropy + self.depth_weight * bonus

    def verdict(self, rollout: Rollout) -> float:
        """+1 for a correct answer, −1 for a wrong one, `incomplete` for none."""
        if rollout.columns["correct"]:
            return 1.0
        return self.incomplete if _incomplete(rollout) else -1.0

    def best_end(self, ends: Iterable[Node]) -> Node:
        """The leaf that is recorded: correct before wrong before incomplete, then the most confident."""

        def order(node: Node) -> tuple[int, float, int]:
            assert node.rollout is not None
            logp = node.rollout.turns[0].tokens["sampler.logp"]
            kind = 0 if node.rollout.columns["correct"] else 2 if _incomplete(node.rollout) else 1
            return kind, -sum(logp) / max(len(logp), 1), node.number

        return min(ends, key=order)

    def _next(self, root: Node, nodes: Sequence[Node]) -> Node:
        """The node of the frontier with the highest priority; ties go to the first."""
        frontier = [x for x in nodes if x is not root and not x.terminal and len(x.children) < self.width]
        if not frontier:
            return root
        scores = [
            self.priority(x.parent.mean, x.depth, x.chunk if self.uncertainty else ())
            for x in frontier
            if x.parent is not None
        ]
        return frontier[scores.index(max(scores))]

    # -- the search --------------------------------------------------------------------------------------------------

    def plan(self, task: TaskRequest) -> Plan:
        limit = self.draw.sampling(task.sampling).max_tokens
        if self.budget is not None and self.budget < limit:
            raise PodiumError(
                f"Search.budget = {self.budget} tokens is less than one rollout may have, {limit}: "
                "raise it, or lower max_tokens."
            )
        if unmeasured(task.recalled):
            return (yield from self._ordinary(task, self.samples))
        solved = task.recalled.get("group.solved", ())
        if solved:
            return (yield from self._ordinary(task, self.n, solved))
        return (yield from self._search(task, limit))

    def _search(self, task: TaskRequest, limit: int) -> Plan:
        root = current = Node(0, None)
        nodes, leaves, spent, wave = [root], list[Node](), 0, 0
        while len(leaves) < self.n and not (self.budget is not None and spent >= self.budget and leaves):
            over_budget = self.budget is not None and spent >= self.budget
            n, window = (1, None) if over_budget else (self.width, -(-limit // self.max_depth))
            begun = None if current.rollout is None else Written.of(current.rollout.turns[0])
            play = self.draw.play(task, n, keep=True, window=window, begun=begun, wave=wave)
            chunks = rollouts_of((yield [play]))
            wave += 1
            children = [Node(len(nodes) + i, current, _finished(r)) for i, r in enumerate(chunks)]
            spent += sum(child.written - current.written for child in children)
            nodes += children
            current.children += children
            for child in (x for x in children if not x.terminal):
                child.visits += 1
            ended = [x for x in children if x.terminal]
            if not ended:
                current = max(children, key=lambda x: (self.local(current, x), -x.number))
                continue
            leaf = self.best_end(ended)
            leaves.append(leaf)
            self._back_up(root, leaf)
            current = self._next(root, nodes)
        others = [x for x in nodes if x.terminal and x not in leaves]
        for node in others:
            assert node.rollout is not None
            node.value = self.verdict(node.rollout)
        return self._rollouts(leaves, others, spent)

    def _back_up(self, root: Node, leaf: Node) -> None:
        """Add the verdict on a leaf to the nodes above it."""
        assert leaf.rollout is not None
        path = [root, *leaf.path]
        verdict = self.verdict(leaf.rollout)
        values, visits = backed_up([x.value for x in path], [x.visits for x in path], verdict, self.floor)
        for node, value, count in zip(path, values, visits, strict=True):
            node.value, node.visits = value, count

    def _rollouts(self, chosen: Sequence[Node], others: Sequence[Node], spent: int) -> list[Rollout]:
        """The recorded leaves, then the others, as one forest."""
        leaves = [*chosen, *others]
        paths: list[Path] = [[(x.number, x.written - _before(x)) for x in leaf.path] for leaf in leaves]
        kept = {x.number: x.written - _before(x) for leaf in leaves for x in leaf.path}
        side_tokens = spent - sum(kept.values())
        rollouts = []
        for row, leaf in enumerate(leaves):
            assert leaf.rollout is not None
            purpose = int(Purpose.train if row < len(chosen) else Purpose.replaced)
            rollouts.append(_as_leaf(leaf.rollout, purpose, float(side_tokens) if row == 0 else 0.0, False))
        return _with_values(planted(rollouts, paths), [[x.value for x in leaf.path] for leaf in leaves])

    def _ordinary(self, task: TaskRequest, count: int, solved: Sequence[Sequence[int]] = ()) -> Plan:
        """Ordinary rollouts, the first of them replaced by texts that solved the task before."""
        texts = [tuple(ids) for ids in solved[:count]]
        play = self.draw.play(task, keep=True)
        wave: Wave = [dataclasses.replace(play, first=i, begun=Written(ids)) for i, ids in enumerate(texts)]
        if len(texts) < count:
            wave.append(dataclasses.replace(play, n=count - len(texts), first=len(texts)))
        sampled = rollouts_of((yield wave))
        leaves = [_as_leaf(r, int(Purpose.train), 0.0, i < len(texts)) for i, r in enumerate(sampled)]
        paths: list[Path] = [[(i, length(r))] if length(r) else [] for i, r in enumerate(leaves)]
        # The current policy did not write the solved texts.
        forest = [_copied(r) if i < len(texts) else r for i, r in enumerate(planted(leaves, paths))]
        return _with_values(forest, [[self.verdict(r)] if length(r) else [] for r in sampled])


def _incomplete(rollout: Rollout) -> bool:
    return bool(rollout.columns["truncated"]) and not rollout.columns["answer"]


def _before(node: Node) -> int:
    """Tokens before the chunk of a node."""
    return 0 if node.parent is None else node.parent.written


def _finished(rollout: Rollout) -> Rollout:
    """The rollout with `finished`, which those sampled without a window lack: they are complete."""
    return dataclasses.replace(rollout, columns={"finished": True, **rollout.columns})


def _as_leaf(rollout: Rollout, purpose: int, side_tokens: float, replayed: bool) -> Rollout:
    """The rollout without the columns of windows, with those of a leaf."""
    turns = [dataclasses.replace(t, tokens={k: v for k, v in t.tokens.items() if k != "new"}) for t in rollout.turns]
    columns = {k: v for k, v in rollout.columns.items() if k != "finished"}
    columns |= {"purpose": purpose, "side_tokens": side_tokens, "replayed": replayed}
    return dataclasses.replace(rollout, turns=turns, columns=columns)


def _copied(rollout: Rollout) -> Rollout:
    turns = [dataclasses.replace(t, origin=["copied"] * len(t.ids)) for t in rollout.turns]
    return dataclasses.replace(rollout, turns=turns)


def _with_values(rollouts: Sequence[Rollout], values: Sequence[Sequence[float]]) -> list[Rollout]:
    """The rollouts with the value W of each of their nodes."""
    pairs = zip(rollouts, values, strict=True)
    return [dataclasses.replace(r, nodes={**r.nodes, "worth": [float(v) for v in row]}) for r, row in pairs]
