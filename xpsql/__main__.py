"""`python -m xpsql`, and `spark-submit .../xpsql/__main__.py`: the command line."""

# Not relative: spark-submit runs this file as a script, which belongs to no package.
from xpsql.platform.cli import run

if __name__ == "__main__":
    run()
