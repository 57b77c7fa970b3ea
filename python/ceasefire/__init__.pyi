from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Union

import pyarrow
import pyarrow.compute

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
    @property
    def published(self) -> pyarrow.Table:
        """The paper's figures, a row for each: ``before`` of its baseline and ``after`` of its proposal.

        ``figure`` is the name of ours. If ``unit`` is ``relative``, the paper gives only the ratio. ``threads`` and
        ``lru_drain`` are null unless the paper varied them.
        """

class Workload:
    """A workload file, checked when it is opened: a mapping of its parameters, each with its values."""

    def __init__(self, path: Union[str, PathLike[str]]) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def experiments(self) -> list[Experiment]:
        """An experiment for each combination of the file's parameters."""
    def keys(self) -> list[str]: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str) -> bool: ...
    def __getitem__(self, name: str) -> list[str]: ...
    def __setitem__(self, name: str, value: Union[str, float, Iterable[Union[str, float]]]) -> None:
        """Gives a parameter one value, or several. After an error the workload is as it was."""

class Result:
    """The figures of one run."""

    @property
    def table(self) -> pyarrow.Table:
        """A row for each figure, as the command line's ``--table`` writes them."""
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
    kernel: Union[str, None] = None,
    settle: Literal["free", "demand"] = "free",
    lru_drain: Union[Literal["eager", "batched"], None] = None,
    without: Sequence[str] = (),
    oracle: bool = True,
    speculate: float = 0.0,
) -> Result:
    """Runs an experiment once, without the interpreter's lock. Ctrl-C ends it.

    ``machine``, ``scale`` and ``threads`` are by default the experiment's own: its first machine, and a thread on each
    CPU. ``kernel`` is the Linux whose locks and batches the memory manager has, by default that of the workload's or the
    machine's file. ``overrides`` set numbers of the machine by their keys. ``without`` leaves effects out of the
    machine's model. ``oracle=False`` turns the checkers off. ``speculate`` is how often walkers fill
    translations by themselves, from 0 to 1.
    """

def machines() -> list[Machine]:
    """The built-in machines."""

def experiments() -> list[Experiment]:
    """The built-in experiments."""

class Study:
    """Very many runs, described once: in a file, or as a mapping with the same keys."""

    def __init__(self, study: Union[str, PathLike[str], Mapping[str, Any]]) -> None: ...
    @staticmethod
    def from_text(text: str, folder: Union[str, PathLike[str]] = "", name: str = "study") -> "Study":
        """The study with the text of a study file, whose paths begin at ``folder``. Errors call it ``name``."""
    @property
    def text(self) -> str:
        """The text of the study file."""
    def __len__(self) -> int: ...
    def point(self, number: int) -> "Point": ...
    def left(self, data: "DataSet", again: bool = False) -> Iterator["Point"]:
        """The points that a data set does not have, in their order; those that failed too, if ``again``."""

class Point:
    """One run of a study, with one set of numbers."""

    @property
    def number(self) -> int:
        """Its number in the study."""
    @property
    def id(self) -> str:
        """Its name: the hash of all that determines its figures."""
    @property
    def command(self) -> str:
        """The command that repeats the run."""
    @property
    def host_bytes(self) -> int:
        """An upper bound of the host's memory that the run takes; 0 for a run that cannot begin."""
    def run(self) -> "Row":
        """Runs it, without the interpreter's lock. Ctrl-C ends it. A run that fails is a row with its error."""
    def failed(self, error: str) -> "Row":
        """The row of a run that failed with this error."""

class Row:
    """The result of one point. It can be sent to another process, the same to the bit."""

    @staticmethod
    def from_json(json: str) -> "Row": ...
    @property
    def json(self) -> str: ...
    @property
    def point(self) -> str:
        """The point's name."""
    @property
    def command(self) -> str:
        """The command that repeats the run."""
    @property
    def figures(self) -> dict[str, float]:
        """The figures under the names of the command line's JSON; none if the run failed."""
    @property
    def error(self) -> Union[str, None]:
        """The reason for which the run failed."""

class DataSet:
    """The results of studies in a folder. One process at a time has it open."""

    def __init__(self, folder: Union[str, PathLike[str]]) -> None: ...
    @property
    def folder(self) -> str: ...
    def keep(self, study: Study) -> None:
        """Keeps the text of a study in the folder, for its readers."""
    def points(self, with_failed: bool = True) -> set[str]:
        """The names of the points that it has; without those that failed, if they are to be run again."""
    def append(self, rows: Sequence[Row]) -> None:
        """Adds rows, which are on the disk afterwards."""
    def finish(self) -> None:
        """Puts the small files together."""
    def close(self) -> None:
        """Leaves the folder to other processes."""
    def __enter__(self) -> "DataSet": ...
    def __exit__(self, *error: Any) -> None: ...

class Recording:
    """A recording of a Linux machine, as ``ceasefire record`` and ``ceasefire import`` write them."""

    def __init__(self, path: Union[str, PathLike[str]]) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def facts(self) -> dict[str, Any]:
        """What the recording says about the machine and about itself."""
    def events(self, columns: Union[Sequence[str], None] = None) -> pyarrow.Table:
        """A row for each event, in the order of the file."""
    def __len__(self) -> int:
        """The number of events."""

class Progress:
    """The points of a study so far. Its text has the estimate of the end."""

    def __init__(self, all: int) -> None:
        """Begins to count the points of a study with so many."""
    def count(self, row: Row) -> None:
        """Counts a result."""
    def now(self) -> "Progress":
        """The progress at this moment."""
    @property
    def all(self) -> int:
        """The points of the study."""
    @property
    def before(self) -> int:
        """Those that the data set had before."""
    @before.setter
    def before(self, before: int) -> None: ...
    @property
    def done(self) -> int:
        """Those that were run."""
    @property
    def failed(self) -> int:
        """Those of them that failed."""
    @property
    def broken(self) -> int:
        """Those of them that broke a rule or loaded a wrong value."""
    @property
    def left(self) -> int:
        """The points that are left."""
    @property
    def json(self) -> str:
        """The numbers as JSON."""

def sweep(
    study: Union[str, PathLike[str], Mapping[str, Any], Study],
    folder: Union[str, PathLike[str], None] = None,
    *,
    engine: Literal["threads", "ray"] = "threads",
    address: Union[str, None] = None,
    jobs: Union[int, None] = None,
    again: bool = False,
    progress: Union[Callable[[Progress], object], None] = None,
) -> pyarrow.Table:
    """Runs the points of a study that a folder does not have, and reads the folder. Ctrl-C ends it.

    Points that have ended are in the folder. The same call goes on. Without a folder they are in the table alone.
    ``jobs`` are the runs at a time, or with Ray the tasks. ``again`` repeats points that failed. ``progress`` is called
    about once a second: ``progress=print`` prints a line. ``address`` is that of a Ray cluster.
    """

def read(
    folder: Union[str, PathLike[str]],
    columns: Union[Iterable[str], None] = None,
    filter: Union[pyarrow.compute.Expression, None] = None,
) -> pyarrow.Table:
    """The results of studies in a folder as one table, each point once.

    It has every column of any file. A point without a figure has a null there.
    """
