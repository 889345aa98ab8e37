"""Arithmetic with + - * over whole numbers: a safe parser, a canonical form, and all values that numbers can make.

A form is a number, a product of forms, or a signed sum of forms. Nested sums and nested products are flattened, their
members sorted, and a sum inside a product is negated if it is negative: equal forms are the same solution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

__all__ = ["Form", "Constant", "Product", "Sum", "parse", "reachable"]

LONGEST = 200  # characters
DEEPEST = 20  # nesting depth of parentheses
_TOKEN = re.compile(r"\s*(?:([0-9]{1,6})(?![0-9])|([-+*()]))", re.ASCII)
_SIGNS = str.maketrans({"×": "*", "·": "*", "−": "-", "–": "-"})


@dataclass(frozen=True)
class Constant:
    value: int

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.value,)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Product:
    factors: tuple[Form, ...]
    value: int
    sign: int = 1  # the product of its factors' signs

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(n for f in self.factors for n in f.numbers)

    def __str__(self) -> str:
        text = "*".join(f"({f})" if isinstance(f, Sum) else str(f) for f in self.factors)
        return text if self.sign > 0 else f"-{text}"


@dataclass(frozen=True)
class Sum:
    added: tuple[Form, ...]
    taken: tuple[Form, ...]
    value: int

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(n for f in (*self.added, *self.taken) for n in f.numbers)

    def __str__(self) -> str:
        return ("+".join(map(str, self.added)) + "".join(f"-{f}" for f in self.taken)) or "0"


Form = Constant | Product | Sum


def total(added: Sequence[Form], taken: Sequence[Form] = ()) -> Form:
    """The sum, flattened."""
    plus: list[Form] = []
    minus: list[Form] = []
    for members, same, other in ((added, plus, minus), (taken, minus, plus)):
        for member in members:
            if isinstance(member, Sum):
                same.extend(member.added)
                other.extend(member.taken)
            elif isinstance(member, Product) and member.sign < 0:
                other.append(Product(member.factors, -member.value))
            else:
                same.append(member)
    if len(plus) == 1 and not minus:
        return plus[0]
    value = sum(f.value for f in plus) - sum(f.value for f in minus)
    return Sum(tuple(sorted(plus, key=_order)), tuple(sorted(minus, key=_order)), value)


def times(factors: Sequence[Form]) -> Form:
    """The product, flattened."""
    if len(factors) == 1:
        return factors[0]
    flat: list[Form] = []
    sign = 1
    for factor in factors:
        if isinstance(factor, Product):
            flat.extend(factor.factors)
            sign *= factor.sign
        elif isinstance(factor, Sum) and _is_negative(factor):
            flat.append(Sum(factor.taken, factor.added, -factor.value))
            sign = -sign
        else:
            flat.append(factor)
    return Product(tuple(sorted(flat, key=_order)), sign * prod(f.value for f in flat), sign)


def _is_negative(form: Sum) -> bool:
    """Whether a sum inside a product is negated; a sum of 0 has one canonical order."""
    if form.value:
        return form.value < 0
    return list(map(_order, form.added)) > list(map(_order, form.taken))


def _order(form: Form) -> tuple[int, str]:
    return (-form.value, str(form))


def parse(text: str) -> Form | None:
    """The canonical form of an expression; None if the text is not one. Only whole numbers are evaluated."""
    if len(text) > LONGEST:
        return None
    tokens = []
    rest = text.translate(_SIGNS).rstrip()
    at = 0
    while at < len(rest):
        match = _TOKEN.match(rest, at)
        if match is None:
            return None
        tokens.append(match[1] or match[2])
        at = match.end()
    try:
        form, end = _sum(tokens, 0, 0)
    except _NotAnExpression:
        return None
    return form if end == len(tokens) else None


class _NotAnExpression(Exception):
    pass


def _sum(tokens: list[str], at: int, depth: int) -> tuple[Form, int]:
    added: list[Form] = []
    taken: list[Form] = []
    side = added
    while True:
        form, at = _product(tokens, at, depth)
        side.append(form)
        if at == len(tokens) or tokens[at] not in "+-":
            return total(added, taken), at
        side = added if tokens[at] == "+" else taken
        at += 1


def _product(tokens: list[str], at: int, depth: int) -> tuple[Form, int]:
    factors = []
    while True:
        form, at = _atom(tokens, at, depth)
        factors.append(form)
        if at == len(tokens) or tokens[at] != "*":
            return times(factors), at
        at += 1


def _atom(tokens: list[str], at: int, depth: int) -> tuple[Form, int]:
    if at == len(tokens) or depth > DEEPEST:
        raise _NotAnExpression
    if tokens[at].isdigit():
        return Constant(int(tokens[at])), at + 1
    if tokens[at] != "(":
        raise _NotAnExpression
    form, at = _sum(tokens, at + 1, depth + 1)
    if at == len(tokens) or tokens[at] != ")":
        raise _NotAnExpression
    return form, at + 1


@lru_cache(maxsize=512)
def reachable(numbers: tuple[int, ...]) -> dict[int, tuple[Form, ...]]:
    """Every positive value that can be made from the numbers, each used at most once, with all its forms."""
    every = (1 << len(numbers)) - 1
    forms_of = _Forms(numbers)
    values: dict[int, dict[Form, None]] = {}
    for subset in range(1, every + 1):
        for form in (*forms_of.single(subset), *forms_of.sums(subset), *forms_of.products(subset)):
            values.setdefault(form.value, {})[form] = None
    return {value: tuple(forms) for value, forms in values.items()}


class _Forms:
    """All forms by the set of numbers they use (as bits)."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self.numbers = numbers
        self._cache: dict[tuple[str, int], list[Form]] = {}

    def single(self, subset: int) -> list[Form]:
        return [Constant(self.numbers[subset.bit_length() - 1])] if subset & (subset - 1) == 0 else []

    def sums(self, subset: int) -> list[Form]:
        if ("+", subset) not in self._cache:
            forms: dict[Form, None] = {}
            for blocks in _splits(subset):
                for chosen in product(*(self.single(b) or self.products(b) for b in blocks)):
                    for signs in product((True, False), repeat=len(blocks)):
                        added = [f for f, plus in zip(chosen, signs, strict=True) if plus]
                        taken = [f for f, plus in zip(chosen, signs, strict=True) if not plus]
                        if sum(f.value for f in added) > sum(f.value for f in taken):
                            forms[total(added, taken)] = None
            self._cache["+", subset] = list(forms)
        return self._cache["+", subset]

    def products(self, subset: int) -> list[Form]:
        if ("*", subset) not in self._cache:
            forms: dict[Form, None] = {}
            for blocks in _splits(subset):
                for chosen in product(*(self.single(b) or self.sums(b) for b in blocks)):
                    forms[times(chosen)] = None
            self._cache["*", subset] = list(forms)
        return self._cache["*", subset]


def _splits(subset: int) -> Iterator[list[int]]:
    """All ways to split a set of bits into two or more blocks."""
    return (blocks for blocks in _partitions(subset) if len(blocks) > 1)


def _partitions(subset: int) -> Iterator[list[int]]:
    """All ways to split a set of bits into blocks."""
    if not subset:
        yield []
        return
    lowest = subset & -subset
    rest = subset ^ lowest
    part = rest
    while True:
        for others in _partitions(rest ^ part):
            yield [lowest | part, *others]
        if not part:
            return
        part = (part - 1) & rest
