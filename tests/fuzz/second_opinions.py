"""Targets that compare oneloop with other parsers: llhttp (httptools), h11 and wsproto.

oneloop may refuse what another one accepts, which is decided elsewhere. What both accept must mean the same to both: a
proxy and a server that disagree about a message can be used to smuggle another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import h11
import httptools
from wsproto.frame_protocol import FrameProtocol, Opcode, ParseFailed

from oneloop._native import WebSocketFrames
from oneloop.compat import httptools as facade

LONGEST_MESSAGE_BYTES = 1 << 20
_TEXT, _BINARY, _CLOSE, _FAILURE = 1, 2, 8, 0


@dataclass
class Message:
    """One request as a parser has understood it."""

    method: bytes = b""
    target: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    is_complete: bool = False
    has_taken_over: bool = False
    """What follows is no HTTP: CONNECT, Upgrade."""


class _Collecting:
    """The protocol of both parsers with httptools' interface; only of the first message."""

    def __init__(self) -> None:
        self.message = Message()
        self.is_in_head = True

    def on_url(self, url: bytes) -> None:
        if not self.message.is_complete:
            self.message.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Each parser drops other fields of a trailer.
        if self.is_in_head:
            self.message.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.is_in_head = False

    def on_body(self, body: bytes) -> None:
        if not self.message.is_complete:
            self.message.body += body

    def on_message_complete(self) -> None:
        self.message.is_complete = True


def _of_interface(package: Any, data: bytes) -> Message:
    protocol = _Collecting()
    parser = package.HttpRequestParser(protocol)
    try:
        parser.feed_data(data)
    except package.HttpParserUpgrade:
        protocol.message.has_taken_over = True
    except package.HttpParserError:
        pass
    if protocol.message.target:
        protocol.message.method = parser.get_method()
    return protocol.message


def _of_h11(data: bytes) -> Message:
    message = Message()
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    while not message.is_complete:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            break
        if isinstance(event, h11.Request):
            message.method, message.target = event.method, event.target
            message.headers = [(name, value) for name, value in event.headers]
        elif isinstance(event, h11.Data):
            message.body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            message.is_complete = True
        else:
            break
    return message


def _agree(ours: Message, theirs: Message) -> None:
    if not (ours.is_complete and theirs.is_complete):
        return
    assert (ours.target, ours.headers) == (theirs.target, theirs.headers), f"{ours} is not {theirs}"
    if not ours.has_taken_over and not theirs.has_taken_over:
        assert ours.body == theirs.body, f"{ours} is not {theirs}"


def llhttp(data: bytes) -> None:
    """What oneloop and llhttp accept has the same target, fields and body."""
    _agree(_of_interface(facade, data), _of_interface(httptools, data))


def h11_requests(data: bytes) -> None:
    """What oneloop and h11 accept has the same target, fields and body."""
    _agree(_of_interface(facade, data), _of_h11(data))


def _our_messages(data: bytes) -> tuple[list[str | bytes], bool]:
    frames = WebSocketFrames(LONGEST_MESSAGE_BYTES, None)
    frames.feed(data)
    found: list[str | bytes] = []
    while (news := frames.next()) is not None:
        kind, value = news
        if kind in (_TEXT, _BINARY):
            found.append(value)
        elif kind in (_CLOSE, _FAILURE):
            return found, kind == _FAILURE
    return found, False


def _their_messages(data: bytes) -> tuple[list[str | bytes], bool]:
    frames = FrameProtocol(client=True, extensions=[])
    frames.receive_bytes(data)
    found: list[str | bytes] = []
    text, binary = "", b""
    frame: Any
    try:
        for frame in frames.received_frames():
            if frame.opcode is Opcode.CLOSE:
                return found, False
            if frame.opcode is Opcode.TEXT:
                text += frame.payload
            elif frame.opcode is Opcode.BINARY:
                binary += bytes(frame.payload)
            else:
                continue
            if frame.message_finished:
                found.append(text if frame.opcode is Opcode.TEXT else binary)
                text, binary = "", b""
    except ParseFailed:
        return found, True
    return found, False


def wsproto(data: bytes) -> None:
    """The same messages are heard, up to where one of the two refuses."""
    (ours, we_refuse), (theirs, they_refuse) = _our_messages(data), _their_messages(data)
    common = min(len(ours), len(theirs))
    assert ours[:common] == theirs[:common]
    if len(ours) < len(theirs):
        assert we_refuse, f"{theirs[common:]} was not heard"
    if len(theirs) < len(ours):
        assert they_refuse, f"{ours[common:]} was made up"
