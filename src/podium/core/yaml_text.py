"""YAML as plain data: a safe reader with limits, so that a hostile file is refused at once and with its line."""

from __future__ import annotations

import re
from typing import Any

import yaml

from podium.core.errors import PodiumError

__all__ = ["dump", "from_yaml"]

LONGEST_TEXT = 100_000  # characters, which take about a second; the settings of a run have some thousands
DEEPEST = 100  # levels of nesting; the settings of a method have about ten
LONGEST_NUMBER = 300  # characters, so that every whole number is finite as a float


class _Refused(yaml.MarkedYAMLError):
    """YAML that Podium does not read."""


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases and repeated keys, in which 1e-6 is a number, as people write it; the standard asks for
    1.0e-6."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):  # a few of them can stand for more data than there is memory
            alias: Any = self.get_event()  # type: ignore[no-untyped-call]
            problem = f"the alias *{alias.anchor} is not read: repeat what it stands for"
            raise _Refused(problem=problem, problem_mark=alias.start_mark)
        self.depth += 1
        if self.depth > DEEPEST:
            inner: Any = self.get_event()  # type: ignore[no-untyped-call]
            problem = f"it is nested more than {DEEPEST} levels deep"
            raise _Refused(problem=problem, problem_mark=inner.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """As the base class does, which lets errors of conversions through: !!int "", 2026-99-99, !!bool maybe."""
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, PodiumError):
            raise
        except Exception as error:
            kind = str(node.tag).rpartition(":")[2]
            raise _Refused(problem=f"this is no value of the type {kind}", problem_mark=node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = (key.tag, key.value)
                if name in seen:
                    raise _Refused(problem=f"the key {key.value!r} occurs twice", problem_mark=key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A number of bounded length: some forms take quadratic time, and long ones cannot be printed again."""
        if len(node.value) > LONGEST_NUMBER:
            raise _Refused(problem=f"a number has {len(node.value)} characters", problem_mark=node.start_mark)
        whole = str(node.tag).endswith(":int")
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)
for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


class _Dumper(yaml.SafeDumper):
    """Writes what stands in several places each time: `from_yaml` reads no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def from_yaml(text: str) -> Any:
    """Plain data from YAML text."""
    if len(text) > LONGEST_TEXT:
        raise PodiumError(f"This YAML has {len(text):,} characters; at most {LONGEST_TEXT:,} are read.")
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        place = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        kind = "YAML that Podium reads" if isinstance(error, _Refused) else "YAML"
        raise PodiumError(f"This is not {kind}: {error.problem}{place}.") from error
    except yaml.YAMLError as error:
        raise PodiumError(f"This is not YAML: {' '.join(str(error).split())}.") from error


def dump(data: Any) -> str:
    """Plain data as YAML text."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if len(text) > LONGEST_TEXT:
        raise PodiumError(
            f"These settings have {len(text):,} characters as YAML, more than would be read again ({LONGEST_TEXT:,}): "
            "keep large data in a file and name the file."
        )
    return text
