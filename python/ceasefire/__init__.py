"""What TLB-flush mechanisms save, on simulated machines, as Arrow tables.

The simulation is the command line's, and so are its figures and the texts of its errors.
"""

from ._ceasefire import (
    Experiment,
    InputError,
    Machine,
    Parameter,
    Result,
    RunError,
    Workload,
    __version__,
    experiments,
    machines,
    run,
)

__all__ = [
    "Experiment",
    "InputError",
    "Machine",
    "Parameter",
    "Result",
    "RunError",
    "Workload",
    "__version__",
    "experiments",
    "machines",
    "run",
]
