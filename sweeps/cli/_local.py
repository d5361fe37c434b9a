"""The command `local`."""

from typing import Annotated

import typer

from sweeps._terminal import fail
from sweeps.cli._options import (
    CONFIDENCE,
    DERIVE,
    DROP_INVALID,
    GROUP,
    MAP,
    OUT,
    TABLE,
    groups_of,
    write_rows,
)


def local(
    source: TABLE,
    by: Annotated[
        list[str] | None, typer.Option(help="Column(s) that tell one curve from another; repeatable.")
    ] = None,
    map: MAP = [],  # noqa: B006  # typer copies it
    derive: DERIVE = [],  # noqa: B006
    drop_invalid: DROP_INVALID = False,
    group: GROUP = [],  # noqa: B006
    confidence: CONFIDENCE = 0.95,
    out: OUT = None,
) -> None:
    """The exponent between neighbouring depths, with intervals: a power law shows as a constant.

    Intervals are Student's over replicates (--group, by default seeds); of a single one they are unbounded.
    """
    import polars as pl

    from sweeps._config import ConfigError
    from sweeps._formats import HIDDEN
    from sweeps._source import open_source
    from sweeps.laws import LocalExponent, local_exponents_of

    opened = open_source(source, "depth", map, derive, drop_invalid)
    rows = opened.table
    if "status" in rows.columns:
        rows = rows.filter(pl.col("status").cast(pl.String).ne_missing("diverged"))
    known = [name for name in rows.columns if name not in HIDDEN]
    asked = list(dict.fromkeys(by if by is not None else opened.spec.by if opened.spec else ()))
    groups = groups_of(group, opened)
    groups = () if groups == ("seed",) and "seed" not in known else groups
    for column in (*asked, *groups):
        if column not in known:
            raise ConfigError(f"column {column!r} is not in the table: it has {', '.join(known)}")
    for column in asked:
        if column in LocalExponent._fields:
            raise ConfigError(f"--by {column!r}: is a column of what is written; rename it by --map")
    if "depth" in groups:
        raise ConfigError("--group 'depth': replicates have all depths; name what tells them apart")
    parts = rows.partition_by(asked, as_dict=True, maintain_order=True) if asked else {(): rows}
    found = []
    for values, part in parts.items():
        where = "".join(f"{name} = {value}: " for name, value in zip(asked, values, strict=True))
        if part.select("depth", *groups).is_duplicated().any():
            told = f"several rows have one {' and '.join(('depth', *groups))}"
            fail(f"{where}{told}: tell curves apart with --by, replicates with --group", 2)
        replicates = list(part.select(groups).iter_rows()) if groups else [()] * len(part)
        try:
            exponents = local_exponents_of(
                part["depth"].to_numpy(), part["loss"].to_numpy(), replicates, confidence
            )
        except ValueError as error:
            raise ConfigError(f"{where}{error}") from None
        found += [dict(zip(asked, values, strict=True)) | one._asdict() for one in exponents]
    if not found:
        fail("no replicate has two depths, so there is no slope", 1)
    schema = {name: rows.schema[name] for name in asked} | {
        name: pl.Int64 if name == "replicates" else pl.Float64 for name in LocalExponent._fields
    }
    write_rows(pl.DataFrame(found, schema=schema), out)
