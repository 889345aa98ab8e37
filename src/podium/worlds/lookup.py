"""Multi-hop questions over a small knowledge base: search for what cannot be known, cite the evidence, answer."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from itertools import takewhile
from random import Random
from typing import Any

from podium.core.errors import PodiumError, within
from podium.protocols.answer_text import ANSWER_MARK, plain
from podium.protocols.world import Feedback, Task
from podium.worlds.graded import hashed_uniform
from podium.worlds.oracle import Dynamics, Outcome
from podium.worlds.puzzle import Draft, Slip
from podium.worlds.quest import Quest, QuestStep, action

__all__ = ["KNOWN", "Lookup"]

PEOPLE = ("ann", "bob", "cid", "dee", "eve", "fay", "gus", "hal", "ida", "joe", "kim", "leo")
TIES = ("boss", "friend", "doctor")  # relations between people, drawn anew for each task
HOME, CAPITAL = "home", "capital"
# Facts that hold in every task, so that a model can memorise them: no search is needed.
KNOWN = {
    "france": "paris",
    "italy": "rome",
    "spain": "madrid",
    "greece": "athens",
    "egypt": "cairo",
    "japan": "tokyo",
    "peru": "lima",
    "cuba": "havana",
}
CIRCLE = 5  # people in a task
WAIT, ELSEWHERE, GIVE_UP = "wait", "search: weather", f"{ANSWER_MARK} unknown"  # actions that do not help
SOURCES = ("rollout.rubrics", "rollout.entities", "rollout.supported")
FAVOURITES = ("leo", "cuba")  # the person and the country that are answers more often than others, with `guess`


class Lookup(Quest):
    """`friend of boss of ann`: the level is the number of hops; some questions end in a capital, which never changes.

    `search: boss of ann` shows numbered snippets, one of which may hold the fact; `cite: 3 7` before the answer names
    the evidence. Relations between people are drawn anew for each task: they cannot be known without a search.
    """

    name = "lookup"
    summary = "questions of several hops: search, cite, answer"
    levels = (1, 2, 3, 4)
    styles = ("short", "long", "cited")
    provides = (
        *(*Quest.provides, "task.dynamics"),
        *("turn.searched", "turn.useful", "turn.judged", "rollout.cited", "rollout.evidence"),
    )
    blank = {**Quest.blank, "searched": False, "useful": False, "judged": "", "cited": (), "evidence": ()}
    blank |= {"rubrics": (), "entities": (), "supported": ()}
    max_tokens = 40
    known: float = 0.5  # share of questions that end in a capital
    distractors: int = 2  # snippets besides the one searched for
    miss: float = 0.0  # the probability that the first search for a fact fails; the second one succeeds
    judge: bool = False  # whether `judge: yes` and `judge: no` say if the last snippets helped
    guess: float = 0.0  # the probability that the answer is the favourite of its kind, so that guessing it pays
    # Whether answers are held to the facts that they follow from: `rollout.rubrics`, with a slot for each entity that
    # the question hides; `rollout.entities`, those that the answer names; `rollout.supported`, whether it cites, by [3]
    # or `cite: 3`, a snippet that was shown and says so.
    sources: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "known", 0, 1)
        within(self, "distractors", 0, 6)
        within(self, "miss", 0, 1)
        within(self, "guess", 0, 1)
        if self.sources:
            object.__setattr__(self, "provides", (*self.provides, *SOURCES))

    @property
    def family(self) -> str:
        return f"{super().family}-{self.known:g}" + (f"-{self.guess:g}" if self.guess else "")

    def explain(self) -> str:
        judged = " After a search, `judge: yes` or `judge: no` says whether it helped." if self.judge else ""
        return (
            "Find out by `search: boss of ann`, one search a turn."
            + judged
            + f" At the end write `{ANSWER_MARK}` and the "
            "answer; a line `cite: 3 7` before it may name the snippets that say so."
        )

    def draft(self, rng: Random) -> Draft:
        people = rng.sample(PEOPLE, CIRCLE)
        facts = {f"{tie} of {a}": rng.choice([b for b in people if b != a]) for a in people for tie in TIES}
        facts |= {f"{HOME} of {a}": rng.choice(list(KNOWN)) for a in people}
        facts |= {f"{CAPITAL} of {country}": city for country, city in KNOWN.items()}
        ends = (CAPITAL, HOME) if rng.random() < self.known else (rng.choice((*TIES, HOME)),)
        if self.level == 1 and ends[0] == CAPITAL:
            start, relations = rng.choice(list(KNOWN)), [CAPITAL]
        else:
            start = people[0]
            relations = [*ends, *(rng.choice(TIES) for _ in range(self.level - len(ends)))]
        question = " of ".join([*relations, start])
        order = list(facts)
        rng.shuffle(order)  # the numbers of snippets tell nothing
        hops = _hops(facts, relations, start)
        if self.guess and rng.random() < self.guess:
            _favour(facts, people, hops)
            hops = _hops(facts, relations, start)
        data = {"people": people, "facts": facts, "order": order, "relations": relations, "start": start, "hops": hops}
        domain = "known" if relations[0] == CAPITAL else "unknown"
        answer = facts[hops[-1]]
        return Draft(f"lookup: {question}", question, {**data, "answer": answer, "reference_answer": answer}, domain)

    def reset(self, task: Task, seed: int = 0) -> _Search:
        return _Search(self, task)

    def dynamics(self, task: Task) -> Dynamics:
        """A task as a finite decision process: search for any fact or for something else, answer with any entity of the
        right kind or give up, and judge. Outcomes are computed by playing episodes of the world.
        """
        answers = _alike(task, task.data["answer"])
        actions = [WAIT, ELSEWHERE, *(f"search: {fact}" for fact in task.data["facts"])]
        actions += [*(f"{ANSWER_MARK} {answer}" for answer in answers), GIVE_UP]
        actions += ["judge: yes", "judge: no"] if self.judge else []

        def moves(episode: _Search) -> dict[str, list[Outcome[_Search]]]:
            return {action: [_tried(episode, action)] for action in actions}

        def read(text: str) -> str:
            return episode.meant(text, actions)

        episode = self.reset(task)
        return Dynamics.explore(
            episode, actions, moves, self.max_turns, key=lambda e: e.state, away=_Search.away, read=read
        )

    def missed(self, task: Task, query: str) -> bool:
        """Whether the first search for this query fails."""
        return hashed_uniform("miss", task.key, query) < self.miss

    def snippets(self, task: Task, query: str, found: bool) -> list[str]:
        """The facts that a search shows: the one searched for, if found, and similar ones."""
        order, words = task.data["order"], set(query.split())
        near = [fact for fact in order if fact != query and words & set(fact.split()) - {"of"}]
        near.sort(key=lambda fact: hashed_uniform("near", task.key, query, fact))
        shown = near[: self.distractors] + ([query] if found and query in task.data["facts"] else [])
        return sorted(shown, key=order.index)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        facts, at = task.data["facts"], task.data["start"]
        turns, cited, slipped = [], [], False
        for relation in reversed(task.data["relations"]):
            query = f"{relation} of {at}"
            if relation != CAPITAL or style == "long":
                turns += [self._say(query, style)] * (2 if self.missed(task, query) else 1)
                cited.append(str(task.data["order"].index(query) + 1))
            at = facts[query]
            if slip():
                at, slipped = _other(task, at, rng), True
        if slipped and at == task.data["answer"]:  # right by chance
            at = _other(task, at, rng)
        cite = [f"cite: {' '.join(cited)}"] if style == "cited" and cited else []
        return *turns, "\n".join([*cite, f"{ANSWER_MARK} {at}"])

    @staticmethod
    def _say(query: str, style: str) -> str:
        return f"i need the {query}\nsearch: {query}" if style == "long" else f"search: {query}"


class _Search(QuestStep):
    def __init__(self, world: Lookup, task: Task) -> None:
        super().__init__(world, task)
        self.lookup = world
        self.verbs = ("search", "judge") if world.judge else ("search",)
        self.seen: list[str] = []
        self.asked: set[str] = set()
        self.helped: bool | None = None  # whether the last search did; None: it has been judged, or there was none

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        return self._judge(rest) if verb == "judge" else self._search(" ".join(rest.casefold().split()))

    def _search(self, query: str) -> Feedback:
        found = query in self.asked or not self.lookup.missed(self.task, query)
        self.asked.add(query)
        shown = self.lookup.snippets(self.task, query, found)
        self.recap = self._shown(self.seen)
        self.seen += [fact for fact in shown if fact not in self.seen]
        self.helped = found and query in self.task.data["hops"]
        if not shown:
            return self.say("nothing found", searched=True, useful=False)
        return self.say(self._shown(shown), searched=True, useful=self.helped)

    def _judge(self, verdict: str) -> Feedback:
        if self.helped is None or verdict not in ("yes", "no"):
            unclear = "" if self.helped is None else "unclear"
            return self.say("error: after a search, say judge: yes or judge: no", valid=False, judged=unclear)
        useful, self.helped = self.helped, None
        return self.say("noted", judged=verdict, useful=useful)

    def _shown(self, facts: list[str]) -> str:
        values: Mapping[str, str] = self.task.data["facts"]
        return "\n".join(f"[{self.task.data['order'].index(fact) + 1}] {fact}: {values[fact]}" for fact in facts)

    def reached(self) -> str:
        """The hops that were found, those that a second search will find, and whether a judgement is due."""
        hops = [(n, hop) for n, hop in enumerate(self.task.data["hops"]) if hop in self.asked or hop in self.seen]
        parts = [f"{n}" if hop in self.seen else f"{n}?" for n, hop in hops]
        return ",".join([*parts, "judge"] if self.lookup.judge and self.helped is not None else parts)

    def _unseen(self) -> list[str]:
        """The facts that the answer follows from and that were not seen yet, without those that hold in every task."""
        hops = dict.fromkeys(self.task.data["hops"])
        return [hop for hop in hops if hop not in self.seen and not hop.startswith(CAPITAL)]

    def missing(self) -> int:
        return len(self._unseen())

    def away(self, text: str) -> float:
        """The apparent number of turns to the right answer after an action, given the capitals and what was seen.

        A guess counts like a wrong answer: one turn more than doing nothing.
        """
        facts, hops, missing = self.task.data["facts"], self.task.data["hops"], self._unseen()
        met = {self.task.data["start"], *(facts[hop] for hop in takewhile(self.seen.__contains__, hops))}
        verb, _, rest = text.partition(": ")
        turns = len(missing) + 1
        if verb == ANSWER_MARK[:-1]:
            return 0 if not missing and self.right(rest) else turns + 1
        if (verb == "judge" and self.helped is None) or (rest in facts and rest.rpartition(" ")[2] not in met):
            return math.inf
        return turns - 1 if rest in missing[:1] else turns

    def meant(self, text: str, actions: list[str]) -> str:
        """The action that a text amounts to."""
        verb, rest = action(text, (*self.verbs, ANSWER_MARK[:-1])) or ("", "")
        said = f"{verb}: {plain(rest) if verb == ANSWER_MARK[:-1] else ' '.join(rest.casefold().split())}"
        if verb == "search" and said not in actions:
            raise PodiumError(f"{said!r} is not a search for a fact of the task: its value is not known.")
        return said if said in actions else GIVE_UP if verb == ANSWER_MARK[:-1] else WAIT

    def answer(self, answer: str, text: str) -> Feedback:
        cited = action(text, ("cite",))
        numbers = tuple(int(n) for n in re.findall(r"[0-9]{1,3}", cited[1])) if cited else ()
        correct, self.ended = self.right(answer), True
        shown: dict[str, Any] = {}
        if self.lookup.sources:
            numbers = (*numbers, *(int(n) for n in re.findall(r"\[([0-9]{1,3})\]", text)))
            shown = self._sources(answer, text, numbers)
        return self.say("", done=True, reward=float(correct), correct=correct, answer=answer, cited=numbers, **shown)

    def _sources(self, answer: str, text: str, cited: tuple[int, ...]) -> dict[str, Any]:
        """Which hidden entities an answer names, and which facts the snippets that it cites support."""
        facts, order, hops = (self.task.data[name] for name in ("facts", "order", "hops"))
        words = set(re.findall(r"\w+", text.casefold()))
        between = [facts[hop] for hop in reversed(hops[:-1])]
        named = (answer or None, *(name if name in words else None for name in between))
        support = tuple(order.index(hop) + 1 in cited and hop in self.seen for hop in hops)
        return {"entities": tuple((f"E{n}", name) for n, name in enumerate(named)), "supported": support}

    def columns(self) -> dict[str, Any]:
        """The snippets that the answer follows from, without facts that hold in every task."""
        unknown = [hop for hop in self.task.data["hops"] if not hop.startswith(CAPITAL)]
        found = {"evidence": tuple(self.task.data["order"].index(hop) + 1 for hop in unknown)}
        if not self.lookup.sources:
            return found
        relations, count = self.task.data["relations"], len(self.task.data["hops"])
        ends = [self.task.data["start"], *(f"<E{n}>" for n in reversed(range(count)))]
        steps = zip(reversed(relations), ends, ends[1:], strict=False)
        rubrics = tuple(f"{right} is the {relation} of {left}" for relation, left, right in steps)
        return found | {"rubrics": rubrics, "entities": (), "supported": (False,) * count}


def _favour(facts: dict[str, str], people: list[str], hops: list[str]) -> None:
    """Let the last fact that is drawn anew be the favourite of its kind, unless another hop rests on it."""
    last = hops[-2] if hops[-1].startswith(CAPITAL) and len(hops) > 1 else hops[-1]
    relation, _, at = last.partition(" of ")
    person, country = FAVOURITES
    if relation == CAPITAL or hops.count(last) > 1 or at == person:
        return
    facts[last] = country if relation == HOME else person
    if facts[last] == person and person not in people:
        people.append(person)


def _other(task: Task, at: str, rng: Random) -> str:
    """A random other entity of the same kind."""
    return rng.choice([other for other in _alike(task, at) if other != at])


def _alike(task: Task, at: str) -> list[str]:
    """All entities of the same kind: people, countries or cities."""
    kinds = (task.data["people"], list(KNOWN), list(KNOWN.values()))
    return next(kind for kind in kinds if at in kind)


def _tried(episode: _Search, text: str) -> Outcome[_Search]:
    after = copy.deepcopy(episode)
    feedback = after.act(text)
    return Outcome(None if feedback.done else after, feedback.reward)


def _hops(facts: Mapping[str, str], relations: list[str], start: str) -> list[str]:
    """The facts that lead to the answer, in order."""
    hops = []
    for relation in reversed(relations):
        hops.append(f"{relation} of {start}")
        start = facts[hops[-1]]
    return hops
