"""`python -m podium.cli` is `podium`."""

from podium.cli.app import run

if __name__ == "__main__":
    run()
