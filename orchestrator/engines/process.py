"""Engines that are programs: a coding client, or any command. A step is one session of it, from
start to end. Nothing here knows of memory.

`clients` has what each client is like, `client_command` makes its request, `output_rules` reads its
output, `child` holds its process. Its agent uses the memory's shell, and is bound to it by the
environment of its place.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from orchestrator.engines import clients, output_rules
from orchestrator.engines.child import Child
from orchestrator.engines.client_command import Session, fill, prompt_of, values_for
from orchestrator.engines.clients import Client
from orchestrator.engines.output import Output
from orchestrator.engines.output_rules import Rule, Said
from orchestrator.engines.protocol import (
    Broken,
    ContextTooLong,
    EngineError,
    Place,
    Rejected,
    Request,
    Turn,
    Unavailable,
    Usage,
)

GRACE = 5.0  # what a client has to leave its session in order
LIMIT = 256 * 1024 * 1024  # bytes of output; nobody says that much on purpose
LOOK_EVERY = 1.0

STOPS = {"max_tokens": "length", "refusal": "refusal"}
_CODE = r"(error|status|code)\W{1,4}"
TROUBLES: tuple[tuple[type[EngineError], str], ...] = (
    (
        ContextTooLong,
        (
            r"prompt is too long|context.{0,20}(length|window|too long)|maximum"
            r" (context|number of tokens)"
        ),
    ),
    (
        Unavailable,
        _CODE
        + r"(408|409|429|5\d\d)\b|overloaded|rate.?limit|timed? ?out|ECONN|disconnected|network",
    ),
    (Rejected, _CODE + r"40[0134]\b|api.?key|unauthori[sz]ed|authenticat|log ?in"),
)


class SessionLost(EngineError):
    """The client does not have the session that it was to resume."""


class Process:
    """A command as an engine.

    Of a command that is no preset, the prompt comes on standard input, or where `{prompt}` or
    `{prompt_file}` stands; what it prints is its text, unless `form` ("lines" of JSON or one "json"
    text) and `rules` say how to find that. `resume` is the command that goes on with a `{session}`.
    """

    interrupt = "turn"
    takes_tools = False
    own_key = False  # a client's comes with its environment

    def __init__(
        self,
        command: str | Sequence[str] = (),
        *,
        client: Client | None = None,
        resume: Sequence[str] = (),
        form: str = "text",
        rules: Iterable[Rule | Mapping[str, Any]] = (),
        model: str | None = None,
        permissions: str = "memory",
        report: bool = False,
        extra: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        keep: Sequence[str] = (),
        timeout: float | None = None,
        grace: float = GRACE,
        limit: int = LIMIT,
    ) -> None:
        if client is None:
            rule_list = tuple(rule if isinstance(rule, Rule) else Rule(**rule) for rule in rules)
            client = Client("process", "", (), tuple(resume), form=form, rules=rule_list)
        argv = shlex.split(command) if isinstance(command, str) else command
        self.name = client.name
        self.client = client
        self.command = tuple(argv) or (client.program,)
        if not self.command[0]:
            hint = (
                "name one under engines: in synapse.yaml, such as mine: {kind: process,"
                " command: [my-agent, --once]}"
            )
            raise Rejected(f"an engine of the kind `process` needs a command; {hint}")
        if permissions not in client.permissions:
            raise Rejected(
                f"{client.name} knows no permissions {permissions!r}:"
                f" {', '.join(client.permissions)}"
            )
        if report and not client.report:
            raise Rejected(f"{client.name} cannot be asked for a structured result")
        self.model = model
        self.permissions = permissions
        self.report = report
        self.extra = tuple(extra)
        self.env, self.keep = dict(env or {}), (*clients.BASE, *client.keeps, *keep)
        self.timeout, self.grace, self.limit = timeout, grace, limit

    @property
    def resumes(self) -> bool:
        """Return whether a later step continues the client's session. Otherwise it is sent the
        whole conversation.
        """
        return bool(self.client.resume)

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        request = request._replace(model=request.model or self.model)
        if request.session and self.resumes:
            try:
                return await self._take(request, Session.read(request.session))
            except SessionLost:
                return (await self._take(request, None))._replace(anew=True)
        return await self._take(request, None)

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None

    async def _take(self, request: Request, session: Session | None) -> Turn:
        workplace = request.place or Place(os.getcwd())
        with (
            tempfile.TemporaryDirectory(prefix="synapse-") as aside,
            Output(workplace.output) as output,
        ):
            code = await self._last(self._start(request, session, workplace, aside, output), output)
            client_output = await asyncio.to_thread(output.understood, self.client)
            trouble = client_output.error or (output.tail() if code else "")
        if session and self.client.lost and self.client.lost in trouble:
            raise SessionLost(trouble)
        if trouble or not client_output.understood:
            raise self._problem(code, trouble)
        return self._turn(client_output, request, session or Session(""))

    def _start(
        self, request: Request, session: Session | None, place: Place, aside: str, output: Output
    ) -> Child:
        env = self._environment(place)
        if shutil.which(self.command[0], path=env["PATH"]) is None:
            raise Rejected(
                f"{self.command[0]} is not there to be run. {self.client.install}".strip()
            )
        prompt = prompt_of(request, resumed=session is not None, with_system=not self.client.system)
        values = values_for(request, session, prompt, aside, env.get("SYNAPSE_ROOT", place.folder))
        argv = self._words(request, session)
        in_arguments = any(
            name in argument for argument in argv for name in ("{prompt}", "{prompt_file}")
        )
        with open(os.devnull if in_arguments else values["prompt_file"], "rb") as stdin:
            files = (stdin, output.said, output.errors)
            try:
                return Child(
                    fill(argv, values), folder=place.folder, env=env, files=files, grace=self.grace
                )
            except OSError as error:
                raise Rejected(
                    f"{self.name} cannot be started in {place.folder}: {error}"
                ) from error

    def _words(self, request: Request, session: Session | None) -> list[str]:
        client = self.client
        for name, value in (("model", request.model), ("session", session and session.id)):
            if value and value.startswith("-"):
                raise Rejected(f"{self.name}: the {name} {value!a:.60} would be an option")
        return [
            *self.command,
            *(client.resume if session else client.start),
            *(client.model if request.model else ()),
            *(client.system if request.system else ()),
            *(client.report if self.report else ()),
            *client.permissions[self.permissions],
            *self.extra,
        ]

    async def _last(self, child: Child, output: Output) -> int:
        """Wait until the client ends, or end it: it takes too long, writes too much, or nobody
        waits any more.
        """
        problem = f"{self.name} said over {self.limit} bytes"
        code: int | None = None
        try:
            async with asyncio.timeout(self.timeout):
                while code is None and output.size <= self.limit:
                    code = await child.wait(LOOK_EVERY)
        except TimeoutError:
            problem = f"{self.name} did not end within {self.timeout:g} s"
        finally:
            await child.end()
        if code is None:
            raise Broken(problem, output=output.tail())
        return code

    def _environment(self, place: Place) -> dict[str, str]:
        """Return the environment: what every program needs, what this one's provider needs, and
        what the place says; nothing else. The memory's shell comes first on the path.
        """
        variables = {
            name: value
            for name, value in os.environ.items()
            if any(fnmatchcase(name, pattern) for pattern in self.keep)
        }
        env = variables | dict(self.client.sets) | self.env | dict(place.env)
        return env | {
            "PATH": os.pathsep.join((sysconfig.get_path("scripts"), env.get("PATH", os.defpath)))
        }

    def _problem(self, code: int, trouble: str) -> EngineError:
        kind = next(
            (kind for kind, pattern in TROUBLES if re.search(pattern, trouble, re.IGNORECASE)),
            Broken,
        )
        message = trouble.strip() or "it said nothing that can be read"
        return kind(f"{self.name} failed with exit code {code}: {message[-300:]}", output=trouble)

    def _turn(self, said: Said, request: Request, session: Session) -> Turn:
        text, blocked = said.text, said.blocked
        if self.report:
            text, blocked = output_rules.reported(said)
        usage = said.usage or Usage(estimated=True)
        used = usage if self.client.totals else Usage()
        return Turn(
            text=text,
            stop=STOPS.get(said.stop) or ("done" if text else "empty"),
            usage=session.since(usage) if self.client.totals else usage,
            model=said.model or request.model or "",
            session=Session(said.session, used).text if said.session and self.resumes else None,
            blocked=blocked,
        )


ClaudeCode = partial(Process, client=clients.CLAUDE_CODE)
Codex = partial(Process, client=clients.CODEX)
Gemini = partial(Process, client=clients.GEMINI)
OpenClaw = partial(Process, client=clients.OPENCLAW)
