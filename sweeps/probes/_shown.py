"""What was found of probed networks, for a person at a terminal."""

import math
from collections.abc import Sequence
from typing import Any

from sweeps.probes._kept import Found
from sweeps.probes._tables import network_rows
from sweeps.probes._verdict import Verdict, Witness

HIDDEN = ("job", "network", "config")


def networks_table(found: Sequence[Found]) -> Any:
    """One row a network: columns that differ between networks, then what was measured."""
    from rich.table import Table
    from rich.text import Text

    rows = network_rows(found).to_dicts()
    names = list(dict.fromkeys(name for one in found for name in one.about))
    told = [name for name in names if name not in HIDDEN and len({str(row.get(name)) for row in rows}) > 1]
    measured = {
        "bulk step": ("bulk_step", "bulk_step_error"),
        "update angle": ("bulk_update_angle", "bulk_update_angle_error"),
        "independent updates": ("independent_updates", None),
        "stop": ("stop", "stop_error"),
    }
    table = Table("network", *told, "tokens", *measured, "clusters")
    for row in rows:
        values = [
            _number(row[name]) + (f" ± {_number(row[error])}" if error else "")
            for name, error in measured.values()
        ]
        shares = " ".join(f"{float(share):.3g}" for share in row["clusters"].split())
        named = [_plain(row[name]) for name in told]
        table.add_row(*map(Text, (str(row["network"]), *named, str(row["tokens"]), *values, shares)))
    return table


def verdicts_table(verdicts: Sequence[Verdict]) -> Any:
    """One row a question: what its witnesses say, and the verdict."""
    from rich.table import Table
    from rich.text import Text

    names = list(dict.fromkeys(name for one in verdicts for name in one.question))
    told = [name for name in names if len({str(one.question.get(name)) for one in verdicts}) > 1]
    told = [name for name in told if name not in HIDDEN or name == "network"]
    witnesses = [witness.name for witness in verdicts[0].witnesses]
    table = Table(*(told or ["networks"]), "depths", *witnesses, "verdict")
    for one in verdicts:
        named = [_plain(one.question.get(name)) for name in told] or [str(one.networks)]
        depths = " ".join(map(str, one.depths))
        said = [*named, depths, *map(_said, one.witnesses), str(one.mechanism or "not resolved")]
        table.add_row(*map(Text, said))
    return table


def sentences(verdicts: Sequence[Verdict]) -> list[str]:
    """Why each verdict is what it is."""
    found = []
    for one in verdicts:
        known = {key: value for key, value in one.question.items() if value is not None and key != "config"}
        named = ", ".join(f"{key} {_plain(value)}" for key, value in known.items())
        found.append(f"{named}: {one.mechanism or 'not resolved'}, since {one.told}")
    return found


def _said(witness: Witness) -> str:
    if math.isnan(witness.value):
        return "-"
    low, high = witness.interval
    return f"{witness.value:.3g} [{low:.3g}, {high:.3g}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
