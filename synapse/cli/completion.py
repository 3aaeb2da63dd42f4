"""`synapse completion`: a script for bash and zsh, made from the parsers themselves, so it can't go stale."""

from __future__ import annotations

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import options_of
from synapse.cli.verbs import ALIASES, VERBS
from synapse.entry import PRIORITIES, SCOPES

SHELLS = ("bash", "zsh")

_SCRIPT = """\
# {shell} completion for synapse. Load it with: eval "$(synapse completion {shell})"
{load}_synapse_root() {{
    local i
    for ((i = 1; i < ${{#COMP_WORDS[@]}}; i++)); do
        [[ ${{COMP_WORDS[i-1]}} == --root ]] && echo "${{COMP_WORDS[i]}}" && return
    done
    if [[ -n $SYNAPSE_ROOT ]]; then echo "$SYNAPSE_ROOT"
    elif [[ -d shared-memory ]]; then echo shared-memory
    else echo "$HOME/shared-memory"; fi
}}
_synapse_agents() {{
    local file
    for file in "$(_synapse_root)"/agents/*.yaml; do
        [[ -e $file ]] || continue
        file=${{file##*/}}
        echo "${{file%.yaml}}"
    done
}}
_synapse() {{
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
        --agent|--from|--author) words=$(_synapse_agents) ;;
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
        view) [[ $cur == -* ]] || words="$words $(_synapse_agents)" ;;
        completion) words="$words {shells}" ;;
        export|import) [[ $cur == -* ]] || {{ COMPREPLY=($(compgen -f -- "$cur")); return; }} ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -F _synapse {commands}
"""

_ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


def completion_options(parser: Options) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def completion(call: Call) -> None:
    text = script(call.args.shell)
    call.show(lambda: {"shell": call.args.shell, "script": text}, lambda: text.rstrip("\n"))


def script(shell: str) -> str:
    return _SCRIPT.format(
        shell=shell,
        shells=" ".join(SHELLS),
        load=_ZSH if shell == "zsh" else "",
        aliases="\n".join(f"        {command}) verb={verb} ;;" for command, verb in ALIASES.items()),
        priorities=" ".join(PRIORITIES),
        scopes=" ".join(SCOPES),
        verbs=" ".join(VERBS),
        options="\n".join(f'                {name}) words="{" ".join(flags(name))}" ;;' for name in VERBS),
        commands=" ".join(("synapse", *ALIASES)),
    )


def flags(name: str) -> list[str]:
    """Every long option of a verb."""
    calls = options_of(VERBS[name]).calls
    return ["--help", *(flag for names, _ in calls for flag in names if flag.startswith("--"))]
