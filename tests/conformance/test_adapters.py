"""Adapters lay numbers out and call the library; they compute nothing themselves.

The vectors hold what a run calls only if what an adapter returns comes from there. So no operation on tensors may stand
in an adapter or in the helpers that it calls, except those that make, place, select or convert (`LAYOUT`): this is
watched while all cases run. What is done to plain numbers is read from the source.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.overrides import TorchFunctionMode, resolve_name

from podium import methods
from tests.conformance.case import Case, VectorFile
from tests.conformance.registry import adapters, set_aside
from tests.conformance.runner import read

FOLDER = Path(__file__).parent
SOURCES = sorted([*(FOLDER / "adapters").glob("*.py"), FOLDER / "helpers.py", FOLDER / "plans.py"])
# Operations that make tensors, place or select their elements, or convert them, and change no value.
LAYOUT = {
    *("tensor", "as_tensor", "zeros", "ones", "full", "arange", "linspace", "empty"),
    *("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros"),
    *("reshape", "flatten", "unbind", "split", "stack", "cat", "unsqueeze", "expand", "repeat_interleave", "pad"),
    *("__getitem__", "__setitem__", "index_copy", "nonzero", "__iter__", "__len__", "__get__", "__contains__"),
    *("to", "double", "float", "long", "bool", "tolist", "item", "clone", "detach", "requires_grad_"),
    *("__bool__", "__float__", "__int__", "__index__", "size", "dim", "numel", "__repr__", "__deepcopy__"),
    *("grad",),  # the derivative of what the library returned
}


class Watch(TorchFunctionMode):
    """Notes the operations on tensors that stand in the files of the adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name not in LAYOUT:
            frame = sys._getframe(1)
            file = Path(frame.f_code.co_filename)
            if file in SOURCES:
                self.found.add(f"{file.name}:{frame.f_lineno}: {resolve_name(func) or name}")
        return func(*args, **(kwargs or {}))


def run_all(files: list[tuple[str, VectorFile]]) -> Iterator[tuple[str, Case]]:
    known = adapters()
    for slug, file in files:
        for case in file.cases:
            assert isinstance(case, Case)
            known[slug](case)
            yield slug, case


def vectors() -> list[tuple[str, VectorFile]]:
    return [(slug, file) for slug, file in read() if isinstance(file, VectorFile)]


def test_no_operation_on_tensors_stands_in_an_adapter() -> None:
    with Watch() as watch:
        for _ in run_all(vectors()):
            pass
    assert not watch.found, "\n".join(sorted(watch.found))


def test_the_watch_sees_an_operation() -> None:
    with Watch() as watch:
        exec(compile("import torch\nx = torch.ones(2)\ny = x * 2\nz = x[0]", str(FOLDER / "helpers.py"), "exec"), {})
    assert watch.found == {"helpers.py:3: torch.Tensor.mul"}


def computed(tree: ast.AST) -> Iterator[ast.AST]:
    """Arithmetic on plain numbers: quotients, powers, sums and the like. Places may be counted (`i + 1`), lists
    repeated and joined."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            counts = isinstance(node.op, (ast.Add, ast.Sub, ast.FloorDiv, ast.Mult)) and all(map(_counted, sides))
            lists = isinstance(node.op, (ast.Add, ast.Mult)) and any(map(_listed, sides))
            if not (counts or lists):
                yield node
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
            if not isinstance(node.operand, ast.Constant) and not _counted(node.operand):
                yield node
        elif isinstance(node, ast.AugAssign):
            if not isinstance(node.op, ast.BitOr):
                yield node
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("sum", "abs", "round", "pow"):
            yield node
        elif isinstance(node, ast.Attribute) and node.attr in ("reduce", "scan", "agg"):
            yield node  # the library's own statistics: a run takes them inside its parts
        elif isinstance(node, ast.Name) and node.id == "math":
            yield node


def _listed(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return any(map(_listed, (node.left, node.right)))
    return isinstance(node, (ast.List, ast.Tuple, ast.ListComp))


def _counted(node: ast.AST) -> bool:
    """Whether a node is a count or a place: a whole number, a length, a size, or a name bound by `enumerate` or `range`
    and the like, which are plain names."""
    if isinstance(node, ast.BinOp):
        return _counted(node.left) and _counted(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "len"
    return isinstance(node, (ast.Name, ast.Attribute)) or (
        isinstance(node, ast.Subscript) and ast.unparse(node).startswith("case[")
    )


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.stem)
def test_no_arithmetic_on_numbers_stands_in_an_adapter(file: Path) -> None:
    found = [f"{file.name}:{node.lineno}: {ast.unparse(node)}" for node in computed(ast.parse(file.read_text("utf-8")))]  # type: ignore[attr-defined]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["x = sum(y) / len(y)", "x = a ** 2", "x = -y.mean()", "x += a.b()", "x = round(y)"])
def test_arithmetic_is_found_in_a_source(text: str) -> None:
    assert list(computed(ast.parse(text)))


@pytest.mark.parametrize("text", ["x = [0] * n", "x = a | b", "x = i + 1", "x = y[: len(a) - 1]", "x = -1"])
def test_layout_is_not_arithmetic(text: str) -> None:
    assert not list(computed(ast.parse(text)))


# Far from language models, and how many cases each has.
TABLES = {
    **{"squarecb": 6, "one-sided-feedback": 5, "groupwise-regret": 3, "adaptive-equitable-sampling": 3},
    **{"action-grouping": 5, "aranyani": 5, "distraction-fairness": 5, "pid-federated-fairness": 5},
    **{"llm-tabular-fairness": 5, "sharpe-ratio-at-k": 4, "sqirl": 5, "ota": 5, "a2pr": 3, "vig-bias": 5},
}
# Cases of what no method value holds, and why.
WITHOUT_RECIPE = {
    **{f"alignment-asymptotics {n}": "a metric of finished runs" for n in range(4)},
    **{
        f"{slug} {n}": "podium.tables, of tables and not of runs"
        for slug, cases in TABLES.items()
        for n in range(cases)
    },
    "clip-bias-spurious 3": "podium.analysis, of groups and not of runs",
    "confucius3-math 4": "podium.training: which of the groups that wait are trained first",
    **{f"debate-reward {n}": "podium.tables.justified, which its world and its lab call" for n in range(4)},
    **{f"bs-iris {n}": "podium.tables.voxel_gains, which its lab calls" for n in range(5)},
    **{f"dense-reward-proposal {n}": "podium.analysis, of coalitions, graphs and tables" for n in range(5)},
    "dler 4": "podium.policy.model.merge, after a run",
    **{f"guru {n}": "podium.evaluation, of finished runs" for n in range(2)},
    "hicra 2": "the matcher of token sequences that its annotation is checked with",
    "hicra 3": "podium.analysis, of counts",
    **{f"invisible-leash {n}": "podium.analysis, of finished runs" for n in range(4)},
    "mashost 4": "the probability of a role and its links under a chooser",
    "oni 3": "the loss of the network that its memory trains",
    "multirole-r1 3": "the scores of the world opinions",
    **{f"mec-b {n}": "podium.analysis, of tables" for n in range(5)},
    **{f"parl {n}": "podium.analysis, of tables" for n in range(3)},
    **{f"policy-cliff {n}": "a metric that any run may report" for n in range(3)},
    **{f"prefix-grouper {n}": "podium.policy.forward: how a forward pass is laid out" for n in range(3)},
    **{f"search-r2 {n}": "podium.analysis, of tables" for n in (3, 4)},
    "rose 5": "the functional of the head that its signal names",
    "rose 6": "the functional of the head that its signal names",
    **{f"slea-rl {n}": "the library that its memory holds" for n in (2, 3, 4)},
    "two-stage-negative 2": "podium.analysis, of a bandit",
    "two-stage-negative 3": "podium.analysis, of a bandit",
    **{f"verl-effective-rank {n}": "the functional of the head that its signal names" for n in range(3)},
}


def test_every_case_builds_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    built: set[str] = set()
    for slug in methods.RECIPES:
        recipe = getattr(methods, slug.replace("-", "_"))

        def noted(*args: Any, recipe: Callable[..., Any] = recipe, slug: str = slug, **settings: Any) -> Any:
            built.add(slug)
            return recipe(*args, **settings)

        monkeypatch.setattr(methods, slug.replace("-", "_"), noted, raising=False)
    get = methods.get
    monkeypatch.setattr(methods, "get", lambda name, **s: (built.add(name.partition("@")[0]), get(name, **s))[1])
    missing = []
    for slug, case in run_all(vectors()):
        if slug not in built:
            missing.append(f"{slug} {case.number}")
        built.clear()
    assert set(missing) == set(WITHOUT_RECIPE)


def test_keys_that_no_run_computes() -> None:
    """They are not compared: each is a mean, a sum or a sign of inputs or of keys that are."""
    adapters()
    assert set_aside() == {
        "clip-cov-kl-cov": ("clip_fraction",),
        "confucius3-math": ("mean",),
        "dense-reward-proposal": ("total", "full_minus_empty", "block_total"),
        "entropy-discriminator-clip": ("fraction_clipped",),
        "etr": ("pass_rate",),
        "grao": ("exploration_likelihood", "imitation_likelihood"),
        "hill": ("mean_reliance_correct",),
        "igpo": ("prefix_probability",),
        "light-if": ("mean_coefficient",),
        "matchtir": ("optimal_total",),
        "pear": ("penalty",),
        "pivotrl": ("profile_mean", "profile_variance"),
        "prl": ("suffix_log_ratio",),
        "read": ("sum_of_local",),
        "real": ("score_gradient",),
        "rlfr": ("token_reward",),
        "v0-5": ("bias_sq", "weight_empirical", "mse"),
        "vspo-prs": ("advantage_per_copy",),
    }
    for slug, file in vectors():
        keys = {key for case in file.cases if isinstance(case, Case) for key in case.expected}
        assert keys >= set(set_aside().get(slug, ()))


def test_a_case_is_not_all_aside() -> None:
    for slug, file in vectors():
        for case in file.cases:
            assert isinstance(case, Case)
            assert set(case.expected) - set(set_aside().get(slug, ())), f"{slug} {case.number}"
