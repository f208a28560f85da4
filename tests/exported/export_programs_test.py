"""Tests of `levin export --to program` and `--to onnx`, from training to programs without levin:

    python tests/exported/export_programs_test.py BUILD
"""

import csv
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python"))
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build").resolve()

import lightning  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import levin_train  # noqa: E402


class Strength(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        self.register_buffer("unit", torch.tensor([2.0]))

    def forward(self, x):
        return self.net(x).squeeze(1) * self.unit * torch.tensor([0.5])

    def training_step(self, batch, batch_idx):
        loss = F.mse_loss(self(batch["features"]), batch["label"])
        self.log("train_loss", loss)
        return loss

    def predict_step(self, batch, batch_idx):
        value = self(batch["features"])
        return {"strength": value, "large": (value > 20).long()}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


def levin(folder, *words, **options):
    environment = dict(os.environ, PYTHON=sys.executable, PYTHONPATH=str(ROOT / "python"))
    return subprocess.run([str(word) for word in (BUILD / "bin/levin", *words)], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=600, **options)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        draw = random.Random(1)
        cls.rows = [[round(draw.uniform(100, 500), 1), round(draw.gauss(0, 0.01), 5), draw.randrange(90)] for _ in range(200)]
        with open(cls.folder / "table.csv", "w", encoding="utf-8") as file:
            csv.writer(file).writerows([["cement", "slag", "age", "strength"]] + [[*row, 0.1 * row[0] + 300 * row[1] + 0.2 * row[2]] for row in cls.rows])
        torch.manual_seed(1)
        example = {"features": torch.randn(8, 3), "label": torch.randn(8)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            levin_train.export(Strength(), example, cls.folder / "m.pt2")

    def trained(self, ranks):
        """Trains, and predicts. Gives the checkpoint, and what levin predict wrote."""
        run = self.folder / f"run-{ranks}"
        run.mkdir()
        common = ["--config", self.folder / "m.yaml", "--data", "TableDataModule", f"--data.path={self.folder / 'table.csv'}", "--data.task=regression",
                  "--data.standardize=true", f"--data.predict_path={self.folder / 'table.csv'}", "--data.scale=0.5", "--trainer.threads=1"]
        for words in (["fit", *common, "--trainer.max_epochs=40", "--trainer.callbacks+={class_path: EMAWeightAveraging, init_args: {decay: 0.9}}", "--trainer.callbacks+=ModelCheckpoint",
                       f"--trainer.devices={ranks}"], ["predict", *common, "--ckpt_path=logs/version_0:last", "--trainer.devices=1"]):
            done = levin(run, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(run / "logs/version_1/predictions.csv", encoding="utf-8") as file:
            predictions = list(csv.DictReader(file))
        return next((run / "logs/version_0/checkpoints").glob("*.ckpt")), predictions

    def test_programs_of_one_rank_and_of_two(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                checkpoint, expected = self.trained(ranks)
                strength = torch.tensor([float(row["strength"]) for row in expected])
                self.assertGreater(float(strength.std()), 1)  # it has learnt something
                for format_name, ending in (("onnx", ".onnx"), ("program", ".program.pt2")):
                    done = levin(checkpoint.parent, "export", checkpoint, "--to", format_name)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("features torch.float64 ['batch', 3]", done.stdout)
                    written = checkpoint.with_suffix(ending)
                    for rows in (self.rows, self.rows[:1]):
                        found = self.onnx(written, rows) if format_name == "onnx" else self.program(written, rows)
                        torch.testing.assert_close(found["strength"], strength[:len(rows)], rtol=1e-5, atol=1e-5)
                        self.assertEqual(found["large"].tolist(), [int(row["large"]) for row in expected[:len(rows)]])

    def onnx(self, file, rows):
        session = onnxruntime.InferenceSession(file)
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, map(torch.from_numpy, session.run(None, {"features": torch.tensor(rows, dtype=torch.float64).numpy()}))))

    def program(self, file, rows):
        """By a program in C++ that has LibTorch alone."""
        text = " ".join(str(number) for row in rows for number in row)
        done = subprocess.run([BUILD / "bin/run_program", file, str(len(rows)), "3"], input=text, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        strength, large = ([float(word) for word in line.split()] for line in done.stdout.splitlines())
        return {"strength": torch.tensor(strength), "large": torch.tensor(large).long()}

    def test_what_cannot_be_a_program_says_why(self):
        (self.folder / "plain").mkdir()
        done = levin(self.folder / "plain", "fit", "--model", "MLPRegressor", "--data", "TableDataModule", f"--data.path={self.folder / 'table.csv'}",
                     "--data.task=regression", "--trainer.max_epochs=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        checkpoint = next((self.folder / "plain/logs/version_0/checkpoints").glob("*.ckpt"))
        done = levin(self.folder, "export", checkpoint, "--to", "onnx")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is of a MLPRegressor, a class in C++", done.stderr)
        self.assertIn("--to state_dict", done.stderr)
        done = levin(self.folder, "export", self.folder / "m.pt2", "--to", "onnx", "--prefix=net.")
        self.assertIn("--prefix, --add_prefix and --key are for weights", done.stderr)


if __name__ == "__main__":
    unittest.main()
