"""What the driver of the benchmarks makes of samples that were recorded; nothing is measured here."""
import os
import pathlib
import sys
import tempfile
import unittest
import xml.dom.minidom

import peer_environment
import picture
import readings
import report
import rows
import run
import summary
from rows import Row, Side
from summary import Sample

RATIO = Row(key="step", what="a | step", target="≤ 1.1 ×", kind="ratio", limit=1.1, levin=Side("levin", ("{bin}/a",)),
            baseline=Side("by hand", ("{bin}/b", "x y")), peers=(Side("Other", ("{python}", "other.py"), is_peer=True),))

PRINTS = """print('{"value": %d}')"""


def samples(side, *values):
    return [Sample("step", number, side, value) for number, value in enumerate(values)]


class SummaryTest(unittest.TestCase):
    def test_ratios_are_of_neighbours(self):
        # A machine that became four times slower on the way: medians of the sides say nothing, neighbours do.
        found = summary.summarize(RATIO, samples("levin", 11, 22, 44) + samples("by hand", 10, 20, 40))
        self.assertEqual([round(number, 6) for number in (found.measured.low, found.measured.median, found.measured.high)],
                         [1.1, 1.1, 1.1])
        self.assertEqual((found.sides["levin"].median, found.sides["by hand"].median, found.measured.count), (22, 20, 3))

    def test_median_and_quartiles(self):
        spread = summary.Spread.of([5, 1, 3, 2, 4])
        self.assertEqual((spread.median, spread.low, spread.high, spread.count), (3, 2, 4, 5))
        self.assertEqual(summary.Spread.of([7]), summary.Spread(7, 7, 7, 1))
        self.assertEqual(summary.Spread.of([1, 3]), summary.Spread(2, 1, 3, 2))

    def test_a_round_in_which_one_side_failed_is_left_out(self):
        broken = Sample("step", 1, "by hand", failed="it ended with status 1")
        found = summary.summarize(RATIO, samples("levin", 2, 100, 2) + [Sample("step", 0, "by hand", 1), broken])
        self.assertEqual((found.measured.median, found.measured.count), (2, 1))
        self.assertEqual(found.left_out, {})

    def test_other_kinds(self):
        def measured(**changes):
            row = Row(**{**RATIO.__dict__, **changes})
            return summary.summarize(row, samples("levin", 30) + samples("by hand", 20))

        self.assertEqual(measured(kind="difference").measured.median, 10)
        self.assertEqual(measured(kind="value").measured.median, 30)
        self.assertEqual(measured(scale=3).measured.median, 0.5)
        speed = measured(kind="speed", limit=0.6, at_least=True)
        self.assertAlmostEqual(speed.measured.median, 2 / 3)
        self.assertTrue(speed.is_met)
        self.assertFalse(measured(kind="speed", limit=0.7, at_least=True).is_met)

    def test_what_was_not_measured_is_neither_met_nor_missed(self):
        self.assertIsNone(summary.summarize(RATIO, []).is_met)


class ReportTest(unittest.TestCase):
    def page(self, *taken, quick=False):
        summaries = [summary.summarize(RATIO, sum(taken, []))]
        return report.write(summaries, [("processor", "one"), ("LibTorch", "2.13.0")], quick, run.shown_command, "results.svg")

    def test_table_of_recorded_samples(self):
        page = self.page(samples("levin", 12, 24, 60), samples("by hand", 10, 20, 40), samples("Other", 50, 60))
        self.assertIn("| a \\| step | ≤ 1.1 × | 1.20 × | 1.20 to 1.35 | 3 | **missed** | Other 4.00 × |", page)
        self.assertIn("0 of 1 targets are met, 1 missed.", page)
        self.assertIn("- processor: one\n- LibTorch: 2.13.0\n", page)
        self.assertIn("  - by hand: 20.0 (15.0 to 30.0): `build/bin/b 'x y'`", page)
        self.assertNotIn("Left out", page)

    def test_a_target_that_is_met(self):
        self.assertIn("| 1.10 × | 1.10 to 1.10 | 1 | met | – |", self.page(samples("levin", 11), samples("by hand", 10)))

    def test_a_missing_peer_is_named_and_left_out(self):
        missing = [Sample("step", 0, "Other", failed="its environment could not be made: no network")]
        page = self.page(samples("levin", 10), samples("by hand", 10), missing)
        self.assertIn('- Other in "a | step": its environment could not be made: no network', page)
        self.assertIn("| met | – |", page)

    def test_a_row_without_samples(self):
        self.assertIn("| – | – | – | not measured | – |", self.page())

    def test_a_quick_run_says_so(self):
        self.assertIn("few repetitions", self.page(samples("levin", 10), samples("by hand", 10), quick=True))
        self.assertNotIn("few repetitions", self.page(samples("levin", 10), samples("by hand", 10)))

    def test_numbers(self):
        self.assertEqual([report.number(value) for value in (0, 0.0123, 1.234, 12.34, 123.4, 12345)],
                         ["0", "0.012", "1.23", "12.3", "123", "12345"])


class PictureTest(unittest.TestCase):
    def test_it_is_xml_that_shows_each_measured_row(self):
        taken = samples("levin", 22) + samples("by hand", 10) + samples("Other", 500)
        unmeasured = Row(key="gpu", what="on a GPU", target="–", kind="ratio", limit=1)
        drawn = picture.draw([summary.summarize(RATIO, taken), summary.summarize(unmeasured, taken)])
        root = xml.dom.minidom.parseString(drawn).documentElement
        self.assertEqual(root.tagName, "svg")
        self.assertIn("a | step", drawn)
        self.assertNotIn("on a GPU", drawn)
        self.assertIn(picture.BAD, drawn)

    def test_twice_the_target_lies_right_of_it_and_a_speed_is_turned_round(self):
        self.assertEqual(picture.over_target(RATIO, 2.2), 2.0)
        self.assertEqual(picture.over_target(Row(**{**RATIO.__dict__, "at_least": True, "limit": 0.8}), 0.4), 2.0)
        self.assertIsNone(picture.over_target(RATIO, -3))  # a difference below 0 has no position on the scale


class ReadingsTest(unittest.TestCase):
    def run_python(self, program, **limits):
        with tempfile.TemporaryDirectory() as folder:
            return readings.run([sys.executable, "-c", program], folder, dict(os.environ), **limits)

    def test_a_sample_is_read_among_other_lines(self):
        finished = self.run_python("""print('hello {}\\rbar 10%{"value": 4.5}\\n{"other": 1}')""")
        self.assertEqual(readings.READINGS["value"](finished), 4.5)

    def test_the_first_step_is_counted_from_the_start_of_the_process(self):
        finished = self.run_python("import time; print('{\"at\": %f}' % time.monotonic())")
        self.assertGreater(readings.READINGS["started"](finished), 0)
        self.assertLessEqual(readings.READINGS["started"](finished), finished.seconds)

    def test_peak_memory(self):
        small = readings.READINGS["peak_memory"](self.run_python("pass"))
        large = readings.READINGS["peak_memory"](self.run_python("block = bytearray(100_000_000)"))
        self.assertAlmostEqual(large - small, 100, delta=30)  # that of this process before it became the other counts, too

    def test_a_command_that_fails_says_how(self):
        with self.assertRaisesRegex(readings.Failed, "status 3: no luck"):
            self.run_python("print('no luck'); raise SystemExit(3)")
        with self.assertRaisesRegex(readings.Failed, "printed no sample"):
            readings.READINGS["value"](self.run_python("print('nothing')"))
        with self.assertRaisesRegex(readings.Failed, "No such file"):
            readings.run(["/nowhere/levin"], ".", dict(os.environ))

    def test_a_command_that_hangs_is_ended(self):
        with self.assertRaisesRegex(readings.Failed, "status -9"):
            self.run_python("import signal; signal.pause()", limit_seconds=1)

    def test_table_of_collectives(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "comm.csv"
            header = "group,collective,ranks,bytes,seconds\n"
            gloo = "gloo,broadcast,2,64,9\ngloo,all_reduce,2,64,0.002\n"
            file.write_text(header + gloo)
            self.assertAlmostEqual(readings.read_all_reduce(file), 2000)
            file.write_text(header + gloo + "shared memory,all_reduce,2,64,0.000003\n")
            self.assertAlmostEqual(readings.read_all_reduce(file), 3)
            file.write_text(header)
            with self.assertRaises(readings.Failed):
                readings.read_all_reduce(file)

    def test_table_of_scale(self):
        lines = ["| what | ranks | exchanges | bytes rank 0 gives | bytes rank 0 gets | bytes another rank gets | processor time, µs |",
                 "| boundary, 20 metrics | 8 | 1 | 616 | 4000 | 4000 | 40 |",
                 "| boundary, 20 metrics | 1024 | 1 | 616 | 600000 | 600000 | 900 |"]
        for ranks in (2, 64):
            lines += [f"| boundary, 20 metrics | {ranks} | 1 | 616 | 1000 | 1000 | 20 |"]
        self.assertAlmostEqual(readings.read_scale("\n".join(lines)), 0.15)
        with self.assertRaises(readings.Failed):
            readings.read_scale("\n".join(lines[:2]))
        objects = [line.replace("20 metrics", "20 metric objects") for line in lines]
        objects[-1] = objects[-1].replace("| 20 |", "| 60 |")
        self.assertAlmostEqual(readings.read_scale_of_objects("\n".join(lines + objects)), 3)


class DriverTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.recorded = []

    def driver(self, **changes):
        settings = {"build": self.folder.name, "python": None, "python_missing": "no pip", "quick": True, **changes}
        return run.Driver(record=self.recorded.append, **settings)

    def row(self, levin):
        """`levin`: a program, instead of the command; the baseline prints 2."""
        sides = {name: Side(title, (sys.executable, "-c", program.replace("{", "{{").replace("}", "}}")))
                 for name, title, program in (("levin", "levin", levin), ("baseline", "by hand", PRINTS % 2))}
        return Row(**{**RATIO.__dict__, **sides})

    def test_sides_alternate_and_a_missing_peer_is_reported_once(self):
        self.driver().measure(self.row(PRINTS % 3))
        self.assertEqual([(sample.round, sample.side, sample.value, sample.failed) for sample in self.recorded],
                         [(0, "levin", 3.0, ""), (0, "by hand", 2.0, ""), (0, "Other", None, "no pip"),
                          (1, "levin", 3.0, ""), (1, "by hand", 2.0, "")])
        self.assertEqual(list(pathlib.Path(self.folder.name).iterdir()), [])  # what sides wrote is gone

    def test_a_side_that_fails_is_not_tried_again(self):
        stderr, sys.stderr = sys.stderr, open(os.devnull, "w")
        try:
            self.driver().measure(self.row("raise SystemExit(1)"))
        finally:
            sys.stderr.close()
            sys.stderr = stderr
        self.assertEqual([sample.side for sample in self.recorded if sample.side == "levin"], ["levin"])

    def test_samples_are_read_as_they_were_recorded(self):
        file = pathlib.Path(self.folder.name) / "samples.jsonl"
        file.write_text('{"facts": [["processor", "one"]], "quick": true}\n{"row": "step", "round": 0, "side": "levin", "value": 2}\n'
                        '{"row": "step", "round": 0, "side": "Other", "failed": "why"}\n')
        found, facts, quick = run.read_samples(file)
        self.assertEqual(found, [Sample("step", 0, "levin", 2), Sample("step", 0, "Other", failed="why")])
        self.assertEqual((facts, quick), ([["processor", "one"]], True))

    def test_an_environment_that_cannot_be_made_says_why(self):
        with self.assertRaisesRegex(peer_environment.Unavailable, "failed: .*gone"):
            peer_environment.run(sys.executable, "-c", "raise SystemExit('gone')")


class RowsTest(unittest.TestCase):
    def test_rows_have_different_keys_and_run(self):
        for cores in (1, 2, 64):
            found = rows.all_rows(cores)
            self.assertEqual(len({row.key for row in found}), len(found))
            for row in found:
                sides = report.sides_of(row)
                self.assertEqual(len({side.name for side in sides}), len(sides), row.key)
                for side in sides:
                    self.assertIn(side.reads, readings.READINGS)
                    run.shown_command(side.command)
                    self.assertFalse(side.needs_peers and not side.is_peer)
                if row.kind != "value" and row.levin:
                    self.assertIsNotNone(row.baseline, row.key)

    def test_scripts_of_peers_are_there(self):
        for row in rows.all_rows(2):
            for side in report.sides_of(row):
                for part in run.shown_command(side.command):
                    if part.startswith("benchmarks/"):
                        self.assertTrue((run.SOURCE.parent / part).is_file(), part)

    def test_more_ranks_than_cores_share_them(self):
        scales = {row.key: row.scale for row in rows.all_rows(2)}
        self.assertEqual((scales["ranks_4"], scales["ranks_8"]), (2, 4))
        self.assertEqual({row.key: row.scale for row in rows.all_rows(64)}["ranks_8"], 1)


if __name__ == "__main__":
    unittest.main()
