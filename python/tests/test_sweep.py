"""Studies on threads, against the command line's: the same data set to the bit, and the same lines for mistakes."""

import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import pyarrow
import pyarrow.compute
import pyarrow.parquet

import ceasefire
from tables import FAILING, STUDY, command, rows, stored, written


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refused(self, call, *arguments, **options):
        with self.assertRaises(ceasefire.InputError) as refused:
            call(*arguments, **options)
        line = str(refused.exception)
        self.assertNotIn("\n", line)
        return line


class Sweeps(InFolder):
    def test_a_study_has_the_results_of_the_command_line(self):
        path = written(STUDY, self.folder)
        done = command("sweep", path, "-o", str(self.folder / "command"), "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        table = ceasefire.sweep(path, self.folder / "package")
        self.assertEqual(len(table), 24)
        self.assertEqual(rows(table), rows(ceasefire.read(self.folder / "command")))
        self.assertEqual((self.folder / "package/_study.toml").read_text(), pathlib.Path(path).read_text())

    def test_a_mapping_is_a_study_and_needs_no_folder(self):
        table = ceasefire.sweep(STUDY, jobs=2)
        self.assertEqual(rows(table), rows(ceasefire.sweep(written(STUDY, self.folder), self.folder / "file")))

    def test_numbers_of_numpy_are_numbers(self):
        class Array:
            def tolist(self):
                return [1, 2]

        self.assertEqual(len(ceasefire.Study({**STUDY, "seeds": Array()})), 16)

    def test_a_study_goes_on_and_no_point_is_run_twice(self):
        study, told = ceasefire.Study(STUDY), []
        with ceasefire.DataSet(self.folder) as data:
            data.append([study.point(number).run() for number in (3, 7, 8)])
            left = study.left(data)
            self.assertEqual([point.number for point in left], [n for n in range(24) if n not in (3, 7, 8)])
            self.assertEqual(left.before, 3)
        table = ceasefire.sweep(study, self.folder, progress=lambda progress: told.append(progress))
        last = told[-1]
        self.assertEqual((last.all, last.before, last.done, last.failed, last.left), (24, 3, 21, 0, 0))
        self.assertRegex(str(last), r"^24 of 24 points, after .*, ends in about 0 s$")
        self.assertEqual(rows(table), rows(ceasefire.sweep(STUDY)))
        self.assertEqual(len(stored(self.folder)), 24)

    def test_failures_are_rows_and_are_repeated_on_request(self):
        told = []
        table = ceasefire.sweep(FAILING, self.folder)
        failed = table.filter(pyarrow.compute.field("error").is_valid())
        self.assertTrue(0 < len(failed) < len(table) == 48)
        ceasefire.sweep(FAILING, self.folder, progress=told.append)
        self.assertEqual(told[-1].done, 0)
        ceasefire.sweep(FAILING, self.folder, again=True, progress=told.append)
        self.assertEqual((told[-1].done, told[-1].failed), (len(failed), len(failed)))

    def test_ctrl_c_ends_a_study_and_the_same_call_goes_on(self):
        long = {**STUDY, "draws": 100000}
        script = (
            "import json, os, signal, sys, ceasefire\n"
            "def interrupt(progress):\n"
            "    if progress.done: os.kill(os.getpid(), signal.SIGINT)\n"
            "ceasefire.sweep(json.loads(sys.argv[1]), sys.argv[2], progress=interrupt)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, json.dumps(long), str(self.folder)],
            capture_output=True, text=True, timeout=600,
        )
        self.assertEqual(done.returncode, -signal.SIGINT, done.stderr)
        self.assertIn("KeyboardInterrupt", done.stderr)
        points = stored(self.folder)
        self.assertTrue(0 < len(points) == len(set(points)) < 600000)
        with ceasefire.DataSet(self.folder) as data:
            self.assertNotIn(next(ceasefire.Study(long).left(data)).id, points)

    def test_an_error_of_the_progress_ends_the_study(self):
        def tell(_):
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            ceasefire.sweep(STUDY, self.folder, progress=tell)


class Objects(InFolder):
    def test_a_study_and_a_row_are_the_same_in_another_process(self):
        study = ceasefire.Study(STUDY)
        other = pickle.loads(pickle.dumps(study))
        self.assertEqual([other.point(n).id for n in range(24)], [study.point(n).id for n in range(24)])
        row = study.point(3).run()
        sent = pickle.loads(pickle.dumps(row))
        self.assertEqual((sent.json, sent.figures), (row.json, row.figures))
        self.assertGreater(row.figures["elapsed_s"], 0)
        self.assertEqual(row.point, study.point(3).id)

    def test_a_study_in_another_process_finds_the_files_of_its_folder(self):
        machine = pathlib.Path(__file__).parents[2] / "sim/machine/machines/2-socket-intel.toml"
        shutil.copy(machine, self.folder / "own.toml")
        path = self.folder / "own-study.toml"
        path.write_text(ceasefire.Study(STUDY).text.replace("2-socket-intel", "own.toml"))
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)
        sent = pickle.dumps(ceasefire.Study("own-study.toml"))
        os.chdir("/")
        self.assertIn(str(self.folder / "own.toml"), pickle.loads(sent).point(0).command)

    def test_a_point_tells_its_command_and_its_memory(self):
        point = ceasefire.Study(STUDY).point(0)
        self.assertRegex(point.command, "^ceasefire compare migrate --machine 2-socket-intel --mechanism per-page ")
        self.assertGreater(point.host_bytes, 1 << 20)
        self.assertEqual(point.failed("no").error, "no")
        with self.assertRaisesRegex(IndexError, "^point 24: must be below 24$"):
            ceasefire.Study(STUDY).point(24)

    def test_a_closed_data_set_is_refused(self):
        data = ceasefire.DataSet(self.folder)
        self.assertIn("another sweep writes to this folder", self.refused(ceasefire.DataSet, self.folder))
        data.close()
        with self.assertRaisesRegex(ValueError, "^the data set is closed$"):
            data.points()


class Reading(InFolder):
    def test_columns_of_all_files_are_there_and_missing_cells_are_null(self):
        drawn = {**STUDY, "seeds": 1, "draws": 1}
        other = {**drawn, "experiments": ["mmap-read"], "machines": ["1-socket"], "parameters": {"scale": 1 / 256}}
        del other["draws"]
        ceasefire.sweep(drawn, self.folder)
        table = ceasefire.sweep(other, self.folder)
        self.assertEqual(sorted(set(table["experiment"].to_pylist())), ["migrate", "mmap-read"])
        by = dict(zip(table["experiment"].to_pylist(), table["costs.interrupt_deliver"].to_pylist()))
        self.assertIsNone(by["mmap-read"])
        self.assertIsNotNone(by["migrate"])
        short = ceasefire.read(
            self.folder, ["machine", "elapsed_s"], pyarrow.compute.field("experiment") == "migrate"
        )
        self.assertEqual(short.column_names, ["machine", "elapsed_s"])
        self.assertEqual(short["machine"].to_pylist(), ["2-socket-intel"] * 2)

    def test_numbers_in_one_file_and_words_in_another_are_words(self):
        for name, value in [("a", 0.5), ("b", "none")]:
            part = self.folder / f"experiment=e/machine=m/mechanism={name}"
            part.mkdir(parents=True)
            pyarrow.parquet.write_table(pyarrow.table({"point": [name], "x": [value]}), part / "part-1.parquet")
        self.assertEqual(ceasefire.read(self.folder)["x"].to_pylist(), ["0.5", "none"])

    def test_a_point_of_two_files_is_one_and_its_run_without_error_counts(self):
        part = self.folder / "experiment=e/machine=m/mechanism=a"
        part.mkdir(parents=True)
        for number, (points, error) in enumerate([(["p", "q"], "it died"), (["q"], None), (["q"], "again")]):
            errors = pyarrow.array([error] * len(points), pyarrow.string())
            pyarrow.parquet.write_table(
                pyarrow.table({"point": points, "error": errors}), part / f"part-{number}.parquet"
            )
        table = ceasefire.read(self.folder, ["point", "error"])
        self.assertEqual(table.to_pylist(), [{"point": "p", "error": "it died"}, {"point": "q", "error": None}])


class Mistakes(InFolder):
    def test_a_mistake_is_answered_with_the_line_of_the_command_line(self):
        for text in ["", "experiments = ['migrat']", "experiments = ['migrate']\nseeds = 0", "experiments = 3 3"]:
            path = self.folder / "wrong.toml"
            path.write_text(text)
            said = command("sweep", str(path))
            self.assertEqual(said.returncode, 2, said)
            self.assertEqual(f"ceasefire: {self.refused(ceasefire.sweep, path)}\n", said.stderr)
        missing = str(self.folder / "none.toml")
        self.assertEqual(f"ceasefire: {self.refused(ceasefire.Study, missing)}\n", command("sweep", missing).stderr)
        study = written(STUDY, self.folder)
        said = command("sweep", study, "--address", "head:6379").stderr
        self.assertEqual(f"ceasefire: {self.refused(ceasefire.sweep, study, address='head:6379')}\n", said)

    def test_wrong_arguments_are_refused_in_one_line(self):
        for options, line in [
            ({"engine": "rays"}, 'engine \'rays\': must be one of "threads", "ray"'),
            ({"jobs": 0}, "jobs 0: must be a whole number, 1 to 65535"),
            ({"folder": "/dev/null/x"}, "/dev/null/x: Not a directory (os error 20)"),
        ]:
            self.assertEqual(self.refused(ceasefire.sweep, STUDY, **options), line)
        self.assertIn("did you mean 'seeds'?", self.refused(ceasefire.Study, {**STUDY, "seds": 3}))
        self.assertIn("study: ", self.refused(ceasefire.Study, {**STUDY, "seeds": None}))
        self.assertIn("no column is called 'x'", self.refused(ceasefire.read, self.folder, ["x"]))
        self.assertIn("must be a folder", self.refused(ceasefire.read, self.folder / "none"))

    def test_ray_that_is_not_installed_is_one_line(self):
        script = (
            "import sys\nsys.modules['ray'] = None\nimport json, ceasefire\n"
            "try: ceasefire.sweep(json.loads(sys.argv[1]), engine='ray')\n"
            "except ceasefire.InputError as error: print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", script, json.dumps(STUDY)], capture_output=True, text=True)
        self.assertEqual(done.stdout, "engine ray: the Python package ray is not installed: pip install ray\n")


if __name__ == "__main__":
    unittest.main()
