"""`python -m xpsql`: the command line."""

from .platform.cli import main

if __name__ == "__main__":
    main(prog_name="xpsql")
