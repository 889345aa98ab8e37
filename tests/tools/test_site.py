"""The generated pages of the documentation site, and what becomes of links that leave docs/."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("mkdocs", reason="make site installs it")

from podium.training.config import Config, Optimizer
from tools.site import cli_page, on_page_markdown, settings_page


def rewritten(text: str, source: str) -> str:
    return on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=source)), None, None)


def test_every_setting_of_a_run_has_a_row() -> None:
    page = settings_page()
    missing = [name for name in Config.field_names() if f"| `{name}` |" not in page]
    missing += [name for name in Optimizer.field_names() if f"| `optimizer.{name}` |" not in page]
    assert not missing
    assert "|  |" not in page, "a setting without a meaning: comment it in podium/training/config.py"


def test_the_reference_has_the_help_of_nested_commands() -> None:
    page = cli_page()
    assert "### podium train" in page
    assert "#### podium methods show" in page
    assert "--resume" in page


def test_links_to_source_files_become_text_and_dead_links_stay() -> None:
    assert rewritten("[Batch](../src/podium/core/batch.py)", "glossary.md") == "Batch"
    assert rewritten("[gone](../src/podium/no_such_file.py)", "glossary.md") == "[gone](../src/podium/no_such_file.py)"
    assert rewritten("[rules](../../SECURITY.md#scope)", "guide/training.md") == "[rules](../SECURITY.md#scope)"
    assert rewritten("[page](methods.md)", "guide/training.md") == "[page](methods.md)"
