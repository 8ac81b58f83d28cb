"""`partir completion`: scripts that complete commands and options in a shell."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish")


def add_completion_arguments(
    completion: ArgumentParser, commands: Mapping[str, ArgumentParser]
) -> None:
    """Which shell; `commands` are all that there are when the script is made."""
    completion.add_argument("shell", choices=SHELLS, help="the shell to write for")

    def run(args: Namespace) -> None:
        known = {name: _options(parser) for name, parser in commands.items()}
        print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](known))

    completion.set_defaults(run_command=run)


def _options(parser: ArgumentParser) -> dict[str, str]:
    """Options of a command with the first sentence of their help."""
    found: dict[str, str] = {}
    for action in parser._actions:  # no public way to ask
        text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
        short = text.partition(";")[0].partition(":")[0].replace("%%", "%")
        found.update(dict.fromkeys(action.option_strings, short))
    return found


Known = Mapping[str, Mapping[str, str]]


def _bash(known: Known) -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join(options)}" ;;' for name, options in known.items()
    )
    return f"""# partir's completion for bash: put it into a file that ~/.bashrc sources
_partir() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(known)} --help --version" -- "$cur"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $cur in
    -*) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -f -- "$cur")) ;;
  esac
}}
complete -o filenames -F _partir partir"""


def _zsh(known: Known) -> str:
    cases = "\n".join(
        f"    {name}) compadd -- {' '.join(options)} ;;"
        for name, options in known.items()
    )
    return f"""#compdef partir
# partir's completion for zsh: put it into a folder of $fpath as _partir
_partir() {{
  if (( CURRENT == 2 )); then
    compadd -- {" ".join(known)} --help --version
    return
  fi
  if [[ $PREFIX != -* ]]; then
    _files
    return
  fi
  case $words[2] in
{cases}
  esac
}}
compdef _partir partir"""


def _fish(known: Known) -> str:
    lines = ["# partir's completion for fish: ~/.config/fish/completions/partir.fish"]
    for name, options in known.items():
        lines.append(f"complete -c partir -n __fish_use_subcommand -a {name}")
        seen = f"__fish_seen_subcommand_from {name}"
        for option, text in options.items():
            kind = "-l" if option.startswith("--") else "-s"
            told = text.replace("\\", "").replace("'", "")
            flag = f"{kind} {option.lstrip('-')} -d '{told}'"
            lines.append(f"complete -c partir -n '{seen}' {flag}")
    return "\n".join(lines)
