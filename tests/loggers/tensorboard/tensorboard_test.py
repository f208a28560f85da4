"""Reads with tensorboard itself what TensorBoardLogger writes: tensorboard_test.py LEVIN SOURCE PLUGIN"""
import csv
import io
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator, plugin_event_multiplexer
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

LEVIN, SOURCE, PLUGIN = sys.argv[1:4]
ALL = {key: 0 for key in event_accumulator.DEFAULT_SIZE_GUIDANCE}  # every event, not a sample


def fit(root, *options, config="config.yaml", epochs=2):
    """Trains the digits with both loggers and the plug-in's callback, and saves each epoch."""
    command = [LEVIN, "fit", "--config", f"{SOURCE}/examples/digits/{config}", "--plugin", PLUGIN,
               f"--trainer.default_root_dir={root}", f"--trainer.max_epochs={epochs}", "--trainer.limit_train_batches=12",
               "--trainer.limit_val_batches=2", "--trainer.log_every_n_steps=3", "--trainer.enable_progress_bar=false",
               "--trainer.callbacks+=ShownItems", "--trainer.callbacks+=WeightHistograms",
               "--trainer.accelerator=cpu", *options]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def loggers(version="null", per_rank="false"):
    return ("--trainer.logger=[{class_path: CSVLogger, init_args: {version: %s}}, {class_path: TensorBoardLogger, init_args: "
            "{version: %s, per_rank: %s, every_n_steps: 1}}]" % (version, version, per_rank))


def events(folder):
    accumulator = event_accumulator.EventAccumulator(str(folder), size_guidance=ALL)
    accumulator.Reload()
    return accumulator


def rows(file):
    with open(file, newline="") as text:
        return list(csv.DictReader(text))


class TensorBoard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        fit(cls.root, loggers())
        cls.run_folder = cls.root / "logs" / "version_0"
        cls.events = events(cls.run_folder)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def assert_same_as_csv(self, accumulator, table):
        """Each cell of the table is a point, and there are no others."""
        cells = {}
        for row in table:
            for name, value in row.items():
                if value != "" and name != "step":
                    cells.setdefault(name, []).append((int(row["step"]), numpy.float32(value)))
        self.assertEqual(set(cells), set(accumulator.Tags()["scalars"]))
        for name, expected in cells.items():
            points = [(event.step, numpy.float32(event.value)) for event in accumulator.Scalars(name)]
            self.assertEqual(sorted(points), sorted(expected), name)

    def test_scalars_are_those_of_metrics_csv(self):
        table = rows(self.run_folder / "metrics.csv")
        self.assertGreater(len(table), 8)
        self.assert_same_as_csv(self.events, table)

    def test_images(self):
        for event in self.events.Images("ramps/grey"):
            self.assertEqual((event.width, event.height), (4, 3))
            pixels = numpy.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
            self.assertEqual(pixels.tolist(), numpy.rint(numpy.linspace(0, 255, 12)).reshape(3, 4).tolist())
        for epoch, event in enumerate(self.events.Images("ramps/colours")):
            pixels = numpy.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
            self.assertEqual(pixels.tolist(), (numpy.arange(30).reshape(3, 2, 5).transpose(1, 2, 0) + epoch).tolist())
        validations = [int(row["step"]) for row in rows(self.run_folder / "metrics.csv") if row["val_loss"] != ""]
        self.assertEqual([event.step for event in self.events.Images("digits")], validations)
        grid = self.events.Images("digits")[0]
        self.assertEqual((grid.width, grid.height), (8 * 10 - 2, 2 * 10 - 2))

    def test_figures_are_the_files_that_csv_logger_keeps(self):
        for name in ("confusion", "roc", "accuracy"):
            shown = self.events.Images(name)
            self.assertEqual(len(shown), 2)
            for event in shown:
                file = self.run_folder / "media/figures" / name / f"{event.step:06}.png"
                self.assertEqual(file.read_bytes(), event.encoded_image_string)
                self.assertEqual(Image.open(file).size, (960, 640))

    def test_histograms(self):
        for epoch, event in enumerate(self.events.Histograms("ramp")):
            histogram = event.histogram_value
            self.assertEqual((histogram.min, histogram.max, histogram.num), (epoch, epoch + 100, 101))
            self.assertEqual(histogram.sum, 5050 + 101 * epoch)
            expected, edges = numpy.histogram(numpy.arange(101) + epoch, bins=64)
            self.assertEqual(sum(histogram.bucket), 101)
            numpy.testing.assert_allclose(histogram.bucket_limit, edges[1:])
        tags = self.events.Tags()["histograms"]
        weights = [tag for tag in tags if tag.startswith("weights/")]
        self.assertGreater(len(weights), 3)
        self.assertEqual({tag.replace("weights/", "gradients/") for tag in weights} | set(weights) | {"ramp"}, set(tags))

    def test_texts_tables_and_hyper_parameters_reach_their_plugins(self):
        multiplexer = plugin_event_multiplexer.EventMultiplexer({"run": str(self.run_folder)}, tensor_size_guidance={"text": 0})
        multiplexer.Reload()
        texts = multiplexer.PluginRunToTagToContent("text")["run"]
        self.assertEqual(set(texts), {"note/text_summary", "errors/text_summary"})
        notes = [tensor_util.make_ndarray(event.tensor_proto).tolist() for event in multiplexer.Tensors("run", "note/text_summary")]
        self.assertEqual(notes, [[b"epoch **0** of rank 0"], [b"epoch **1** of rank 0"]])
        table = tensor_util.make_ndarray(multiplexer.Tensors("run", "errors/text_summary")[1].tensor_proto).tolist()
        self.assertEqual(table, [b"| image | label |\n| --- | --- |\n| 12 | seven |\n| 1 | three |\n"])
        histogram = tensor_util.make_ndarray(multiplexer.Tensors("run", "ramp")[0].tensor_proto)
        self.assertEqual(histogram[:, 2].sum(), 101)
        self.assertEqual((histogram[0, 0], histogram[-1, 1]), (0, 100))

        data = {}
        for tag, content in multiplexer.PluginRunToTagToContent("hparams")["run"].items():
            data[tag] = plugin_data_pb2.HParamsPluginData.FromString(content)
        start = data["_hparams_/session_start_info"].session_start_info
        self.assertEqual(start.hparams["model.lr"].number_value, 0.002)
        self.assertEqual(start.hparams["model.channels"].number_value, 32)
        experiment = data["_hparams_/experiment"].experiment
        self.assertIn("model.lr", {info.name for info in experiment.hparam_infos})
        self.assertIn("val_loss", {info.name.tag for info in experiment.metric_infos})
        self.assertEqual(data["_hparams_/session_end_info"].session_end_info.status, 1)

    def test_files_and_csv_loggers_media(self):
        media = self.run_folder / "media"
        steps = [event.step for event in self.events.Images("digits")]
        self.assertEqual(sorted(file.name for file in (media / "images" / "ramps" / "grey").iterdir()),
                         [f"{step:06}.png" for step in steps])
        image = self.events.Images("ramps/colours")[1]
        self.assertEqual((media / "images/ramps/colours" / f"{image.step:06}.png").read_bytes(), image.encoded_image_string)
        self.assertEqual((media / "files/notes" / f"{steps[0]:06}_notes_0.txt").read_text(), "of rank 0")

    def test_a_run_that_resumes_has_no_point_twice(self):
        """From the first of two epochs' checkpoints on, in the same version and in a new one."""
        whole = rows(self.run_folder / "metrics.csv")
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            save_all = "--trainer.callbacks+={class_path: ModelCheckpoint, init_args: {save_top_k: -1}}"
            fit(root, loggers(0), "--trainer.callbacks=[]", "--trainer.callbacks+=ShownItems", save_all)
            first = next(file for file in (root / "logs/version_0/checkpoints").iterdir() if "epoch=0" in file.name)
            for version, name in ((0, "version_0"), ("null", "version_1")):
                fit(root, loggers(version), "--trainer.callbacks=[]", "--trainer.callbacks+=ShownItems", save_all,
                    f"--ckpt_path={first}")
                again = events(root / "logs" / name)
                self.assert_same_as_csv(again, rows(root / "logs" / name / "metrics.csv"))
                self.assertEqual([event.value for event in again.Scalars("val_loss")],
                                 [numpy.float32(row["val_loss"]) for row in whole if row["val_loss"] != ""])
                self.assertEqual(len(again.Images("digits")), 2)

    def test_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            fit(root, loggers(per_rank="true"), config="ddp.yaml", epochs=1)
            run = root / "logs" / "version_0"
            self.assert_same_as_csv(events(run), rows(run / "metrics.csv"))
            means = {event.step: event.value for event in events(run).Scalars("val_loss")}
            ranks = [events(run / f"rank_{rank}") for rank in range(2)]
            for rank, own in enumerate(ranks):
                self.assertEqual(len(own.Scalars("train_loss")), 12)
                self.assertEqual(set(own.Tags()["images"]), {"digits", "ramps/colours", "ramps/grey", "confusion", "roc", "accuracy"} if rank == 1 else set())
            for step, mean in means.items():
                own = [event.value for rank in ranks for event in rank.Scalars("val_loss") if event.step == step]
                self.assertEqual(len(own), 2)
                self.assertTrue(math.isclose(sum(own) / 2, mean, rel_tol=1e-5))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
