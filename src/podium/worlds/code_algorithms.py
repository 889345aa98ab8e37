"""Problems of the world `code`, level 4: algorithms, which can be slow or fast."""

from __future__ import annotations

from math import gcd
from random import Random

from podium.worlds.code_problem import CodeProblem, integers

__all__ = ["ALGORITHMS"]


def _pairs(rng: Random) -> CodeProblem:
    k, c = rng.randint(3, 16), rng.randint(1, 60)
    return CodeProblem(
        "pairs(xs)",
        f"how many pairs of positions i < j have xs[i] + xs[j] + {c} divisible by {k}",
        f"return sum((x + y «+|-» {c}) % {k} == 0 for j, y in enumerate(xs) for x in xs[:j])"
        if 2 * c % k
        else f"return sum((x + y + «{c}|{c + 1}») % {k} == 0 for j, y in enumerate(xs) for x in xs[:j])",
        f"""
# try all pairs
n = 0
for i in range(len(xs)):
    for j in range(i + 1, len(xs)):
        if (xs[i] + xs[j] + «{c}|{c + 1}») % {k} == 0:
            n += 1
return n""",
        f"""
n, seen = 0, [0] * {k}
for x in xs:
    n += seen[(-x - «{c}|{c + 1}») % {k}]
    seen[x % {k}] += 1
return n""",
        lambda rng: [integers(rng, rng.randint(4, 8), 1, 30)],
        lambda rng: [integers(rng, 350, 1, 9999)],
    )


def _climbs(rng: Random) -> CodeProblem:
    steps, m = sorted(rng.sample(range(1, 10), 3)), rng.choice((997, 1009, 9973, 10007))
    a, b, c = steps
    return CodeProblem(
        "climbs(n)",
        f"in how many ways n is a sum of the numbers {a}, {b} and {c} in any order (order counts), modulo {m}",
        f"""
w = [1]
for i in range(1, n + 1):
    w.append(sum(w[i - s] for s in ({a}, {b}, «{c}|{c + 1}») if s <= i) % {m})
return w[n]""",
        f"""
# from each sum one step on
w = [1] + [0] * n
for i in range(n):
    for s in ({a}, {b}, {c}):
        if i + s <= n:
            w[i + s] = (w[i + s] + «w[i]|w[i] * 2») % {m}
return w[n]""",
        f"""
w = [0] * {c - 1} + [1]
for _ in range(n):
    w.append((w[-{a}] + w[-{b}] + w[«-{c}|0»]) % {m})
return w[-1]""",
        lambda rng: [rng.randint(c, 40)],
        lambda rng: [rng.randint(7000, 9000)],
    )


def _primes(rng: Random) -> CodeProblem:
    k, c = rng.randint(3, 12), rng.randint(2, 9)
    r = rng.choice([r for r in range(1, k) if gcd(r, k) == 1])
    return CodeProblem(
        "primes(n)",
        f"{c} times the sum of the primes p below n with p % {k} == {r}",
        f"return {c} * sum(p for p in range(2, n) if p % {k} == «{r}|{(r + 1) % k}» and all(p % d for d in "
        "range(2, int(p ** 0.5) + 1)))",
        f"""
# divide each number by those up to its root
t = 0
for p in range(2, n):
    d, prime = 2, True
    while d * d <= p:
        if p % d == 0:
            prime = False
        d += 1
    if prime and p % {k} == {r}:
        t += p
return «{c}|{c + 1}» * t""",
        f"""
sieve = bytearray([1]) * n
for d in range(2, int(n ** 0.5) + 1):
    if sieve[d]:
        sieve[d * d::d] = bytes(len(range(d * d, n, d)))
return {c} * sum(p for p in range({r}, n, {k}) if p > 1 and sieve[«p|p - 1»])""",
        lambda rng: [rng.randint(40, 120)],
        lambda rng: [rng.randint(12_000, 16_000)],
    )


def _inversions(rng: Random) -> CodeProblem:
    k, c = rng.randint(1, 5), rng.randint(0, 40)
    return CodeProblem(
        "drops(xs)",
        f"how many pairs of positions i < j have xs[i] > {k} * xs[j] + {c}",
        f"return sum(x «>|<» {k} * y + {c} for j, y in enumerate(xs) for x in xs[:j])",
        f"""
# compare each with all that follow
n = 0
for i in range(len(xs)):
    for j in range(i + 1, len(xs)):
        if xs[i] > «{k}|{k + 1}» * xs[j] + {c}:
            n += 1
return n""",
        f"""
from bisect import bisect_right, insort
n, seen = 0, []
for y in xs:
    n += len(seen) - bisect_right(seen, {k} * y «+ {c}|- {c + 1}»)
    insort(seen, y)
return n""",
        lambda rng: [[rng.choice((rng.randint(1, 12), rng.randint(c + k, 12 * k + c + 20))) for _ in range(6)]],
        lambda rng: [integers(rng, 400, 1, 9999)],
    )


def _subsets(rng: Random) -> CodeProblem:
    limit = rng.randint(800, 3000)
    return CodeProblem(
        "sums(xs)",
        f"how many different sums up to {limit} some of the numbers xs have, each used at most once (none: 0)",
        f"""
found = {{0}}
for x in xs:
    found |= {{s + x for s in found if s + x «<=|>» {limit}}}
return len(found)""",
        f"""
# mark each sum that can be reached
can = [True] + [False] * {limit}
for x in xs:
    for s in range({limit}, x - 1, -1):
        if can[s - x]:
            can[s] = True
return sum(can) «+ 0|- 1»""",
        f"""
bits = 1
for x in xs:
    bits |= bits << x & (1 << {limit} «+|-» 1) - 1
return bin(bits).count('1')""",
        lambda rng: [integers(rng, rng.randint(3, 5), limit // 9, limit // 2)],
        lambda rng: [[*integers(rng, 40, 1, limit // 12), limit]],
    )


ALGORITHMS = (_pairs, _climbs, _primes, _inversions, _subsets)
