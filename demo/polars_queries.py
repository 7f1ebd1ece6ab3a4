"""Q1, Q6 and the join as Polars expressions.

Polars rounds a product of decimals to the scale of its operands, so these get the scale of the exact product first.
"""
from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping

import polars as pl

from . import queries

ONE = decimal.Decimal(1)


def _exact(value: pl.Expr, scale: int) -> pl.Expr:
    return value.cast(pl.Decimal(38, scale))


def _join(tables: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
    return tables["lineitem"].join(tables["orders"], left_on="l_orderkey", right_on="o_orderkey").select(
        pl.len().cast(pl.Int64).alias("n"), pl.col("l_extendedprice").sum().alias("price"),
        pl.col("o_totalprice").sum().alias("total"))


def _q1(tables: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
    price, discount, tax = pl.col("l_extendedprice"), pl.col("l_discount"), pl.col("l_tax")
    discounted = _exact(price, 4) * _exact(pl.lit(ONE) - discount, 4)
    keys = [pl.col("l_returnflag").cast(pl.String), pl.col("l_linestatus").cast(pl.String)]
    return tables["lineitem"].filter(pl.col("l_shipdate") <= datetime.date(1998, 9, 2)).group_by(
        "l_returnflag", "l_linestatus").agg(
        pl.col("l_quantity").sum().alias("sum_qty"), price.sum().alias("sum_base_price"),
        discounted.sum().alias("sum_disc_price"),
        (_exact(discounted, 6) * _exact(pl.lit(ONE) + tax, 6)).sum().alias("sum_charge"),
        pl.col("l_quantity").mean().cast(pl.Float64).alias("avg_qty"), price.mean().cast(pl.Float64).alias("avg_price"),
        discount.mean().cast(pl.Float64).alias("avg_disc"), pl.len().cast(pl.Int64).alias("count_order"),
    ).with_columns(keys).sort("l_returnflag", "l_linestatus")


def _q6(tables: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
    shipped, discount = pl.col("l_shipdate"), pl.col("l_discount")
    return tables["lineitem"].filter(
        (shipped >= datetime.date(1994, 1, 1)) & (shipped < datetime.date(1995, 1, 1))
        & discount.is_between(decimal.Decimal("0.05"), decimal.Decimal("0.07"))
        & (pl.col("l_quantity") < decimal.Decimal(24))
    ).select((_exact(pl.col("l_extendedprice"), 4) * _exact(discount, 4)).sum().alias("revenue"))


QUERIES: dict[str, tuple[queries.Query, Callable[[Mapping[str, pl.LazyFrame]], pl.LazyFrame]]] = {
    "join": (queries.JOIN, _join), "Q1": (queries.Q1, _q1), "Q6": (queries.Q6, _q6)}
