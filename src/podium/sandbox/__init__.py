"""Code that must not be trusted, in processes of its own: killable, limited, without network and without files.

`Sandbox` runs functions of Python modules in such processes. What reads a model's text with someone else's code (the
scorers of reasoning-gym, math-verify, programs that a model has written) is called through it. Start with `client.py`;
`server.py` is the other side, and `confine.py` says how its processes are confined.
"""

from podium.sandbox.client import Sandbox, SandboxedCall, Session
from podium.sandbox.confine import enforced, unconfinable
from podium.sandbox.connection import CallOutcome
from podium.sandbox.limits import Limits
from podium.sandbox.workers import Workers

__all__ = ["Limits", "CallOutcome", "Sandbox", "SandboxedCall", "Session", "Workers", "enforced", "unconfinable"]
