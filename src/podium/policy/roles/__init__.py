"""Models with a job other than the policy's: critics with value heads, and small networks on hidden states.

Start with `critic.py`; `hidden_head.py` is the base of the networks.
"""
