"""The verbs of mail: `send`, `inbox`, `poll`, `ack`, `threads` and `thread`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import many, number
from synapse.cli.frame.show import INDENT, clean, columns, one_line, short
from synapse.cli.frame.streams import read_body
from synapse.cli.write import masked_notes
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR
from synapse.model.clock import seconds
from synapse.model.kinds import MESSAGE, URGENCY, kind_of
from synapse.model.message import STATUSES, Message, Thread, as_json, thread_columns
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory

_MARGIN = 24  # of a line, as far as answers are indented


def send_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "body",
        nargs="?",
        metavar="BODY",
        help="the text; without it, or with -, standard input is read",
    )
    add("--body", dest="text", metavar="BODY", help="the same, as an option")
    add("--from", dest="agent", metavar="AGENT", help="the sender (default: $SYNAPSE_AGENT)")
    add(
        "--to",
        action="append",
        metavar="WHOM,...",
        help="agents, teams or all (default: all; in a reply, its sender)",
    )
    add("--subject", metavar="TEXT", help="the subject")
    add(
        "--priority",
        default=None,
        metavar="P",
        help=f"{', '.join(URGENCY)}; urgent notifies at once (default: normal)",
    )
    add("--thread", metavar="ID", help="the thread (default: a new one)")
    add("--reply-to", metavar="ID", help="answer this message, in its thread")
    add("--edit", metavar="ID", help="replace the text of this message of yours")
    add(
        "--attach",
        action="append",
        metavar="FILE",
        help="a file (stored as path and digest) or a URL",
    )
    add("--tags", action="append", metavar="T,...", help="tags to find it by")
    add(
        "--scope",
        default="public",
        metavar="S",
        help="public, private or encrypted: who can open it (default: public)",
    )
    add("--pii", action="store_true", help="the message holds personal data")
    add("--meta", metavar="JSON", help="an object to store with it")
    add("--once", metavar="KEY", help="a retry with the same key returns the first message")


def send(call: Call) -> None:
    args = call.args
    _check_send(args)
    mail = mail_of(call.author(many(args.to) or ()))
    body = read_body(args.text if args.body is None else args.body)
    message = _send(mail, args, body)
    call.show(lambda: as_json(message), message.id)
    for note in (*_notes(message, body), *masked_notes(message.entry, body, args.pii)):
        call.note(note)


def _notes(message: Message, body: str) -> Iterator[str]:
    """Yield what the sender should know: review, and what was not kept as facts."""
    if message.entry.staged:
        yield (
            f"{message.id} waits for review: only its sender and reviewers see it"
            " until it is approved"
        )
    if "@" in body and not message.entry.replaces:
        from synapse.knowledge.memory import not_kept

        if dropped := not_kept(body):
            yield dropped


def _check_send(args: Any) -> None:
    """Refuse options that do not go together."""
    if sum(name is not None for name in (args.thread, args.reply_to, args.edit)) > 1:
        raise Usage("give only one of --thread, --reply-to and --edit")
    changed = args.to or args.attach or args.tags or args.meta or args.priority or args.pii
    if args.edit and changed:
        raise Usage("--edit changes only the text and the subject of a message")
    if args.body is not None and args.text is not None:
        raise Usage("the text is given twice: as BODY and as --body")
    if args.reply_to and args.tags:
        raise Usage("--tags cannot go with --reply-to: `synapse thread` tags threads")


def _send(mail: Mail, args: Any, body: str) -> Message:
    if args.edit:
        return mail.edit(args.edit, body, subject=args.subject, once=args.once)
    fields: dict[str, Any] = {
        "subject": args.subject,
        "priority": args.priority or "normal",
        "metadata": _metadata(args.meta),
        "attachments": args.attach or (),
        "pii": args.pii,
        "once": args.once,
    }
    if args.reply_to:
        return mail.reply(args.reply_to, body, to=many(args.to), **fields)
    tags = many(args.tags) or ()
    to = many(args.to) or "all"
    options = {"thread": args.thread, "tags": tags, "scope": args.scope}
    return mail.send(to, body, **options, **fields)


def _metadata(text: str | None) -> dict[str, Any] | None:
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
    add("--agent", metavar="AGENT", help="the agent (default: $SYNAPSE_AGENT)")
    add(
        "--limit",
        type=number,
        default=20,
        metavar="N",
        help="at most N messages, oldest first; 0 for all (default: 20)",
    )
    add("--mark", action="store_true", help="mark the printed messages as read")


def inbox(call: Call) -> None:
    mail = _own_mail(call)
    count = mail.poll()
    messages = mail.inbox(call.args.limit or None, mark=call.args.mark)
    remainder = f"; {count - len(messages)} more" if count > len(messages) else ""
    foot = f"-- {len(messages)} unread{remainder}"
    counts = {"agent": mail.agent_memory.id, "unread": count}
    call.show(
        lambda: counts | {"messages": list(map(as_json, messages))},
        lambda: "\n\n".join([*map(format_message, messages), foot]),
    )


def poll_options(parser: Options) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="the agent (default: $SYNAPSE_AGENT)")


def poll(call: Call) -> None:
    mail = _own_mail(call)
    count = mail.poll()
    call.show({"agent": mail.agent_memory.id, "unread": count}, str(count))


def ack_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="+", metavar="ID", help="messages, or entries that were delivered")
    parser.add_author()
    add("--body", metavar="TEXT", help="an answer stored with the acknowledgement (messages only)")
    add(
        "--react",
        metavar="SIGN",
        help="react with this sign instead of acknowledging (messages only)",
    )
    add("--remove", action="store_true", help="with --react: remove that reaction")
    add("--once", metavar="KEY", help="a retry with the same key writes nothing")


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
        call.show_done("acknowledged", author.ack(entries, once=args.once))
    _ack_messages(call, mail_of(author), messages)


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
        call.show_done(done, [id])


def threads_options(parser: Options) -> None:
    add = parser.add_argument
    parser.add_reader()
    add(
        "--status",
        default="active",
        metavar="S",
        help=f"{', '.join(STATUSES)} or all (default: active)",
    )
    add("--tag", metavar="TAG", help="only items with this tag")
    add("--limit", type=number, default=50, metavar="N", help="at most N (default: 50)")


def threads(call: Call) -> None:
    args, mail = call.args, mail_of(call.reader())
    status = None if args.status == "all" else args.status
    rows = mail.threads(status, tag=args.tag, limit=args.limit)
    call.show(
        lambda: {"threads": [thread_columns(row) for row in rows]},
        lambda: (
            "\n\n".join(map(format_thread, rows))
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
        help="the agent that reads or acts (default: $SYNAPSE_AGENT, else the operator)",
    )
    add(
        "--limit",
        type=number,
        default=100,
        metavar="N",
        help="the newest N messages (default: 100)",
    )
    add("--before", metavar="ID", help="only messages before this one")
    add("--close", action="store_true", help="close the thread: it takes no more messages")
    add(
        "--summary",
        metavar="TEXT",
        help="with --close: a fact that sums it up; auto picks the most telling lines",
    )
    add("--reopen", action="store_true", help="open a closed thread again")
    add("--tag", action="append", metavar="T,...", help="add these tags")
    add("--untag", action="append", metavar="T,...", help="remove these tags")
    add("--rename", metavar="TEXT", help="change the subject")


def thread(call: Call) -> None:
    args = call.args
    changes = (args.close, args.reopen, args.tag, args.untag)
    texts = (args.rename, args.summary)
    if any(changes) or texts != (None, None):
        thread = _change(mail_of(call.actor()), args)
        call.show(lambda: {"thread": thread_columns(thread)}, lambda: format_thread(thread))
    else:
        _show_thread(call, mail_of(call.reader()))


def _show_thread(call: Call, mail: Mail) -> None:
    args = call.args
    thread = mail.thread(args.id)
    messages = mail.history(args.id, args.limit, before=args.before)
    call.show(
        lambda: {"thread": thread_columns(thread), "messages": list(map(as_json, messages))},
        lambda: "\n\n".join([format_thread(thread), *format_conversation(messages)]),
    )


def _change(mail: Mail, args: Any) -> Thread:
    if args.summary is not None and not args.close:
        raise Usage("--summary needs --close")
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


def _own_mail(call: Call) -> Mail:
    """Return the mail of the agent that must be named; the operator has none."""
    agent = call.agent()
    if agent == OPERATOR:
        raise Usage("the operator has no mail of its own: name an agent")
    return mail_of(call.as_agent(agent))


def mail_of(me: AgentMemory) -> Mail:
    """Return an agent's mail; that of a server has the same methods."""
    return getattr(me, "mail", None) or Mail(me)


def format_message(message: Message, depth: int = 0) -> str:
    """Return a message as text: header, subject, marks and indented body."""
    entry = message.entry
    to = ", ".join(name.removeprefix("agent:") for name in entry.addressees)
    head = f"{message.id} {message.priority} {message.sender} -> {to} {seconds(message.created)}"
    indent = " " * min(2 * depth, _MARGIN)
    lines = [message.subject or "", *_marks(message)]
    notes = [f"[{one_line(line)}]" for line in lines if line]
    body = clean(entry.body).split("\n")
    width = columns()
    return "\n".join(
        [
            indent + short(head, width - len(indent) if width else 0),
            *_indented(indent + INDENT, [*notes, *body]),
        ]
    )


def _marks(message: Message) -> list[str]:
    """Return what became of a message: edits, readers, acknowledgements, reactions, files."""
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
    attachments: Sequence[Any] = message.entry.more.get("attachments", ())
    for attachment in attachments:
        lines.append(f"attached {attachment.get('path') or attachment.get('url')}")
    return lines


def _indented(indent: str, lines: Sequence[str]) -> list[str]:
    """Return the lines indented, and folded to the terminal's width."""
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


def format_conversation(messages: Sequence[Message]) -> list[str]:
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
        blocks.append(format_message(message, depth))
        waiting += [(answer, depth + 1) for answer in reversed(answers.get(message.id, []))]
    return blocks


def format_thread(thread: Thread) -> str:
    """Return a thread on two lines."""
    tags = f" [{', '.join(thread.tags)}]" if thread.tags else ""
    status = "" if thread.status == "active" else f" ({thread.status})"
    subject = short(f"{thread.subject or '(no subject)'}{tags}{status}", 76)
    counted = f"{thread.total} message{'s' * (thread.total != 1)}"
    return f"{thread.id} {counted}, last {seconds(thread.last)}\n{INDENT}{subject}"
