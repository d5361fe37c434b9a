"""What hidden states say of how a network uses its depth, whoever trained it (arXiv:2602.05970).

`probe` measures a `Source`: a language model reading text, or any network whose trajectories can be computed.
Language models are behind one interface, `LanguageModel`: ours and pretrained ones.
"""

from llm.probe._accumulate import GROUPS, Accumulated, ProbeConfig
from llm.probe._clusters import Clusters, clusters, principal_components
from llm.probe._lens import Reading
from llm.probe._looped import Looped
from llm.probe._measures import MEASURES, Measure, Rows
from llm.probe._memory import in_batches, sequences_at_once
from llm.probe._model import LanguageModel, State, Trace
from llm.probe._pretrained import open_pretrained
from llm.probe._probe import Probe, ProbeProgress, Scalar, Summary, probe, result
from llm.probe._source import Batch, Source, TextSource, TrajectorySource
from llm.probe._trace import TraceProgress, causal_trace
from llm.probe._traced import CausalTrace, TracedToken, TraceSettings

__all__ = [
    "GROUPS",
    "MEASURES",
    "Accumulated",
    "Batch",
    "CausalTrace",
    "Clusters",
    "LanguageModel",
    "Looped",
    "Measure",
    "Probe",
    "ProbeConfig",
    "ProbeProgress",
    "Reading",
    "Rows",
    "Scalar",
    "Source",
    "State",
    "Summary",
    "TextSource",
    "Trace",
    "TraceProgress",
    "TraceSettings",
    "TracedToken",
    "TrajectorySource",
    "causal_trace",
    "clusters",
    "in_batches",
    "open_pretrained",
    "principal_components",
    "probe",
    "result",
    "sequences_at_once",
]
