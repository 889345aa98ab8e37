"""Chat servers: a question is answered, repeated, or given up; a server that is down stops the run with a sentence."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from podium.collect.driver import Driver
from podium.core.errors import PodiumError
from podium.protocols.sampling import Sampling
from podium.sampler.local import LocalSampler
from podium.strategies import ChatServer, WrittenJudge
from podium.strategies.ask import Ask, Reply
from podium.strategies.requests import Compare, JudgeScores, TaskRequest
from podium.worlds import Sums
from tests.policy import tiny

Answer = tuple[int, Any]


def said(text: Any) -> Answer:
    return 200, {"choices": [{"message": {"content": text}}]}


@contextmanager
def serving(answer: Callable[[int, dict[str, Any]], Answer]) -> Iterator[str]:
    """A server that gives the n-th request such a status and body."""
    seen: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(1)
            status, body = answer(len(seen), {**given, "path": self.path})
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://elsewhere.invalid/")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def driver() -> Driver:
    policy = tiny.policy()
    return Driver(LocalSampler(policy), Sums(), written=policy.written, score=policy.score)


def asked(*requests: Any, at: Driver | None = None) -> list[Any]:
    def plan() -> Any:
        answers = yield list(requests)
        return [answer for (answer,) in answers]

    (found,) = (at or driver()).collect([plan()])
    return found


def patient(url: str, **settings: Any) -> ChatServer:
    return ChatServer(url, **{"pause_s": 0.01, "retries": 2, **settings})


def test_a_question_is_sent_as_the_protocol_has_it() -> None:
    got: list[dict[str, Any]] = []

    def answer(number: int, given: dict[str, Any]) -> Answer:
        got.append(given)
        return said("verdict: A")

    with serving(answer) as url:
        (reply,) = asked(Ask("which?", patient(url, model="m"), Sampling(temperature=0.6, max_tokens=5), (1, 9)))
    assert reply == Reply("verdict: A")
    assert got[0] == {
        "path": "/v1/chat/completions",
        "model": "m",
        "messages": [{"role": "user", "content": "which?"}],
        "temperature": 0.6,
        "top_p": 1.0,
        "max_tokens": 5,
        "seed": 9,
    }


def test_a_judge_on_a_server_is_asked_in_both_orders_and_its_calls_are_counted() -> None:
    def answer(number: int, given: dict[str, Any]) -> Answer:
        asks_first = "A: short" in given["messages"][0]["content"]
        return said("verdict: A" if asks_first else "verdict: B")  # prefers "short", wherever it stands

    world, at = Sums(), driver()
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0,), world=world)
    with serving(answer) as url:
        judge = WrittenJudge(asks=patient(url))
        (scores,) = asked(Compare(request, "short", "long", judge=judge), at=at)
    assert scores == JudgeScores((1.0, 0.0), 2)
    assert (at.judged, at.judge_retries, at.judge_nonsense, at.judge_failures) == (2, 0, 0, {})


def test_nonsense_is_neutral_and_counted() -> None:
    world, at = Sums(), driver()
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0,), world=world)
    with serving(lambda number, given: said("who knows")) as url:
        judge = WrittenJudge(asks=patient(url), retries=1)
        (scores,) = asked(Compare(request, "short", "long", judge=judge, calls=1), at=at)
    assert scores == JudgeScores((0.5, 0.5), 2, failed=1)
    assert (at.judged, at.judge_retries, at.judge_nonsense, at.judge_failures) == (2, 1, 1, {})


@pytest.mark.parametrize("first", [(503, {}), (429, {}), (200, b"no json"), (200, {"choices": []}), said(None)])
def test_a_call_that_fails_for_once_is_repeated(first: Answer) -> None:
    with serving(lambda number, given: first if number == 1 else said("fine")) as url:
        assert asked(Ask("?", patient(url))) == [Reply("fine", calls=2)]


def test_a_server_that_fails_again_and_again_gives_the_reason() -> None:
    with serving(lambda number, given: (500, {"error": "out of memory"})) as url:
        (reply,) = asked(Ask("?", patient(url)))
    assert (reply.text, reply.calls) == ("", 3)
    assert "answered 500" in reply.failure
    assert "out of memory" in reply.failure


def test_a_question_that_the_server_refuses_is_not_repeated() -> None:
    with serving(lambda number, given: (400, {"error": "too long"})) as url:
        (reply,) = asked(Ask("?", patient(url)))
    assert reply.calls == 1
    assert "too long" in reply.failure


def test_a_server_that_does_not_answer_in_time() -> None:
    def answer(number: int, given: dict[str, Any]) -> Answer:
        time.sleep(0.4)
        return said("late")

    with serving(answer) as url:
        (reply,) = asked(Ask("?", patient(url, timeout_s=0.1, retries=1)))
    assert "did not answer within 0.1 s" in reply.failure or "timed out" in reply.failure


def test_a_wrong_address_on_the_server_stops_with_a_sentence() -> None:
    with (
        serving(lambda number, given: (404, {"error": "no such model"})) as url,
        pytest.raises(PodiumError, match=r"404.*no such model.*Check its address and the name of the model"),
    ):
        asked(Ask("?", patient(url)))


def test_a_server_that_is_down_stops_the_run_with_one_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    at = driver()
    with pytest.raises(PodiumError, match=r"cannot be reached .* after 3 calls: start it, and go on with podium"):
        asked(*[Ask("?", patient(f"http://127.0.0.1:{port}/v1"))] * 4, at=at)
    assert not at.servers.busy


@pytest.mark.parametrize("url", ["http://example.com/v1", "http://10.0.0.1/v1", "http://localhost.example.com/v1"])
def test_other_machines_are_refused(url: str) -> None:
    with pytest.raises(PodiumError, match="is not on this machine"):
        asked(Ask("?", patient(url)))


@pytest.mark.parametrize("url", ["localhost:8000", "file:///etc/passwd", ""])
def test_an_address_must_be_one(url: str) -> None:
    with pytest.raises(PodiumError, match="must look like"):
        asked(Ask("?", patient(url)))


def test_no_redirection_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
    with serving(lambda number, given: (302, {})) as url:
        (reply,) = asked(Ask("?", patient(url)))
    assert "answered 302" in reply.failure
