"""One study per file, `SLUG.py` with underscores for dashes: a `Lab` or a `Trial` under the name `STUDY`."""
