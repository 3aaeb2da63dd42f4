"""A proxy that cuts connections at random bytes, in either direction. Holds no test."""

import random
import socket
import struct
import threading

KEY, OTHER = b"dempotency-", b"Dempotency_"
MOST = 4_000  # bytes that a connection passes on before it is cut, at the most


class Cutting:
    """Passes bytes on to a server on this machine, and cuts every connection after a random count
    of them: of those that were sent, or of those that were answered. `cuts` is how many so far.

    With `keyless`, the header with the key of a retry does not arrive under its name.
    """

    def __init__(self, address, seed, keyless=False):
        host, _, port = address.removeprefix("http://").partition(":")
        self._to = (host, int(port))
        self._dice = random.Random(seed)
        self._keyless = keyless
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts, self._lock = 0, threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in [*self._threads]:
            thread.join(30)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._to)
            asked, answered = MOST * 10, MOST * 10
            if self._dice.random() < 0.5:
                asked = self._dice.randrange(MOST)
            else:
                answered = self._dice.randrange(MOST)
            ends = (client, server)
            for source, target, room in ((client, server, asked), (server, client, answered)):
                thread = threading.Thread(
                    target=self._pass, args=(source, target, room, ends), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _pass(self, source, target, room, ends):
        try:
            while data := source.recv(65_536):
                if self._keyless and target is ends[1]:
                    data = data.replace(KEY, OTHER)
                target.sendall(data[:room])
                room -= len(data)
                if room <= 0:
                    with self._lock:
                        self.cuts += 1
                    break
        except OSError:
            pass  # the other direction was cut
        for end in ends:
            _reset(end)


def _reset(end):
    """Close a connection at once, as a machine that goes away does."""
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
