"""Formulas of the documentation site, typeset: `A = (r − mean) / (std + 1e-6)` in the docstring of a recipe becomes
MathML, which browsers show by themselves.

Docstrings mix formulas and sentences. What reads as a formula is converted: from a name before `=`, `←` or `∝` to the
first word that no operator joins. Everything else stays the text that it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["latex", "typeset"]

GREEK = dict(
    zip(
        "αβγδεζηθκλμνξπρστφχψωΦΔΣΩΠΛΘ",
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "zeta",
            "eta",
            "theta",
            "kappa",
            "lambda",
            "mu",
            "nu",
            "xi",
            "pi",
            "rho",
            "sigma",
            "tau",
            "phi",
            "chi",
            "psi",
            "omega",
            "Phi",
            "Delta",
            "Sigma",
            "Omega",
            "Pi",
            "Lambda",
            "Theta",
        ],
        strict=True,
    )
)
NAMED = {*GREEK.values(), "ell"}
FUNCTIONS = {"log", "exp", "min", "max", "mean", "std", "clip", "sqrt", "sum", "median", "sigmoid", "sign", "KL", "E"}
RELATIONS = {"=": "=", "←": r"\leftarrow", "∝": r"\propto", "≤": r"\leq", "≥": r"\geq", "<": "<", ">": ">"}
SUMS = {"+": "+", "−": "-", "-": "-", "±": r"\pm"}
PRODUCTS = {"·": r"\cdot", "*": r"\cdot", "×": r"\times", "/": "/"}
RAISED, LOWERED = dict(zip("⁰¹²³⁺⁻", "0123+-", strict=True)), dict(zip("₀₁₂₃", "0123", strict=True))
NAME = r"[A-Za-zα-ωΑ-Ωℓ]+[\u0300-\u0304]?"
TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?%?)|(?P<name>[ΣΠ√]|{NAME}(?:'(?!\w))?)|(?P<sub>_\{{[^{{}}]*\}}|_\w+)"
    r"|(?P<sup>\^\{[^{}]*\}|\^\([^()]*\)|\^\w+|[⁰¹²³⁺⁻]+)|(?P<low>[₀₁₂₃]+)|(?P<open>\()|(?P<close>\))|(?P<comma>,)"
    r"|(?P<sign>[=←∝≤≥<>+−±·*×/]|(?<![A-Za-z])-|-(?![A-Za-z]))"
)
START = re.compile(rf"(?<![\w`.@-])(?:{NAME})'?(?:_\{{[^{{}}]*\}}|_\w+|[₀₁₂₃])?(?:\([\w,  ]+\))? ?[=←∝](?= )")
# What follows a formula that was not read to its end, and right sides that are words of a sentence.
GOES_ON = re.compile(r"['{}|`%^_²³\[]|\s*(?:[+−±·*×/=←∝|\[²‖]|\((?!`))|\s+[A-Zα-ωb-hj-zΣ√](?![\w'’.-])|\s+\w_\w")
PROSE = r"\\text\{(?:the|of|an?|its|group|GRPO|one|those|that)\}.*"
FORMULA = re.compile(r"(^## Formula\n\n)(.*?)(?=^## )", re.S | re.M)


class _NoFormula(Exception):
    """The text does not go on as a formula."""


class _Token(NamedTuple):
    kind: str
    text: str
    begin: int
    end: int


class _Reader:
    """A recursive-descent reader of one formula, which remembers how far it has come."""

    def __init__(self, text: str, begin: int) -> None:
        self.tokens, place = list[_Token](), begin
        while found := TOKEN.match(text, place):
            self.tokens.append(_Token(found.lastgroup or "", found[0], place, found.end()))
            place = found.end()
        self.at = 0

    def peek(self, ahead: int = 0) -> _Token | None:
        rest = [token for token in self.tokens[self.at :] if token.kind != "space"]
        return rest[ahead] if len(rest) > ahead else None

    def spaced(self) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind == "space"

    def take(self) -> _Token:
        while self.spaced():
            self.at += 1
        if self.at >= len(self.tokens):
            raise _NoFormula
        self.at += 1
        return self.tokens[self.at - 1]

    def chain(self, signs: dict[str, str], below: str, inside: bool) -> str:
        """Operands of one level, joined by its signs; a sign without an operand behind it is given back."""
        parts = [getattr(self, below)(inside)]
        while (sign := self.peek()) is not None and sign.kind == "sign" and sign.text in signs:
            before = self.at
            self.take()
            try:
                parts += [signs[sign.text], getattr(self, below)(inside)]
            except _NoFormula:
                self.at = before
                break
        return " ".join(parts)

    def relation(self, inside: bool) -> str:
        return self.chain(RELATIONS, "total", inside)

    def total(self, inside: bool) -> str:
        return self.chain(SUMS, "product", inside)

    def product(self, inside: bool) -> str:
        left = self.factor(inside)
        while (following := self.peek()) is not None:
            before = self.at
            try:
                if following.kind == "sign" and following.text in PRODUCTS:
                    self.take()
                    right = self.factor(inside)
                    if following.text == "/":
                        left = rf"\frac{{{_bare(left)}}}{{{_bare(right)}}}"
                    else:
                        left = f"{left} {PRODUCTS[following.text]} {right}"
                elif self.joins(following, left):
                    left = f"{left} \\, {self.factor(inside)}"
                else:
                    break
            except _NoFormula:
                self.at = before
                break
        return left

    def joins(self, following: _Token, left: str) -> bool:
        """Whether what follows without a sign is multiplied: letters and brackets are, words are not."""
        if following.kind == "open":
            return re.search(r"[A-Za-z]{2,}\}?$", left) is None or left.endswith(("\\right)",)) or left[1:] in NAMED
        if following.kind == "name":
            name = following.text.rstrip("'")
            return (len(name) == 1 or name in FUNCTIONS) and name not in ("a", "A", "I")
        return False

    def factor(self, inside: bool) -> str:
        token = self.peek()
        if token is None:
            raise _NoFormula
        if token.kind == "sign" and token.text in ("−", "-"):
            self.take()
            return f"-{self.factor(inside)}"
        if token.kind == "number":
            self.take()
            return _number(token.text) + self.marks()
        if token.kind == "open":
            self.take()
            listed = [self.relation(True)]
            while (comma := self.peek()) is not None and comma.kind == "comma":
                self.take()
                listed.append(self.relation(True))
            if self.take().kind != "close":
                raise _NoFormula
            return rf"\left({', '.join(listed)}\right)" + self.marks()
        if token.kind == "name":
            return self.name(inside)
        raise _NoFormula

    def name(self, inside: bool) -> str:
        token = self.take()
        words = [token.text]
        plain = len(token.text) > 1 and token.text not in FUNCTIONS
        while inside and (plain or token.text in ("mean", "std")) and self.spaced():  # prose within brackets
            following = self.peek()
            if following is None or following.kind != "name" or not following.text.isascii():
                break
            words.append(self.take().text)
        if len(words) > 1:
            return rf"\text{{{' '.join(words)}}}"
        shown = _name(token.text) + self.marks()
        if token.text in FUNCTIONS or token.text in ("Σ", "Π", "√"):
            following = self.peek()
            if following is not None and (following.kind in ("name", "number") or (following.kind == "open")):
                word = following.kind == "name" and len(following.text) > 1 and following.text not in FUNCTIONS | NAMED
                if word and not inside and token.text not in ("Σ", "Π"):
                    if token.text in (
                        "mean",
                        "std",
                        "max",
                        "min",
                        "sum",
                        "median",
                    ):  # of something that is said in words
                        return shown
                    raise _NoFormula
                argument = self.factor(inside)
                return rf"\sqrt{{{_bare(argument)}}}" if token.text in ("√", "sqrt") else f"{shown} {argument}"
        elif self.at < len(self.tokens) and self.tokens[self.at].kind == "open":  # f(x)
            shown += self.factor(inside)
        return shown

    def marks(self) -> str:
        """What stands raised and lowered behind an operand."""
        marks = ""
        while self.at < len(self.tokens) and self.tokens[self.at].kind in ("sub", "sup", "low"):
            token = self.take()
            if token.kind == "sub":
                marks += f"_{{{_inner(token.text[1:])}}}"
            elif token.kind == "low":
                marks += f"_{{{''.join(LOWERED[c] for c in token.text)}}}"
            elif token.text[0] == "^":
                marks += f"^{{{_inner(token.text[1:])}}}"
            else:
                marks += f"^{{{''.join(RAISED[c] for c in token.text)}}}"
        return marks


def _bare(shown: str) -> str:
    """A group without its brackets, where it is one group."""
    if not (shown.startswith(r"\left(") and shown.endswith(r"\right)")):
        return shown
    inner = shown[6:-7]
    depth = 0
    for mark in re.findall(r"\\left\(|\\right\)", inner):
        depth += 1 if mark == r"\left(" else -1
        if depth < 0:
            return shown
    return inner


def _inner(text: str) -> str:
    text = text[1:-1] if text[0] in "{(" else text
    text = re.sub(r"[A-Za-z]{2,}", lambda word: rf"\{word[0]} " if word[0] in NAMED else rf"\text{{{word[0]}}}", text)
    return "".join(f"\\{GREEK[c]} " if c in GREEK else {"−": "-", "·": r"\cdot "}.get(c, c) for c in text)


def _number(text: str) -> str:
    base, e, power = text.partition("e")
    return (
        rf"{base} \cdot 10^{{{power}}}" if e and base != "1" else f"10^{{{power}}}" if e else text.replace("%", r"\%")
    )


def _name(text: str) -> str:
    base, prime = text.rstrip("'"), "'" * text.count("'")
    accent = {"\u0302": "hat", "\u0304": "bar", "\u0303": "tilde"}.get(base[-1])
    base = base[:-1] if accent else base
    if base in ("Σ", "Π"):
        shown = {"Σ": r"\sum", "Π": r"\prod"}[base]
    elif len(base) == 1:
        shown = f"\\{GREEK[base]}" if base in GREEK else {"ℓ": r"\ell"}.get(base, base)
    elif base in ("log", "exp", "min", "max"):
        shown = f"\\{base}"
    else:
        shown = f"\\{base}" if base in NAMED else rf"\text{{{base}}}"
    return (f"\\{accent}{{{shown}}}" if accent else shown) + prime


def latex(text: str, begin: int = 0) -> tuple[str, int] | None:
    """The formula that begins at this place, as LaTeX, and where it ends; None: there is none."""
    reader = _Reader(text, begin)
    try:
        left = reader.name(False)
        sign = reader.take()
        if sign.text not in RELATIONS:
            return None
        right = reader.relation(False)
    except (_NoFormula, KeyError):
        return None
    end = reader.tokens[reader.at - 1].end
    if GOES_ON.match(text, end) or re.fullmatch(PROSE, right):
        return None
    return f"{left} {RELATIONS[sign.text]} {right}", end


def typeset(markdown: str) -> str:
    """A page of a method with the formulas of its section "Formula" as MathML."""
    return FORMULA.sub(lambda section: section[1] + _converted(section[2]), markdown)


def _converted(text: str) -> str:
    from latex2mathml.converter import convert

    parts, place = [], 0
    for start in START.finditer(text):
        if start.start() < place or text.count("`", 0, start.start()) % 2:
            continue
        found = latex(text, start.start())
        if found is not None:
            # In a span, since <math> at the beginning of a line would be a block of its own.
            parts += [text[place : start.start()], f"<span>{convert(found[0])}</span>"]
            place = found[1]
    return "".join([*parts, text[place:]])
