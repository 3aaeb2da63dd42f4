"""WebSockets as uvicorn speaks them, with a line of its log less. Called by `run`."""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

INVALID_TEXT = 1007


class Sockets(WebSocketsSansIOProtocol):
    """The protocol of one WebSocket. Text that is no UTF-8 ends it and leaves no exception in the
    log, which anybody could fill with them.
    """

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                if not self.close_sent:
                    self.conn.fail(INVALID_TEXT, "text is UTF-8")
                    self.handle_parser_exception()
                return
        super().send_receive_event_to_app()
