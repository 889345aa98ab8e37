"""Text that follows a JSON schema, by the package outlines_core: its automaton over a model's tokens as a table."""

from __future__ import annotations

import json

import numpy as np

from podium.core.errors import PodiumError
from podium.protocols.grammar import Grammar, Table, Vocabulary

__all__ = ["JsonSchema"]


class JsonSchema(Grammar):
    """The whole turn is a JSON value that follows a schema: `JsonSchema('{"type": "object", …}')`."""

    schema: str  # the schema as JSON text

    def __post_init__(self) -> None:
        try:
            json.loads(self.schema)
        except ValueError as error:
            raise PodiumError(f"JsonSchema.schema is not valid JSON: {error}.") from error

    def table(self, vocabulary: Vocabulary) -> Table:
        try:
            import outlines_core
            from outlines_core.json_schema import build_regex_from_schema
        except ImportError as error:
            raise PodiumError(
                "JsonSchema needs the package outlines_core: pip install 'podium-rl[grammar]'."
            ) from error
        ids: dict[str, list[int]] = {}
        for token, text in enumerate(vocabulary.texts):
            if text and token not in vocabulary.end_ids:
                ids.setdefault(text, []).append(token)
        end = vocabulary.end_ids[0]
        try:
            words = outlines_core.Vocabulary(end, ids)
            index = outlines_core.Index(build_regex_from_schema(self.schema), words)
        except Exception as error:  # the package has no class of errors of its own
            raise PodiumError(f"No automaton can be made of {self!r}: {error}.") from error
        moves = index.get_transitions()
        first, finals = index.get_initial_state(), index.get_final_states()
        order = [first, *sorted(({*moves, *finals} | {t for own in moves.values() for t in own.values()}) - {first})]
        number = {state: place for place, state in enumerate(order)}
        table = np.full((len(order), vocabulary.size), -1, dtype=np.int32)
        for state, own in moves.items():
            for token, then in own.items():
                table[number[state], token] = number[then]
        for state in finals:
            table[number[state], list(vocabulary.end_ids)] = number[state]
        return table
