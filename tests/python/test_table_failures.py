"""Tables when things break: no room, killed writers, readers and nodes, concurrent readers, Ctrl-C."""
from __future__ import annotations

import pathlib
import signal
import threading
import time

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import oncilla
from harness import settled, wait_for
from tables import Program, assert_same, fresh, numbered

MIB = 1 << 20
WAIT_S = 30  # more than any failure deadline: what is typed comes at once or with the deadline


def used_bytes(session: oncilla.Session) -> int:
    """What all nodes have given out."""
    return sum(node.used_bytes for node in session.nodes())


def wide(mib: int) -> pa.Table:
    """About so many MiB of numbers."""
    return pa.table({"x": pa.array(range(mib * MIB // 8), pa.int64())})


def endless(rows: int = 4096):
    """Batches without end."""
    batch = numbered(rows).combine_chunks().to_batches()[0]
    while True:
        yield batch


# ------------------------------------------------------------------ room

def test_a_table_larger_than_any_node_is_spread(make_cluster):
    cluster = make_cluster(3, budget=16 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        data = wide(30)
        table = session.table("wide").put(data, group_rows=MIB // 8)
        assert set(table.placement()["x"]) == {"n1", "n2", "n3"}
        assert_same(table.to_arrow(), data)
        assert table.select(["x"], pc.field("x") == 123_456).to_arrow()["x"].to_pylist() == [123_456]


def test_no_room_says_what_is_missing_and_leaves_nothing(make_cluster):
    cluster = make_cluster(3, budget=8 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        before = settled(lambda: used_bytes(session))
        with pytest.raises(oncilla.PoolFull, match="big.*free|big.*missing") as caught:
            session.table("big").put(wide(40), group_rows=MIB // 8)
        assert caught.value.code == "POOL_FULL" and caught.value.scope == "allocation"
        assert not session.table("big").exists and session.tables() == []
        wait_for("the memory is back", lambda: used_bytes(session) <= before)
        small = session.table("small").put(numbered(100))
        with pytest.raises(oncilla.PoolFull):
            small.append({"k": range(3 * MIB), "v": range(3 * MIB), "s": ["x"] * (3 * MIB)})
        with pytest.raises(oncilla.PoolFull):
            small.put(wide(40), replace=True)
        assert_same(small.to_arrow(), numbered(100))


def test_dropped_tables_give_their_memory_back(make_cluster):
    cluster = make_cluster(2, budget=16 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        for _ in range(4):  # more than there is room for at once
            session.table("again").put(wide(20), group_rows=MIB // 8, replace=False)
            session.table("again").drop()
            wait_for("the memory is back", lambda: used_bytes(session) < MIB)


# ------------------------------------------------------------------ killed programs

def test_a_writer_killed_in_a_load_leaves_no_name_and_no_memory(make_cluster):
    cluster = make_cluster(3, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        before = settled(lambda: used_bytes(session))
        with Program(cluster["n2"].socket_path, """
            def data():
                batch = pa.record_batch({"x": pa.array(range(10_000))})
                while True:
                    time.sleep(0.001)
                    yield batch
            session.table("half").put(data(), group_rows=10_000, progress=lambda rows, _: step(rows))
            """) as writer:
            for _ in range(5):
                assert writer.line()
            wait_for("it holds memory", lambda: used_bytes(session) > before)
            writer.kill()
        wait_for("the memory is back", lambda: used_bytes(session) <= before)
        assert not session.table("half").exists
        assert len(session.table("half").put(numbered(10))) == 10


def test_an_appender_killed_in_its_load_leaves_the_table_as_it_was(make_cluster):
    cluster = make_cluster(2, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table("kept").put(numbered(10))
        before = settled(lambda: used_bytes(session))
        with Program(cluster["n2"].socket_path, """
            batch = pa.record_batch({"k": range(1000), "v": range(1000), "s": ["x"] * 1000})
            def data():
                while True:
                    time.sleep(0.001)
                    yield batch
            session.table("kept").append(data(), group_rows=1000, progress=lambda rows, _: step(rows))
            """) as writer:
            for _ in range(5):
                assert writer.line()
            writer.kill()
        wait_for("the memory is back", lambda: used_bytes(session) <= before)
        assert_same(table.to_arrow(), numbered(10))
        assert_same(table.append(numbered(5, 10)).to_arrow(), numbered(15))


@pytest.mark.parametrize("reader_node", ["n1", "n2"])
def test_a_reader_killed_in_a_scan_keeps_nothing(make_cluster, reader_node):
    cluster = make_cluster(2, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        before = settled(lambda: used_bytes(session))
        session.table("read").put(wide(16), nodes="n1", group_rows=MIB // 8)
        with Program(cluster[reader_node].socket_path, """
            batches = session.table("read").select(batch_rows=1000).batches()
            kept = [next(batches), next(batches)]
            step("reading")
            wait()
            """) as reader:
            assert reader.line() == "reading"
            session.table("read").drop()
            assert used_bytes(session) >= 16 * MIB  # the reader's
            reader.kill()
        wait_for("the memory is back", lambda: used_bytes(session) <= before)


def test_a_table_dropped_under_a_reader_of_another_program_is_read_to_its_end(make_cluster):
    cluster = make_cluster(2, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        before = settled(lambda: used_bytes(session))
        for node in ("n1", "n2"):
            session.table("dropped").put(wide(8), nodes=node, group_rows=MIB // 8)
            with Program(cluster["n2"].socket_path, """
                batches = session.table("dropped").select(batch_rows=50_000).batches()
                rows = next(batches).num_rows
                step("reading")
                wait()
                rows += sum(batch.num_rows for batch in batches)
                del batches
                step(rows)
                wait()
                """) as reader:
                assert reader.line() == "reading"
                session.table("dropped").drop()
                reader.go()
                assert reader.line() == str(MIB)
                wait_for("the memory is back", lambda: used_bytes(session) <= before)
                reader.go()


# ------------------------------------------------------------------ killed nodes

def test_a_lost_node_is_a_typed_error_that_names_table_and_node(make_cluster):
    cluster = make_cluster(3, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = spread = session.table("spread").put(wide(12), nodes=["n1", "n2"], group_rows=MIB // 8)
        with table.snapshot() as snapshot:
            batches = snapshot.select(batch_rows=1000).batches()
            next(batches)
            cluster["n2"].kill()
            begun = time.monotonic()
            with pytest.raises((oncilla.PeerLost, oncilla.Lost), match="spread") as caught:
                sum(batch.num_rows for batch in batches)
            assert caught.value.node == "n2" and time.monotonic() - begun < WAIT_S
        for use in (table.to_arrow, table.to_polars, lambda: table.select(["x"], [("x", ">", 5)]).count()):
            with pytest.raises(oncilla.Error, match="spread.*n2|n2.*spread"):
                use()
        # Until then who opens it is told of the node at once.
        wait_for("it is known to be dead", lambda: {one.name: one.state for one in session.nodes()}["n2"] == "dead")
        with pytest.raises(duckdb.Error, match="spread.*n2|n2.*spread"):
            assert spread.exists and duckdb.connect().sql("select sum(x) from spread").fetchall()
        wait_for("its chunks are lost", lambda: any(chunk.lost for chunk in table.snapshot().chunks(0)))
        assert "lost" in table._repr_html_()
        table.drop()
        assert len(session.table("spread").put(numbered(10))) == 10


def test_a_stopped_node_is_an_error_within_the_deadline(make_cluster):
    cluster = make_cluster(3, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table("still").put(wide(12), nodes=["n2"], group_rows=MIB // 8)
        snapshot = table.snapshot()
        cluster["n2"].signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            with pytest.raises(oncilla.PeerLost, match="still") as caught:
                snapshot.to_arrow()
            assert time.monotonic() - begun < WAIT_S and caught.value.node == "n2"
        finally:
            cluster["n2"].signal(signal.SIGCONT)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_replicas_go_on_answering(make_cluster, packed):
    cluster = make_cluster(3, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        data = wide(6)
        table = session.table("safe").put(data, nodes=["n2", "n3"], replicas=2, group_rows=MIB // 8, packed=packed)
        assert table.snapshot().info["replicas"] == 2
        with table.snapshot() as snapshot:
            batches = snapshot.select(batch_rows=1000).batches()
            rows = next(batches).num_rows
            cluster["n2"].kill()
            assert rows + sum(batch.num_rows for batch in batches) == data.num_rows
            assert_same(snapshot.to_arrow(), data)
        assert_same(table.to_arrow(), data)
        wait_for("n3 is where it lies", lambda: set(table.placement()["x"]) == {"n3"})


def test_a_reader_without_memory_to_widen_a_column_lets_go_of_all(make_cluster):
    cluster = make_cluster(1, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        before = settled(lambda: used_bytes(session))
        numbers = pa.array(range(500_000), pa.int64())
        table = session.table("packed").put({"a": numbers, "b": numbers}, packed=True)
        with Program(cluster["n1"].socket_path, """
                import resource
                unlimited = resource.getrlimit(resource.RLIMIT_AS)
                with session.table("packed").snapshot() as seen:
                    batches = seen.select(batch_rows=500_000).batches()
                    pages = int(open("/proc/self/statm").read().split()[0])
                    # Enough for one column of 4 MB, and not for both.
                    room = pages * resource.getpagesize() + (9 << 20)
                    resource.setrlimit(resource.RLIMIT_AS, (room, unlimited[1]))
                    try:
                        next(batches)
                    except Exception as error:
                        failure = repr(error)
                        del error
                    resource.setrlimit(resource.RLIMIT_AS, unlimited)
                    step(failure)
                    del batches
                    step(str(sum(batch.num_rows for batch in seen.select().batches())))
                wait()
                """) as reader:
            assert "memory" in reader.line().lower()
            assert reader.line() == "500000"
            table.drop()
            wait_for("the memory is back while the reader lives", lambda: used_bytes(session) == before)
            assert reader.process.poll() is None


# ------------------------------------------------------------------ readers beside writers

def test_readers_see_all_of_an_append_or_none(make_cluster):
    cluster = make_cluster(2, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table("grows").put(numbered(300), group_rows=100)
        with Program(cluster["n2"].socket_path, """
            batch = lambda start: pa.table({"k": range(start, start + 300), "v": range(300), "s": ["x"] * 300})
            step("ready")
            wait()
            for i in range(1, 21):
                session.table("grows").append(batch(300 * i), group_rows=100)
            step("done")
            """) as writer:
            assert writer.line() == "ready"
            writer.go()
            seen: set = set()
            while max(seen, default=0) < 21 * 300:
                keys = table.select(["k"]).to_arrow()["k"].to_pylist()
                assert len(keys) % 300 == 0 and keys == list(range(len(keys)))
                seen.add(len(keys))
            assert writer.line() == "done"
        assert seen <= set(range(300, 21 * 300 + 1, 300))


def test_two_appenders_lose_nothing(make_cluster):
    cluster = make_cluster(2, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        table = session.table("both").put(numbered(10))
        body = """
            step("ready")
            wait()
            for i in range(10):
                session.table("both").append(pa.table({"k": [BASE + i], "v": [0], "s": ["x"]}))
            step("done")
            """
        with Program(cluster["n1"].socket_path, body.replace("BASE", "1000")) as one, \
                Program(cluster["n2"].socket_path, body.replace("BASE", "2000")) as two:
            for writer in (one, two):
                assert writer.line() == "ready"
            for writer in (one, two):
                writer.go()
            for writer in (one, two):
                assert writer.line() == "done"
        keys = table.select(["k"]).to_arrow()["k"].to_pylist()
        assert sorted(keys) == [*range(10), *range(1000, 1010), *range(2000, 2010)]


def test_two_writers_of_one_name_have_one_winner(make_cluster):
    cluster = make_cluster(2, budget=64 * MIB)
    body = """
        step("ready")
        wait()
        try:
            session.table("prize").put({"who": [WHO]})
            step("won")
        except oncilla.Exists:
            step("lost")
        """
    with oncilla.connect(cluster["n1"].socket_path) as session, \
            Program(cluster["n1"].socket_path, body.replace("WHO", "1")) as one, \
            Program(cluster["n2"].socket_path, body.replace("WHO", "2")) as two:
        for writer in (one, two):
            assert writer.line() == "ready"
        for writer in (one, two):
            writer.go()
        answers = [one.line(), two.line()]
        assert sorted(answers) == ["lost", "won"]
        assert session.table("prize").to_arrow()["who"].to_pylist() == [answers.index("won") + 1]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("taken", [0, 1, 5])
def test_a_scan_goes_on_when_another_thread_closes_the_session(make_cluster, packed, taken):
    """Gets are under way to a node that stands still, and the reader waits for them while the session is closed."""
    cluster = make_cluster(2, budget=64 * MIB)
    numbers = pa.array([k * 7 % 1000 for k in range(160_000)], pa.int32())
    data = pa.table({"x": numbers, "d": pa.DictionaryArray.from_arrays(numbers, [f"{k:0500d}" for k in range(1000)])})
    with oncilla.connect(cluster["n1"].socket_path) as writer:
        writer.table("scanned").put(data, nodes="n2", group_rows=10_000, packed=packed)
    session = oncilla.connect(cluster["n1"].socket_path)
    batches = session.table("scanned").select(batch_rows=10_000).batches()
    got = [next(batches) for _ in range(taken)]
    reader = threading.Thread(target=lambda: got.extend(batches), daemon=True)
    closer = threading.Thread(target=session.close, daemon=True)
    cluster["n2"].signal(signal.SIGSTOP)
    try:
        reader.start()
        time.sleep(0.1)  # it has what came before, and waits
        assert reader.is_alive()
        closer.start()
        wait_for("the close begins", lambda: session.closed)
    finally:
        cluster["n2"].signal(signal.SIGCONT)
    for thread in (closer, reader):
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert_same(pa.Table.from_batches(got, data.schema), data)
    with pytest.raises(oncilla.Cancelled):
        session.table("scanned").to_arrow()


def test_arrays_of_a_replica_that_was_given_up_stay_as_they_are(make_cluster):
    """They point into the memory of the reader's node, whose daemon stands still until the copy is made again elsewhere
    and then gives its own back."""
    cluster = make_cluster(3, budget=64 * MIB, extra=("--replicas-again-after-ms", "300"))
    data = pa.table({"x": pa.array(range(1, 200_001), pa.int64())})
    with oncilla.connect(cluster["n3"].socket_path) as session:
        session.table("read").put(data, replicas=2, nodes=["n2", "n3"])
        got = session.table("read").to_arrow()
        assert_same(got, data)
        cluster["n3"].signal(signal.SIGSTOP)
        try:
            wait_for("the copy is made again", lambda: "replica_made_again" in cluster["n2"].log(), WAIT_S)
        finally:
            cluster["n3"].signal(signal.SIGCONT)
        wait_for("n3 gives its own up", lambda: "replicas_freed" in cluster["n3"].log() or
                 "replica_dropped" in cluster["n3"].log(), WAIT_S)
        assert_same(got, data)
        with oncilla.connect(cluster["n1"].socket_path) as other:
            other.table("read").drop()
            filler = [other.allocate(4 * MIB, nodes=["n3"]) for _ in range(8)]  # whoever gets its pages writes there
            for each in filler:
                each[:] = b"\xff" * (4 * MIB)
            assert_same(got, data)


# ------------------------------------------------------------------ Ctrl-C

def interrupted(cluster, body: str) -> str:
    """What a program says that gets a SIGINT after its first word."""
    with Program(cluster["n1"].socket_path, body) as program:
        assert program.line() == "begun"
        program.process.send_signal(signal.SIGINT)
        return program.line()


def test_ctrl_c_stops_a_put(make_cluster):
    cluster = make_cluster(2, budget=256 * MIB)
    for source in ("data()", "pa.RecordBatchReader.from_batches(batch.schema, data())"):
        said = interrupted(cluster, f"""
            batch = pa.record_batch({{"x": range(1000)}})
            def data():
                while True:
                    yield batch
                    time.sleep(0.0001)
            told = []
            def progress(rows, nbytes):
                told or step("begun")
                told.append(rows)
            try:
                session.table("endless").put({source}, group_rows=10_000, progress=progress)
            except KeyboardInterrupt:
                step(f"stopped {{session.table('endless').exists}}")
            """)
        assert said == "stopped False"
    with oncilla.connect(cluster["n1"].socket_path) as session:
        wait_for("the memory is back", lambda: used_bytes(session) < MIB)


def test_ctrl_c_stops_a_scan(make_cluster):
    cluster = make_cluster(2, budget=64 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        session.table("long").put(wide(4), nodes="n2", group_rows=MIB // 8)
        said = interrupted(cluster, """
            table = session.table("long")
            try:
                step("begun")
                while True:
                    assert table.to_arrow().num_rows == 1 << 19
            except KeyboardInterrupt:
                step(table.to_arrow().num_rows)
            """)
        assert said == str(1 << 19)


@pytest.mark.parametrize("call", ["session.names()", "session.allocate(4096)"])
def test_ctrl_c_ends_a_wait_for_a_daemon_that_does_not_answer(make_cluster, call):
    """Its deadline is a quarter of an hour."""
    cluster = make_cluster(1, extra=("--failure-deadline-ms", "450000"))
    with Program(cluster["n1"].socket_path, f"""
            step("connected")
            wait()
            try:
                step("begun")
                list({call})
            except KeyboardInterrupt:
                step("interrupted")
                os._exit(0)
            """) as program:
        assert program.line() == "connected"
        cluster["n1"].process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{cluster['n1'].process.pid}/task")
        wait_for("all its threads stand still", lambda: all(
            (task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir()))
        try:
            program.go()
            assert program.line() == "begun"
            time.sleep(0.3)
            program.process.send_signal(signal.SIGINT)
            assert program.line() == "interrupted"
        finally:
            cluster["n1"].process.send_signal(signal.SIGCONT)


def test_a_source_that_never_ends_is_stopped_by_no_room(make_cluster):
    cluster = make_cluster(1, budget=8 * MIB)
    with oncilla.connect(cluster["n1"].socket_path) as session:
        with pytest.raises(oncilla.PoolFull):
            session.table(fresh()).put(endless(), group_rows=10_000)
        assert session.tables() == []


def test_a_drop_whose_daemon_dies_says_so_and_the_next_one_drops_the_rest(make_cluster):
    cluster = make_cluster(3, budget=64 * MIB)
    with oncilla.connect(cluster["n2"].socket_path) as session, oncilla.connect(cluster["n3"].socket_path) as other:
        before = settled(lambda: used_bytes(other))
        table = session.table("t").put(numbered(100), nodes=["n1"])
        for _ in range(60):
            table.append(numbered(100))
        failed = []

        def drop():
            try:
                table.drop()
            except oncilla.Error as error:
                failed.append(error)

        dropping = threading.Thread(target=drop)
        dropping.start()
        while any(one.name == "t" for one in other.names("t")):
            pass
        cluster["n2"].kill()
        dropping.join(WAIT_S)
        assert not dropping.is_alive()
        cluster.start_node(cluster["n2"], 64 * MIB).wait_ready()
        cluster.wait_members()
        if any(one.name.startswith("t~") for one in other.names("t")):  # else all was done before
            assert [type(error) for error in failed] == [oncilla.NoDaemon]

        def dropped():
            try:
                table.drop()
            except oncilla.NoDaemon:  # not yet reconnected
                return False
            except oncilla.NotFound:
                pass
            return True

        wait_for("the rest is dropped", dropped)
        assert other.names("t") == []
        wait_for("the memory is back", lambda: used_bytes(other) <= before)
        with pytest.raises(oncilla.NotFound):
            table.drop()
