"""Search: rollouts grow as a tree of chunks, where an upper confidence bound or the best of the whole frontier says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.parts.select.history import unmeasured
from podium.strategies.requests import Plan, TaskRequest, Wave, Written
from podium.strategies.trees.fork import Forked
from podium.strategies.trees.lineage import PLANTED, Path, length, planted

__all__ = ["Search", "backed_up"]

DEPTH_BONUS: dict[str, Callable[[int, int], float]] = {
    "sqrt": lambda depth, deepest: math.sqrt(depth / deepest),
    "linear": lambda depth, _: float(depth),
    "log": lambda depth, _: math.log(depth + 1),
}


@dataclass
class Node:
    """A chunk of text in the tree, and what has come of it."""

    number: int
    parent: Node | None
    rollout: Rollout | None = None  # the text up to its end; None: the root
    value: float = 0.0  # W
    visits: int = 0
    children: list[Node] = field(default_factory=list)
    depth: int = field(init=False)
    written: int = field(init=False)  # tokens up to its end

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1
        self.written = 0 if self.rollout is None else length(self.rollout)

    @property
    def terminal(self) -> bool:
        return self.rollout is not None and bool(self.rollout.columns["finished"])

    @property
    def path(self) -> list[Node]:
        """From the root, which is not on it, to this node."""
        found, node = [], self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    @property
    def mean(self) -> float:
        """Q = W / n."""
        return self.value / self.visits if self.visits else 0.0

    @property
    def chunk(self) -> list[float]:
        """The log-probabilities of its own tokens."""
        if self.rollout is None or self.parent is None:
            return []
        return list(self.rollout.turns[0].tokens["sampler.logp"])[self.parent.written :]


def backed_up(
    values: Sequence[float], visits: Sequence[int], verdict: float, floor: float
) -> tuple[list[float], list[int]]:
    """W and n of the nodes from the root to an end with this verdict, after it.

    Each gets the weight max((depth + 1) / T, floor), T the number of nodes. A success erases negative credit; a failure
    never lowers a positive node.
    """
    made = []
    for depth, value in enumerate(values):
        weighted = max((depth + 1) / len(values), floor) * verdict
        made.append(value + weighted if value * verdict >= 0 else weighted if verdict > 0 else value)
    return made, [n + 1 for n in visits]


class Search(Forked):
    """Monte Carlo tree search: a node's text is continued by `width` chunks at once, until `n` ends are recorded.

    After an expansion without an end it goes on at the child of the largest Q + c · √(ln n(parent) / n); after one with
    ends it records one of them (a right one if there is any, then the surest), backs its verdict up, and goes on where
    quality · tanh Q(parent) [+ uncertainty · H] + depth_weight · bonus is largest on the whole frontier; if that is
    empty, at the task itself. `node.worth` is W after the whole search. Ends that were not chosen are only recorded;
    `rollout.side_tokens` counts what led nowhere. `budget` limits the tokens of a task: the search then ends with what
    it has, and with one rollout at least. A task that `SolvedTexts` knows is not searched: it gets its texts, and
    ordinary rollouts; and so is one that is measured before a round: it gets `samples` of them.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    n: int = 8
    width: int = 8
    max_depth: int = 64  # chunks of a whole answer
    c: float = 2.0
    quality: float = 0.4
    uncertainty: float = 0.0  # 0.4 where it is switched on
    depth_weight: float = 0.01
    depth_bonus: str = "sqrt"  # √(depth / max_depth), linear or log(depth + 1)
    floor: float = 0.1  # of the weights in the backup
    incomplete: float = -1.0  # verdict on an answer that was cut off and says nothing
    budget: int | None = None  # tokens of a task
    samples: int = 4  # rollouts that measure how hard a task is

    provides = (*PLANTED, "node.worth", "rollout.purpose", "rollout.side_tokens", "rollout.replayed")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.correct", "rollout.answer")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "max_depth", "samples"):
            within(self, name, 1)
        within(self, "budget", 1, optional=True)
        within(self, "floor", 0, 1)
        one_of(self, "depth_bonus", tuple(DEPTH_BONUS))

    # -- the rules ---------------------------------------------------------------------------------------------------

    def local(self, parent: Node, child: Node) -> float:
        """Q + c · √(ln n(parent) / n(child)); without a visit there is no bonus."""
        seen = parent.visits > 0 and child.visits > 0
        return child.mean + (self.c * math.sqrt(math.log(parent.visits) / child.visits) if seen else 0.0)

    def priority(self, parent_mean: float, depth: int, logp: Sequence[float]) -> float:
        """How promising it is to go on from a node of the frontier."""
        entropy = -sum(logp) / len(logp) if logp and self.uncertainty else 0.0
        bonus = DEPTH_BONUS[self.depth_bonus](depth, self.max_depth)
        return self.quality * math.tanh(parent_mean) + self.uncertainty * entropy + self.depth_weight * bonus

    def verdict(self, rollout: Rollout) -> float:
        """+1 for a right answer, −1 for a wrong one."""
        if rollout.columns["correct"]:
            return 1.0
        return self.incomplete if _incomplete(rollout) else -1.0

    def best_end(self, ends: Iterable[Node]) -> Node:
        """The end that is recorded: right before wrong before incomplete, then the surest."""

        def order(node: Node) -> tuple[int, float, int]:
            assert node.rollout is not None
            logp = node.rollout.turns[0].tokens["sampler.logp"]
            kind = 0 if node.rollout.columns["correct"] else 2 if _incomplete(node.rollout) else 1
            return kind, -sum(logp) / max(len(logp), 1), node.number

        return min(ends, key=order)

    def _next(self, root: Node, nodes: Sequence[Node]) -> Node:
        """The best node of the frontier; the first of equals."""
        open_ = [x for x in nodes if x is not root and not x.terminal and len(x.children) < self.width]
        if not open_:
            return root
        scores = [
            self.priority(x.parent.mean, x.depth, x.chunk if self.uncertainty else ())
            for x in open_
            if x.parent is not None
        ]
        return open_[scores.index(max(scores))]

    # -- the search --------------------------------------------------------------------------------------------------

    def plan(self, task: TaskRequest) -> Plan:
        limit = self.sampling(task.sampling).max_tokens
        if self.budget is not None and self.budget < limit:
            raise PodiumError(
                f"Search.budget = {self.budget} tokens is less than one rollout may have, {limit}: "
                "raise it, or lower max_tokens."
            )
        if unmeasured(task.known):
            return (yield from self._ordinary(task, self.samples))
        solved = task.known.get("group.solved", ())
        if solved:
            return (yield from self._ordinary(task, self.n, solved))
        root = current = Node(0, None)
        nodes, ends, spent, wave = [root], list[Node](), 0, 0
        while len(ends) < self.n and not (self.budget is not None and spent >= self.budget and ends):
            over = self.budget is not None and spent >= self.budget
            play = self.play(task, n=1 if over else self.width, window=None if over else -(-limit // self.max_depth))
            begun = None if current.rollout is None else Written.of(current.rollout.turns[0])
            (made,) = yield [dataclasses.replace(play, begun=begun, wave=wave)]
            wave += 1
            children = [Node(len(nodes) + i, current, _finished(r)) for i, r in enumerate(made)]  # type: ignore[arg-type]
            spent += sum(child.written - current.written for child in children)
            nodes += children
            current.children += children
            for child in (x for x in children if not x.terminal):
                child.visits += 1
            closed = [x for x in children if x.terminal]
            if not closed:
                current = max(children, key=lambda x: (self.local(current, x), -x.number))
                continue
            end = self.best_end(closed)
            ends.append(end)
            assert end.rollout is not None
            way = [root, *end.path]
            values, visits = backed_up(
                [x.value for x in way], [x.visits for x in way], self.verdict(end.rollout), self.floor
            )
            for node, value, count in zip(way, values, visits, strict=True):
                node.value, node.visits = value, count
            current = self._next(root, nodes)
        others = [x for x in nodes if x.terminal and x not in ends]
        for node in others:
            assert node.rollout is not None
            node.value = self.verdict(node.rollout)
        return self._rollouts(ends, others, spent)

    def _rollouts(self, ends: Sequence[Node], others: Sequence[Node], spent: int) -> list[Rollout]:
        """The recorded ends, then the others, as one forest."""
        leaves = [*ends, *others]
        paths: list[Path] = [[(x.number, x.written - _before(x)) for x in leaf.path] for leaf in leaves]
        kept = {x.number: x.written - _before(x) for leaf in leaves for x in leaf.path}
        side = spent - sum(kept.values())
        rollouts = []
        for row, leaf in enumerate(leaves):
            assert leaf.rollout is not None
            purpose = int(Purpose.train if row < len(ends) else Purpose.replaced)
            rollouts.append(_as_end(leaf.rollout, purpose, float(side) if row == 0 else 0.0, False))
        worth = [[x.value for x in leaf.path] for leaf in leaves]
        return _worth(planted(rollouts, paths), worth)

    def _ordinary(self, task: TaskRequest, count: int, solved: Sequence[Sequence[int]] = ()) -> Plan:
        """Ordinary rollouts, the first of them replaced by texts that were right before."""
        texts = [tuple(ids) for ids in solved[:count]]
        wave: Wave = [self.play(task, first=i, begun=Written(ids)) for i, ids in enumerate(texts)]
        if len(texts) < count:
            wave.append(self.play(task, n=count - len(texts), first=len(texts)))
        answers = yield wave
        made: list[Rollout] = [r for answer in answers for r in answer]  # type: ignore[misc]
        ends = [_as_end(r, int(Purpose.train), 0.0, i < len(texts)) for i, r in enumerate(made)]
        paths: list[Path] = [[(i, length(r))] if length(r) else [] for i, r in enumerate(ends)]
        grown = planted(ends, paths)
        # What was written in an earlier iteration is not the policy's now.
        grown = [_copied(r) if i < len(texts) else r for i, r in enumerate(grown)]
        return _worth(grown, [[self.verdict(r)] if length(r) else [] for r in made])


def _incomplete(rollout: Rollout) -> bool:
    return bool(rollout.columns["truncated"]) and not rollout.columns["answer"]


def _before(node: Node) -> int:
    return 0 if node.parent is None else node.parent.written


def _finished(rollout: Rollout) -> Rollout:
    """A rollout that was written to its end says so, however it was asked for."""
    return dataclasses.replace(rollout, columns={"finished": True, **rollout.columns})


def _as_end(rollout: Rollout, purpose: int, side: float, replayed: bool) -> Rollout:
    turns = [dataclasses.replace(t, tokens={k: v for k, v in t.tokens.items() if k != "new"}) for t in rollout.turns]
    columns = {k: v for k, v in rollout.columns.items() if k != "finished"}
    columns |= {"purpose": purpose, "side_tokens": side, "replayed": replayed}
    return dataclasses.replace(rollout, turns=turns, columns=columns)


def _copied(rollout: Rollout) -> Rollout:
    turns = [dataclasses.replace(t, origin=["copied"] * len(t.ids)) for t in rollout.turns]
    return dataclasses.replace(rollout, turns=turns)


def _worth(rollouts: Sequence[Rollout], worth: Sequence[Sequence[float]]) -> list[Rollout]:
    pairs = zip(rollouts, worth, strict=True)
    return [dataclasses.replace(r, nodes={**r.nodes, "worth": [float(w) for w in values]}) for r, values in pairs]
