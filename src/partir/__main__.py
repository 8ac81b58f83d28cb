"""`python -m partir`: the command line."""

import sys

from partir.cli import main

if __name__ == "__main__":
    sys.exit(main())
