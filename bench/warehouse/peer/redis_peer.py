"""Redis over TCP: a value is one column of one row group as an Arrow IPC stream; a table's are had in one MGET."""
from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import redis

import common


class Redis:
    def __init__(self, port: int) -> None:
        self.client = redis.Redis(host="127.0.0.1", port=port, socket_timeout=60)
        self.keys: dict[tuple[str, str], list[str]] = {}
        self.moved = 0

    def put(self, table: str, data: pa.Table) -> None:
        for column in data.column_names:
            keys = self.keys[table, column] = []
            for number, value in enumerate(common.values(data, column)):
                keys.append(f"{table}/{column}/{number}")
                self.client.set(keys[-1], memoryview(value))

    def forget(self, query: object) -> None:
        pass

    def fetch(self, table: str, columns: Iterable[str]) -> pa.Table:
        wanted = [(column, key) for column in columns for key in self.keys[table, column]]
        found: dict[str, list[bytes]] = {}
        for (column, _), value in zip(wanted, self.client.mget([key for _, key in wanted]), strict=True):
            found.setdefault(column, []).append(value)
            self.moved += len(value)
        return common.assembled(found)

    def moved_bytes(self) -> int:
        return self.moved


options = common.arguments(port=int)
common.serve(Redis(options.port), options)
