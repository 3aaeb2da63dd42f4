"""`synapse send | inbox | threads | thread | poll`: mail from the shell. `synapse ack` is in
`ruling`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.parse import many, number
from synapse.cli.show import INDENT, clean, columns, short
from synapse.cli.writing import body_of
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR
from synapse.model.clock import seconds
from synapse.model.kinds import URGENCY
from synapse.model.message import STATUSES, Message, Thread, as_json, thread_columns
from synapse.system.typed import Any

_MARGIN = 24  # of a line, as far as answers are indented


def send_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "body", nargs="?", metavar="BODY", help="the text; - or nothing: standard input"
    )
    add("--body", dest="text", metavar="BODY", help="the same, as an option")
    add("--from", dest="agent", metavar="AGENT", help="the sender; else $SYNAPSE_AGENT")
    add(
        "--to",
        action="append",
        metavar="WHOM,...",
        help="agents, teams, or all; else all, or who is answered",
    )
    add("--subject", metavar="TEXT", help="what it is about")
    add(
        "--priority",
        default=None,
        metavar="P",
        help=f"{', '.join(URGENCY)}; urgent wakes; else normal",
    )
    add("--thread", metavar="ID", help="put it into this thread; else it begins one")
    add("--reply-to", metavar="ID", help="answer this message, in its thread")
    add("--edit", metavar="ID", help="a new version of this message of one's own")
    add(
        "--attach",
        action="append",
        metavar="FILE",
        help="refer to a file, with its digest, or to a URL",
    )
    add("--tags", action="append", metavar="T,...", help="words to find it by")
    add("--meta", metavar="JSON", help="an object to keep with it")
    add(
        "--once",
        metavar="KEY",
        help="a retry under the same key returns the first message",
    )


def send(call: Call) -> None:
    args, mail = call.args, Mail(call.actor())
    if sum(name is not None for name in (args.thread, args.reply_to, args.edit)) > 1:
        raise Usage("--thread, --reply-to and --edit: one of them")
    if args.edit and (
        args.to or args.attach or args.tags or args.meta or args.priority
    ):
        raise Usage("a new version keeps all but the text and the subject")
    if args.body is not None and args.text is not None:
        raise Usage("the text is given twice: as BODY and as --body")
    sent = _sent(mail, args, body_of(args.text if args.body is None else args.body))
    call.show(lambda: as_json(sent), sent.id)
    if sent.entry.staged:
        call.note(
            f"{sent.id} waits for review: only its sender and reviewers see it until it is approved"
        )


def _sent(mail: Mail, args: Any, body: str) -> Message:
    if args.edit:
        return mail.edit(args.edit, body, subject=args.subject, once=args.once)
    priority, files, meta = (
        args.priority or "normal",
        args.attach or (),
        _object(args.meta),
    )
    if args.reply_to:
        if args.tags:
            raise Usage(
                "--tags are of a message that begins or continues a thread; `synapse"
                " thread` tags threads"
            )
        return mail.reply(
            args.reply_to,
            body,
            to=many(args.to),
            subject=args.subject,
            priority=priority,
            metadata=meta,
            attachments=files,
            once=args.once,
        )
    return mail.send(
        many(args.to) or "all",
        body,
        subject=args.subject,
        thread=args.thread,
        priority=priority,
        metadata=meta,
        attachments=files,
        tags=many(args.tags) or (),
        once=args.once,
    )


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Usage(f"--meta is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Usage('--meta is an object, such as {"run": 7}')
    return found


def inbox_options(parser: Options) -> None:
    add = parser.add_argument
    add("--agent", metavar="AGENT", help="whose; else $SYNAPSE_AGENT")
    add(
        "--limit",
        type=number,
        default=20,
        metavar="N",
        help="at most so many, the oldest first; 0: all; else 20",
    )
    add("--mark", action="store_true", help="count what is printed as read")


def inbox(call: Call) -> None:
    mail = _own(call)
    count = mail.poll()
    found = mail.inbox(call.args.limit or None, mark=call.args.mark)
    left = f"; {count - len(found)} more" if count > len(found) else ""
    call.show(
        lambda: {
            "agent": mail.seat.id,
            "unread": count,
            "messages": [as_json(each) for each in found],
        },
        lambda: "\n\n".join(
            [*(told(each) for each in found), f"-- {len(found)} unread{left}"]
        ),
    )


def poll_options(parser: Options) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="whose; else $SYNAPSE_AGENT")


def poll(call: Call) -> None:
    mail = _own(call)
    count = mail.poll()
    call.show({"agent": mail.seat.id, "unread": count}, str(count))


def threads_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )
    add(
        "--status",
        default="active",
        metavar="S",
        help=f"{', '.join(STATUSES)} or all; else active",
    )
    add("--tag", metavar="TAG", help="only what carries this tag")
    add(
        "--limit", type=number, default=50, metavar="N", help="at most so many; else 50"
    )


def threads(call: Call) -> None:
    args, mail = call.args, Mail(call.reader())
    status = None if args.status == "all" else args.status
    found = mail.threads(status, tag=args.tag, limit=args.limit)
    call.show(
        lambda: {"threads": [thread_columns(each) for each in found]},
        lambda: (
            "\n\n".join(map(listed, found))
            or f"no {'' if args.status == 'all' else args.status + ' '}threads"
        ),
    )


def thread_options(parser: Options) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="the thread")
    add(
        "--agent",
        "--from",
        dest="agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )
    add(
        "--limit",
        type=number,
        default=100,
        metavar="N",
        help="the newest so many; else 100",
    )
    add("--before", metavar="ID", help="only what came before this message")
    add("--close", action="store_true", help="it is done: no more messages")
    add(
        "--summary",
        metavar="TEXT",
        help="with --close: the fact that it leaves; auto: the lines that say the most",
    )
    add("--reopen", action="store_true", help="it is not")
    add("--tag", action="append", metavar="T,...", help="tag it")
    add("--untag", action="append", metavar="T,...", help="take tags off it")
    add("--rename", metavar="TEXT", help="give it another subject")


def thread(call: Call) -> None:
    args = call.args
    if (
        args.close
        or args.reopen
        or args.tag
        or args.untag
        or (args.rename, args.summary) != (None, None)
    ):
        changed = _changed(Mail(call.actor()), args)
        call.show(lambda: {"thread": thread_columns(changed)}, lambda: listed(changed))
        return
    mail = Mail(call.reader())
    found, messages = (
        mail.thread(args.id),
        mail.history(args.id, args.limit, before=args.before),
    )
    call.show(
        lambda: {
            "thread": thread_columns(found),
            "messages": [as_json(each) for each in messages],
        },
        lambda: "\n\n".join([listed(found), *nested(messages)]),
    )


def _changed(mail: Mail, args: Any) -> Thread:
    if args.summary is not None and not args.close:
        raise Usage("--summary is of a thread that is closed: give --close too")
    if args.close and args.reopen:
        raise Usage("--close or --reopen, not both")
    if args.tag or args.untag:
        mail.tag(args.id, many(args.tag) or (), remove=many(args.untag) or ())
    if args.rename is not None:
        mail.rename(args.id, args.rename)
    if args.close:
        mail.close(args.id, summary=args.summary == "auto" or args.summary or False)
    if args.reopen:
        mail.reopen(args.id)
    return mail.thread(args.id)


def _own(call: Call) -> Mail:
    """The mail of the agent that is named; without one there is nobody's."""
    agent = call.agent()
    if agent == OPERATOR:
        raise Usage("the operator has no mail of its own: name an agent")
    return Mail(call.memory.as_agent(agent))


# -- as text ---------------------------------------------------------------------------


def told(message: Message, depth: int = 0) -> str:
    """A message as a header, its subject, what became of it, and its indented text."""
    entry = message.entry
    to = ", ".join(name.removeprefix("agent:") for name in entry.addressees)
    head = f"{message.id} {message.priority} {message.sender} -> {to} {seconds(message.created)}"
    indent = " " * min(2 * depth, _MARGIN)
    lines = [message.subject or "", *_marks(message)]
    about = [f"[{clean(line)}]" for line in lines if line]
    body = clean(entry.body).split("\n")
    width = columns()
    return "\n".join(
        [
            indent + short(head, width - len(indent) if width else 0),
            *_within(indent + INDENT, [*about, *body]),
        ]
    )


def _marks(message: Message) -> list[str]:
    found = []
    if message.updated is not None:
        found.append(f"edited {seconds(message.updated)}")
    if message.entry.archived:
        found.append("archived")
    if message.reads:
        found.append(f"read by {', '.join(mark.agent for mark in message.reads)}")
    found += [
        f"acknowledged by {mark.agent}" + (f": {mark.text}" if mark.text else "")
        for mark in message.acks
    ]
    found += [f"{mark.agent} {mark.text}" for mark in message.reactions]
    return found + [
        f"attached {each.get('path') or each.get('url')}" for each in _attached(message)
    ]


def _attached(message: Message) -> Sequence[Any]:
    found: Sequence[Any] = message.entry.more.get("attachments", ())
    return found


def _within(indent: str, lines: Sequence[str]) -> list[str]:
    from textwrap import wrap

    width = columns() or 0
    if not width:
        return [indent + line if line else "" for line in lines]
    fitted = []
    for line in lines:
        fitted += wrap(
            line, width - len(indent), break_long_words=False, break_on_hyphens=False
        ) or [""]
    return [indent + line if line else "" for line in fitted]


def nested(messages: Sequence[Message]) -> list[str]:
    """The messages of a thread, each below the one that it answers; what answers none of these
    stands at the top.
    """
    newest = {id: each.id for each in messages for id in each.entry.replaces}
    below: dict[str | None, list[Message]] = {}
    here = {each.id for each in messages}
    for each in messages:
        parent = newest.get(each.parent or "", each.parent)
        below.setdefault(parent if parent in here else None, []).append(each)
    found, waiting = [], [(each, 0) for each in reversed(below.get(None, []))]
    while waiting:
        each, depth = waiting.pop()
        found.append(told(each, depth))
        waiting += [(answer, depth + 1) for answer in reversed(below.get(each.id, []))]
    return found


def listed(thread: Thread) -> str:
    """A thread on two lines."""
    tags = f" [{', '.join(thread.tags)}]" if thread.tags else ""
    status = "" if thread.status == "active" else f" ({thread.status})"
    subject = short(f"{thread.subject or '(no subject)'}{tags}{status}", 76)
    counted = f"{thread.total} message{'s' * (thread.total != 1)}"
    return f"{thread.id} {counted}, last {seconds(thread.last)}\n{INDENT}{subject}"
