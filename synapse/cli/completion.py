"""`synapse completion`: a script for bash and zsh, made from the parsers themselves, so it can't go
stale.
"""

from __future__ import annotations

from collections.abc import Mapping

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import options_of
from synapse.cli.verbs import ALIASES, PROGRAM, Program
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

_PLACES = """\
        view) [[ $cur == -* ]] || words="$words $(_synapse_agents)" ;;
        export|import) [[ $cur == -* ]] || { COMPREPLY=($(compgen -f -- "$cur")); return; } ;;"""
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


def completion_options(parser: Options) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def completion(call: Call) -> None:
    text = script(call.args.shell)
    call.show(
        lambda: {"shell": call.args.shell, "script": text}, lambda: text.rstrip("\n")
    )


def script(
    shell: str,
    program: Program = PROGRAM,
    places: str = _PLACES,
    aliases: Mapping[str, str] = ALIASES,
) -> str:
    """The script of a program; `places` are the cases for what its verbs take without an option's
    name.
    """
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


def flags(name: str, program: Program = PROGRAM) -> list[str]:
    """Every long option of a verb."""
    calls = options_of(program.verbs[name]).calls
    return [
        "--help",
        *(flag for names, _ in calls for flag in names if flag.startswith("--")),
    ]
