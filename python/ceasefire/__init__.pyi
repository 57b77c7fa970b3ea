from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Union

import pyarrow

__version__: str

class InputError(ValueError):
    """A name, a value or a file that is not allowed. Its text is the command line's line."""

class RunError(RuntimeError):
    """A run that began and has no result."""

class Parameter:
    """A number of a machine."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def range(self) -> Union[tuple[float, float], None]:
        """The least and the greatest value that the number may really have, in `unit`."""
    @property
    def because(self) -> Union[str, None]:
        """The reason for the range."""

class Machine:
    """A machine by name, or from a file. Its numbers are read and set by their keys."""

    def __init__(self, name: Union[str, PathLike[str]]) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def hash(self) -> str:
        """The hash of all that a run can depend on."""
    @property
    def built_in(self) -> Union[str, None]:
        """The built-in machine with the same content. Only these have published figures."""
    def keys(self) -> list[str]: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: str) -> bool: ...
    def __getitem__(self, key: str) -> Parameter: ...
    def __setitem__(self, key: str, value: Union[str, float]) -> None:
        """Sets a number: ``machine["costs.fault"] = "900 ns"``. After an error the machine is as it was."""

class Experiment:
    """A workload with its machines and its mechanisms."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def paper(self) -> str: ...
    @property
    def machines(self) -> list[str]: ...
    @property
    def mechanisms(self) -> list[str]: ...
    @property
    def scale(self) -> float: ...

class Workload:
    """A workload file, checked when it is opened."""

    def __init__(self, path: Union[str, PathLike[str]]) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def experiments(self) -> list[Experiment]:
        """An experiment for each combination of the file's parameters."""

class Result:
    """The figures of one run."""

    @property
    def table(self) -> pyarrow.Table:
        """A row for each figure, as the command line's ``--csv`` writes them."""
    @property
    def series(self) -> pyarrow.Table:
        """Interrupts and broadcasts in equal steps of simulated time."""
    @property
    def report(self) -> dict[str, Any]:
        """The run in the command line's ``--json``."""

def run(
    experiment: Union[str, PathLike[str], Experiment, Workload],
    machine: Union[str, PathLike[str], Machine, None] = None,
    mechanism: str = "batched",
    overrides: Union[Mapping[str, Union[str, float]], None] = None,
    seed: int = 1,
    scale: Union[float, None] = None,
    cpus: Union[int, None] = None,
    threads: Union[int, None] = None,
    oracle: bool = True,
) -> Result:
    """Runs an experiment once, without the interpreter's lock. Ctrl-C ends it.

    ``machine``, ``scale`` and ``threads`` are by default the experiment's own: its first machine, and a thread on each
    CPU. ``overrides`` set numbers of the machine by their keys. ``oracle=False`` turns the checkers off.
    """

def machines() -> list[Machine]:
    """The built-in machines."""

def experiments() -> list[Experiment]:
    """The built-in experiments."""
