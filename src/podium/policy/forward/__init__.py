"""Forward passes: packing with shared prefixes, the decoder, and the padded pass for every other architecture.

Start with `decoder.py`; `pack.py` builds the trie of prefixes, and `packed.py` and `padded.py` evaluate signals.
"""
