"""Separate processes for code that must not be trusted: killable, limited, without network or files.

`Sandbox` calls functions of Python modules in such processes. Whatever evaluates a model's text (the scorers of
reasoning-gym, math-verify, programs that a model has written) is called through it. Start with `client.py`; `server.py`
is the other side, and `confine.py` shows how the processes are confined.
"""

from podium.sandbox.client import Sandbox, SandboxedCall, Session
from podium.sandbox.confine import enforced, unconfinable
from podium.sandbox.connection import CallOutcome
from podium.sandbox.limits import Limits
from podium.sandbox.workers import Workers

__all__ = ["CallOutcome", "Limits", "Sandbox", "SandboxedCall", "Session", "Workers", "enforced", "unconfinable"]
