"""A program that speaks control messages by hand: it can say what liboncilla never would.

    raw = RawProgram(node)               # connects; uid= does so as another user (needs root)
    raw.hello()
    reply = raw.call("copy", target=..., bytes_total=1 << 40)   # a dict; "code" is 0 or an ocm_status
    raw.send("copy", ...)                # without waiting; receive() gives replies as they come
    RawNode(node, "n9", token).call("attach", uid=0, ...)   # the same to a daemon, as a node that has the token

Messages are dicts by the field names of src/wire/control.proto, which is read here: nothing is generated.
"""
import array
import contextlib
import hmac
import os
import pathlib
import re
import socket
import struct

PROTO = pathlib.Path(__file__).resolve().parents[2] / "src/wire/control.proto"
FDS_MAX = 64
CONTROL_VERSION = int(re.search(r"kControlVersions\{\.min = \d+, \.max = (\d+)",
                                (PROTO.parent / "version.h").read_text()).group(1))


class Field:
    def __init__(self, name: str, number: int, kind: str, repeated: bool):
        self.name, self.number, self.kind, self.repeated = name, number, kind, repeated


def read_schema(text: str) -> dict:
    """{message: [Field]}; the name of a nested message stands for itself."""
    text = re.sub(r"//[^\n]*", "", text)
    schema: dict[str, list] = {}
    open_blocks: list[str | None] = []
    token = re.compile(r"message (\w+)\s*\{|oneof \w+\s*\{|(repeated )?\b(\w+) (\w+) = (\d+);|\}")
    for match in token.finditer(text):
        message, repeated, kind, name, number = match.groups()
        if message:
            schema[message] = []
            open_blocks.append(message)
        elif kind and open_blocks:
            schema[open_blocks[-1]].append(Field(name, int(number), kind, bool(repeated)))
        elif match.group().startswith("oneof"):
            open_blocks.append(open_blocks[-1])  # its fields are the message's
        elif match.group() == "}":
            open_blocks.pop()
    return schema


SCHEMA = read_schema(PROTO.read_text())
INTEGERS = {"uint32", "uint64", "int32", "int64", "bool"}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def encode(message: str, fields: dict) -> bytes:
    by_name = {field.name: field for field in SCHEMA[message]}
    out = bytearray()
    for name, value in fields.items():
        if value is None:  # a message that is not there
            continue
        field = by_name[name]
        for one in value if field.repeated else [value]:
            if field.kind in INTEGERS:
                out += varint(field.number << 3) + varint(int(one))
                continue
            one = one.encode() if isinstance(one, str) else one if isinstance(one, bytes) else encode(field.kind, one)
            out += varint(field.number << 3 | 2) + varint(len(one)) + one
    return bytes(out) if isinstance(out, bytearray) else out


def read_varint(data: bytes, at: int):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def decode(message: str, data: bytes) -> dict:
    """Absent fields have their default; an absent message is None."""
    by_number = {field.number: field for field in SCHEMA[message]}
    out: dict = {field.name: [] if field.repeated else 0 if field.kind in INTEGERS else
           {"string": "", "bytes": b""}.get(field.kind) for field in SCHEMA[message]}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        value, at = read_varint(data, at)  # the schema has varints and lengths only
        if key & 7 == 2:
            at += value
            value = data[at - value:at]
        field = by_number.get(key >> 3)
        if field is None:
            continue
        if field.kind in INTEGERS and isinstance(value, bytes):  # packed
            place = 0
            while place < len(value):
                one, place = read_varint(value, place)
                out[field.name].append(one)
            continue
        if field.kind == "int32" and value >> 63:
            value -= 1 << 64
        elif field.kind == "string":
            value = value.decode()
        elif field.kind in SCHEMA:
            value = decode(field.kind, value)
        if field.repeated:
            out[field.name].append(value)
        else:
            out[field.name] = value
    return bytes(out) if isinstance(out, bytearray) else out


@contextlib.contextmanager
def acting_as(uid: int | None, directory: pathlib.Path):
    """The kernel tells the daemon the effective user of connect(). The path may lead through closed folders."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        if uid is not None:
            os.seteuid(uid)
        yield
    finally:
        if uid is not None:
            os.seteuid(0)
        os.chdir(before)


def done(reply: dict) -> dict:
    """A reply that is no error."""
    assert reply["code"] == 0, reply
    return reply


class RawProgram:
    def __init__(self, node, uid: int | None = None, deadline_s: float = 20.0):
        self._take(socket.socket(socket.AF_UNIX), deadline_s)
        with acting_as(uid, node.socket_path.parent):
            self.socket.connect(node.socket_path.name)

    def _take(self, connection: socket.socket, deadline_s: float):
        self.socket = connection
        self.socket.settimeout(deadline_s)
        self.fds: list[int] = []  # descriptors that came with replies, oldest first
        self.ids = 0

    def send_bytes(self, data: bytes):
        self.socket.sendall(data)

    def send(self, body: str, /, **fields) -> int:
        """The id of the request."""
        self.ids += 1
        message = encode("Envelope", {"id": self.ids, body: fields})
        self.send_bytes(struct.pack("<I", len(message)) + message)
        return self.ids

    def receive(self) -> dict:
        """The next reply. Raises ConnectionError when the daemon has closed, TimeoutError at the deadline."""
        length = struct.unpack("<I", self._read(4))[0]
        return decode("Envelope", self._read(length))

    def call(self, body: str, /, **fields) -> dict:
        """For a connection with one request at a time."""
        asked = self.send(body, **fields)
        reply = self.receive()
        assert reply["id"] == asked, reply
        return reply

    def hello(self, **fields) -> dict:
        return self.call("session_hello", **{"version": CONTROL_VERSION, "program": "raw", **fields})["session_welcome"]

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part, control, _, _ = self.socket.recvmsg(count - len(data), socket.CMSG_SPACE(4 * FDS_MAX))
            for level, kind, payload in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self.fds += array.array("i", payload[:len(payload) // 4 * 4])
            if not part:
                raise ConnectionError("the daemon closed the connection")
            data += part
        return bytes(data)

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []


class RawNode(RawProgram):
    """Proves the cluster token to the daemon of `node` as a node called `name`; without TLS."""

    def __init__(self, node, name: str, token: bytes, deadline_s: float = 20.0):
        host, port = node.control.rsplit(":", 1)
        self._take(socket.create_connection((host, int(port))), deadline_s)
        nonce = os.urandom(16)
        challenge = self.call("node_hello", version=CONTROL_VERSION, node=name, nonce=nonce,
                              incarnation=os.urandom(16), dialed=node.control, end=node.control)["node_challenge"]
        binding = f"{node.control} {node.control}".encode()
        said = b"oncilla client" + name.encode() + nonce + challenge["nonce"] + binding
        reply = self.call("node_proof", proof=hmac.digest(token, said, "sha256"))
        assert reply["code"] == 0, reply
