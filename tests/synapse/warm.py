"""A program for tests: command lines of `synapse` in processes that have imported it already.

To import the MCP SDK takes a process most of a second. `warm.py serve PATH` imports it once, and
forks for each command line that it is sent. `warm.py PATH WORDS...` stands for `python -m
synapse.cli WORDS...`: it sends its words, its environment, its folder and its standard streams,
and ends with the exit code. Where the start or the end of a process is tested, this has no place.
"""

import json
import os
import select
import signal
import socket
import sys
import threading


def serve(path):
    """Fork for each command line that comes, until standard input ends."""
    import gc

    import uvicorn  # noqa: F401

    import synapse.mcp.server
    import synapse.mcp.transports  # noqa: F401
    from synapse import cli

    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    while sys.stdin.buffer not in select.select([listener, sys.stdin.buffer], [], [])[0]:
        connection, _ = listener.accept()
        reap(os.WNOHANG)
        if os.fork() == 0:
            listener.close()
            become(connection, cli)
        connection.close()
    reap(0)


def reap(how):
    """Collect the children that have ended."""
    try:
        while os.waitpid(-1, how)[0]:
            pass
    except ChildProcessError:
        return


def become(connection, cli):
    """Run the command line that comes with the connection, and end."""
    from synapse.cli import process

    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as file:
        order = json.loads(file.read(int.from_bytes(size)))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv[1:] = order["words"]
    threading.Thread(target=end_with, args=[connection], daemon=True).start()

    def run():
        code = cli.main()
        connection.sendall(bytes([code]))
        return code

    process.end(run)


def end_with(connection):
    """End when the process that sent the command line is gone."""
    connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def send(path, words):
    """Have the command line run, and return its exit code."""
    order = {"words": words, "env": dict(os.environ), "folder": os.getcwd()}
    raw = json.dumps(order).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [len(raw).to_bytes(4)], [0, 1, 2])
        connection.sendall(raw)
        for stream in (0, 1):
            os.close(stream)
        code = connection.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        os._exit(send(sys.argv[1], sys.argv[2:]))
