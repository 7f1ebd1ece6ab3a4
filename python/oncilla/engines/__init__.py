"""How engines ask for tables: DuckDB, Polars, pyarrow's datasets. On tables and core."""
