"""The verbs of mail: `send`, `inbox`, `poll`, `ack`, `threads` and `thread`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from synapse.cli.decide import show_done
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import many, number
from synapse.cli.frame.show import INDENT, clean, columns, short
from synapse.cli.frame.streams import read_body
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR
from synapse.model.clock import seconds
from synapse.model.kinds import MESSAGE, URGENCY, kind_of
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
    sent = _sent(mail, args, read_body(args.text if args.body is None else args.body))
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
        value = json.loads(text)
    except ValueError as error:
        raise Usage(f"--meta is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Usage('--meta is an object, such as {"run": 7}')
    return value


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
    messages = mail.inbox(call.args.limit or None, mark=call.args.mark)
    remainder = f"; {count - len(messages)} more" if count > len(messages) else ""
    call.show(
        lambda: {
            "agent": mail.seat.id,
            "unread": count,
            "messages": [as_json(message) for message in messages],
        },
        lambda: "\n\n".join(
            [
                *(told(message) for message in messages),
                f"-- {len(messages)} unread{remainder}",
            ]
        ),
    )


def poll_options(parser: Options) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="whose; else $SYNAPSE_AGENT")


def poll(call: Call) -> None:
    mail = _own(call)
    count = mail.poll()
    call.show({"agent": mail.seat.id, "unread": count}, str(count))


def ack_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="+", metavar="ID", help="messages, or entries that were delivered")
    add(
        "--from",
        "--agent",
        dest="agent",
        metavar="AGENT",
        help="who acts; else $SYNAPSE_AGENT",
    )
    add("--body", metavar="TEXT", help="an answer to keep with it; for messages")
    add(
        "--react",
        metavar="SIGN",
        help="react to messages with this, and acknowledge nothing",
    )
    add("--remove", action="store_true", help="take that reaction back")
    add("--once", metavar="KEY", help="a retry under the same key writes nothing")


def ack(call: Call) -> None:
    """Acknowledge what was delivered, mail or not, and mail that was not delivered yet."""
    args, author = call.args, call.actor()
    messages = [id for id in args.ids if kind_of(id) == MESSAGE]
    entries = [id for id in args.ids if id not in messages]
    if args.remove and not args.react:
        raise Usage("--remove takes a reaction back: name it with --react SIGN")
    if (args.react or args.body) and entries:
        raise Usage("--body and --react are for messages")
    if entries:
        show_done(call, "acknowledged", author.ack(entries, once=args.once))
    _ack_messages(call, Mail(author), messages)


def _ack_messages(call: Call, mail: Mail, ids: Sequence[str]) -> None:
    """Acknowledge messages, or react to them, one after the other."""
    args = call.args
    for id in ids:
        if args.react:
            mail.react(id, args.react, remove=args.remove)
            done = "took back" if args.remove else "reacted to"
        else:
            mail.ack(id, args.body, once=args.once and f"{args.once}:{id}")
            done = "acknowledged"
        show_done(call, done, [id])


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
    rows = mail.threads(status, tag=args.tag, limit=args.limit)
    call.show(
        lambda: {"threads": [thread_columns(row) for row in rows]},
        lambda: (
            "\n\n".join(map(listed, rows))
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
    conversation, messages = (
        mail.thread(args.id),
        mail.history(args.id, args.limit, before=args.before),
    )
    call.show(
        lambda: {
            "thread": thread_columns(conversation),
            "messages": [as_json(message) for message in messages],
        },
        lambda: "\n\n".join([listed(conversation), *nested(messages)]),
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
    """Return the mail of the agent that must be named; the operator has none."""
    agent = call.agent()
    if agent == OPERATOR:
        raise Usage("the operator has no mail of its own: name an agent")
    return Mail(call.memory.as_agent(agent))


# -- as text ---------------------------------------------------------------------------


def told(message: Message, depth: int = 0) -> str:
    """Return a message as text: header, subject, marks and indented body."""
    entry = message.entry
    to = ", ".join(name.removeprefix("agent:") for name in entry.addressees)
    head = f"{message.id} {message.priority} {message.sender} -> {to} {seconds(message.created)}"
    indent = " " * min(2 * depth, _MARGIN)
    lines = [message.subject or "", *_marks(message)]
    notes = [f"[{clean(line)}]" for line in lines if line]
    body = clean(entry.body).split("\n")
    width = columns()
    return "\n".join(
        [
            indent + short(head, width - len(indent) if width else 0),
            *_within(indent + INDENT, [*notes, *body]),
        ]
    )


def _marks(message: Message) -> list[str]:
    lines = []
    if message.updated is not None:
        lines.append(f"edited {seconds(message.updated)}")
    if message.entry.archived:
        lines.append("archived")
    if message.reads:
        lines.append(f"read by {', '.join(mark.agent for mark in message.reads)}")
    lines += [
        f"acknowledged by {mark.agent}" + (f": {mark.text}" if mark.text else "")
        for mark in message.acks
    ]
    lines += [f"{mark.agent} {mark.text}" for mark in message.reactions]
    return lines + [
        f"attached {attachment.get('path') or attachment.get('url')}"
        for attachment in _attached(message)
    ]


def _attached(message: Message) -> Sequence[Any]:
    attachments: Sequence[Any] = message.entry.more.get("attachments", ())
    return attachments


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
    """Return the messages of a thread as text, each below the message that it answers."""
    newest = {id: message.id for message in messages for id in message.entry.replaces}
    answers: dict[str | None, list[Message]] = {}
    ids = {message.id for message in messages}
    for message in messages:
        parent = newest.get(message.parent or "", message.parent)
        answers.setdefault(parent if parent in ids else None, []).append(message)
    blocks, waiting = [], [(message, 0) for message in reversed(answers.get(None, []))]
    while waiting:
        message, depth = waiting.pop()
        blocks.append(told(message, depth))
        waiting += [
            (answer, depth + 1) for answer in reversed(answers.get(message.id, []))
        ]
    return blocks


def listed(thread: Thread) -> str:
    """Return a thread on two lines."""
    tags = f" [{', '.join(thread.tags)}]" if thread.tags else ""
    status = "" if thread.status == "active" else f" ({thread.status})"
    subject = short(f"{thread.subject or '(no subject)'}{tags}{status}", 76)
    counted = f"{thread.total} message{'s' * (thread.total != 1)}"
    return f"{thread.id} {counted}, last {seconds(thread.last)}\n{INDENT}{subject}"
