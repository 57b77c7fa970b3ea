"""The notebook: its figures have the numbers of its data sets, and no point is run twice."""

import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

FOLDER = pathlib.Path(__file__).parents[1] / "notebook"
sys.path.insert(0, str(FOLDER))
try:
    import paper
except ImportError as error:
    raise unittest.SkipTest(f"the notebook needs Python 3.11, marimo and matplotlib: {error}")

import ceasefire
from tables import stored

NOTEBOOK = FOLDER / "paper.py"
CASE = {"machine": "m", "lru_drain": "eager"}
SMALL = ["--scale", "0.2", "--draws", "2", "--seeds", "2"]


def marimo(*arguments):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False
    )


def rows(first, *seeds):
    """Rows as a data set has them: a curve over 1, 2, 4 and 8 threads, and those of another mechanism by seed."""
    return [
        {**CASE, "seed": seed, "mechanism": name, "threads": threads, "operations_per_s": height}
        for seed, second in enumerate(seeds)
        for name, curve in [("batched", first), ("broadcast", second)]
        for threads, height in zip([8.0, 4.0, 2.0, 1.0], reversed(curve))
    ]


class Numbers(unittest.TestCase):
    def crossings(self, first, second):
        return paper.crossings([1, 2, 4, 8], first, second)

    def test_curves_cross_where_the_lines_between_their_points_do(self):
        self.assertEqual(self.crossings([0, 1, 2, 3], [1.5] * 4), [2**1.5])
        self.assertEqual(self.crossings([0, 1, 2, 3], [1] * 4), [2])
        self.assertEqual(self.crossings([0, 2, 0, 0], [1, 1, 1, 1]), [2**0.5, 2**1.5])

    def test_curves_that_touch_or_begin_together_do_not_cross(self):
        self.assertEqual(self.crossings([1, 1, 2, 3], [1, 1, 1, 1]), [])
        self.assertEqual(self.crossings([2, 1, 2, 3], [1, 1, 1, 1]), [])
        self.assertEqual(self.crossings([1] * 4, [1] * 4), [])

    def test_curves_that_part_on_the_other_side_cross_in_the_middle(self):
        self.assertEqual(self.crossings([2, 1, 1, 0], [1, 1, 1, 1]), [2**1.5])

    def test_a_sentence_says_whether_the_curves_cross(self):
        for first, second, place, said in [
            ([1, 2, 3, 4], [1, 2, 4, 3], [2**2.5], "cross at 5.66 threads (single seeds: 5.66 to 5.66)"),
            ([1, 2, 3, 4], [1, 2, 4, 5], [], "do not cross: broadcast is never slower"),
            ([1, 2, 3, 5], [1, 2, 3, 4], [], "do not cross: batched is never slower"),
            ([1, 2, 3, 4], [1, 2, 3, 4], [], "are the same"),
        ]:
            [lines] = paper.curves(rows(first, second)).values()
            self.assertEqual(paper.crossing(lines), (place, place, said))

    def test_the_median_of_the_seeds_crosses_and_so_does_each_seed(self):
        [lines] = paper.curves(rows([1, 2, 3, 4], [2, 3, 2, 1], [2, 3, 4, 5], [2, 3, 4, 3])).values()
        said = "cross at 5.66 threads (single seeds: 2.83 to 5.66)"
        self.assertEqual(paper.crossing(lines), ([2**2.5], [2**1.5, 2**2.5], said))

    def test_a_ratio_is_that_of_one_case(self):
        cells = [("a", "per-page", 2.0), ("a", "batched", 1.0), ("b", "batched", 3.0), ("c", "per-page", 0.0)]
        table = [{"case": case, "mechanism": mechanism, "x": x} for case, mechanism, x in cells]
        self.assertEqual(
            paper.ratios(table, "x"), [{"case": "a", "mechanism": "batched", "x": 1.0, "ratio": 0.5}]
        )

    def test_nine_of_ten_values_lie_in_the_interval(self):
        self.assertEqual(paper.interval(range(101)), [5, 50, 95])

    def test_a_published_ratio_stands_at_its_own_mechanism(self):
        def row(mechanism, x):
            return {"machine": "1-socket", "case": "a", "mechanism": mechanism, "elapsed_s": x}

        table = [row("per-page", 4.0), row("batched", 3.0), row("lazy", 2.0)]
        lines = paper.panel("mmap-read", "1-socket", "elapsed_s", table, table)
        self.assertEqual((lines["batched"]["seeds"], lines["lazy"]["machines"]), ([0.75], [0.5]))
        self.assertAlmostEqual(lines["batched"]["published"], 20.38 / 25.33)
        self.assertIsNone(lines["lazy"]["published"])
        said = "0.5; nine of ten drawn machines have 0.5 to 0.5; no figure is published."
        self.assertEqual(paper.sentence(lines["lazy"]), said)
        self.assertTrue(paper.sentence(lines["batched"]).endswith("; the published 0.805 is above that."))


class Options(unittest.TestCase):
    def test_wrong_options_are_refused_in_one_line(self):
        for given, line in [
            ({"scael": 1}, "--scael: unknown option; must be one of --folder, --scale, --draws, --seeds"),
            ({"scale": "1/4"}, "--scale 1/4: must be a number"),
            ({"scale": 0}, "--scale 0: must be above 0"),
            ({"draws": 2.5}, "--draws 2.5: must be a whole number above 0"),
            ({"seeds": [1, 2]}, "--seeds [1, 2]: must be a number"),
        ]:
            with self.assertRaises(ceasefire.InputError) as refused:
                paper.options(given)
            self.assertEqual(str(refused.exception), line)

    def test_they_bound_a_study_and_scale_it(self):
        whole, small = paper.study("mmap-read-machines"), paper.study("mmap-read-machines", 0.5, 2, 1)
        self.assertEqual((small["draws"], small["parameters"]["scale"]), (2, whole["parameters"]["scale"] / 2))
        self.assertNotIn("seeds", small)
        self.assertEqual(paper.study("threads", seeds=2)["seeds"], 2)


class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name) / "paper"
        cls.first = marimo(NOTEBOOK, "--", "--folder", cls.folder, *SMALL)

    def setUp(self):
        self.assertEqual(self.first.returncode, 0, self.first.stderr)

    def studies(self):
        return sorted(path.stem for path in FOLDER.glob("*.toml"))

    def figures(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}

    def texts(self, name):
        """The texts of a figure, which stand in comments beside their outlines."""
        return re.findall("<!-- (.*?) -->", (self.folder / name).read_text())

    def ratios(self, study, figure, *keys):
        """The medians of the ratios of `batched` in a data set."""
        cases = {}
        for row in ceasefire.read(self.folder / study).to_pylist():
            cases.setdefault(row["case"], {})[row["mechanism"]] = row
        found = {}
        for case in cases.values():
            ratio = case["batched"][figure] / case["per-page"][figure]
            found.setdefault(tuple(case["batched"][key] for key in keys), []).append(ratio)
        return {key: statistics.median(values) for key, values in found.items()}

    def test_every_figure_is_there_as_svg_and_as_pdf(self):
        figures = self.figures()
        names = [f"{name}.{ending}" for name in ("crossings", "deliver", "ratios") for ending in ("pdf", "svg")]
        self.assertEqual(sorted(figures), names)
        for name, content in figures.items():
            if name.endswith(".pdf"):
                self.assertTrue(content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF"))
            else:
                self.assertEqual(xml.etree.ElementTree.fromstring(content).tag, "{http://www.w3.org/2000/svg}svg")

    def test_it_runs_every_study_once_and_again_nothing(self):
        def told(done):
            line = re.compile("^(.*): ([0-9]+) points, ([0-9]+) run now, 0 failed$", re.MULTILINE)
            return {name: (int(points), int(run)) for name, points, run in line.findall(done.stdout)}

        first, points = told(self.first), {name: stored(self.folder / name) for name in self.studies()}
        self.assertEqual(first, {name: (len(of), len(of)) for name, of in points.items()})
        figures = self.figures()
        again = marimo(NOTEBOOK, "--folder", self.folder, *SMALL)
        self.assertEqual(told(again), {name: (of, 0) for name, (of, _) in first.items()}, again.stderr)
        self.assertEqual({name: stored(self.folder / name) for name in points}, points)
        self.assertEqual(self.figures(), figures)

    def test_the_numbers_drawn_are_those_of_the_data_sets(self):
        cells = self.ratios("deliver", "elapsed_s", "cpus", "costs.interrupt_deliver")
        drawn = self.texts("deliver.svg")
        # The cells stand after the label of the axis, the lowest row first.
        begin = drawn.index("CPUs") + 1
        self.assertEqual(drawn[begin : begin + 25], [f"{ratio:.2f}" for _, ratio in sorted(cells.items())])
        drawn = self.texts("ratios.svg")
        for experiment, figure, _ in paper.PANELS:
            [ratio] = self.ratios(f"{experiment}-seeds", figure).values()
            self.assertIn(f"{ratio:.3g}", drawn)
        drawn = self.texts("crossings.svg")
        for lines in paper.curves(ceasefire.read(self.folder / "threads").to_pylist()).values():
            self.assertIn(paper.crossing(lines)[-1], drawn)

    def test_points_of_another_study_in_the_folder_are_not_drawn(self):
        drawn = paper.swept(paper.study("threads", 0.2, seeds=1), self.folder / "threads")
        self.assertEqual({row["seed"] for row in drawn}, {1})
        self.assertEqual(2 * len(drawn), len(stored(self.folder / "threads")))

    def test_marimo_finds_no_fault(self):
        done = marimo("-m", "marimo", "check", "--strict", NOTEBOOK)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
