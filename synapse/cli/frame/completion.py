"""The completion script of a shell program, for bash and zsh, made from its verbs' own options."""

from __future__ import annotations

from collections.abc import Mapping

from synapse.cli.frame.parse import options_of
from synapse.cli.frame.program import Program
from synapse.model.entry import PRIORITIES, SCOPES

SHELLS = ("bash", "zsh")

_SCRIPT = """\
# {shell} completion for {program}. Load it with: eval "$({program} completion {shell})"
{load}_{program}_root() {{
    local i
    for ((i = 1; i < ${{#COMP_WORDS[@]}}; i++)); do
        [[ ${{COMP_WORDS[i-1]}} == --root ]] && echo "${{COMP_WORDS[i]}}" && return
    done
    synapse where 2>/dev/null | head -n 1
}}
_{program}_agents() {{
    local file
    for file in "$(_{program}_root)"/agents/*.yaml; do
        [[ -e $file ]] || continue
        file=${{file##*/}}
        echo "${{file%.yaml}}"
    done
}}
_{program}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} verb= words= i
    case ${{COMP_WORDS[0]##*/}} in
{aliases}
        *)
            for ((i = 1; i < COMP_CWORD; i++)); do
                case ${{COMP_WORDS[i]}} in
                    --root) i=$((i + 1)) ;;
                    -*) ;;
                    *) verb=${{COMP_WORDS[i]}}; break ;;
                esac
            done ;;
    esac
    case $prev in
        --agent|--from|--author) words=$(_{program}_agents) ;;
        --priority|--notify) words="{priorities}" ;;
        --scope) words="{scopes}" ;;
        --as-generation) words="A B C" ;;
        --root|--conformance) COMPREPLY=($(compgen -d -- "$cur")); return ;;
        *)
            case $verb in
                "") words="{verbs} --root --json --debug --help --version" ;;
{options}
            esac ;;
    esac
    case $verb in
{places}
        completion) words="$words {shells}" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -F _{program} {commands}
"""

_ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


def script(shell: str, program: Program, places: str, aliases: Mapping[str, str]) -> str:
    """Return the completion script of a program. `places` are shell cases for positional
    arguments."""
    return _SCRIPT.format(
        program=program.name,
        places=places,
        shell=shell,
        shells=" ".join(SHELLS),
        load=_ZSH if shell == "zsh" else "",
        aliases="\n".join(
            f"        {command}) verb={verb} ;;" for command, verb in aliases.items()
        ),
        priorities=" ".join(PRIORITIES),
        scopes=" ".join(SCOPES),
        verbs=" ".join(program.verbs),
        options="\n".join(
            f'                {name}) words="{" ".join(flags(name, program))}" ;;'
            for name in program.verbs
        ),
        commands=" ".join((program.name, *aliases)),
    )


def flags(name: str, program: Program) -> list[str]:
    """Return every long option of a verb."""
    declared = options_of(program.verbs[name]).declared()
    return ["--help", *(flag for option in declared for flag in option.option_strings)]
