"""Mooncake Store over TCP: an object is one column of one row group as an Arrow IPC stream in another's segment.

usage: mooncake_peer.py --data FOLDER --right FILE --master ADDRESS --metadata URL
       mooncake_peer.py holder ADDRESS URL        the process that gives the memory
"""
from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable

import pyarrow as pa
from mooncake.store import MooncakeDistributedStore

SEGMENT_BYTES = 2 << 30
LOCAL_BYTES = 64 << 20


def opened(master: str, metadata: str, segment_bytes: int) -> MooncakeDistributedStore:
    store = MooncakeDistributedStore()
    code = store.setup("127.0.0.1", metadata, segment_bytes, LOCAL_BYTES, "tcp", "", master)
    if code != 0:
        sys.exit(f"mooncake: setup gave {code}")
    return store


class Mooncake:
    """Objects are read into one registered buffer, touched before and used again for every query."""

    def __init__(self, master: str, metadata: str) -> None:
        self.store = opened(master, metadata, 0)
        self.sizes: dict[tuple[str, str], list[int]] = {}
        self.moved = 0
        self.room = mmap.mmap(-1, 1 << 30)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.room))
        self.buffer = pa.py_buffer(self.room)
        self.at = 0
        if self.store.register_buffer(self.address, len(self.room)) != 0:
            sys.exit("mooncake: register_buffer failed")

    def put(self, table: str, data: pa.Table) -> None:
        for column in data.column_names:
            sizes = self.sizes[table, column] = []
            for number, value in enumerate(common.values(data, column)):
                sizes.append(value.size)
                if (code := self.store.put(f"{table}/{column}/{number}", memoryview(value))) != 0:
                    sys.exit(f"mooncake: put gave {code}")

    def forget(self, query: object) -> None:
        self.at = 0

    def fetch(self, table: str, columns: Iterable[str]) -> pa.Table:
        keys, places, sizes = [], [], []
        found: dict[str, list[pa.Buffer]] = {}
        for column in columns:
            for number, size in enumerate(self.sizes[table, column]):
                keys.append(f"{table}/{column}/{number}")
                places.append(self.address + self.at)
                sizes.append(size)
                found.setdefault(column, []).append(self.buffer.slice(self.at, size))
                self.at += -(-size // 64) * 64
        for key, size, got in zip(keys, sizes, self.store.batch_get_into(keys, places, sizes), strict=True):
            if got != size:
                sys.exit(f"mooncake: get of {key} gave {got} instead of {size}")
        self.moved += sum(sizes)
        return common.assembled(found)

    def moved_bytes(self) -> int:
        return self.moved


if sys.argv[1] == "holder":
    holding = opened(sys.argv[2], sys.argv[3], SEGMENT_BYTES)
    print("ready", flush=True)
    sys.stdin.read()
    holding.close()
else:
    import common

    options = common.arguments(master=str, metadata=str)
    common.serve(Mooncake(options.master, options.metadata), options)
