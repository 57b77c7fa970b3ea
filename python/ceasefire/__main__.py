"""The process behind `ceasefire sweep --engine ray`. It writes events to standard output, each a line of JSON."""

import argparse
import json
import sys

from . import DataSet, InputError, Study, _ray


# Nothing else is written there.
EVENTS, sys.stdout = sys.stdout, sys.stderr


def tell(event, text):
    print(f'{{"{event}":{text}}}', file=EVENTS, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m ceasefire", description=__doc__)
    parser.add_argument("study")
    parser.add_argument("folder")
    parser.add_argument("--address")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--again", action="store_true")
    chosen = parser.parse_args()
    try:
        with DataSet(chosen.folder) as data:
            _ray.sweep(
                Study(chosen.study),
                data,
                address=chosen.address,
                jobs=chosen.jobs,
                again=chosen.again,
                progress=lambda progress: tell("progress", progress.json),
                failed=lambda row: tell("failed", row.json),
            )
    except InputError as error:
        tell("error", json.dumps(str(error)))
        return 2
    except KeyboardInterrupt:
        # The last progress says so.
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
