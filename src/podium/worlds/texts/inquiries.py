"""Conversations of lookup and clarify with more to say: results that are judged, answers that show their sources,
compound questions; and the two words of a refiner: whether a trajectory is accepted, and where it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random

from podium.protocols.answer_text import ANSWER_MARK, final_answer
from podium.protocols.refiner_text import ACCEPT, CUT_QUESTION, REJECT, VERDICT_QUESTION, cut_text, refiner_prompt
from podium.protocols.world import Task, World
from podium.worlds.clarify import ANY, SLOTS, Clarify, halved, question_of
from podium.worlds.lookup import Lookup
from podium.worlds.quest import action
from podium.worlds.texts.exercise import Exercise, Response, any_other, asked_once, last_line_after

__all__ = [
    *("accepted", "chained", "compound_asked", "compound_reply", "cut_named", "judged_search"),
    *("chain_of",),
]

FIRST, COUNT = 1_000_000, 1_000_000
MOST_TURNS = 12
JUDGES_WELL = 0.7  # share of judgements of a result that are right
CHAIN = "explain with sources"
JUDGE = "judge each result"
PAIRED = 0.7  # share of compound questions that name two slots; the others name two values of one


@lru_cache(64)
def _lookup(level: int, judge: bool, miss: float) -> Lookup:
    return Lookup(level=level, judge=judge, miss=miss)


def _drawn(world: Lookup | Clarify, rng: Random, split: str) -> Task:
    return world.task(FIRST + rng.randrange(COUNT), split)


def _played(world: World, task: Task, turns: Sequence[str]) -> Response:
    """What a world answers to these turns of an episode."""
    episode, response = world.reset(task), Response()
    for text in turns:
        feedback = episode.act(text)
        response = Response(feedback.observation, feedback.done, bool(feedback.info["correct"]))
        if response.done:
            break
    return response


def judged_search(rng: Random, level: int, split: str = "train") -> Exercise:
    """Each result is judged, and a search that found nothing is made again."""
    world = _lookup(level, True, 0.3)
    task = _drawn(world, rng, split)

    def demonstrate(rng: Random, right: float) -> tuple[str, ...]:
        planned = world.replace(miss=0.0).attempt(task, "short", seed=rng.randrange(COUNT), right=right)
        episode, turns = world.reset(task), list[str]()
        for text in planned[:-1]:
            for _ in range(2):
                useful = bool(episode.act(text).info["useful"])
                said = useful == (rng.random() < JUDGES_WELL)
                turns += [text, f"judge: {'yes' if said else 'no'}"]
                episode.act(turns[-1])
                if useful or not world.missed(task, text.removeprefix("search: ")):
                    break
        return *turns[: MOST_TURNS - 1], planned[-1]

    return Exercise(f"{task.prompt}\n{JUDGE}", demonstrate, lambda turns: _played(world, task, turns))


def chain_of(task: Task, turns: Sequence[str]) -> list[str]:
    """The facts that searches have shown, each with the number of its snippet."""
    facts, order = task.data["facts"], task.data["order"]
    asked = [text.rpartition("search: ")[2] for text in turns if "search: " in text]
    return [f"{query} is {facts[query]} [{order.index(query) + 1}]" for query in asked if query in facts]


def chained(rng: Random, level: int, split: str = "train") -> Exercise:
    """The answer stands below the facts that it follows from, with their sources."""
    world = _lookup(level, False, 0.0)
    task = _drawn(world, rng, split)

    def demonstrate(rng: Random, right: float) -> tuple[str, ...]:
        style = "long" if rng.random() < 0.5 else "short"
        *searches, answer = world.attempt(task, style, seed=rng.randrange(COUNT), right=right)
        chain = chain_of(task, searches)
        if chain and rng.random() < 0.3:  # a link is missing
            chain.pop(rng.randrange(len(chain)))
        return *searches, "\n".join([*chain, answer])

    return Exercise(f"{task.prompt}\n{CHAIN}", demonstrate, lambda turns: _played(world, task, turns))


# Compound questions


def compound_reply(task: Task, text: str) -> str:
    """A user's reply to `ask: size colour`, or to `ask: size small or large`, which is yes or no."""
    _, rest = action(text, ("ask",)) or ("", "")
    wish, question = task.data["wish"], question_of(rest)
    if not question:
        return f"error: ask for {' or '.join(SLOTS)}"
    replies = [("yes" if wish.get(s, ANY) in v else "no") if v else f"{s}: {wish.get(s, ANY)}" for s, v in question]
    return "; ".join(replies)


def compound_asked(rng: Random, level: int, split: str = "train") -> Exercise:
    """A hidden wish, asked for two things at a time, or by halves of the values of one."""
    world = Clarify(level=level)
    task = _drawn(world, rng, split)
    wish, hidden, thing = (task.data[name] for name in ("wish", "hidden", "thing"))

    def demonstrate(rng: Random, right: float) -> tuple[str, ...]:
        unknown = [slot for slot in SLOTS if slot not in wish or slot in hidden]
        known = {slot: value for slot, value in wish.items() if slot not in hidden}
        rng.shuffle(unknown)
        turns: list[str] = []
        while unknown:
            if rng.random() < PAIRED:
                asked = [unknown.pop() for _ in range(min(2, len(unknown)))]
                turns.append(f"ask: {' '.join(asked)}")
                known |= {slot: wish[slot] for slot in asked if slot in wish}
            else:
                slot = unknown.pop()
                turns += halved(slot, wish.get(slot, ANY))
                known |= {slot: wish[slot]} if slot in wish else {}
        if rng.random() >= right:
            slot = rng.choice(hidden)
            known[slot] = any_other(rng, SLOTS[slot], wish[slot])
        whole = " ".join([*(known[slot] for slot in SLOTS if slot in known), thing])
        return *turns, f"{ANSWER_MARK} {whole}"

    def respond(turns: Sequence[str]) -> Response:
        said = final_answer(turns[-1])
        if said is not None:
            return Response(right=sorted(said.split()) == task.data["answer"].split())
        return Response(compound_reply(task, turns[-1]), False)

    return Exercise(f"{task.prompt}\nask for several at once", demonstrate, respond)


# A refiner


def _trajectory(rng: Random, level: int, split: str, good: bool) -> tuple[str, list[str], list[str], int]:
    """The prompt, turns and replies of a trajectory, and the number of its first wrong step; 0: none is wrong."""
    world = _lookup(level, False, 0.0)
    while True:
        task = _drawn(world, rng, split)
        solution = world.attempt(task, "short")
        turns = solution if good else world.attempt(task, "short", seed=rng.randrange(COUNT), right=0.2)
        if good or (len(turns) > 1 and turns[-1] != solution[-1]):
            break
    replies = [_played(world, task, turns[: number + 1]).text for number in range(len(turns) - 1)]
    wrong = next((n for n, pair in enumerate(zip(turns, solution, strict=False), 1) if pair[0] != pair[1]), len(turns))
    return task.prompt, list(turns), replies, 0 if good else wrong


def accepted(rng: Random, level: int, split: str = "train") -> Exercise:
    """Whether a trajectory is accepted; right: exactly if it is."""
    good = rng.random() < 0.5
    prompt, turns, replies, _ = _trajectory(rng, level, split, good)

    def write(rng: Random, right: float) -> str:
        return ACCEPT if good == (rng.random() < right) else REJECT

    asked = refiner_prompt(prompt, turns, replies, VERDICT_QUESTION)
    return asked_once(asked, write, lambda text: text.strip() == (ACCEPT if good else REJECT))


def cut_named(rng: Random, level: int, split: str = "train") -> Exercise:
    """The number of the first wrong step of a trajectory that was rejected."""
    prompt, turns, replies, wrong = _trajectory(rng, level, split, False)

    def write(rng: Random, right: float) -> str:
        said = wrong if rng.random() < right else any_other(rng, range(1, len(turns) + 1), wrong)
        return cut_text(said)

    asked = refiner_prompt(prompt, turns, replies, CUT_QUESTION)
    return asked_once(asked, write, lambda text: last_line_after(text, "cut:") == str(wrong))
