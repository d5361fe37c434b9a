"""From a question to a number: specs, jobs, records, executors, and the fitter in `sweeps.laws`."""
