"""The grader of answers: numbers with units, percents and fractions, choices, yes and no, LaTeX, and plain text.

Numbers and plain text are decided here; expressions are passed to `equal`, which asks math-verify in a sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

from podium.protocols.answer_forms import LAST_NUMBER, NUMBER, Stated, find_answer
from podium.protocols.answer_text import bare_answer, plain

__all__ = ["Equal", "Grade", "canonical", "compare_answers", "grade_answer", "number_of", "unstated_answer"]

Equal = Callable[[str, str], bool]
YES, NO = ("yes", "true", "correct"), ("no", "false", "incorrect")
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
# Units that are written in several ways, each by its first spelling.
UNITS = (
    *("$ dollar usd buck", "% percent pct", "¢ cent", "€ euro eur", "£ pound", "° degree deg circ"),
    *("cm centimeter centimetre", "mm millimeter millimetre", "m meter metre", "km kilometer kilometre"),
    *("kg kilogram kilo", "g gram", "lb lbs", "oz ounce", "l liter litre", "ml milliliter millilitre"),
    *("mph", "km/h kph", "hour hr h", "minute min", "second sec s", "inch in", "foot feet ft", "yard yd", "mile mi"),
)
UNIT = {spelling: line.split()[0] for line in UNITS for spelling in line.split()}
CURRENCY = r"(?:US)?\$|€|£"
FRACTION = re.compile(r"([-+−]?)\\[dt]?frac\{?([-\d.]+)\}?\{?([-\d.]+)\}?|([-+−]?\d+)/(\d+)")
MIXED = re.compile(r"([-+−]?\d+) (\d+)/(\d+)")
LARGEST_PERCENT = 1000  # up to here a number may mean percents
HEDGE = re.compile(r"\b(?:or|either|and/or|between)\b|\bnot\b|±", re.IGNORECASE)
MATHEMATICAL = re.compile(r"[\d\\^=<>+*/∞π√]|^[a-zA-Z]$|\([^)]*,|\[[^\]]*,")


class Grade(NamedTuple):
    """The grader's verdict on a text."""

    correct: bool
    answer: str  # canonical: equal for equivalent answers
    why: str  # the reason, where it is not correct


class Measured(NamedTuple):
    """A number with its unit."""

    value: Fraction
    unit: str  # empty: none
    percent: bool = False


def grade_answer(gold: str, text: str, equal: Equal | None = None, choices: Mapping[str, str] | None = None) -> Grade:
    """Whether a text gives the right answer, and if not, why.

    `equal` decides whether two expressions are equal where this module cannot; `choices` are texts by letter.
    """
    stated = find_answer(text)
    if isinstance(stated, str):
        stated = unstated_answer(gold, text)
    return Grade(False, "", stated) if isinstance(stated, str) else compare_answers(gold, stated.answer, equal, choices)


def compare_answers(gold: str, given: str, equal: Equal | None, choices: Mapping[str, str] | None = None) -> Grade:
    """Whether an answer that was read is right."""
    problem = _compare(gold, given, equal, choices or {})
    if problem is None:
        return Grade(True, canonical(gold), "")
    return Grade(False, canonical(given), f"read {given[:80]!r}, expected {gold[:80]!r}{problem}")


def unstated_answer(gold: str, text: str) -> Stated | str:
    """What may be read of a text that states no answer: its last number if one is expected, or the last line if it is
    short; or why there is nothing to be read."""
    why = find_answer(text)
    if not isinstance(why, str) or why.startswith("the "):  # stated, or nothing to be read
        return why
    whole = text.rpartition("</think>")[2].strip()
    if number_of(gold) is not None:
        numbers = list(NUMBER.finditer(whole))
        if number_of(whole) is not None:
            return Stated(whole, "the whole text")
        if numbers:
            last = numbers[-1]
            tail = re.match(r"(?:/\d+)?\s?%?", whole[last.end() :])
            return Stated(last[0] + (tail[0].rstrip() if tail else ""), LAST_NUMBER)
        return f"{why}; nor is there a number"
    line = whole.rpartition("\n")[2].strip()
    return Stated(line, "the last line") if len(line) < 200 and ("\n" not in whole or len(line) < 60) else why


def _compare(gold: str, given: str, equal: Equal | None, choices: Mapping[str, str]) -> str | None:
    """None if an answer is right, else what is wrong with it beyond being another, in words."""
    if choices or re.fullmatch(r"\(?[A-J]\)?", gold.strip()):
        return _compare_choice(gold, given, choices)
    if _text(gold) == _text(given):
        return None
    truth = _text(gold)
    if truth in (*YES, *NO):
        first = re.match(r"[a-z]+", _text(given))
        same = first is not None and any(truth in words and first[0] in words for words in (YES, NO))
        return None if same and not HEDGE.search(given) else ""
    wanted = number_of(gold)
    if wanted is not None:
        return _compare_number(wanted, given, gold, equal)
    if _latex(gold) == _latex(given):
        return None
    if not MATHEMATICAL.search(gold) and bare_answer(_text(gold)) == bare_answer(_text(given)):
        return None
    if equal is not None and MATHEMATICAL.search(gold) and not HEDGE.search(_words(given)):
        return None if equal(gold, given) or equal(_latex(gold), _latex(given)) else ""
    return ""


def _compare_number(wanted: Measured, given: str, gold: str, equal: Equal | None) -> str | None:
    found = number_of(given)
    if found is None:
        clause = re.split(r",? (?:because|since|which|so|as|after|when|if)\b|\s[(\[]", given)[0]
        if HEDGE.search(_words(clause)):
            return ", and more than one answer is given" if NUMBER.search(clause) else ""
        clause = clause.rpartition("=")[2] if "=" in clause else clause
        found = number_of(clause.strip())
        numbers = NUMBER.findall(_latex(clause))
        if found is None and len(numbers) == 1 and not re.search(r"[\\^√π]|sqrt|\d\s*[a-z]\b(?!\w)", clause):
            found = number_of(_around_number(clause))
        if found is None and len(numbers) > 1 and not re.search(r"\\|\^|/|\*|\+", clause):
            return ", and more than one number is given"
    if found is None:
        return None if equal is not None and len(given) < 120 and equal(gold, given) else ""
    if found.unit and wanted.unit and not _same_unit(found.unit, wanted.unit):
        return ", and the unit differs"
    values = {wanted.value}
    if found.percent and not wanted.percent and 1 <= abs(wanted.value) <= LARGEST_PERCENT:
        values.add(wanted.value / 100)  # 20 for 20 %: the question asks for percents
    elif wanted.percent and not found.percent:
        values.add(wanted.value * 100)
    return None if found.value in values else ""


def _around_number(clause: str) -> str:
    """The number of a clause with the sign, the currency or the unit beside it."""
    match = re.search(
        rf"[-−]?\s?(?:{CURRENCY})?\s?{NUMBER.pattern}\s?(?:%|percent)?(?:\s?(?:{'|'.join(SCALES)})\b)?", clause
    )
    return match[0].strip() if match else clause


def number_of(text: str) -> Measured | None:
    """The number that a text is, with a unit; None if it is anything else."""
    text = _latex(text).replace("−", "-").strip()
    text = re.sub(r"^(?:[a-zA-Z]\w{0,2}|\\?[a-z]+)\s*=\s*(?=[-+$\d.\\])", "", text)
    text = re.sub(r"^(?:about|approximately|exactly|roughly|only|just|≈|~)\s*", "", text, flags=re.IGNORECASE)
    sign = -1 if re.match(rf"-\s?(?:{CURRENCY})", text) else 1
    text = re.sub(rf"^-\s?(?={CURRENCY})", "", text)
    money = re.match(rf"({CURRENCY})\s?", text)
    text = text[money.end() :] if money else text
    value, rest = _leading(text)
    if value is None:
        return None
    scale = re.match(rf"\s?({'|'.join(SCALES)})s?\b", rest)
    if scale:
        value, rest = value * SCALES[scale[1]], rest[scale.end() :]
    percent = re.match(r"\s?(?:\\?%|percent\b)", rest)
    unit = "%" if percent else rest.strip()
    if percent:
        value, rest = value, rest[percent.end() :]
        if rest.strip(" ."):
            return None
    if unit and not percent and (len(unit.split()) > 4 or re.search(r"[\d=+*/^<>\\,:(]|^[a-z]$(?<![hms])", unit)):
        unit = _squared(unit)
        if not unit:
            return None
    value = value * sign
    return Measured(value / 100 if percent else value, "$" if money else unit, bool(percent))


def _squared(unit: str) -> str:
    """A unit of areas, volumes or rates: `cm^2`, `m/s`; empty if the text is none."""
    found = re.fullmatch(r"(?:square |cubic )?([a-zA-Z]+)(?:\^?\{?[23]\}?)?(?:/(?:[a-zA-Z]+)(?:\^?\{?2\}?)?)?", unit)
    return unit if (found and len(found[1]) > 1) or unit in ("m^2", "m^3", "m/s") else ""


def _leading(text: str) -> tuple[Fraction | None, str]:
    """The number at the beginning of a text, and the rest."""
    mixed = MIXED.match(text)
    if mixed and int(mixed[3]):
        whole = Fraction(int(mixed[1].replace("−", "-")))
        part = Fraction(int(mixed[2]), int(mixed[3]))
        return (whole - part if mixed[1].startswith(("-", "−")) else whole + part), text[mixed.end() :]
    fraction = FRACTION.match(text)
    if fraction:
        above, below = (fraction[2], fraction[3]) if fraction[2] else (fraction[4], fraction[5])
        try:
            value = Fraction(above.replace("−", "-")) / Fraction(below)
        except (ValueError, ZeroDivisionError):
            return None, text
        return (-value if fraction[1] in ("-", "−") else value), text[fraction.end() :]
    number = re.match(r"[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3}\b)?|[-+]?\.\d+", text)
    if number is None or len(number[0]) > 60:
        return None, text
    rest = text[number.end() :]
    power = re.match(r"\s?(?:\\times|×|\*|x)\s?10\^\{?(-?\d{1,3})\}?", rest)
    if power:
        return Fraction(number[0].replace(",", "")) * Fraction(10) ** int(power[1]), rest[power.end() :]
    return Fraction(number[0].replace(",", "")), rest.removesuffix(".") if rest != "." else ""


def _same_unit(one: str, other: str) -> bool:
    """Whether two units are the same, as far as their last words tell."""
    one, other = (
        re.sub(r"\bkilometers per hour\b", "km/h", re.sub(r"\bmiles per hour\b", "mph", u)) for u in (one, other)
    )
    words = [re.sub(r"[^a-z%$°/^23]", "", unit.lower().split()[-1]) for unit in (one, other)]
    names = [UNIT.get(word) or UNIT.get(word.removesuffix("s")) or UNIT.get(word.removesuffix("es")) for word in words]
    if all(names):
        return names[0] == names[1]
    return True if not all(words) else words[0].rstrip("s") == words[1].rstrip("s") or not any(names)


def _compare_choice(gold: str, given: str, choices: Mapping[str, str]) -> str | None:
    """None if the right one of several choices is given, by its letter or its text."""
    letters = [letter for letter, text in choices.items() if _text(text) == _text(gold)]
    right = letters[0] if letters and gold.strip() not in choices else gold.strip().strip("()")
    text = _words(given).strip(" .*\"'")
    letter = re.fullmatch(
        r"(?:(?:option|choice|answer)\s+)?[(\[]?([A-Za-z0-9])[)\]]?(?:\s*[.):\-–]\s*(.*)|\s+(.{3,}))?", text, re.DOTALL
    )
    if letter and ((letter[2] is None and letter[3] is None) or letter[2] is not None or letter[1] in choices):
        said = letter[2] or letter[3] or ""
        known = choices.get(letter[1].upper(), choices.get(letter[1], ""))
        if said and HEDGE.search(said) and _text(said) != _text(known):
            return ", and more than one answer is given"
        if said and known and _text(said) != _text(known) and any(_text(said) == _text(c) for c in choices.values()):
            return ", and letter and text disagree"
        if letter[1].upper() == right.upper():
            return None
        if not known or said or letter[1].upper() in choices:
            return ""
    return None if right in choices and _text(text) == _text(choices[right]) else ""


def canonical(answer: str) -> str:
    """The canonical form of an answer: a number in its shortest form, or plain text."""
    number = number_of(answer)
    if number is None:
        return _text(answer)
    value = number.value * 100 if number.percent else number.value
    shown = str(value.numerator) if value.denominator == 1 else _decimal(value)
    return f"{shown}%" if number.percent else shown


def _decimal(value: Fraction) -> str:
    """A fraction as a decimal where that ends, else as a fraction."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest > 1 or value.denominator > 10**12:
        return f"{value.numerator}/{value.denominator}"
    return f"{float(value):.12f}".rstrip("0").rstrip(".")


def _latex(text: str) -> str:
    """A text without what LaTeX adds for its looks."""
    text = _undelimited(text.strip())
    text = re.sub(r"\\[(\[]|\\[)\]]", "", text)
    text = re.sub(r"\\(?:text|mathrm|mbox|textbf|mathbf|operatorname)\s?\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\(?:left|right|displaystyle|big|Big)(?![a-zA-Z])|\\[,;! ]|\\(?=[$%&#_])|~", " ", text)
    text = re.sub(r"\^\{?\\circ\}?|\\degree", "°", text)
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("{,}", ",")
    text = re.sub(r"\\frac(\d)(\d)(?!\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"(\d)\s(?=°|%)", r"\1", text)
    return re.sub(r"\s+", " ", text).strip().removesuffix(".").strip()


def _undelimited(text: str) -> str:
    """A text without the dollar signs around its mathematics; a single one is of money."""
    return text.replace("$", "") if text.replace("\\$", "").count("$") in (2, 4) else text


def _words(text: str) -> str:
    return _latex(text).replace("**", "")


def _text(text: str) -> str:
    """A text as it is compared: without LaTeX, quotes and Markdown around it, in lower case."""
    return plain(_latex(text).strip("*_`\"'“”‘’ ")).strip("\"'“”‘’ ").removesuffix(".")
