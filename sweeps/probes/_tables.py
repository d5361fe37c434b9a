"""What was found of probed networks, as rows: one a network, and one a state of each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeps.probes._kept import Found
from sweeps.probes._verdict import Verdict

if TYPE_CHECKING:
    import polars as pl

    from llm.probe import Probe

SUMMARY = ("mean", "deviation", "standard_error", "q05", "q25", "q50", "q75", "q95")


def network_rows(found: Sequence[Found]) -> "pl.DataFrame":
    """One row a network: what it is, and what is said of it as a whole.

    Columns: `tokens` measured, `first_tokens`, `massive_tokens` and `not_finite_tokens` told apart;
    `bulk_step` and `bulk_update_angle` (radians, middle half of the layers), `stop` (share of the layers by
    which a token has gone its way) and `early` (share of tokens that have by half), each mean with `_error`,
    its standard error over documents; `independent_updates` (median); `clusters` of tokens, their shares;
    `cosine_k` between updates k layers apart; `first_recurrence_step`, `last_recurrence_step`, the angle
    between the ends of the first two and the last two recurrences; `loss_head` of the last state.
    """
    import polars as pl

    return pl.DataFrame([_network(one) for one in found], infer_schema_length=None)


def _network(one: Found) -> dict[str, Any]:
    probe = one.probe
    row: dict[str, Any] = {**one.about, "sequences": probe.sequences, "tokens": probe.tokens}
    row |= {f"{group}_tokens": count for group, count in probe.apart.items()}
    for name in ("bulk_step", "bulk_update_angle", "stop", "early"):
        row[name], row[f"{name}_error"], _ = (_finite(value) for value in probe.scalar(name))
    row["independent_updates"] = _finite(probe.measures["independent_updates"].quantiles[0, 2])
    row["clusters"] = " ".join(f"{share:.4f}" for share in probe.clusters.shares)
    cosines = probe.measures["update_cosine"].mean
    row |= {f"cosine_{lag}": _finite(value) for lag, value in enumerate(cosines, 1)}
    turns = probe.measures["recurrence_step"].mean
    row["first_recurrence_step"] = _finite(turns[0]) if len(turns) else None
    row["last_recurrence_step"] = _finite(turns[-1]) if len(turns) else None
    row["loss_head"] = None if probe.head is None else _finite(probe.head.loss[-1])
    return row


def state_rows(found: Sequence[Found]) -> "pl.DataFrame":
    """One row a state of each network, in the order of depth.

    What the network is; `number`, `state`, `part`, `recurrence`, `is_layer`, `layer` (how many layers are
    done) and `share` of all; `norm`, `angle_to_end`, `relative_progress` of the state, `step_angle` from the
    state before, `update_angle` between the update that made it and that of the next layer, each with mean,
    deviation, standard error and quantiles; `head_loss`, `layer_loss` (nats a token) and their standard
    errors; `settled`, the share of tokens whose first choice is final from here on.
    """
    import polars as pl

    return pl.DataFrame([row for one in found for row in _states(one)], infer_schema_length=None)


def _states(one: Found) -> list[dict[str, Any]]:
    probe = one.probe
    done = np.cumsum([state.is_layer for state in probe.states])
    rows = []
    for number, state in enumerate(probe.states):
        row = {
            **one.about,
            "number": number,
            "state": state.name,
            "part": state.part,
            "recurrence": state.recurrence,
            "is_layer": state.is_layer,
            "layer": int(done[number]),
            "share": float(done[number] / probe.depth),
        }
        for name, place in _places(probe, number).items():
            row |= _summed(probe, name, place)
        for name, reading in (("head", probe.head), ("layer", probe.layer)):
            known = reading is not None and number < len(reading.loss)
            row[f"{name}_loss"] = _finite(reading.loss[number]) if reading is not None and known else None
            row[f"{name}_loss_error"] = (
                _finite(reading.standard_error[number]) if reading is not None and known else None
            )
        row["settled"] = None if probe.settled is None else _finite(probe.settled[number])
        rows.append(row)
    return rows


def _places(probe: "Probe", number: int) -> dict[str, int | None]:
    """Where a state's value of each measure is; None where it has none."""
    layer = probe.layers.index(number - 1) if number - 1 in probe.layers else None
    pair = layer if layer is not None and layer < probe.depth - 1 else None
    return {
        "norm": number,
        "angle_to_end": number,
        "relative_progress": number,
        "step_angle": number - 1 if number else None,
        "update_angle": pair,
    }


def _summed(probe: "Probe", name: str, place: int | None) -> dict[str, float | None]:
    summary = probe.measures[name]
    if place is None:
        return dict.fromkeys(f"{name}_{part}" for part in SUMMARY)
    values = (summary.mean, summary.deviation, summary.standard_error)
    told = [*(value[place] for value in values), *summary.quantiles[place]]
    return {f"{name}_{part}": _finite(value) for part, value in zip(SUMMARY, told, strict=True)}


def as_json(found: Sequence[Found], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Everything but the sampled tokens, as plain values."""
    from sweeps._doctor import versions

    return {
        "versions": versions(),
        "files": [one.file for one in found],
        "verdicts": [_verdict(one) for one in verdicts],
        "networks": [
            {
                **_network(one),
                "states": _states(one),
                "components": {
                    "explained": one.probe.clusters.components.explained.tolist(),
                    "directions": one.probe.clusters.components.directions.tolist(),
                    "mean": one.probe.clusters.components.mean.tolist(),
                    "deviation": one.probe.clusters.components.deviation.tolist(),
                },
                "cluster_shares": one.probe.clusters.shares.tolist(),
                "cluster_step_angles": one.probe.clusters.centres.tolist(),
                "first_norms": _listed(one.probe.apart_norms.get("first")),
                "massive_norms": _listed(one.probe.apart_norms.get("massive")),
            }
            for one in found
        ],
    }


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "question": one.question,
        "networks": one.networks,
        "depths": list(one.depths),
        "mechanism": "not resolved" if one.mechanism is None else str(one.mechanism),
        "told": one.told,
        "witnesses": [
            {
                "name": witness.name,
                "unit": witness.unit,
                "value": _finite(witness.value),
                "interval": [_finite(end) for end in witness.interval],
                "allows": sorted(map(str, witness.allows)),
                "told": witness.told,
            }
            for witness in one.witnesses
        ],
    }


def _listed(values: "np.ndarray | None") -> list[float | None] | None:
    return None if values is None else [_finite(value) for value in values]


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
