"""Studies on a real Ray cluster of four worker processes on this computer: complete although processes are killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

# This computer may be small, and the tests send nothing anywhere.
os.environ.update(RAY_memory_monitor_refresh_ms="0", RAY_USAGE_STATS_ENABLED="0")

try:
    import ray
except ImportError:
    raise unittest.SkipTest("Ray is not installed: pip install ray")

import ceasefire
from ceasefire import _ray
from tables import COMMAND, FAILING, STUDY, command, rows, stored, written

# The longest time to wait for another process.
DEADLINE_S = 300
# Far more points than are run before a study is stopped.
LONG = {**STUDY, "draws": 100000}
# A study in a process of its own, which kills itself in the middle.
KILLED = """
import json, os, signal, sys, ceasefire, ceasefire._ray
ceasefire._ray.KEPT_S = 0
def kill(progress):
    if progress.done >= 4: os.kill(os.getpid(), signal.SIGKILL)
ceasefire.sweep(json.loads(sys.argv[1]), sys.argv[2], engine="ray", jobs=4, progress=kill)
"""


def setUpModule():
    ray.init(
        num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
        object_store_memory=100 << 20,
    )


def tearDownModule():
    ray.shutdown()


def until(condition):
    """Waits for something that another process does."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it never happened"


class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = rows(ceasefire.sweep(STUDY))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("KEPT_S", "TASK_S", "_run"):
            self.addCleanup(setattr, _ray, name, getattr(_ray, name))

    def complete(self, table):
        """The results are those of threads, and each point was kept once."""
        self.assertEqual(rows(table), self.expected)
        points = stored(self.folder)
        self.assertEqual(sorted(points), sorted(self.expected))

    def refused(self, *arguments, **options):
        with self.assertRaises(ceasefire.InputError) as refused:
            ceasefire.sweep(*arguments, engine="ray", **options)
        line = str(refused.exception)
        self.assertNotIn("\n", line)
        return line

    def test_a_study_has_the_results_of_threads(self):
        told = []
        self.complete(ceasefire.sweep(STUDY, self.folder, engine="ray", progress=told.append))
        last = told[-1]
        self.assertEqual((last.all, last.before, last.done, last.left), (24, 0, 24, 0))
        ceasefire.sweep(STUDY, self.folder, engine="ray", progress=told.append)
        self.assertEqual((told[-1].before, told[-1].done, told[-1].left), (24, 0, 0))

    def test_failures_are_rows_and_do_not_end_the_study(self):
        self.assertEqual(rows(ceasefire.sweep(FAILING, engine="ray")), rows(ceasefire.sweep(FAILING)))

    def test_points_of_a_worker_that_is_killed_are_run_again(self):
        mark, run = self.folder.with_suffix(".killed"), _ray._run
        self.addCleanup(mark.unlink, missing_ok=True)

        def killed_once(study, points):
            rows = run(study, points)
            if points[0][0] >= 4 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return rows

        _ray._run = killed_once
        table = ceasefire.sweep(STUDY, self.folder, engine="ray")
        self.assertTrue(mark.exists())
        self.complete(table)

    def test_a_point_that_always_kills_its_worker_is_a_row_and_the_others_of_its_task_are_run(self):
        run = _ray._run

        def deadly(study, points):
            if any(number == 20 for number, _ in points):
                os.kill(os.getpid(), signal.SIGKILL)
            return run(study, points)

        _ray._run = deadly
        # All points that are left when the first has ended are one task.
        _ray.TASK_S, size = 1e6, _ray._Sweep.size
        self.addCleanup(setattr, _ray._Sweep, "size", size)
        _ray._Sweep.size = lambda sweep: 8 if sweep.ended else 4
        table = ceasefire.sweep(STUDY, self.folder, engine="ray", jobs=1)
        dead = ceasefire.Study(STUDY).point(20).id
        found = rows(table)
        self.assertRegex(found.pop(dead)["error"], "^the worker died 4 times: ")
        self.assertEqual(found, {point: row for point, row in self.expected.items() if point != dead})
        _ray._run = run
        self.complete(ceasefire.sweep(STUDY, self.folder, engine="ray", again=True))

    def test_a_study_whose_driver_was_killed_goes_on(self):
        done = subprocess.run([sys.executable, "-c", KILLED, json.dumps(STUDY), str(self.folder)], timeout=600)
        self.assertEqual(done.returncode, -signal.SIGKILL)
        before = len(stored(self.folder))
        self.assertTrue(4 <= before < 24)
        told = []
        table = ceasefire.sweep(STUDY, self.folder, engine="ray", progress=told.append)
        self.assertEqual((told[-1].before, told[-1].done), (before, 24 - before))
        self.complete(table)

    def test_ctrl_c_cancels_the_tasks_and_keeps_the_rows_that_have_ended(self):
        _ray.KEPT_S = 0

        def interrupt(progress):
            if progress.done >= 4:
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            ceasefire.sweep(LONG, self.folder, engine="ray", progress=interrupt)
        points = stored(self.folder)
        self.assertTrue(4 <= len(points) == len(set(points)) < 600000)
        until(lambda: ray.available_resources().get("CPU") == 4)

    def test_a_worker_with_other_files_ends_the_study_in_one_line(self):
        run = _ray._run
        _ray._run = lambda study, points: run(study, [(number, "other") for number, _ in points])
        self.assertRegex(
            self.refused(STUDY, self.folder),
            "^engine ray: point [0-9]+ is another one on .*: install the same ceasefire there, and the same files",
        )

    def test_an_address_beside_a_cluster_is_refused(self):
        self.assertEqual(
            self.refused(STUDY, address="head:6379"),
            "address head:6379: must be left out, since Ray is connected already",
        )

    def test_tasks_declare_powers_of_two_and_at_most_the_memory_of_a_node(self):
        class Large:
            host_bytes = 5 << 40

        class Small:
            host_bytes = 70 << 20

        with ceasefire.DataSet(self.folder) as data:
            sweep = _ray._Sweep(ray, ceasefire.Study(STUDY), data, None, False, None, None)
            self.assertEqual(sweep.bytes([Small]), 128 << 20)
            self.assertTrue(1 << 30 < sweep.bytes([Small, Large]) < 5 << 40)


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Without the cluster of the other tests.
        self.environment = {"CEASEFIRE_PYTHON": sys.executable, "RAY_ADDRESS": "local"}

    def test_a_study_has_the_results_of_threads(self):
        study, folder = written(FAILING, self.folder), str(self.folder / "ray")
        done = command("sweep", study, "--engine", "ray", "--jobs", "2", "-o", folder, **self.environment)
        table = ceasefire.sweep(FAILING)
        failed = sum(error is not None for error in table["error"].to_pylist())
        self.assertEqual((done.returncode, done.stdout), (0, f"{folder}: 48 points, {failed} failed\n"), done.stderr)
        self.assertIn("ceasefire: failed: ceasefire compare migrate ", done.stderr)
        self.assertEqual(rows(ceasefire.read(folder)), rows(table))

    def test_ctrl_c_ends_it_and_the_same_command_goes_on(self):
        study, folder = written(LONG, self.folder), self.folder / "ray"
        arguments = [COMMAND, "sweep", study, "--engine", "ray", "-o", str(folder)]
        sweep = subprocess.Popen(
            arguments, env={**os.environ, **self.environment}, stderr=subprocess.PIPE, text=True
        )
        until(lambda: folder.is_dir() and any(folder.rglob("part-*.parquet")))
        sweep.send_signal(signal.SIGINT)
        _, said = sweep.communicate(timeout=DEADLINE_S)
        self.assertEqual(sweep.returncode, 2, said)
        line = said.splitlines()[-1]
        self.assertRegex(line, "^ceasefire: stopped with [0-9]+ of 600000 points done; the same command goes on$")
        self.assertEqual(int(line.split()[3]), len(stored(folder)))

    def test_an_address_without_a_cluster_is_one_line(self):
        study = written(STUDY, self.folder)
        for address, line in [
            ("127.0.0.1:1", "[Errno 111] Connection refused"),
            ("nonsense", "Invalid address format: nonsense"),
        ]:
            arguments = ["sweep", study, "--engine", "ray", "--address", address, "-o", str(self.folder / "ray")]
            said = command(*arguments, **self.environment)
            self.assertEqual((said.returncode, said.stderr), (2, f"ceasefire: engine ray: address {address}: {line}\n"))


if __name__ == "__main__":
    unittest.main()
