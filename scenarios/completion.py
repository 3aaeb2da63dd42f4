"""`brain-suite completion`: a script for bash and zsh, made from the parser itself, so that it
cannot go stale.
"""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh")
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""
_SCRIPT = """\
# {shell} completion for brain-suite. Load it with: eval "$(brain-suite completion {shell})"
{load}_brain_suite() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
    local verb=${{COMP_WORDS[1]}} words=
    (( COMP_CWORD == 1 )) && verb=
    case $verb,$prev in
{values}
        *)
            case $verb in
                "") words="{verbs} --help" ;;
{options}
            esac
            [[ $cur == -* ]] || case $verb in
                run|record|lint) words="$words {scenarios}" ;;
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ $cur == -* || -z $verb ]] || COMPREPLY+=($(compgen -f -- "$cur"))
}}
complete -o filenames -F _brain_suite brain-suite
"""


def script(shell: str, verbs: dict[str, argparse.ArgumentParser], scenarios: list[str]) -> str:
    """Return the script: verbs, their options, the values of options that have choices, and
    scenarios.
    """
    options, values = [], []
    for name, parser in verbs.items():
        flags = [
            flag
            for action in parser._actions
            for flag in action.option_strings
            if flag.startswith("--")
        ]
        options.append(f'                {name}) words="{" ".join(flags)}" ;;')
        for action in parser._actions:
            if action.choices and not action.option_strings:
                values.append(
                    f'        {name},{name}) words="{" ".join(map(str, action.choices))}" ;;'
                )
            elif action.choices:
                values.append(
                    f"        {name},{action.option_strings[-1]})"
                    f' words="{" ".join(action.choices)}" ;;'
                )
    return _SCRIPT.format(
        shell=shell,
        load=_ZSH if shell == "zsh" else "",
        verbs=" ".join(verbs),
        options="\n".join(options),
        values="\n".join(values),
        scenarios=" ".join([*scenarios, "all"]),
    )
