"""A name of the hub: fetched, read from the cache, or refused at once in one line that says what would help."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from podium.core import PodiumError
from podium.policy import load
from tests.policy import tiny

Hub = Callable[[int], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """Puts the hub at a port of this machine, with an empty cache."""
    from huggingface_hub import constants

    def place(port: int) -> None:
        address = f"http://127.0.0.1:{port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))

    return place


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What transformers is asked for; it always refuses."""
    import transformers

    asked: list[Any] = []

    def refuse(name: str, **options: Any) -> None:
        asked.append((name, options))
        raise OSError("We couldn't connect.\nAnd more lines.")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", refuse)
    return asked


def nobody() -> int:
    """A port at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def answering(status: int, wait_s: float = 0.0, **headers: str) -> Iterator[int]:
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            time.sleep(wait_s)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def test_without_a_network_an_unknown_name_is_refused_at_once(at: Hub, reader: list[Any]) -> None:
    at(nobody())
    begun = time.monotonic()
    with pytest.raises(PodiumError) as error:
        load("no/such-model")
    assert time.monotonic() - begun < 2
    assert reader == []  # it would try for half a minute
    said = str(error.value)
    assert said.startswith("no/such-model is no directory here, and the hub cannot be reached")
    assert said.endswith("Give a directory with config.json and safetensors or a GGUF file, or connect to the network.")
    assert "\n" not in said


def test_a_name_that_the_hub_does_not_know_is_said_to_be_that(at: Hub, reader: list[Any]) -> None:
    with answering(404, X_Error_Code="RepoNotFound") as port:
        at(port)
        with pytest.raises(PodiumError, match=r"^no/such-model is neither a directory here nor a model of the hub"):
            load("no/such-model")
    assert reader == []


@pytest.mark.parametrize("status", [200, 503])
def test_a_hub_that_answers_is_left_to_the_reader(at: Hub, reader: list[Any], status: int) -> None:
    with answering(status) as port:
        at(port)
        with pytest.raises(PodiumError, match=r"neither a directory here nor a model .* We couldn't connect.$"):
            load("somebody/some-model")
    assert [name for name, _ in reader] == ["somebody/some-model"]


def test_a_hub_that_is_slow_to_answer_is_not_given_up(
    at: Hub, reader: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["podium.policy.model.load"], "CONNECT_S", 0.1)
    with answering(200, wait_s=0.5) as port:
        at(port)
        with pytest.raises(PodiumError, match=r"We couldn't connect.$"):
            load("somebody/some-model")
    assert len(reader) == 1


def test_without_a_network_a_model_in_the_cache_is_used(at: Hub, tmp_path: Path) -> None:
    at(nobody())
    kept = tmp_path / "cache" / "models--somebody--some-model"
    tiny.directory(kept / "snapshots" / "abc")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    begun = time.monotonic()
    policy = load("somebody/some-model")
    assert time.monotonic() - begun < 10
    assert policy.context_length == 256
