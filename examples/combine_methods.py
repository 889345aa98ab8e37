"""Which methods combine? DAPO with STEER's token weights, and two methods that cannot be joined.

python examples/combine_methods.py
"""

from __future__ import annotations

from podium import methods


def main() -> None:
    both = methods.combine(methods.dapo(), methods.steer())
    print(f"dapo + steer: {both.verdict}")
    for reason in both.reasons:
        print(f"  {reason}")
    if both.method is not None:
        print(both.method.describe())
    clash = methods.combine(methods.gspo(), methods.reinforce())
    print(f"gspo + reinforce: {clash.verdict}")
    for reason in clash.reasons:
        print(f"  {reason}")


if __name__ == "__main__":
    main()
