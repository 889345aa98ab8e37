"""What files, models and worlds say can neither drive a terminal nor put anything into a report but text."""

from __future__ import annotations

import io
import re
import shutil
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from podium.cli import console, main
from podium.core.errors import PodiumError
from podium.core.printable import printable
from podium.core.yaml_text import dump, from_yaml
from podium.report.live import Live
from podium.report.run_page import write_report
from podium.sessions.train import train
from podium.store.run_directory import RunDirectory
from tests.sessions.test_train import small
from tests.store.consistent import replace_config

Capture = pytest.CaptureFixture[str]
ATTACK = "\x1b]0;owned\x07\x1b[2J\x9b31m\rover\x08\x7f\u202egnp\u2066\u2028[bold]x[/bold] [link=http://evil]y[/link]"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
OWN_COLOURS = re.compile(r"\x1b\[[\d;]*m")
TAGS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</pre></title></style><script>alert(1)</script>",
    "<a href=javascript:alert(1)>x</a>",
    "<!--", "]]>", "&lt;script&gt;", "<iframe src=//evil>",
)  # fmt: skip


def test_unsafe_characters_become_visible_and_others_stay() -> None:
    assert printable("a\x1b[2Jb\x9b\u202e\ud800\rx") == r"a\x1b[2Jb\x9b\u202e\ud800\rx"
    plain = "tab\tline\nwindows\r\n日本語 é 👩\u200d🔬 \\x1b"
    assert printable(plain) == plain
    assert printable(printable(ATTACK)) == printable(ATTACK)
    assert UNSAFE.search(printable(ATTACK)) is None


def test_an_error_is_safe_to_print_wherever_it_ends_up() -> None:
    assert UNSAFE.search(str(PodiumError(ATTACK))) is None


@pytest.fixture(params=["pipe", "terminal"])
def printed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Any:
    """What was printed, after a check that nothing in it but the console's own colours drives a terminal."""
    monkeypatch.setattr(console, "_is_terminal", lambda stream: request.param == "terminal")

    def read() -> str:
        captured = capsys.readouterr()
        text = captured.out + captured.err
        rest = OWN_COLOURS.sub("", text) if request.param == "terminal" else text
        assert UNSAFE.search(rest) is None, rest
        return " ".join(rest.split())

    return read


def test_rows_lines_warnings_and_tables_print_no_escapes(printed: Any) -> None:
    console.line(ATTACK, style="bold")
    console.paragraphs(ATTACK)
    console.table(["a", ATTACK], [[ATTACK, "b"]])
    console.rows([[ATTACK * 9, ATTACK * 9]])
    console.warning(ATTACK)
    console.error(ATTACK)
    console.unbroken(ATTACK)
    assert "[bold]x[/bold]" in printed()


def test_keys_files_and_methods_print_no_escapes(printed: Any, tmp_path: Path) -> None:
    data = tmp_path / f"{ATTACK.replace('/', '')}.jsonl"
    data.write_text('{"\\u001b]0;owned\\u0007": 1}')
    assert main(["train", "--world", f"jsonl:{data}"]) == 2
    assert r"\x1b]0;owned\x07" in printed()
    file = tmp_path / "method.yaml"
    file.write_text(dump({"name": ATTACK, "summary": ATTACK, "citation": ATTACK}))
    for words in (["show"], ["show", "--yaml"], ["check"]):
        assert main(["methods", words[0], str(file), *words[1:]]) in (0, 1)
        printed()
    file.write_text('{name: x, "\\e]0;\\a": 1}')
    assert main(["methods", "show", str(file)]) == 2
    assert r"\x1b]0;\x07" in printed()


WORLD = f"""
from podium.worlds.echo import Echo

class Bad(Echo):
    name = "bad"
    def grade(self, *_):
        raise RuntimeError({ATTACK!r})
"""


def test_an_exception_of_a_world_prints_no_escapes(printed: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(WORLD)
    assert main(["eval", "podium/tiny", "--world", f"{tmp_path / 'bad.py'}:Bad", "--tasks", "2", "--k", "1"]) == 2
    assert r"the world raised RuntimeError: \x1b]0;owned" in printed()


def test_warnings_of_other_packages_print_no_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*_: object) -> None:
        warnings.warn_explicit(ATTACK, UserWarning, "elsewhere.py", 1)

    monkeypatch.setattr("podium.cli.app.line", warn)
    with pytest.warns(UserWarning, match=re.escape(printable(ATTACK))):
        main(["--version"])


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_reads_no_markup_in_names_and_notes(terminal: bool) -> None:
    out = io.StringIO()
    with Live(Console(file=out, force_terminal=terminal, width=200, no_color=True)) as live:
        live.stage(ATTACK)
        live.tell(ATTACK)
    text = out.getvalue()
    assert "]0;owned\\x07" in text
    assert "\x1b]" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold] [link=http://evil]y[/link]" in text


# -- a hostile run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mine"
    train(small(iterations=1), out=out)
    return out


def poisoned(finished: Path, folder: Path, text: str) -> Path:
    """A copy of a run in which every text is this one."""
    run = folder / "run"
    shutil.copytree(finished, run)
    (file,) = (run / "rollouts").glob("*.parquet")
    table = pq.read_table(file)
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(number, field.name, pa.array([text] * len(table)))
        elif pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
            values = [[text] * len(v) for v in table.column(number).to_pylist()]
            table = table.set_column(number, field.name, pa.array(values))
    pq.write_table(table, file)
    config: dict[str, Any] = from_yaml((run / "config.yaml").read_text())
    config |= {"model": text, "world": text, "world_settings": {"dial": text, text.replace(":", ""): 1}}
    config["method"]["Method"] |= {"name": text, "summary": text, "citation": text}
    replace_config(run, dump(config))
    directory = RunDirectory(run)
    lines = directory.metrics()
    (run / "metrics.jsonl").unlink()
    for line in lines:
        directory.append_metrics({**line, text: 1.0, "failures": 1, "failure": text, "eval.failure": text})
    return run


def test_rollouts_of_a_hostile_run_print_no_escapes(printed: Any, finished: Path, tmp_path: Path) -> None:
    assert main(["rollouts", str(poisoned(finished, tmp_path, ATTACK))]) == 0
    assert r"\x1b]0;owned\x07" in printed()


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_comment(self, data: str) -> None:
        self.tags.add("comment")


@pytest.mark.parametrize("text", TAGS)
def test_the_report_of_a_hostile_run_has_no_elements_but_its_own(finished: Path, tmp_path: Path, text: str) -> None:
    sound = Elements(write_report(shutil.copytree(finished, tmp_path / "sound")).read_text())
    hostile = Elements(write_report(poisoned(finished, tmp_path, text)).read_text())
    assert hostile.tags <= sound.tags | {"ul", "li", "h2"}
    assert hostile.attributes <= sound.attributes
