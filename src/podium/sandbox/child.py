"""The work of a sandboxed process: one call of a function, or the requests of a session one after another."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from typing import Any

from podium.core.printable import error_text
from podium.sandbox.frames import LARGEST_REQUEST, Frames, framed
from podium.sandbox.guard import AnswerIsCode

__all__ = ["CHUNK", "resolve", "work"]

CHUNK = 1 << 16  # bytes read at once


def work(handle: int, function: str, arguments: list[Any], token: bytes, *, session: bool) -> None:
    """Answer a call; for a session, make its handler and then answer the requests to it.

    Every answer begins with the token, so that nothing else that is written to the handle passes for an answer.
    """
    failure, value = _attempt(lambda: resolve(function)(*arguments))
    handler: Any = value if session else None
    _write(handle, token, failure or {"value": None if session else value})
    frames = Frames(LARGEST_REQUEST)
    while session and not failure:
        data = os.read(handle, CHUNK)
        if not data:
            return
        for request in frames.add(data):
            failure, value = _attempt(lambda: handler(*json.loads(request)))  # noqa: B023
            _write(handle, token, failure or {"value": value})
            if failure.get("failure") == "error":
                failure = {}  # the handler may go on
            if failure:
                return


def _attempt(call: Callable[[], Any]) -> tuple[dict[str, str], Any]:
    """Why a function failed, if it did, and what it returned."""
    try:
        return {}, call()
    except AnswerIsCode as refusal:
        return {"failure": "violation", "detail": str(refusal)}, None
    except MemoryError:
        return {"failure": "memory", "detail": "it needed more memory than is allowed"}, None
    except BaseException as error:  # SystemExit too: it ends only the call
        return {"failure": "error", "detail": error_text(error)}, None


def _write(handle: int, token: bytes, answer: dict[str, Any]) -> None:
    try:
        data = json.dumps(answer).encode()
    except Exception as error:  # what JSON cannot hold is an error of the function
        data = json.dumps({"failure": "error", "detail": error_text(error)}).encode()
    view = memoryview(framed(token + data))
    while view:
        view = view[os.write(handle, view) :]


def resolve(function: str) -> Callable[..., Any]:
    """The function that `module:name` refers to."""
    module, _, name = function.partition(":")
    resolved: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return resolved
