"""`python -m podium.cli` is `podium`."""

import sys

from podium.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
