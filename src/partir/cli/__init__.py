"""The command line: `partir demo`, `show`, `export`."""

from partir.cli.main import main as main
