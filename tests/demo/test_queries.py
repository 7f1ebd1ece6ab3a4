"""The queries and their checks at SF 0.1, without a cluster."""
from __future__ import annotations

import pathlib
from collections.abc import Mapping

import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

from demo import answers, measure, pagecache, polars_queries, queries, sources, tpch


@pytest.fixture(scope="module")
def dataset(folder: pathlib.Path) -> tpch.Dataset:
    return tpch.prepare(0.1, folder / "data")


@pytest.fixture(scope="module")
def right(dataset: tpch.Dataset) -> Mapping[str, answers.Summary]:
    return measure.expected(measure.engine(), sources.Parquet(dataset, cold=False), queries.ALL, published=False)


@pytest.fixture(scope="module")
def tables(dataset: tpch.Dataset) -> dict[str, pa.Table]:
    """What the queries read, as Arrow tables."""
    connection, relations = measure.engine(), sources.Parquet(dataset, cold=False).relations
    return {table: measure.answer(connection, f"select {', '.join(columns)} from {relations[table]}")
            for table, columns in queries.columns_read().items()}


def test_the_data_is_complete(dataset: tpch.Dataset, tables: dict[str, pa.Table]) -> None:
    assert {table: data.num_rows for table, data in tables.items()} == {
        "lineitem": 600_572, "orders": 150_000, "customer": 15_000}
    assert all(dataset.files(table) for table in tpch.TABLES)


def test_a_part_that_was_interrupted_does_not_count(tmp_path: pathlib.Path) -> None:
    made: list[int] = []

    def stop_after_one(done: int, parts: int) -> None:
        made.append(done)
        if done == 1:
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        tpch.prepare(0.01, tmp_path, stop_after_one)
    scale = tmp_path / f"tpch-sf0.01-{tpch.parts_of(0.01)}"
    (scale / ".part-2-9999999").mkdir()  # as a run that was killed leaves it
    kept = (scale / "part-1" / "lineitem" / "lineitem.1.parquet").stat().st_mtime_ns
    data = tpch.prepare(0.01, tmp_path)
    assert sorted(path.name for path in scale.iterdir()) == ["part-1", "part-2"]
    assert (scale / "part-1" / "lineitem" / "lineitem.1.parquet").stat().st_mtime_ns == kept
    assert sum(pa.parquet.read_metadata(path).num_rows for path in data.files("lineitem")) == 60_175


def test_every_query_reads_the_columns_that_it_says(tables: dict[str, pa.Table], right: Mapping) -> None:
    connection = measure.engine()
    for query in queries.ALL:
        source = sources.InProcess({table: tables[table].select(columns) for table, columns in query.reads.items()})
        source.attach(connection)
        source.turn(connection, query, right[query.name])


def test_operator_by_operator_gives_the_same(tables: dict[str, pa.Table], right: Mapping) -> None:
    for query in queries.STEPPED:
        connection = measure.engine()
        for table, data in tables.items():
            connection.register(table, data)
        relations = {table: table for table in tables}
        for number, step in enumerate(query.steps, 1):
            for name, relation in relations.items():
                step = step.replace(f"{{{name}}}", relation)
            answer = measure.answer(connection, step)
            relations[str(number)] = f"step{number}"
            connection.register(f"step{number}", answer)
        answers.check(query, answers.summary(answer), right[query.name], "steps")


def test_polars_gives_the_same(tables: dict[str, pa.Table], right: Mapping) -> None:
    frames = {table: polars.DataFrame(data).lazy() for table, data in tables.items()}
    for query, written in polars_queries.QUERIES.values():
        answers.check(query, answers.summary(written(frames).collect().to_arrow()), right[query.name], "Polars")


def test_a_private_copy_has_the_same_batches_and_types(tables: dict[str, pa.Table]) -> None:
    table = pa.table({"a": pa.array(["x", "y", None] * 100).dictionary_encode(), "b": pa.array(range(300))})
    table = pa.Table.from_batches(table.to_batches(max_chunksize=70))
    copy = sources.private_copy(table)
    assert copy.equals(table) and copy.schema == table.schema
    assert [chunk.num_chunks for chunk in copy.columns] == [chunk.num_chunks for chunk in table.columns]
    assert copy.column("b").chunk(0).buffers()[1].address != table.column("b").chunk(0).buffers()[1].address


@pytest.mark.parametrize("broken", ["a row less", "a value", "a null"])
def test_a_wrong_answer_is_found(tables: dict[str, pa.Table], right: Mapping, broken: str) -> None:
    connection = measure.engine()
    source = sources.InProcess(tables)
    source.attach(connection)
    answer = measure.answer(connection, queries.SELECT.text(source.relations))
    if broken == "a row less":
        answer = answer.slice(1)
    else:
        column = answer.column("l_orderkey").to_pylist()
        column[12_345] = column[12_345] + 1 if broken == "a value" else None
        answer = answer.set_column(0, "l_orderkey", pa.array(column, pa.int64()))
    with pytest.raises(answers.Wrong, match="select from test"):
        answers.check(queries.SELECT, answers.summary(answer), right["select"], "test")


def test_a_wrong_published_number_is_found() -> None:
    with pytest.raises(answers.Wrong, match="published"):
        answers.check_published(queries.Q6, pa.table({"revenue": [1.0]}))
    with pytest.raises(answers.Wrong, match="published"):
        answers.check_published(queries.Q1, pa.table({"l_returnflag": ["A"]}))


def test_what_was_dropped_is_not_in_the_page_cache(dataset: tpch.Dataset) -> None:
    files = dataset.files("orders")
    pagecache.fill(files)
    assert pagecache.resident_bytes(files) >= sum(pathlib.Path(path).stat().st_size for path in files)
    left = pagecache.drop(files)
    if left == pagecache.resident_bytes(files) and left:
        pytest.skip("this file system keeps its files in memory")
    assert left == 0
