"""Mutation testing of the formulas: one operator or constant is changed at a time, and the tests must notice.

    python -m tools.checks.mutants [FILE …] [--sample 60] [--seed 0]

Each mutant is a changed copy of one source file, imported in place of the original in a process that runs the tests
that name that file's ideas. The figure is the share of mutants that were caught; those that survive are listed. It
fails below 80 %.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "podium"
LEAST = 0.8
CONFORMANCE = ("tests/conformance/test_conformance.py",)
# What is mutated, and the tests that should notice.
SUBJECTS: dict[str, tuple[str, ...]] = {
    "core/normalize.py": ("tests/core/test_normalize.py", *CONFORMANCE),
    "core/partition.py": ("tests/core/test_partition.py", "tests/core/test_cells.py"),
    "core/cells.py": ("tests/core/test_partition.py", "tests/core/test_cells.py"),
    "core/order.py": ("tests/core/test_order.py", *CONFORMANCE),
    "core/term.py": ("tests/core/test_term.py", "tests/core/test_gradient.py"),
    "core/gradient.py": ("tests/core/test_gradient.py",),
    "parts/objective/surrogate.py": (
        "tests/parts/objective/test_surrogate.py",
        "tests/core/test_term.py",
        *CONFORMANCE,
    ),
    "parts/objective/regularize.py": ("tests/core/test_term.py", *CONFORMANCE),
    "parts/advantage/returns.py": ("tests/parts/advantage/test_returns.py", *CONFORMANCE),
    "parts/advantage/states.py": CONFORMANCE,
    "parts/reward/length.py": CONFORMANCE,
}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Every mutant of a text: its line, what was changed, and the changed text."""
    count = len(list(ast.walk(ast.parse(source))))
    for number in range(count):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[number]
        changed = _change(node)
        if changed is not None:
            yield getattr(node, "lineno", 0), changed, ast.unparse(tree)


def _change(node: ast.AST) -> str | None:
    """Change a node in place; what was done, or None where there is nothing to change."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        if isinstance(node.op, ast.Add) and any(
            isinstance(x, ast.Constant | ast.JoinedStr) for x in (node.left, node.right)
        ):
            return None  # mostly texts
        node.op, old = SWAPS[type(node.op)](), type(node.op).__name__  # type: ignore[assignment]
        return f"{old} -> {type(node.op).__name__}"
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        old = type(node.ops[0]).__name__
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[assignment]
        return f"{old} -> {type(node.ops[0]).__name__}"
    if isinstance(node, ast.BoolOp):
        old = type(node.op).__name__
        node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
        return f"{old} -> {type(node.op).__name__}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node.op = ast.UAdd()
        return "minus dropped"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in (0, 1):
        node.value, old_value = node.value * 2, node.value
        return f"{old_value} -> {node.value}"
    return None


def caught(place: str, text: str, tests: tuple[str, ...], tree: Path) -> bool:
    """Whether the tests fail on a copy of the source in which one file is changed."""
    file = tree / "podium" / place
    original = file.read_text("utf-8")
    file.write_text(text, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    command = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no", *tests)
    try:
        return bool(
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=600, check=False).returncode
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(original, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help=f"of {', '.join(SUBJECTS)} (all)")
    parser.add_argument("--sample", type=int, default=60, help="how many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    pool = []
    for place in given.files or SUBJECTS:
        pool += [(place, *mutant) for mutant in mutants((SOURCE / place).read_text("utf-8"))]
    chosen = random.Random(given.seed).sample(pool, min(given.sample, len(pool)))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(SOURCE, tree / "podium", ignore=shutil.ignore_patterns("__pycache__"))
        survivors = []
        for place, line, change, text in chosen:
            if not caught(place, text, SUBJECTS[place], tree):
                survivors.append(f"{place}:{line}: {change}")
                print(f"survives: {survivors[-1]}", flush=True)
    share = 1 - len(survivors) / max(len(chosen), 1)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants are caught ({share:.0%}), of {len(pool)} possible")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
