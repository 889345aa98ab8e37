"""`python -m podium` is `podium`, for launchers such as torchrun."""

from podium.cli.app import run

if __name__ == "__main__":
    run()
