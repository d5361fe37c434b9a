"""What figures need of probed networks, as small tables: states along depth, and a sample of tokens.

    python -m figures.kept_states results/probes/NAME --out figures/tables/NAME_states.parquet

Reads what `depthlaw probe` left.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from sweeps._config import ConfigError
from sweeps._files import StoreError, write_atomic
from sweeps._language_models import meets
from sweeps._terminal import fail, say
from sweeps.probes import Found, load, state_rows

ABOUT = ("width", "depth", "num_recur", "budget", "seed")
PLACE = ("number", "part", "recurrence", "is_layer", "layer")
ANGLES = ("step_angle", "update_angle")
MEASURES = {
    **{f"{name}_mean": name for name in (*ANGLES, "norm", "relative_progress", "angle_to_end")},
    **{f"{name}_{part}": f"{name}_{part}" for name in ANGLES for part in ("q05", "q95")},
    **{f"{name}{part}": f"{name}{part}" for name in ("head_loss", "layer_loss") for part in ("", "_error")},
}
"""Columns of `depthlaw probe` that are kept, and how they are called then: means over tokens (radians, nats),
quantiles over tokens, standard errors over documents."""


def states(found: Sequence[Found]) -> pl.DataFrame:
    """A row a state of each network; measures in single precision."""
    rows = state_rows(found)
    about = [name for name in ABOUT if name in rows.columns]
    return rows.select(
        *about, *PLACE, *(pl.col(old).cast(pl.Float32).alias(new) for old, new in MEASURES.items())
    )


def tokens(found: Sequence[Found], count: int) -> pl.DataFrame:
    """A random sample of the tokens of the one network: its first two components, its cluster; of all tokens
    the `share` of that cluster, and the share of the variance along both components.

    Raises ConfigError where there are several networks.
    """
    if len(found) != 1:
        raise ConfigError(f"tokens are kept of one network, and there are {len(found)}: choose with --only")
    probe = found[0].probe
    clusters = probe.clusters
    points = clusters.components.points(probe.sampled["step_angle"][:, np.array(probe.layers)])
    points = np.pad(points, ((0, 0), (0, max(0, 2 - points.shape[1]))))
    explained = np.pad(clusters.components.explained, (0, 2))
    some = np.sort(np.random.default_rng(0).permutation(len(points))[:count])
    return pl.DataFrame(
        {
            **{f"component_{k + 1}": points[some, k].astype(np.float32) for k in range(2)},
            "cluster": clusters.label[some].astype(np.int8),
            "share": clusters.shares[clusters.label[some]],
            **{f"explained_{k + 1}": np.full(len(some), explained[k]) for k in range(2)},
        }
    )


def meeting(found: Sequence[Found], only: Sequence[str]) -> list[Found]:
    """The networks that meet all conditions COLUMN=VALUE. Raises ConfigError where none does."""
    chosen = [one for one in found if all(meets(one.about, condition) for condition in only)]
    if not chosen:
        raise ConfigError(f"no network meets {' and '.join(only)}")
    return chosen


def _parquet(rows: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    rows.write_parquet(buffer, compression_level=15)
    return buffer.getvalue()


def main(
    folder: Annotated[Path, typer.Argument(help="Folder that `depthlaw probe` left.")],
    out: Annotated[Path, typer.Option(help="File for the states (.parquet).")],
    only: Annotated[
        list[str], typer.Option(metavar="COLUMN=VALUE", help="Networks to keep; repeatable, all must hold.")
    ] = [],  # noqa: B006  # typer copies it
    sample: Annotated[
        Path | None, typer.Option(help="File for a sample of the one network's tokens (.parquet).")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Tokens of the sample.")] = 2000,
) -> None:
    """Keep what figures need of probed networks."""
    try:
        found = meeting(load(folder), only)
        written: dict[Path, Any] = {out: states(found)}
        if sample is not None:
            written[sample] = tokens(found, count)
        for path, rows in written.items():
            write_atomic(path, _parquet(rows))
            say(f"wrote {path}: {len(rows)} rows")
    except (ConfigError, StoreError) as error:
        fail(str(error), 1)


if __name__ == "__main__":
    typer.run(main)
