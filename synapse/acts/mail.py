"""The acts of mail: messages, what is done with one, threads."""

from __future__ import annotations

from synapse.acts.act import Act, Answer
from synapse.acts.answers import IDS, field, rows
from synapse.mail.mailbox import Mail
from synapse.model.message import thread_columns
from synapse.wire import parse
from synapse.wire.forms import message_json

NOUN = "mail"
THREAD_ID = {"thread": "id"}
MESSAGE = Answer("Message", message_json, parse.message, "messages")
MESSAGES = rows("Messages", "messages", message_json, parse.message)
COUNT = field("MailUnread", "unread", int)
THREAD = Answer("Thread", thread_columns, parse.thread)
THREADS = rows("Threads", "threads", thread_columns, parse.thread)

send = Act(NOUN, Mail.send, "POST /messages", MESSAGE, of=Mail, creates=True, optional=("to",))
get = Act(NOUN, Mail.get, "GET /messages/{id}", MESSAGE, of=Mail, operation="get_message")
reply = Act(
    NOUN,
    Mail.reply,
    "POST /messages/{id}/reply",
    MESSAGE,
    of=Mail,
    creates=True,
    operation="reply_to_message",
)
edit = Act(
    NOUN,
    Mail.edit,
    "POST /messages/{id}/edit",
    MESSAGE,
    of=Mail,
    creates=True,
    operation="edit_message",
)
ack = Act(
    NOUN,
    Mail.ack,
    "POST /messages/{id}/ack",
    MESSAGE,
    of=Mail,
    bodied=True,
    operation="ack_message",
)
react = Act(NOUN, Mail.react, "POST /messages/{id}/react", MESSAGE, of=Mail)
poll = Act(NOUN, Mail.poll, "GET /inbox/unread", COUNT, of=Mail, title="unread")
inbox = Act(
    NOUN,
    Mail.inbox,
    "GET /inbox",
    MESSAGES,
    of=Mail,
    clamps=True,
    description="Return the unread messages, oldest first. `POST /v1/inbox/read` notes what was"
    " read.",
)
read = Act(NOUN, Mail.read, "POST /inbox/read", IDS, of=Mail)
threads = Act(
    NOUN,
    Mail.threads,
    "GET /threads",
    THREADS,
    of=Mail,
    clamps=True,
    absent={"status": "all"},
    description="Return the threads of a status, or of `all`, that this agent may see, most active"
    " first.",
)
thread = Act(NOUN, Mail.thread, "GET /threads/{id}", THREAD, of=Mail, title="get")
history = Act(
    NOUN,
    Mail.history,
    "GET /threads/{id}/messages",
    MESSAGES,
    of=Mail,
    clamps=True,
    names=THREAD_ID,
    title="messages",
)
close = Act(
    NOUN, Mail.close, "POST /threads/{id}/close", THREAD, of=Mail, names=THREAD_ID, bodied=True
)
reopen = Act(NOUN, Mail.reopen, "POST /threads/{id}/reopen", THREAD, of=Mail, names=THREAD_ID)
tag = Act(NOUN, Mail.tag, "POST /threads/{id}/tag", THREAD, of=Mail, names=THREAD_ID, bodied=True)
rename = Act(NOUN, Mail.rename, "POST /threads/{id}/rename", THREAD, of=Mail, names=THREAD_ID)
