"""Strangers on the data port: who connects and never proves himself shuts nobody out, however many he is."""
import contextlib
import random
import resource
import socket
import struct
import threading
import time

import pytest

from harness import wait_for, works
from rawprogram import decode, encode
from test_hostile import address_of

LIMIT = 1024


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4 * LIMIT:
        pytest.skip(f"{hard} descriptors are too few for a crowd")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * LIMIT), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def narrow(make_cluster):
    return make_cluster(names=("n1", "n2"), extra=["--limit-connections", str(LIMIT)])


def hello() -> bytes:
    """Of a session that nobody has. crc32c is not in Python's library: bit by bit."""
    header = struct.pack("<HBBIIIQQQI", 0x4D4F, 1, 1, 1, 0, 0, 0, 32, 0, 0)
    crc = 0xFFFFFFFF
    for byte in header:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return header + struct.pack("<I", crc ^ 0xFFFFFFFF) + bytes(32)


def test_a_crowd_up_to_the_limit_shuts_nobody_out(narrow, many_descriptors):
    with contextlib.ExitStack() as stack:
        for i in range(LIMIT + 100):
            stack.enter_context(socket.create_connection(address_of(narrow["n2"].data)))
            if i % 300 == 0:
                works(narrow)
        works(narrow)
    assert narrow["n2"].process.poll() is None


def test_a_crowd_that_comes_again_and_again_with_half_a_hello_shuts_nobody_out(narrow, many_descriptors):
    over = threading.Event()
    made = [0]

    def crowd():
        """Keeps a few more than LIMIT connections open, each of which brings a few bytes more of a hello now and
        then. One that the daemon ended is replaced."""
        peers: list[list] = []  # the socket, and how much of the hello was sent
        words = hello()
        while not over.is_set():
            if len(peers) < LIMIT + 100:
                with contextlib.suppress(OSError):
                    peer = socket.create_connection(address_of(narrow["n2"].data))
                    peer.setblocking(False)
                    peers.append([peer, 0])
                    made[0] += 1
                if made[0] < LIMIT:
                    continue
            for one in random.sample(peers, 50):
                try:
                    if one[1] < len(words) - 3:
                        one[1] += one[0].send(words[one[1]:one[1] + 3])
                    one[0].recv(64)  # the end, or the word of it
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                one[0].close()
                peers.remove(one)
        for peer, _ in peers:
            peer.close()

    thread = threading.Thread(target=crowd)
    thread.start()
    try:
        end = time.monotonic() + 60
        wait_for("a crowd", lambda: made[0] >= LIMIT, 30)
        while made[0] < 2 * LIMIT and time.monotonic() < end:
            works(narrow)
    finally:
        over.set()
        thread.join()
    assert made[0] >= 2 * LIMIT
    works(narrow)


def test_who_was_refused_on_the_control_port_is_not_read_on(narrow):
    """One answer says why; what comes after it, as much as the port takes, is not looked at."""
    host, port = address_of(narrow["n2"].control)
    with socket.create_connection((host, port), timeout=20) as stranger:
        message = encode("Envelope", {"id": 1, "cluster": {}})
        stranger.sendall((struct.pack("<I", len(message)) + message) * 3)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := stranger.recv(4096):
                said += piece
    first = 4 + struct.unpack("<I", said[:4])[0]
    assert decode("Envelope", said[4:first])["code"] != 0
    assert len(said) == first
    works(narrow)
