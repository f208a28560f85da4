"""Tests of `levin export --to program` and `--to onnx`, from training to programs without levin:

    python tests/exported/export_programs_test.py BUILD
"""

import contextlib
import csv
import io
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile
import zlib

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
from levin_train import exporting, preparation, programs, safetensors  # noqa: E402
from levin_train.steps import Weights  # noqa: E402
from recorded_graphs import verified  # noqa: E402


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

    def trained(self, name, *words, fit=(), table="table.csv"):
        """Trains, and predicts. Gives the checkpoint, and what levin predict wrote."""
        run = self.folder / name
        run.mkdir()
        common = ["--config", self.folder / "m.yaml", "--data", "TableDataModule", f"--data.path={self.folder / table}", "--data.task=regression",
                  f"--data.predict_path={self.folder / table}", "--trainer.threads=1", *words]
        for arguments in (["fit", *common, "--trainer.callbacks+=ModelCheckpoint", *fit],
                          ["predict", *common, "--ckpt_path=logs/version_0:last", "--trainer.devices=1"]):
            done = levin(run, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(run / "logs/version_1/predictions.csv", encoding="utf-8") as file:
            predictions = list(csv.DictReader(file))
        return next((run / "logs/version_0/checkpoints").glob("*.ckpt")), predictions

    def written(self, checkpoint, *words, to="onnx"):
        done = levin(checkpoint.parent, "export", checkpoint, "--to", to, "--force", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return checkpoint.with_suffix(".onnx"), done.stdout

    def test_programs_of_one_rank_and_of_two(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                checkpoint, expected = self.trained(f"run-{ranks}", "--data.standardize=true", "--data.scale=0.5", fit=(
                    "--trainer.max_epochs=40", "--trainer.callbacks+={class_path: EMAWeightAveraging, init_args: {decay: 0.9}}",
                    f"--trainer.devices={ranks}"))
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

    def test_missing_values(self):
        rows = [[math.nan if (row + column) % 5 == 0 else number for column, number in enumerate(numbers)] for row, numbers in enumerate(self.rows)]
        with open(self.folder / "missing.csv", "w", encoding="utf-8") as file:
            csv.writer(file).writerows([["cement", "slag", "age", "strength"]] + [[*("" if number != number else number for number in row), index]
                                                                                  for index, row in enumerate(rows)])
        for name, words in {"columns": ("--data.missing={cement: 250, age: -7.5, slag: 0.25, strength: drop}", "--data.standardize=true", "--data.scale=0.1"),
                            "all": ("--data.missing=-1.5",)}.items():
            with self.subTest(name):
                checkpoint, expected = self.trained(f"missing-{name}", *words, fit=("--trainer.max_epochs=2",), table="missing.csv")
                strength = torch.tensor([float(row["strength"]) for row in expected])
                program, (example,), _ = programs.program_of(checkpoint)
                for found in (self.onnx(self.written(checkpoint)[0], rows), program(torch.tensor(rows, dtype=example.tensor.dtype))):
                    torch.testing.assert_close(found["strength"], strength, rtol=1e-5, atol=1e-5)

    def test_missing_values_that_a_program_cannot_replace(self):
        inputs = [{"name": "features", "dtype": "float32", "shape": ["batch", 2]}]
        manifest = {"datamodule_class": "TableDataModule", "datamodule": {"shape": [2], "columns": ["a", "b[0]"]}}

        def of(missing, **state):
            return preparation.of({**manifest, "datamodule": {**manifest["datamodule"], **state}, "datamodule_hyper_parameters": {"missing": missing}}, inputs)

        nan = torch.full([1, 2], math.nan)
        self.assertEqual(of({"b": 3.0, "label": 1.0})[0](nan)[0].nan_to_num(-1).tolist(), [[-1.0, 3.0]])
        self.assertEqual(of({"a": "drop", "b": 3.0})[0](nan)[0].nan_to_num(-1).tolist(), [[-1.0, 3.0]])
        self.assertIn("leaves out rows with NaN", of("drop")[2][0])
        for missing, state in (({"1": 3.0}, {}), ({"a": 3.0}, {"columns": []})):
            with self.subTest(missing), self.assertRaisesRegex(levin_train.LoadError, "does not say where that column is"):
                of(missing, **state)

    def test_onnx_scales_in_64_bits(self):
        """A time since 1970, whose differences 32 bits of a scale would lose."""
        rows = [[1.7e9 + 7 * row, *self.rows[row][1:]] for row in range(200)]
        with open(self.folder / "times.csv", "w", encoding="utf-8") as file:
            csv.writer(file).writerows([["time", "slag", "age", "strength"]] + [[*row, row[0] - 1.7e9] for row in rows])
        checkpoint, expected = self.trained("times", "--data.standardize=true", "--data.scale=0.001", fit=("--trainer.max_epochs=2",), table="times.csv")
        found = self.onnx(self.written(checkpoint)[0], rows)["strength"]
        torch.testing.assert_close(found, torch.tensor([float(row["strength"]) for row in expected]), rtol=1e-6, atol=1e-6)

    def onnx(self, file, rows):
        session = onnxruntime.InferenceSession(file)
        names, (features,) = [each.name for each in session.get_outputs()], session.get_inputs()
        rows = torch.tensor(rows, dtype=torch.float64 if features.type == "tensor(double)" else torch.float32)
        return dict(zip(names, map(torch.from_numpy, session.run(None, {features.name: rows.numpy()}))))

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


class Recurrent(lightning.LightningModule):
    """Every layer that a graph has as one operator, in both directions, with biases and without."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({
            "lstm": nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), "bare_lstm": nn.LSTM(3, 5, bias=False, batch_first=True),
            "gru": nn.GRU(3, 4, num_layers=2, batch_first=True, bidirectional=True), "bare_gru": nn.GRU(3, 5, bias=False, batch_first=True),
            "tanh": nn.RNN(3, 4, batch_first=True, bidirectional=True), "relu": nn.RNN(3, 4, nonlinearity="relu", batch_first=True)})

    def forward(self, x):
        found = {}
        for name, layer in self.layers.items():
            output, state = layer(x)
            found |= {name: output, f"{name}_last": torch.cat(state) if isinstance(state, tuple) else state}
        return found

    def training_step(self, batch, batch_idx):
        return sum(output.sum() for output in self(batch["features"]).values())

    def predict_step(self, batch, batch_idx):
        return self(batch["features"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Experts(Strength):
    """A mixture of experts: rows sorted by expert, of which the last has none."""

    def __init__(self):
        super().__init__()
        self.choose, self.experts = nn.Linear(4, 4), nn.Parameter(torch.randn(5, 4, 8))

    def forward(self, x):
        chosen = self.choose(x).argmax(1)
        order = chosen.argsort()
        ends = (chosen[:, None] == torch.arange(5)).sum(0).cumsum(0).to(torch.int32)
        return F.grouped_mm(x[order], self.experts, offs=ends)[order.argsort()]

    def training_step(self, batch, batch_idx):
        return (self(batch["features"]) ** 2).sum()

    def predict_step(self, batch, batch_idx):
        return {"mixed": self(batch["features"])}


class Roots(Strength):
    def predict_step(self, batch, batch_idx):
        return {"roots": torch.linalg.eigvalsh(self(batch["features"])[:, None, None] * torch.eye(2))}


class OfPackages(unittest.TestCase):
    """Of packages without compiled steps, which programs do not need, and of checkpoints that no run has written."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        torch.manual_seed(1)

    def package(self, module, name="m.pt2", precision="32-true", **options):
        graphs, _ = verified(module, {"features": torch.randn(8, *options.pop("shape", [3])), "label": torch.randn(8)}, sizes=(2,), **options)
        weights = Weights.of(module)
        files = {"extra/levin.json": json.dumps(exporting.describe(module, weights, precision, "native", graphs, {})),
                 "data/levin/weights.safetensors": safetensors.to_bytes(exporting.stored_tensors(weights)), **programs.stored(graphs["predict_step"])}
        with zipfile.ZipFile(self.folder / name, "w") as archive:
            for file, content in files.items():
                archive.writestr(f"package/{file}", content)
        return self.folder / name

    def checkpoint(self, module, package, **manifest):
        manifest = json.dumps({"module_class": "ExportedModule", "hyper_parameters": {"package": str(package)}, "precision": "32-true", **manifest})
        tensors = {f"state_dict.{name}": tensor for name, tensor in module.state_dict().items()}
        data = safetensors.to_bytes(tensors)
        data = data[8 + int.from_bytes(data[:8], "little"):]
        path = self.folder / "last.ckpt"
        path.write_bytes(safetensors.to_bytes(tensors, {
            "levin_manifest": manifest, "levin_manifest_crc32": str(zlib.crc32(manifest.encode())), "levin_data_crc32": str(zlib.crc32(data))}))
        return path

    def export(self, *words, to="onnx", output="out.onnx"):
        """What `levin export` does in Python: its exit code, and all that it says."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = programs.main([*map(str, words), "--to", to, "--output", str(self.folder / output)])
        return code, said.getvalue()

    def refused(self, wanted, *words, **options):
        code, said = self.export(*words, **options)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, wanted)
        self.assertFalse((self.folder / "out.onnx").exists())

    def session(self, output="out.onnx"):
        return onnxruntime.InferenceSession(self.folder / output)

    def test_recurrent_layers(self):
        module = Recurrent().eval()
        code, said = self.export(self.package(module, shape=[5, 3], dynamic={"features": {1: "time"}}))
        self.assertEqual(code, 0, said)
        self.assertIn("features torch.float32 ['batch', 'time', 3]", said)
        session = self.session()
        self.assertEqual(session.get_inputs()[0].shape, ["batch", "time", 3])
        self.assertEqual(session.get_outputs()[0].shape, ["batch", "time", 8])
        names = [each.name for each in session.get_outputs()]
        for shape in ((2, 7, 3), (1, 1, 3), (11, 4, 3)):
            x = torch.randn(shape)
            with torch.no_grad():
                wanted = module(x)
            for name, found in zip(names, session.run(None, {"features": x.numpy()})):
                torch.testing.assert_close(torch.from_numpy(found), wanted[name], rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")

    def test_grouped_products(self):
        module = Experts().eval()
        code, said = self.export(self.package(module, shape=[4]))
        self.assertEqual(code, 0, said)
        for rows in (1, 2, 40):
            x = torch.randn(rows, 4)
            chosen = module.choose(x).argmax(1)
            wanted = torch.stack([row @ module.experts[expert] for row, expert in zip(x, chosen)]).detach()
            torch.testing.assert_close(torch.from_numpy(self.session().run(["mixed"], {"features": x.numpy()})[0]), wanted, rtol=1e-5, atol=1e-5)

    def test_package_of_another_module(self):
        trained, package = Strength(), self.package(Strength())
        checkpoint = self.checkpoint(trained, package)
        code, said = self.export(checkpoint)
        self.assertEqual((code, "note:" in said), (0, False), said)
        x = torch.randn(5, 3)
        with torch.no_grad():
            wanted = trained.eval()(x)
        torch.testing.assert_close(torch.from_numpy(self.session().run(["strength"], {"features": x.numpy()})[0]), wanted, rtol=1e-5, atol=1e-5)
        (self.folder / "out.onnx").unlink()
        other, wide = Strength(), Strength()
        other.head = nn.Linear(1, 1)
        wide.net[0], wide.net[1], wide.net[3] = nn.Linear(3, 9), nn.BatchNorm1d(9), nn.Linear(9, 1)
        for module, wanted in ((other, "are not those of the package '.*other.pt2' .of Strength.: only in the package: head.bias, head.weight. Give"),
                               (wide, r"net.0.weight is \[8, 3\] in the checkpoint and \[9, 3\] in the package")):
            self.refused(wanted, checkpoint, "--package", self.package(module, "other.pt2"))
        self.refused("only in the checkpoint: head.bias, head.weight", self.checkpoint(other, package))

    def test_precision(self):
        module = Strength()
        package = self.package(module)
        mixed = self.package(module, "mixed.pt2", "bf16-mixed")
        checkpoint = self.checkpoint(module, mixed, precision="bf16-mixed")
        for words in ((checkpoint,), (mixed,)):
            self.refused('computes in bf16-mixed, .* precision="32-true", and give that package with --package', *words)
        code, said = self.export(checkpoint, "--package", package)
        self.assertEqual(code, 0, said)
        self.assertIn("note: The package computes in 32-true and the run did in bf16-mixed", said)

    def test_classes_over_a_package(self):
        module = Strength()
        package = self.package(module)
        for words in ((), ("--package", package)):
            self.refused("is of a Scaled, a class in C.. over a package: .*levin::Predictor", self.checkpoint(module, package, module_class="Scaled"), *words)
        self.refused("is of a Digits, a class in C.., whose code", self.checkpoint(module, package, module_class="Digits", hyper_parameters={}),
                     "--package", package)

    def test_messages(self):
        package = self.package(Strength())
        self.refused("--output: '.*' is a folder", package, output="")
        code, said = self.export(package, output="new/folder/out.onnx")
        self.assertEqual((code, (self.folder / "new/folder/out.onnx").exists()), (0, True), said)
        self.refused(r"cannot make onnx of it: No ONNX function found for .*eigh.*\(DispatchError\)$", self.package(Roots(), "roots.pt2"))


if __name__ == "__main__":
    unittest.main()
