"""What is to be known about a fit, as a code and a sentence. Findings never change a number."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is to be known about a fit.

    **Fields:** `code` one of `CODES`; `sentence`; `about` parameters or columns that it is about.
    """

    code: str
    sentence: str
    about: tuple[str, ...] = ()


CODES = {
    "not-identified": "a parameter's profile is flat, or open at a bound",
    "at-bound": "an estimate is its bound",
    "degenerate": "parameters trade against each other without any change of the prediction",
    "failed": "no start gave a finite objective",
    "budget-exhausted": "the first-order condition does not hold",
    "few-starts-agree": "most starts ended elsewhere",
    "ill-conditioned": "some combination of parameters is all but undetermined",
    "correlated-predictors": "columns of the law move together",
    "few-levels": "a column has few different values",
    "few-degrees-of-freedom": "hardly more rows than parameters",
    "duplicate-rows": "rows that are equal in every column of the law",
    "dominant-rows": "one row moves a headline parameter by more than its standard error",
    "curvature": "residuals bend along a column: the law is not the right one",
    "checkpoint-rows": "several rows of one run, taken as independent",
    "mixed-truncation": "runs with all and with some recurrences in the backward pass, in one fit of phi",
    "other-recurrences": "runs evaluated with other recurrences than they were trained with",
    "failed-refits": "bootstrap refits that did not end at an optimum",
    "groups-differ": "groups differ in a parameter that they share",
    "groups-agree": "groups agree better than the scatter within them explains",
    "one-group": "a single group, so nothing is known of the variation between groups",
    "no-scatter": "the rows follow the law to rounding",
    "misfit": "residuals are larger than the noise that was given",
}
"""Every code and what it means; docs/laws.md says what to do about each."""
