"""`python -m ding_lite`: the command line, for launchers that start a module."""

from ding_lite.cli.main import main

if __name__ == "__main__":
    main()
