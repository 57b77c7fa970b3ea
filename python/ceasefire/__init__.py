"""What TLB-flush mechanisms save, on simulated machines, as Arrow tables.

The simulation is the command line's, and so are its figures and the texts of its errors.
"""

from ._ceasefire import (
    DataSet,
    Experiment,
    InputError,
    Machine,
    Parameter,
    Point,
    Progress,
    Result,
    Row,
    RunError,
    Study,
    Workload,
    __version__,
    experiments,
    machines,
    run,
)
from ._recording import Recording
from ._sweep import read, sweep

__all__ = [
    "DataSet",
    "Experiment",
    "InputError",
    "Machine",
    "Parameter",
    "Point",
    "Progress",
    "Recording",
    "Result",
    "Row",
    "RunError",
    "Study",
    "Workload",
    "__version__",
    "experiments",
    "machines",
    "read",
    "run",
    "sweep",
]
