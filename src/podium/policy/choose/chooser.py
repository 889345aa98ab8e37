"""A chooser: a policy over sets of options, categorical or yes and no for each, under a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.bernoulli import bernoulli_entropy, bernoulli_logp
from podium.core.errors import PodiumError
from podium.policy.choose.network import ChooserNetwork
from podium.policy.network_policy import NetworkPolicy
from podium.policy.policy import Ids
from podium.protocols.option_set import ALONE, LINKS, ONE, OptionSet, decode_set, encode_set, read_set

__all__ = ["Chooser", "ScoredSets", "asks", "yes_or_no"]

KNOWN_SETS = 65536  # decoded sets that are kept
ROW = -2  # in place of the second row of a pair: the choice of a row


class Chooser(NetworkPolicy):
    """Scores the rows of a set. A token is one choice: the number of a row, or 1 or 0 for yes or no.

    Signals [token]: `logp`, `entropy`, and `log_odds`, the log-odds of yes (0 for the choice of a row).
    """

    kind = "chooser"
    names = ("entropy", "log_odds", "logp")

    @staticmethod
    def build(settings: Mapping[str, int]) -> nn.Module:
        return ChooserNetwork(**settings)

    # -- what is read and written ------------------------------------------------------------------------------------

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        """The set of options in the last message as integers."""
        options = read_set(str(messages[-1]["content"]))
        width = len(options.rows[0].numbers)
        if width > self.settings["features"]:
            raise PodiumError(
                f"A set of options has {width} numbers per row, and {self.name or 'the chooser'} reads "
                f"{self.settings['features']} at most."
            )
        return encode_set(options)

    def written(self, text: str, ended: bool = True) -> Ids:
        """The choices that a text such as `3` or `0 1 1` stands for."""
        try:
            return tuple(int(x) for x in text.split())
        except ValueError as error:
            raise PodiumError(f"{text[:60]!r} is no choice: a choice is numbers, such as 3 or 0 1 1.") from error

    def text(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    # -- scores ------------------------------------------------------------------------------------------------------

    def scored(self, contexts: Sequence[Ids]) -> ScoredSets:
        """The scores of the sets of some turns, every distinct one computed once."""
        number = {context: n for n, context in enumerate(dict.fromkeys(contexts))}
        sets = [_decoded(context) for context in number]
        rows = max((len(x) for _, x in sets), default=1)
        numbers = torch.zeros(len(sets), rows, self.settings["features"])
        present, allowed = torch.zeros(2, len(sets), rows, dtype=torch.bool)
        for place, (options, values) in enumerate(sets):
            numbers[place, : len(values), : values.shape[1]] = values
            present[place, : len(values)] = True
            allowed[place, : len(values)] = torch.tensor([row.allowed for row in options.rows])
        found = self.model(numbers.to(self.device), present.to(self.device))
        of_turn = torch.tensor([number[context] for context in contexts], dtype=torch.long, device=self.device)
        return ScoredSets(found.rows, found.pairs, allowed.to(self.device), of_turn)

    def values(self, batch: Batch, temperature: float) -> dict[str, Tensor]:
        contexts = batch["turn.train_context"]
        lengths = batch.partition("token", "turn").lengths().tolist()
        ids = [x.tolist() for x in torch.split(batch["token.id"].cpu(), lengths)]
        return self.signals_of(self.scored(contexts), contexts, ids, temperature)

    def signals_of(
        self, scored: ScoredSets, contexts: Sequence[Ids], ids: Sequence[Sequence[int]], temperature: float
    ) -> dict[str, Tensor]:
        """[token] the signals of the choices that were made in each turn."""
        turn, left, right, taken = list[int](), list[int](), list[int](), list[int]()
        for number, (context, chosen) in enumerate(zip(contexts, ids, strict=True)):
            first = chosen[:1] if asks(context) in (ONE, LINKS) else ()
            links = yes_or_no(context, *first) if chosen else ()
            if len(first) + len(links) != len(chosen):
                asked = f"{len(first) + len(links)} choices, and {len(chosen)} were made"
                raise PodiumError(f"A set of options asks for {asked}.")
            turn += [number] * len(chosen)
            left += [*first, *(i for i, _ in links)]
            right += [*(ROW for _ in first), *(j for _, j in links)]
            taken += chosen
        index, i, j, made = (torch.tensor(x, dtype=torch.long, device=self.device) for x in (turn, left, right, taken))
        index, whole = scored.of_turn[index], j == ROW
        rows = scored.row_logp(temperature)
        p = rows.exp()
        log_odds = torch.where(j == ALONE, scored.rows[index, i], scored.pairs[index, i, j.clamp(min=0)]) / temperature
        of_rows = -(p * rows.where(p > 0, 0)).sum(-1)
        return {
            "logp": torch.where(whole, rows[index, i], bernoulli_logp(log_odds, made)),
            "entropy": torch.where(whole, of_rows[index], bernoulli_entropy(log_odds)),
            "log_odds": log_odds.where(~whole, 0),
        }


@dataclass(frozen=True)
class ScoredSets:
    """The scores of the distinct sets of some turns."""

    rows: Tensor  # [set, row] logits
    pairs: Tensor  # [set, row, row] log-odds of pairs
    allowed: Tensor  # [set, row] whether it can be chosen
    of_turn: Tensor  # [turn] the set of each turn

    def of(self, turns: Tensor) -> ScoredSets:
        """Those of some of the turns."""
        return replace(self, of_turn=self.of_turn[turns])

    def row_logp(self, temperature: float = 1.0) -> Tensor:
        """[set, row] log-probabilities of the rows that can be chosen; −∞ at others."""
        return torch.log_softmax((self.rows / temperature).masked_fill(~self.allowed, -torch.inf), -1)


@lru_cache(KNOWN_SETS)
def _decoded(context: Ids) -> tuple[OptionSet, Tensor]:
    options = decode_set(context)
    return options, torch.tensor([row.numbers for row in options.rows], dtype=torch.float32)


def asks(context: Ids) -> str:
    """What a set asks for: one row, yes or no for each, …"""
    return _decoded(context)[0].kind


@lru_cache(KNOWN_SETS)
def yes_or_no(context: Ids, first: int = -1) -> tuple[tuple[int, int], ...]:
    """What is decided by yes or no, after the choice of a row where the set asks for one: see `OptionSet.decided`."""
    return _decoded(context)[0].decided(first)
