"""From a folder of results, a spec or a pretrained model to what its hidden states say, and a verdict."""

from sweeps.probes._kept import Found, load
from sweeps.probes._run import probe_all
from sweeps.probes._sources import Probed, Reading, open_probed
from sweeps.probes._tables import as_json, network_rows, state_rows
from sweeps.probes._verdict import Mechanism, Verdict, Witness, verdict, verdicts

__all__ = [
    "Found",
    "Mechanism",
    "Probed",
    "Reading",
    "Verdict",
    "Witness",
    "as_json",
    "load",
    "network_rows",
    "open_probed",
    "probe_all",
    "state_rows",
    "verdict",
    "verdicts",
]
