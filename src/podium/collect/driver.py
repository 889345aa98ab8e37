"""The collection driver: runs the plans of all groups at once over one sampler and one world.

Each plan yields waves of requests. The driver turns them into work for the sampler and the world, and resumes a plan
when its wave is answered. An episode that waits for its world does not delay the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from typing import Any

from torch import Tensor

from podium.collect.acting import Actor
from podium.collect.episodes import Episodes
from podium.collect.judging import Judging
from podium.collect.resumed_episode import ResumedEpisodes
from podium.collect.scripted_episode import ScriptedEpisode
from podium.collect.servers import Servers
from podium.collect.step_probe import probe_steps
from podium.core.build import Rollout
from podium.core.errors import PodiumError, nearest
from podium.core.ranks import ALONE, Ranks
from podium.policy.forward.pack import common_prefix
from podium.protocols.context import Message, Wrote
from podium.protocols.format import Format
from podium.protocols.pieces import ModelTokens, Pieces
from podium.protocols.sampling import Completion, Generate, Sampler
from podium.protocols.world import World, isolation_of
from podium.strategies.ask import Ask, ChatServer, Reply
from podium.strategies.requests import (
    Compare,
    Embed,
    Encode,
    Ends,
    Interrupt,
    Meets,
    Opinion,
    Plan,
    Play,
    Rate,
    Read,
    Recite,
    Replay,
    Resume,
    Score,
    SubPlan,
)
from podium.worlds.isolated import is_isolated

__all__ = ["Driver", "distinct_tokens"]

Answer = list[Any]
CACHED_TEXTS = 4096  # encoded texts of the world


def distinct_tokens(texts: Sequence[tuple[int, ...]]) -> int:
    """How many tokens these texts have if each common prefix counts once."""
    order = sorted(texts)
    return sum(len(text) - common_prefix(previous, text) for previous, text in zip([(), *order], order, strict=False))


class Driver:
    """Collects rollouts.

    `follow_up` encodes an observation as the tokens between two turns of the model, and `written` a text as the tokens
    of a turn; `ends` gives the number of characters after each token of a turn; `score` evaluates functionals of given
    texts, by the policy or by role; `embed` gives vectors of texts, by role. `others` are the samplers of further roles
    that write, `trained` the roles that learn, and `copies` says which samplers a role may write with.
    `isolation` says whether the world acts `inline` or in a `thread`; None: as the world says. `ranks` are the
    processes over which plans are dealt out.
    """

    def __init__(
        self,
        sampler: Sampler,
        world: World,
        *,
        capture: tuple[str, ...] = ("entropy",),
        follow_up: Callable[[str, bool], tuple[int, ...]] | None = None,
        written: Callable[[str, bool], tuple[int, ...]] | None = None,
        ends: Callable[[Sequence[int]], list[int]] | None = None,
        score: Callable[..., list[Tensor]] | Mapping[str, Callable[..., list[Tensor]]] | None = None,
        embed: Mapping[str, Callable[[Sequence[str], str], Tensor]] | None = None,
        act_limit_s: float | None = None,
        isolation: str | None = None,
        max_turns: int | None = None,
        others: Mapping[str, Sampler] | None = None,
        trained: Collection[str] = ("policy",),
        copies: Callable[[str], Sequence[str]] = lambda role: (role,),
        ranks: Ranks = ALONE,
    ) -> None:
        self.ranks, self._spent_elsewhere = ranks, (0, 0)
        self.sampler, self.world, self.trained = sampler, world, trained
        self.samplers, self.copies = {"policy": sampler, **(others or {})}, copies
        self.capture, self.max_turns = capture, world.max_turns if max_turns is None else max_turns
        self.inline = _inline(world, isolation)
        limit = world.act_limit_s if act_limit_s is None else act_limit_s
        self.actor = Actor(limit + world.margin_s, inline=self.inline, live=world.live)
        self.context_length: float = getattr(sampler, "context_length", math.inf)
        self._written, self._ends = written, ends
        self._scorers = {"policy": score} if callable(score) else dict(score or {})
        self._waiting: dict[tuple[str, int], Callable[[list[Completion]], None]] = {}  # by role and ticket
        self._embedders = dict(embed or {})
        self._asked: list[tuple[Score | Embed, Callable[[Answer], None]]] = []  # texts to be scored or embedded
        self._scored = 0  # tokens that went through a model to be scored or embedded
        self.servers = Servers()
        self._forget_judgements()
        # Worlds repeat themselves. (A cache of a method would keep `self`, and its models, alive.)
        self._opening = lru_cache(CACHED_TEXTS)(lambda text: sampler.encode([{"role": "user", "content": text}]))
        self._follow_up = None if follow_up is None else lru_cache(CACHED_TEXTS)(follow_up)
        self._word = cache(lambda token: sampler.text([token]))

    def close(self) -> None:
        """Give back what samplers hold outside this process."""
        for sampler in self.samplers.values():
            getattr(sampler, "close", lambda: None)()

    @property
    def spent(self) -> tuple[int, int]:
        """How many tokens all samplers have sampled so far, and how many tokens of contexts and texts were encoded."""
        sampled, encoded = self._spent_here()
        return sampled + self._spent_elsewhere[0], encoded + self._spent_elsewhere[1]

    def _spent_here(self) -> tuple[int, int]:
        stats = [s.stats for s in self.samplers.values() if hasattr(s, "stats")]
        return sum(s.sampled for s in stats), sum(s.encoded for s in stats) + self._scored

    def collect(self, plans: Sequence[Plan]) -> list[list[Rollout]]:
        """Run the plans to their ends; one list of rollouts per plan, in the order of the plans. Several ranks share
        the plans, and all get the rollouts of all."""
        if self.ranks.size == 1:
            return self._run(plans)
        shares = self.ranks.together(
            lambda: (self._run(self.ranks.share(plans)), self._spent_here(), self._judgements())
        )
        others = [spent for rank, (_, spent, _) in enumerate(shares) if rank != self.ranks.rank]
        self._spent_elsewhere = (sum(sampled for sampled, _ in others), sum(encoded for _, encoded in others))
        self._add_judgements([judgements for _, _, judgements in shares])
        return [shares[n % self.ranks.size][0][n // self.ranks.size] for n in range(len(plans))]

    def _run(self, plans: Sequence[Plan]) -> list[list[Rollout]]:
        results: list[list[Rollout] | None] = [None] * len(plans)
        self._forget_judgements()
        for sampler in self.samplers.values():
            getattr(sampler, "forget", lambda: None)()
        try:
            for number, plan in enumerate(plans):
                self.run_plan(plan, partial(results.__setitem__, number))
            while self._waiting or self._asked or self.actor.busy or self.actor.incomplete or self.servers.busy:
                # Texts that several plans ask about at the same time go through the model together.
                asked, self._asked = self._asked, []
                scored = [(r, receive) for r, receive in asked if isinstance(r, Score)]
                for (_, receive), values in zip(scored, self.score(*(r for r, _ in scored)), strict=True):
                    receive(values)
                embedded = [(r, receive) for r, receive in asked if isinstance(r, Embed)]
                for (_, receive), values in zip(embedded, self.embed(*(r for r, _ in embedded)), strict=True):
                    receive(values)
                for role in dict.fromkeys(role for role, _ in self._waiting):
                    for ticket, completions in self.samplers[role].poll():
                        self._waiting.pop((role, ticket))(completions)
                self.servers.deliver(block=not (self._waiting or self._asked or self.actor.busy))
                self.actor.deliver(block=not (self._waiting or self._asked or self.servers.busy))
                if not (self._waiting or self._asked or self.actor.busy or self.servers.busy):
                    self.actor.complete()
        finally:
            self.actor.close()
            self.servers.close()
        return [r for r in results if r is not None]

    def run_plan(self, plan: SubPlan, then: Callable[[Any], None], answers: list[Answer] | None = None) -> None:
        """Start a plan, or resume it with the answers to its last wave; `then` gets what it returns in the end."""
        try:
            wave = next(plan) if answers is None else plan.send(answers)
        except StopIteration as end:
            then(end.value)
            return
        if not wave:
            raise PodiumError("A rollout strategy yielded an empty wave of requests.")
        open_answers: list[Answer | None] = [None] * len(wave)

        def receiver(place: int) -> Callable[[Answer], None]:
            def receive(answer: Answer) -> None:
                open_answers[place] = answer
                if all(a is not None for a in open_answers):
                    self.run_plan(plan, then, [a for a in open_answers if a is not None])

            return receive

        for place, request in enumerate(wave):
            if isinstance(request, Play):
                Episodes(self, request, receiver(place)).start()
            elif isinstance(request, Resume):
                ResumedEpisodes(self, request, receiver(place)).start()
            elif isinstance(request, Recite):
                ScriptedEpisode(self, request, receiver(place)).start()
            elif isinstance(request, Replay):
                receiver(place)([self._same_tokens(request.rollout)])
            elif isinstance(request, Interrupt):
                probe_steps(self, request, receiver(place))
            elif isinstance(request, Read):
                receiver(place)(list(map(self._word, request.ids)))
            elif isinstance(request, Encode):
                receiver(place)(list(self.written(request.text)))
            elif isinstance(request, Ends):
                receiver(place)(self.ends(request.ids))
            elif isinstance(request, (Compare, Rate, Meets)):
                Judging(self, request, receiver(place)).start()
            elif isinstance(request, (Score, Embed)):
                self._asked.append((request, receiver(place)))
            elif isinstance(request, Ask):
                self._ask(request, receiver(place))
            else:
                self.submit(request, receiver(place))

    def submit(self, request: Generate, then: Callable[[list[Completion]], None], role: str = "policy") -> None:
        """Submit a request to the sampler of a role; `then` gets its completions."""
        if role not in self.samplers:
            raise PodiumError(f"{role!r} is to write, but the method has no such role. {nearest(role, self.samplers)}")
        self._waiting[role, self.samplers[role].submit(request)] = then

    def _ask(self, request: Ask, then: Callable[[list[Reply]], None]) -> None:
        """Let a role or a server answer a question."""
        role = request.of
        if isinstance(role, ChatServer):
            self.servers.ask(role, request, then)
            return
        sampler = self.samplers.get(role)
        context = () if sampler is None else sampler.encode([{"role": "user", "content": request.prompt}])
        room = getattr(sampler, "context_length", math.inf)
        if len(context) >= room:
            problem = f"a question of {len(context):,} tokens leaves no room in the context of {room:,} tokens"
            then([Reply("", f"{problem} of {role!r}")])
            return
        generate = Generate(context, 1, request.sampling, request.stream, keep=False)
        self.submit(generate, lambda done: then([Reply(self.samplers[role].text(done[0].ids))]), role)

    def _forget_judgements(self) -> None:
        self.judged, self.judge_retries, self.judge_nonsense = 0, 0, 0
        self.judge_failures = dict[str, int]()  # by reason

    def _judgements(self) -> tuple[int, int, int, dict[str, int]]:
        return self.judged, self.judge_retries, self.judge_nonsense, self.judge_failures

    def _add_judgements(self, of_ranks: Sequence[tuple[int, int, int, dict[str, int]]]) -> None:
        """Book what was judged on all ranks."""
        self.judged = sum(judged for judged, _, _, _ in of_ranks)
        self.judge_retries = sum(retries for _, retries, _, _ in of_ranks)
        self.judge_nonsense = sum(unread for _, _, unread, _ in of_ranks)
        self.judge_failures = dict(sum((Counter(x[3]) for x in of_ranks), Counter()))

    def count_judgement(self, opinion: Opinion, failure: str) -> None:
        """Book one judgement: its calls, those of them that were repetitions, and what became of it."""
        self.judged += opinion.attempts
        self.judge_retries += opinion.attempts - 1
        if failure:
            self.judge_failures[failure] = self.judge_failures.get(failure, 0) + 1
        elif opinion.scores is None:
            self.judge_nonsense += 1

    def _same_tokens(self, rollout: Rollout) -> Rollout:
        """A recorded rollout, refused if its token ids decode to another text here."""
        text = "\n".join(self.sampler.text(turn.ids) for turn in rollout.turns)
        if text != rollout.columns["text"]:
            raise PodiumError(
                f"The recorded rollout of {rollout.task} was written by a model with other tokens: its ids would read "
                f"{text[:60]!r} here. Train the model that it was recorded with, or one with the same tokenizer."
            )
        return rollout

    def messages(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The tokens of a context: the model's turns exactly as it wrote them, and the world's texts between them."""
        ids, ended = self._opening(messages[0]), True
        for message in messages[1:]:
            if isinstance(message, Wrote):
                ids, ended = (*ids, *message.ids), message.ended
            else:
                ids = (*ids, *self.follow_up(message, ended))
        return ids

    def follow_up(self, observation: str, ended: bool) -> tuple[int, ...]:
        """The tokens between two turns; `ended`: the model has closed its turn itself."""
        if self._follow_up is None:
            raise PodiumError(
                f"The world {self.world.name!r} has several turns, but there is no way to encode a follow-up."
            )
        return self._follow_up(observation, ended)

    def written(self, text: str, ended: bool = True) -> tuple[int, ...]:
        """The tokens of a given text, as the model would have written it."""
        if self._written is None:
            raise PodiumError("A given text is to stand in a rollout, but there is no way to encode it.")
        return self._written(text, ended)

    def text(self, ids: Sequence[int], format: Format | None) -> str:
        """The text of a turn, in which special tokens that the format reads stand by their names."""
        if format is None or not format.spelled:
            return self.sampler.text(ids)
        names = {self.written(Pieces(ModelTokens(name)), False)[0]: name for name in format.spelled}
        text, begin = "", 0
        for place in (*(n for n, token in enumerate(ids) if token in names), len(ids)):
            text += self.sampler.text(ids[begin:place]) + names.get(next(iter(ids[place : place + 1]), -1), "")
            begin = place + 1
        return text

    @cached_property
    def _closing(self) -> tuple[int, ...]:
        """The token that ends a turn."""
        return tuple(self.written("", True)[-1:])

    def closed(self, ids: Sequence[int]) -> bool:
        """Whether a turn ends with these tokens."""
        return bool(ids) and self._written is not None and tuple(ids[-1:]) == self._closing

    def score(self, *requests: Score) -> list[list[float]]:
        """The value of a functional at each token of given texts; texts of one functional and role share a pass."""
        answers: dict[int, list[float]] = {}
        for name, role in dict.fromkeys((r.name, r.role) for r in requests):
            if role not in self._scorers:
                raise PodiumError(f"A given text is to be scored by {role!r}, but there is no such model to do it.")
            places = [n for n, r in enumerate(requests) if (r.name, r.role) == (name, role)]
            contexts = [self._ids(requests[n].context, self._opening) for n in places]
            texts = [self._ids(requests[n].ids, partial(self.written, ended=False)) for n in places]
            fits = [
                not requests[n].optional or len(c) + len(t) <= self.context_length
                for n, c, t in zip(places, contexts, texts, strict=True)
            ]
            texts = [text if fit else () for text, fit in zip(texts, fits, strict=True)]
            contexts = [context if fit else () for context, fit in zip(contexts, fits, strict=True)]
            self._scored += distinct_tokens([(*c, *t) for c, t in zip(contexts, texts, strict=True)])
            values = self._scorers[role](contexts, texts, name=name)
            answers |= {n: x.tolist() for n, x in zip(places, values, strict=True)}
        return [answers[n] for n in range(len(requests))]

    @staticmethod
    def _ids(text: tuple[int, ...] | str, encode: Callable[[str], tuple[int, ...]]) -> tuple[int, ...]:
        return encode(text) if isinstance(text, str) else text

    def embed(self, *requests: Embed) -> list[list[float]]:
        """The vectors of given texts; texts of one role share a pass, each of them once."""
        answers: dict[Embed, list[float]] = {}
        for role, pool in dict.fromkeys((r.role, r.pool) for r in requests):
            if role not in self._embedders:
                hint = nearest(role, self._embedders) if self._embedders else ""
                raise PodiumError(f"{role!r} is to read texts, but the method has no such role. {hint}".rstrip())
            asked = list(dict.fromkeys(r for r in requests if (r.role, r.pool) == (role, pool)))
            self._scored += distinct_tokens([self._opening(r.text) for r in asked])
            vectors = self._embedders[role]([r.text for r in asked], pool)
            answers |= zip(asked, vectors.tolist(), strict=True)
        return [answers[r] for r in requests]

    def ends(self, ids: Sequence[int]) -> list[int]:
        """The number of characters of the text after each token."""
        if self._ends is None:
            raise PodiumError("A rollout is to be cut at what it says, but there is no way to find the place.")
        return self._ends(ids)


def _inline(world: World, isolation: str | None) -> bool:
    """Whether a world acts in this thread."""
    chosen = isolation or isolation_of(world)
    if chosen in ("process", "sandbox") and not is_isolated(world):
        name = world.name or type(world).__name__
        raise PodiumError(f"Episodes of {name} run as {chosen!r}: open it with podium.worlds.isolated.")
    return chosen == "inline"
