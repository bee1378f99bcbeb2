"""Exit statuses of every verb, in one table (translate has those of inspect). Program errors have their own (errors.py).

| status | inspect, doctor, status, why    | plan                    | run, run --once                     | offsets      |
|--------|---------------------------------|-------------------------|-------------------------------------|--------------|
| 0      | nothing is wrong                | ready                   | ended in order                      | done         |
| 1      | wrong options or configuration  |                         |                                     |              |
| 2      | incomplete: a check did not run | a cluster was not read  | wrong options, or the error's own   | the error's  |
| 3      | warnings                        | a run may stop later    |                                     |              |
| 4      | errors; why: neither has it     | a run would stop or wait | --once: a partition or topic stopped |              |
| 6      |                                 |                         | Spark cannot start its tasks        |              |
| 130    |                                 |                         | --once: interrupted before the end  |              |

verify has the first column's: 3 where something was not compared, 4 where records differ; and 130.
"""

from __future__ import annotations

from sparkmirror.diagnose.findings import Severity

FINE, USAGE, INCOMPLETE, WARNINGS, ERRORS = 0, 1, 2, 3, 4
STOPPED = 4  # of run --once
INTERRUPTED = 130  # of run: 128 plus the number of SIGINT, as in shells


def status_of(worst: Severity, *, is_complete: bool) -> int:
    """Errors take precedence over incomplete, incomplete over warnings: what is unknown may be worse than a warning."""
    if worst is Severity.ERROR:
        return ERRORS
    if not is_complete:
        return INCOMPLETE
    return WARNINGS if worst is Severity.WARNING else FINE
