"""`python -m podium` is `podium`."""

from podium.cli import run

if __name__ == "__main__":
    run()
