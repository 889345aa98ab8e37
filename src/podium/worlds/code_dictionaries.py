"""Problems of the world `code`, level 3: dictionaries, and several steps."""

from __future__ import annotations

from random import Random

from podium.worlds.code_problem import CodeProblem, integers, letters

__all__ = ["DICTIONARIES"]


def _group(rng: Random) -> CodeProblem:
    k, c = rng.randint(3, 40), rng.randint(2, 12)
    return CodeProblem(
        "group(xs)",
        f"a dictionary from str(x % {k}) to the sum of {c} * x over the x of xs with that remainder",
        f"return {{str(r): sum({c} * x for x in xs if x % {k} «==|!=» r) for r in {{x % {k} for x in xs}}}}",
        f"""
# find the remainders, then add up for each
found = []
for x in xs:
    if x % {k} not in found:
        found.append(x % {k})
sums = {{}}
for r in found:
    sums[str(r)] = sum(«{c}|{c + 1}» * x for x in xs if x % {k} == r)
return sums""",
        f"""
sums = {{}}
for x in xs:
    r = str(x % {k})
    sums[r] = sums.get(r, 0) + «{c}|{c - 1}» * x
return sums""",
        lambda rng: [integers(rng, rng.randint(3, 6), 1, 99)],
        lambda rng: [integers(rng, 1500, 1, 9999)],
    )


def _common(rng: Random) -> CodeProblem:
    k, c, first = rng.randint(1, 4), rng.randint(1, 30), rng.choice(("most", "least"))
    sign = "-" if first == "most" else ""
    return CodeProblem(
        "common(s)",
        f"the list of the {k} {first} common letters of s, {first} common first, equally common ones by the alphabet, "
        f"each followed by its count plus {c}",
        f"""
order = sorted(set(s), key=lambda ch: ({sign}s.count(ch), ch))
return [ch + str(s.count(ch) «+|-» {c}) for ch in order[:{k}]]""",
        f"""
# count, sort, write
pairs = []
for ch in sorted(set(s)):
    n = 0
    for other in s:
        if other == ch:
            n += 1
    pairs.append(({sign}n, ch))
return [ch + str(abs(n) + «{c}|{c + 1}») for n, ch in sorted(pairs)[:{k}]]""",
        f"""
n = {{ch: s.count(ch) for ch in set(s)}}
return [ch + str(n[ch] + «{c}|{c - 1}») for ch in sorted(sorted(n), key=lambda ch: {sign}n[ch])[:{k}]]""",
        lambda rng: [letters(rng, rng.randint(6, 10), "abcde")],
        lambda rng: [letters(rng, 8000)],
    )


def _prices(rng: Random) -> CodeProblem:
    missing, c = rng.randint(2, 30), rng.randint(2, 12)

    def small(rng: Random) -> list[object]:
        names = rng.sample("abcdefgh", 4)
        return [dict(zip(names[:3], integers(rng, 3, 1, 40), strict=True)), [*rng.choices(names, k=3), *names[2:]]]

    def large(rng: Random) -> list[object]:
        names = [letters(rng, 4) for _ in range(300)]
        return [{name: rng.randint(1, 99) for name in names[:200]}, [*rng.choices(names, k=500), names[-1]]]

    return CodeProblem(
        "price(d, xs)",
        f"{c} times the sum of d[x] over the x of xs, with {missing} for an x that is no key of d",
        f"return {c} * sum(d.get(x, «{missing}|{missing + 1}») for x in xs)",
        f"""
# look for each x among the keys
t = 0
for x in xs:
    n = {missing}
    for key in d:
        if key == x:
            n = d[key]
    t «+=|-=» n
return {c} * t""",
        f"return «{c}|{c + 1}» * sum([d.get(x, {missing}) for x in xs])",
        small,
        large,
    )


def _merge(rng: Random) -> CodeProblem:
    k, c = rng.randint(2, 9), rng.randint(2, 20)

    def draw(rng: Random, keys: str, each: int) -> list[dict[str, int]]:
        return [{key: rng.randint(1, 99) for key in rng.sample(keys, each)} for _ in range(2)]

    return CodeProblem(
        "merge(a, b)",
        f"a dictionary with the keys of a or b and the values {c} * (a's value + b's value) + {k}, where a key that is "
        "missing counts 0",
        f"return {{x: {c} * (a.get(x, 0) «+|-» b.get(x, 0)) + {k} for x in set(a) | set(b)}}",
        f"""
# first a, then what b adds
sums = dict(a)
for x in b:
    if x in sums:
        sums[x] = sums[x] + b[x]
    else:
        sums[x] = b[x]
return {{x: {c} * sums[x] + «{k}|{k + 1}» for x in sums}}""",
        f"""
out = {{x: «{c}|{c + 1}» * n + {k} for x, n in a.items()}}
for x, n in b.items():
    out[x] = out.get(x, {k}) + {c} * n
return out""",
        lambda rng: draw(rng, "abcdef", 3),
        lambda rng: draw(rng, "abcdefghijklmnopqrstuvwxyz", 20),
    )


def _pipeline(rng: Random) -> CodeProblem:
    k, a, b = rng.randint(2, 9), rng.randint(2, 12), rng.randint(1, 30)
    conditions = (
        (f"x % {k} == 0", f"divisible by {k}"),
        (f"x > {b}", f"above {b}"),
        (f"x < {4 * b}", f"below {4 * b}"),
    )
    (condition, named), (value, said) = (
        rng.choice(conditions),
        rng.choice(((f"{a} * x", "times"), (f"x + {a}", "plus"))),
    )
    how = rng.choice(("sum", "max", "min"))
    ends = {"sum": "the sum of them", "max": "the largest of them", "min": "the smallest of them"}[how]
    plus = "" if how == "sum" else ", default=0"
    return CodeProblem(
        "flow(xs)",
        f"the numbers of xs that are {named}, each {said} {a}: {ends} (0 without any), plus {b}",
        f"return {how}(({value} for x in xs if {condition}){plus}) «+|-» {b}",
        f"""
# choose, change, then take {ends}
chosen = []
for x in xs:
    if {condition}:
        chosen = chosen + [x]
changed = []
for x in chosen:
    changed = changed + [{value}]
return ({how}(changed) if changed else 0) + «{b}|{b + 1}»""",
        f"return {how}([{value} for x in xs if {condition}]{plus}) + «{b}|{b - 1}»",
        lambda rng: [integers(rng, rng.randint(4, 7), 1, 5 * b + 9)],
        lambda rng: [integers(rng, 1500, 1, 5 * b + 9)],
    )


DICTIONARIES = (_group, _common, _prices, _merge, _pipeline)
