"""The package against the command line: the same figures to the bit, and the same lines for the same mistakes.

`cargo xtask python` runs these tests. CEASEFIRE_COMMAND is the path of the command line's program.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest

import pyarrow
import pyarrow.csv
import pyarrow.parquet

import ceasefire

COMMAND = os.environ["CEASEFIRE_COMMAND"]
# The host's own times.
TIMES = {"wall_s", "cpu_s"}


def command(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=600)


def compare(folder, *arguments):
    """The table and the JSON of a run by the command line."""
    files = [str(pathlib.Path(folder, name)) for name in ("rows.csv", "run.json")]
    done = command("compare", *arguments, "--repeats", "1", "--quiet", "--table", files[0], "--json", files[1])
    assert done.returncode == 0, done.stderr
    types = {"metric": pyarrow.string(), "value": pyarrow.float64()}
    table = pyarrow.csv.read_csv(files[0], convert_options=pyarrow.csv.ConvertOptions(column_types=types))
    return table, json.loads(pathlib.Path(files[1]).read_text())["results"]


def figures(table):
    rows = zip(table["metric"].to_pylist(), table["value"].to_pylist())
    return [(metric, value.hex()) for metric, value in rows if metric not in TIMES]


def fixed(report):
    return {field: value for field, value in report.items() if field not in TIMES}


class Figures(unittest.TestCase):
    def same(self, result, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            table, [report] = compare(folder, *arguments)
        self.assertEqual(fixed(result.report), fixed(report))
        self.assertEqual(figures(result.table), figures(table))
        self.assertEqual(result.table.column_names, table.column_names)

    def test_a_run_has_the_figures_of_the_command_line(self):
        result = ceasefire.run("mmap-read", machine="1-socket", scale=1 / 256)
        self.same(result, "mmap-read", "--machine", "1-socket", "--mechanism", "batched", "--scale", "1/256")

    def test_every_choice_reaches_the_run(self):
        result = ceasefire.run(
            "tlb-flush2",
            machine="milan-36",
            mechanism="lazy",
            overrides={"costs.fault": "900 ns", "costs.access": 5},
            seed=7,
            scale=0.001,
            cpus=4,
            threads=2,
            kernel="6.12",
            settle="demand",
            lru_drain="eager",
            without=["smt", "ticks"],
            oracle=False,
            speculate=0.25,
        )
        choices = "--machine milan-36 --mechanism lazy --seed 7 --scale 0.001 --cpus 4 --threads 2 --kernel 6.12 --check none"
        more = "--set settle=demand --set lru_drain=eager --set without=smt,ticks --set speculate=0.25"
        changes = ["--set", "costs.fault=900 ns", "--set", "costs.access=5"]
        self.same(result, "tlb-flush2", *choices.split(), *more.split(), *changes)
        report = result.report
        self.assertEqual((report["settle"], report["lru_drain"], report["speculate"]), ("demand", "eager", 0.25))
        self.assertEqual(report["kernel"], "6.12")

    def test_the_machine_and_the_scale_are_the_experiments_own(self):
        report = ceasefire.run("migrate", cpus=2, scale=0.0001).report
        self.assertEqual(report["machine"], "2-socket-intel")
        self.assertEqual((report["seed"], report["mechanism"], report["oracle"]), (1, "batched", True))

    def test_the_series_are_those_of_the_report(self):
        result = ceasefire.run("mmap-read", machine="1-socket", scale=1 / 256)
        series = result.report["series"]
        self.assertEqual(result.series["interrupts"].to_pylist(), series["interrupts"])
        self.assertEqual(result.series["broadcasts"].to_pylist(), series["broadcasts"])
        self.assertGreater(sum(series["interrupts"]), 0)
        starts = [step * series["step_s"] for step in range(len(series["interrupts"]))]
        self.assertEqual(result.series["start_s"].to_pylist(), starts)

    def test_published_figures_stand_beside_ours(self):
        table = ceasefire.run("mmap-read", machine="1-socket", scale=1 / 256).table
        published = dict(zip(table["metric"].to_pylist(), table["published"].to_pylist()))
        self.assertGreater(published["elapsed_s"], 0)
        self.assertIsNone(published["faults"])

    def test_published_figures_are_those_beside_a_run(self):
        table = ceasefire.run("mmap-read", machine="1-socket", mechanism="batched", scale=1 / 256).table
        beside = zip(table["metric"].to_pylist(), table["published"].to_pylist())
        [found] = [one for one in ceasefire.experiments() if one.name == "mmap-read"]
        rows = [row for row in found.published.to_pylist() if row["machine"] == "1-socket"]
        self.assertEqual(
            {row["figure"]: row["after"] for row in rows},
            {metric: value for metric, value in beside if value is not None},
        )

    def test_a_published_figure_has_the_settings_of_its_measurement(self):
        [found] = [one for one in ceasefire.experiments() if one.name == "tlb-flush2"]
        self.assertIn(
            {
                "machine": "milan-72", "threads": 8, "lru_drain": "batched", "figure": "operations_per_s",
                "unit": "1/s", "before": 652e3, "after": 1267e3,
            },
            found.published.to_pylist(),
        )
        [unpublished] = [one for one in ceasefire.experiments() if one.name == "write-heavy"]
        self.assertEqual(len(unpublished.published), 0)


class Machines(unittest.TestCase):
    def test_numbers_are_read_and_set_by_their_keys(self):
        machine = ceasefire.Machine("1-socket")
        before = machine.hash
        self.assertEqual(machine.built_in, "1-socket")
        machine["costs.fault"] = "900 ns"
        fault = machine["costs.fault"]
        self.assertEqual((fault.key, fault.value, fault.unit), ("costs.fault", 900, "ns"))
        self.assertEqual(fault.source, "chosen: costs.fault=900 ns")
        self.assertNotEqual(machine.hash, before)
        self.assertIsNone(machine.built_in)
        machine["tlb.l1.entries"] = 32
        self.assertEqual(machine["tlb.l1.entries"].value, 32)

    def test_a_number_has_its_range_until_it_is_set(self):
        machine = ceasefire.Machine("1-socket")
        lock = machine["costs.lock"]
        self.assertEqual((lock.range, lock.because), ((20, 40), "the source's span"))
        machine["costs.lock"] = "50 ns"
        lock = machine["costs.lock"]
        self.assertEqual((lock.range, lock.because), (None, None))

    def test_a_machine_is_a_mapping(self):
        machine = ceasefire.Machine("1-socket")
        self.assertIn("costs.fault", machine)
        self.assertNotIn("costs.fautl", machine)
        self.assertEqual(list(machine), machine.keys())
        self.assertEqual(len(machine), len(machine.keys()))

    def test_a_wrong_value_is_refused_and_changes_nothing(self):
        machine = ceasefire.Machine("1-socket")
        before = machine.hash
        form = "KEY=NUMBER UNIT, as in costs.fault=900 ns"
        for key, value, line in [
            ("costs.fautl", "3 ns", "1-socket: costs.fautl: unknown key; did you mean 'costs.fault'?"),
            ("costs.fault", "-3 ns", "1-socket: costs.fault.value: -3 ns: must be 0 to 1000 ms"),
            ("costs.fault", "3 m", '1-socket: costs.fault.unit: "m": must be one of ps, ns, us, ms'),
            ("costs.fault", "much", f'"costs.fault=much": must be KEY=NUMBER or {form}'),
        ]:
            with self.assertRaises(ceasefire.InputError) as refused:
                machine[key] = value
            self.assertEqual(str(refused.exception), line)
        self.assertEqual(machine.hash, before)
        with self.assertRaisesRegex(ceasefire.InputError, "did you mean 'costs.fault'"):
            machine["costs.fautl"]

    def test_a_run_takes_the_machine_as_it_was_and_leaves_it(self):
        machine = ceasefire.Machine("1-socket")
        machine["costs.fault"] = "900 ns"
        before = machine.hash
        result = ceasefire.run("mmap-read", machine, scale=1 / 256, overrides={"costs.fault": "901 ns"})
        self.assertEqual(machine.hash, before)
        again = ceasefire.run("mmap-read", machine, scale=1 / 256)
        self.assertEqual(again.report["machine_hash"], before)
        self.assertNotEqual(result.report["machine_hash"], before)

    def test_lists_name_what_the_command_line_lists(self):
        listed = command("list").stdout
        for one in ceasefire.machines() + ceasefire.experiments():
            self.assertIn(f"  {one.name} ", listed)


class Mistakes(unittest.TestCase):
    def refused(self, *arguments, **options):
        with self.assertRaises(ceasefire.InputError) as refused:
            ceasefire.run(*arguments, **options)
        self.assertIsInstance(refused.exception, ValueError)
        return str(refused.exception)

    def test_a_mistake_is_answered_with_the_line_of_the_command_line(self):
        for options, arguments in [
            ({"mechanism": "bached"}, ["--mechanism", "bached"]),
            ({"scale": 2.0}, ["--scale", "2"]),
            ({"scale": 1e-9}, ["--scale", "1e-9"]),
            ({"scale": float("nan")}, ["--scale", "nan"]),
            ({"threads": 3}, ["--threads", "3"]),
            ({"cpus": 9000}, ["--cpus", "9000"]),
            ({"lru_drain": "eager"}, ["--set", "lru_drain=eager"]),
            ({"without": ["contetion"]}, ["--set", "without=contetion"]),
            ({"kernel": "6.10"}, ["--kernel", "6.10"]),
            ({"settle": "fre"}, ["--set", "settle=fre"]),
            ({"machine": "no/such.toml"}, ["--machine", "no/such.toml"]),
            ({"overrides": {"costs.fautl": 3}}, ["--set", "costs.fautl=3"]),
        ]:
            options = {"machine": "1-socket", **options}
            usual = [] if "--machine" in arguments else ["--machine", "1-socket"]
            said = command("compare", "mmap-read", *usual, *arguments)
            self.assertEqual(said.returncode, 2, said)
            self.assertEqual(f"ceasefire: {self.refused('mmap-read', **options)}\n", said.stderr)

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        self.assertIn("did you mean 'mmap-read'?", self.refused("mmap-raed"))
        self.assertIn("did you mean '1-socket'?", self.refused("mmap-read", "1-soket"))

    def test_numbers_that_do_not_fit_are_refused_in_one_line(self):
        for options, line in [
            ({"cpus": -3}, "cpus -3: must be 1 to 8192 CPUs"),
            ({"threads": 1 << 40}, "threads 1099511627776: must be a whole number, 1 to 65535"),
            ({"seed": "x"}, "seed x: must be a whole number, 0 to 18446744073709551615"),
            ({"settle": "fre"}, "no settlement is called 'fre'; did you mean 'free'? Known settlements: free, demand"),
        ]:
            self.assertEqual(self.refused("mmap-read", "1-socket", **options), line)

    def test_several_experiments_are_no_run(self):
        several = [one.name for one in ceasefire.experiments() if ":" in one.name]
        name = several[0].split(":")[0]
        self.assertIn(f"{name} is several experiments: choose one of {several[0]}, ", self.refused(name))

    def test_what_is_no_experiment_is_a_type_error(self):
        with self.assertRaises(TypeError):
            ceasefire.run(3)


class Recordings(unittest.TestCase):
    FOLDER = pathlib.Path(__file__).parents[2] / "linux/recordings"

    def test_a_recording_has_its_events_and_its_facts(self):
        recording = ceasefire.Recording(self.FOLDER / "munmap.parquet")
        self.assertEqual(recording.facts["architecture"], "x86_64")
        events = recording.events(["time_ns", "event"])
        self.assertEqual((events.num_rows, events.column_names), (len(recording), ["time_ns", "event"]))
        sent = recording.events()["event"].to_pylist().count("sent")
        self.assertEqual((sent, events["event"].to_pylist().count("sent")), (415, 415))

    def test_another_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "table.parquet"
            pyarrow.parquet.write_table(pyarrow.table({"time_ns": [1]}), table)
            for path, part in [
                (pathlib.Path(folder) / "none.parquet", "none.parquet: No such file"),
                (self.FOLDER / "README.md", "README.md: not a Parquet file"),
                (table, "table.parquet: must be a recording"),
            ]:
                with self.assertRaises(ceasefire.InputError) as caught:
                    ceasefire.Recording(path)
                self.assertIn(part, str(caught.exception))
        with self.assertRaises(ceasefire.InputError) as caught:
            ceasefire.Recording(self.FOLDER / "munmap.parquet").events(["tme_ns"])
        self.assertIn("no column is called 'tme_ns'", str(caught.exception))


class Workloads(unittest.TestCase):
    def test_a_workload_file_is_checked_when_it_is_opened(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "wrong.toml")
            path.write_text("descripton = 'x'\n")
            with self.assertRaises(ceasefire.InputError) as refused:
                ceasefire.Workload(path)
            self.assertEqual(f"ceasefire: {refused.exception}\n", command("compare", str(path)).stderr)

    def test_an_assignment_to_a_parameter_is_checked(self):
        path = pathlib.Path(__file__).parents[2] / "sim/experiments/workloads/wasm-pool.toml"
        workload = ceasefire.Workload(path)
        self.assertEqual((list(workload), len(workload)), (["batch"], 1))
        self.assertEqual(workload["batch"], ["1", "10", "100", "1000"])
        workload["batch"] = [7, "9"]
        self.assertEqual(workload["batch"], ["7", "9"])
        names = [experiment.name for experiment in workload.experiments]
        self.assertEqual(names, [f"{path}:batch=7", f"{path}:batch=9"])
        for name, value, part in [
            ("batch", "many", "wasm-pool.toml:"),
            ("btch", 7, "did you mean 'batch'?"),
            ("batch", [], "must be 1 to 1048576 items"),
        ]:
            with self.assertRaises(ceasefire.InputError) as caught:
                workload[name] = value
            self.assertIn(part, str(caught.exception))
        self.assertEqual(workload["batch"], ["7", "9"], "as it was")
        with self.assertRaises(KeyError):
            workload["btch"]
        workload["batch"] = 7
        [experiment] = workload.experiments
        result = ceasefire.run(workload, scale=0.01, cpus=2, oracle=False)
        self.assertEqual(result.report["experiment"], experiment.name)

    def test_a_workload_file_runs_by_its_path_and_as_an_object(self):
        path = pathlib.Path(__file__).parents[2] / "sim/experiments/workloads/mmap-read.toml"
        workload = ceasefire.Workload(path)
        [experiment] = workload.experiments
        options = {"machine": "1-socket", "scale": 1 / 256, "oracle": False}
        reports = [fixed(ceasefire.run(which, **options).report) for which in (path, workload, experiment)]
        self.assertEqual(reports[0], reports[1])
        self.assertEqual(reports[0], reports[2])


class Signals(unittest.TestCase):
    def test_ctrl_c_ends_a_run(self):
        # The first signals only wake the thread that sends the next, so they are handled during the run; both threads
        # go on beside it. Were they handled after the run, it would have a result.
        handled = threading.Semaphore(0)
        left = [4]

        def handle(number, frame):
            handled.release()
            left[0] -= 1
            if left[0] == 0:
                signal.default_int_handler(number, frame)

        def interrupt():
            for _ in range(left[0]):
                os.kill(os.getpid(), signal.SIGINT)
                handled.acquire()

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, handle))
        thread = threading.Thread(target=interrupt)
        results = []
        with self.assertRaises(KeyboardInterrupt):
            thread.start()
            results.append(ceasefire.run("mmap-read", machine="4-node-48-cpu", scale=1 / 8, oracle=False))
        thread.join()
        self.assertEqual(results, [])

    def test_runs_on_two_threads_do_not_disturb_each_other(self):
        results = {}

        def run(seed):
            results[seed] = fixed(ceasefire.run("migrate", cpus=2, scale=0.0001, seed=seed).report)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seed in (1, 2):
            alone = ceasefire.run("migrate", cpus=2, scale=0.0001, seed=seed)
            self.assertEqual(results[seed], fixed(alone.report))


if __name__ == "__main__":
    unittest.main()
