"""Studies: run by an engine, and read as one table."""

import os
import pathlib
import tempfile

import pyarrow
import pyarrow.compute
import pyarrow.dataset

from ._ceasefire import DataSet, InputError, Study, sweep_on_threads

# The columns that are the folders' names.
PARTITION = pyarrow.schema([(name, pyarrow.string()) for name in ("experiment", "machine", "mechanism")])


def sweep(study, folder=None, *, engine="threads", address=None, jobs=None, again=False, progress=None):
    """Runs the points of a study that a folder does not have, and reads the folder."""
    if engine not in ("threads", "ray"):
        raise InputError(f'engine {engine!r}: must be one of "threads", "ray"')
    if address is not None and engine != "ray":
        raise InputError(f"address {address}: must be left out, since the engine is {engine}")
    if jobs is not None and not 1 <= jobs <= 65535:
        raise InputError(f"jobs {jobs}: must be a whole number, 1 to 65535")
    study = study if isinstance(study, Study) else Study(study)
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="ceasefire-") as folder:
            return sweep(study, folder, engine=engine, address=address, jobs=jobs, progress=progress)
    with DataSet(folder) as data:
        if engine == "ray":
            from . import _ray

            _ray.sweep(study, data, address=address, jobs=jobs, again=again, progress=progress)
        else:
            sweep_on_threads(study, data, jobs, again, progress)
    return read(folder)


def read(folder, columns=None, filter=None):
    """The results of studies in a folder as one table, each point once."""
    folder = os.fspath(folder)
    if not os.path.isdir(folder):
        raise InputError(f"{folder}: must be a folder that a sweep has written")
    parts = sorted(pathlib.Path(folder).glob("experiment=*/machine=*/mechanism=*/part-*.parquet"))
    data = pyarrow.dataset.dataset(
        [str(part) for part in parts],
        format="parquet",
        partitioning=pyarrow.dataset.partitioning(PARTITION, flavor="hive"),
        partition_base_dir=folder,
    )
    fragments = list(data.get_fragments())
    schema = _schema([fragment.physical_schema for fragment in fragments])
    chosen = schema.names if columns is None else list(columns)
    for name in chosen:
        if name not in schema.names:
            raise InputError(f"{folder}: no column is called {name!r}")
    if filter is None:
        needed = dict.fromkeys([*chosen, "point", "error"])
        schema = pyarrow.schema([field for field in schema if field.name in needed])
    rows = pyarrow.concat_tables([schema.empty_table(), *(_rows(one, schema) for one in fragments)])
    rows = _once(rows)
    return (rows if filter is None else rows.filter(filter)).select(chosen)


def _schema(schemas):
    """All columns of any file. One with numbers in one file and words in another has words."""
    types = {}
    for field in (field for schema in [PARTITION, *schemas] for field in schema):
        known = types.setdefault(field.name, field.type)
        types[field.name] = known if known == field.type else pyarrow.string()
    return pyarrow.schema(types.items())


def _rows(fragment, schema):
    """The rows of a file, with every column."""
    names = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
    own = set(fragment.physical_schema.names)
    table = fragment.to_table(columns=[name for name in schema.names if name in own])

    def column(field):
        if field.name in names:
            return pyarrow.repeat(names[field.name], len(table)).cast(field.type)
        if field.name in table.column_names:
            return table[field.name].cast(field.type)
        return pyarrow.nulls(len(table), field.type)

    return pyarrow.table([column(field) for field in schema], schema=schema)


def _once(rows):
    """Each point once: data sets that were copied together may have it twice. A run without an error comes first."""
    if "point" not in rows.column_names or pyarrow.compute.count_distinct(rows["point"]).as_py() == len(rows):
        return rows
    numbers = {}
    points, errors = rows["point"].to_pylist(), rows["error"].to_pylist()
    for number, (point, error) in enumerate(zip(points, errors)):
        if point not in numbers or (error is None and errors[numbers[point]] is not None):
            numbers[point] = number
    return rows.take(sorted(numbers.values()))
