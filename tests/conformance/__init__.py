"""Conformance: the library's numbers against the numbers of each method's reference.

`vectors/SLUG.json` holds cases (inputs, settings, expected values); an adapter for SLUG in `adapters/` maps a case to
library calls and contains no formula of its own. Run with `python -m tests.conformance [DIR] [--only SLUG …]`.
"""
