"""Recordings of Linux machines."""

import json
import os

import pyarrow
import pyarrow.parquet

from ._ceasefire import InputError

# The key of the facts among the file's metadata, and the version of the format.
FACTS = b"ceasefire.facts"
VERSION = 1


class Recording:
    """A recording of a Linux machine, as ``ceasefire record`` and ``ceasefire import`` write them."""

    def __init__(self, path):
        self.path = os.fspath(path)
        try:
            # Arrow's own error of a file that cannot be opened takes two lines.
            with open(self.path, "rb"):
                pass
            self._file = pyarrow.parquet.ParquetFile(self.path)
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}") from None
        except pyarrow.ArrowInvalid as error:
            raise InputError(f"{self.path}: not a Parquet file: {error}") from None
        metadata = self._file.schema_arrow.metadata or {}
        if FACTS not in metadata:
            raise InputError(f"{self.path}: must be a recording of `ceasefire record` or `ceasefire import`")
        self.facts = json.loads(metadata[FACTS])
        if self.facts["version"] != VERSION:
            raise InputError(f"{self.path}: version {self.facts['version']}: must be {VERSION}")

    def __len__(self):
        return self._file.metadata.num_rows

    def events(self, columns=None):
        """A row for each event, in the order of the file."""
        known = self._file.schema_arrow.names
        for name in columns or ():
            if name not in known:
                raise InputError(f"{self.path}: no column is called {name!r}")
        return self._file.read(columns=columns)

    def __repr__(self):
        return f"<Recording {self.path}: {len(self)} events>"
