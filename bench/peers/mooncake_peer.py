"""Mooncake's transfer engine over TCP: transfer_sync_write and transfer_sync_read.

usage: mooncake_peer.py server|client --host ADDRESS --meet FILE --sizes 64,4096 --seconds 0.2

The server registers the memory and writes "host:port address" to the meeting file; it ends when its
standard input closes. The calls go through Python once each, about 1 us of the 30 they take.
"""
import ctypes
import mmap
import os
import sys
import time

from mooncake.engine import TransferEngine

from measure import arguments, measure


def buffer(size_bytes):
    memory = mmap.mmap(-1, size_bytes)
    memory.write(b"\1" * size_bytes)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def main():
    role = sys.argv[1]
    values, sizes, seconds = arguments(sys.argv)
    engine = TransferEngine()
    if engine.initialize(values["host"], "P2PHANDSHAKE", "tcp", "") != 0:
        sys.exit("mooncake: initialize failed")
    memory, address = buffer(max(sizes))
    if engine.register_memory(address, max(sizes)) != 0:
        sys.exit("mooncake: register_memory failed")
    if role == "server":
        with open(values["meet"] + ".new", "w") as file:
            file.write(f"{values['host']}:{engine.get_rpc_port()} {address}")
        os.rename(values["meet"] + ".new", values["meet"])
        sys.stdin.read()
    else:
        deadline = time.monotonic() + 10
        while not os.path.exists(values["meet"]):
            if time.monotonic() > deadline:
                sys.exit("mooncake: the server did not start")
            time.sleep(0.01)
        target, remote = open(values["meet"]).read().split()
        remote = int(remote)

        def check(result):
            if result != 0:
                sys.exit(f"mooncake: transfer failed: {result}")

        for size in sizes:
            measure("put", size, lambda size=size: check(engine.transfer_sync_write(target, address, remote, size)),
                    seconds)
            measure("get", size, lambda size=size: check(engine.transfer_sync_read(target, address, remote, size)),
                    seconds)
    sys.stdout.flush()
    os._exit(0)  # the engine's threads outlive its destructor


main()
