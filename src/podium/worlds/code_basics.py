"""Problems of the world `code`, levels 1 and 2: functions of a number, and passes over lists and texts."""

from __future__ import annotations

from math import lcm
from random import Random
from typing import TypeVar

from podium.worlds.code_problem import CodeProblem, integers, letters

__all__ = ["NUMBERS", "SEQUENCES"]

T = TypeVar("T")

# -- numbers -----------------------------------------------------------------------------------------------------------


def _multiples(rng: Random) -> CodeProblem:
    a, b = rng.sample(range(2, 20), 2)
    return CodeProblem(
        "total(n)",
        f"the sum of the whole numbers below n that {a} or {b} divides",
        f"return sum(i for i in range(n) if i % {a} == 0 «or|and» i % {b} == 0)",
        f"""
# go through all numbers below n
t = 0
for i in range(n):
    if i % {a} «==|!=» 0 or i % {b} == 0:
        t += i
return t""",
        f"""
def s(k):
    m = (n - 1) // k
    return k * m * (m «+|-» 1) // 2
return s({a}) + s({b}) «-|+» s({lcm(a, b)})""",
        lambda rng: [rng.randint(5, 80)],
        lambda rng: [rng.randint(60_000, 80_000)],
    )


def _steps(rng: Random) -> CodeProblem:
    a, b, m = rng.randint(2, 9), rng.randint(1, 30), rng.choice((97, 101, 211, 307, 401, 503, 997))
    return CodeProblem(
        "walk(n)",
        f"x after n steps of x = ({a} * x + {b}) % {m}, starting from x = 1",
        f"x = 1\nfor _ in range(n):\n    x = ({a} * x «+|-» {b}) % {m}\nreturn x",
        f"""
# one step after the other
x, done = 1, 0
while done < n:
    x = {a} * x + «{b}|{b + 1}»
    x = x % {m}
    done += 1
return x""",
        f"""
p, q, a, b = 1, 0, {a}, {b}
while n:
    if n & 1:
        p, q = a * p % {m}, (a * q «+|-» b) % {m}
    a, b, n = a * a % {m}, (a * b + b) % {m}, n >> 1
return (p + q) % {m}""",
        lambda rng: [rng.randint(2, 40)],
        lambda rng: [rng.randint(60_000, 80_000)],
    )


def _digits(rng: Random) -> CodeProblem:
    k, c = rng.randint(2, 12), rng.randint(1, 40)
    return CodeProblem(
        "digits(n)",
        f"{k} times the sum of the decimal digits of n, plus {c}",
        f"return {k} * sum(int(d) for d in str(n)) «+|-» {c}",
        f"""
# take the last digit off until nothing is left
t = 0
while n > 0:
    t += n % «10|9»
    n //= 10
return {k} * t + {c}""",
        f"s = str(n)\nreturn {k} * sum(d * s.count(str(d)) for d in range(1, 10)) + «{c}|{c + 1}»",
        lambda rng: [rng.randint(10, 99_999)],
        lambda rng: [int(letters(rng, 1500, "123456789"))],
    )


def _clamp(rng: Random) -> CodeProblem:
    a, b, low, high = rng.randint(2, 9), rng.randint(1, 20), -rng.randint(20, 60), rng.randint(40, 90)
    return CodeProblem(
        "clamp(x)",
        f"{a} * x + {b}, but at least {low} and at most {high}",
        f"return max({low}, min({high}, {a} * x «+|-» {b}))",
        f"""
# the value, then the two limits
y = {a} * x «+|-» {b}
if y < {low}:
    y = {low}
if y > {high}:
    y = «{high}|{high + 1}»
return y""",
        f"y = {a} * x «+|-» {b}\nreturn {low} if y < {low} else {high} if y > {high} else y",
        lambda rng: [rng.randint(-80 // a, 100 // a)],
        lambda rng: [rng.choice((0, 1, 1 + high // a))],
    )


def _power(rng: Random) -> CodeProblem:
    a, m, c = rng.randint(2, 19), rng.choice((101, 211, 307, 401, 503, 997, 1009)), rng.randint(1, 9)
    return CodeProblem(
        "power(n)",
        f"the remainder of {a} to the power n + {c}, divided by {m}",
        f"return {a} ** (n «+|-» {c}) % {m}" if c < 2 else f"return {a} ** (n + «{c}|{c - 1}») % {m}",
        f"""
# multiply, and keep the remainder
p = 1
for _ in range(n + {c}):
    p = p * «{a}|{a + 1}» % {m}
return p""",
        f"return pow({a}, n + «{c}|{c + 1}», {m})",
        lambda rng: [rng.randint(2, 30)],
        lambda rng: [rng.randint(30_000, 40_000)],
    )


def _series(rng: Random) -> CodeProblem:
    a, b = rng.randint(1, 9), rng.randint(1, 30)
    return CodeProblem(
        "series(n)",
        f"the sum of {a} * i * i + {b} * i for i from 1 to n",
        f"return sum({a} * i * i «+|-» {b} * i for i in range(1, n + 1))",
        f"""
# add one term after the other
t = 0
for i in range(1, n «+ 1|»):
    t += {a} * i * i
    t += {b} * i
return t""",
        f"return {a} * n * (n + 1) * (2 * n + 1) // 6 + {b} * n * (n «+|-» 1) // 2",
        lambda rng: [rng.randint(2, 20)],
        lambda rng: [rng.randint(50_000, 70_000)],
    )


NUMBERS = (_multiples, _steps, _digits, _clamp, _power, _series)

# -- lists and texts ---------------------------------------------------------------------------------------------------


def _keep(rng: Random) -> CodeProblem:
    k, c = rng.randint(3, 12), rng.randint(2, 12)
    r = rng.randrange(k)
    return CodeProblem(
        "keep(xs)",
        f"the list of {c} * x for the x of xs with x % {k} == {r}",
        f"return [{c} * x for x in xs if x % {k} «==|!=» {r}]",
        f"""
# look at each number
kept = []
for x in xs:
    if x % {k} == «{r}|{(r + 1) % k}»:
        kept = kept + [{c} * x]
return kept""",
        f"return [«{c}|{c + 1}» * x for x in xs if x % {k} == {r}]",
        lambda rng: [[*integers(rng, rng.randint(3, 5), 1, 60), k * rng.randint(1, 5) + r]],
        lambda rng: [[*integers(rng, 2000, 1, 9999), k + r]],
    )


def _cipher(rng: Random) -> CodeProblem:
    k, mark = rng.choice([k for k in range(1, 26) if k != 13]), rng.choice("!?*#+~")
    return CodeProblem(
        "cipher(s)",
        f"s with each letter moved {k} places on in the alphabet (after z comes a), then {mark!r}",
        f"return ''.join(chr((ord(ch) - 97 «+|-» {k}) % 26 + 97) for ch in s) + {mark!r}",
        f"""
# letter by letter
t = ''
for ch in s:
    place = 'abcdefghijklmnopqrstuvwxyz'.index(ch) + «{k}|{k + 1}»
    t = t + 'abcdefghijklmnopqrstuvwxyz'[place % 26]
return t + {mark!r}""",
        f"""
a = 'abcdefghijklmnopqrstuvwxyz'
return s.translate(str.maketrans(a, a[«{k}|{k - 1}»:] + a[:«{k}|{k - 1}»])) + {mark!r}""",
        lambda rng: [letters(rng, rng.randint(2, 7))],
        lambda rng: [letters(rng, 12_000)],
    )


def _frequent(rng: Random) -> CodeProblem:
    k, c = rng.randint(2, 4), rng.randint(1, 60)
    return CodeProblem(
        "frequent(xs)",
        f"the sum of the different numbers that occur at least {k} times in xs, plus {c}",
        f"return sum(x for x in set(xs) if xs.count(x) «>=|<» {k}) + {c}",
        f"""
# count each number where it occurs first
t = {c}
for i, x in enumerate(xs):
    if x not in xs[:i]:
        n = 0
        for y in xs:
            if y == x:
                n += 1
        if n «>=|<» {k}:
            t += x
return t""",
        f"""
seen = {{}}
for x in xs:
    seen[x] = seen.get(x, 0) + 1
return sum(x for x, n in seen.items() if n «>=|<» {k}) + {c}""",
        lambda rng: [_shuffled(rng, [rng.randint(1, 9)] * k + integers(rng, 3, 10, 30))],
        lambda rng: [integers(rng, 800, 1, 400)],
    )


def _window(rng: Random) -> CodeProblem:
    k, c = rng.randint(2, 9), rng.randint(1, 60)
    return CodeProblem(
        "window(xs)",
        f"the largest sum of {k} neighbouring numbers of xs, plus {c}",
        f"return max(sum(xs[i:i + {k}]) for i in range(len(xs) - {k - 1})) «+|-» {c}",
        f"""
# try each place where they can begin
best = sum(xs[:{k}])
for i in range(len(xs) - {k - 1}):
    t = 0
    for j in range({k}):
        t += xs[i + j]
    best = max(best, t)
return best + «{c}|{c + 1}»""",
        f"""
t = best = sum(xs[:{k}])
for old, new in zip(xs, xs[{k}:]):
    t += new «-|+» old
    if t > best:
        best = t
return best + «{c}|{c - 1}»""",
        lambda rng: [integers(rng, rng.randint(k + 2, k + 4), -9, 20)],
        lambda rng: [integers(rng, 4000, -99, 200)],
    )


def _long_words(rng: Random) -> CodeProblem:
    k, mark = rng.randint(2, 6), rng.choice("-_+/.,:*")
    return CodeProblem(
        "words(s)",
        f"the words of s with at least {k} letters, each reversed, joined by {mark!r}",
        f"return {mark!r}.join(w[::-1] for w in s.split() if len(w) «>=|<» {k})",
        f"""
# word by word, from the end of each
out = ''
for w in s.split():
    if len(w) >= «{k}|{k + 1}»:
        turned = ''
        for ch in w:
            turned = ch + turned
        out = out + {mark!r} + turned
return out[1:]""",
        f"return {mark!r}.join([w[::«-1|1»] for w in s.split() if len(w) >= {k}])",
        lambda rng: [" ".join(_shuffled(rng, [letters(rng, n) for n in (k, k, rng.randint(1, 8))]))],
        lambda rng: [" ".join(["ab" * k, letters(rng, k), *(letters(rng, rng.randint(1, 9)) for _ in range(800))])],
    )


def _above(rng: Random) -> CodeProblem:
    a, b = rng.randint(1, 9), rng.randint(1, 40)
    return CodeProblem(
        "above(xs)",
        f"the sum of the positions p (from 0) for which xs[p] is above {a} * p + {b}",
        f"return sum(p for p, x in enumerate(xs) if x «>|<» {a} * p + {b})",
        f"""
# position by position
t = 0
for p in range(len(xs)):
    if xs[p] > {a} * p «+|-» {b}:
        t += p
return t""",
        f"""
t, limit = 0, {b}
for p, x in enumerate(xs):
    if x «>|<» limit:
        t += p
    limit += {a}
return t""",
        lambda rng: [integers(rng, rng.randint(4, 7), b - 10, b + 6 * a + 10)],
        lambda rng: [integers(rng, 3000, -b, 3000 * a)],
    )


def _shuffled(rng: Random, items: list[T]) -> list[T]:
    return rng.sample(items, len(items))


SEQUENCES = (_keep, _cipher, _frequent, _window, _long_words, _above)
