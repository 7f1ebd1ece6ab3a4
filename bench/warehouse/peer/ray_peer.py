"""Ray's object store: an object is one column of a table; objects of another node are pulled into this node's store.

usage: ray_peer.py --data FOLDER --right FILE --where local|remote
"""
from __future__ import annotations

import logging
import os
from collections.abc import Iterable

os.environ.update(RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")

import pyarrow as pa  # noqa: E402
import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import common  # noqa: E402
from demo import queries  # noqa: E402  (common knows where it is)

STORE_BYTES = 3 << 30


@ray.remote(num_cpus=0)
class Holder:
    """Lives on the node whose store holds the objects."""

    def __init__(self) -> None:
        self.columns: dict[tuple[str, str], pa.Table] = {}

    def hold(self, key: tuple[str, str], value: pa.Table) -> None:
        self.columns[key] = value

    def fresh(self, keys: list[tuple[str, str]]) -> list:
        """New objects of these columns, which no other node has seen."""
        return [ray.put(self.columns[key]) for key in keys]


class Ray:
    def __init__(self, where: str) -> None:
        self.remote = where == "remote"
        node = {"object_store_memory": STORE_BYTES, "num_cpus": 1, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=node)
        if self.remote:
            del node["include_dashboard"]
            self.cluster.add_node(**node, resources={"other": 1})
        ray.init(address=self.cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        self.holder = Holder.options(num_cpus=0, resources={"other": 1}).remote() if self.remote else None
        self.objects: dict[tuple[str, str], ray.ObjectRef] = {}
        self.sizes: dict[tuple[str, str], int] = {}
        self.moved = 0

    def put(self, table: str, data: pa.Table) -> None:
        for column in data.column_names:
            one = pa.table({column: data.column(column)})
            self.sizes[table, column] = one.nbytes
            if self.holder:
                ray.get(self.holder.hold.remote((table, column), one))
            else:
                self.objects[table, column] = ray.put(one)

    def forget(self, query: queries.Query) -> None:
        """An object that was pulled stays in this node's store, so the other node makes new ones."""
        if self.holder:
            keys = [(table, column) for table, columns in query.reads.items() for column in columns]
            self.objects.clear()
            self.objects.update(zip(keys, ray.get(self.holder.fresh.remote(keys)), strict=True))

    def fetch(self, table: str, columns: Iterable[str]) -> pa.Table:
        columns = list(columns)
        parts = ray.get([self.objects[table, column] for column in columns])
        if self.remote:
            self.moved += sum(self.sizes[table, column] for column in columns)
        return pa.table({column: part.column(0) for column, part in zip(columns, parts, strict=True)})

    def moved_bytes(self) -> int:
        return self.moved

    def close(self) -> None:
        ray.shutdown()
        self.cluster.shutdown()


options = common.arguments(where=str)
store = Ray(options.where)
try:
    common.serve(store, options)
finally:
    store.close()
