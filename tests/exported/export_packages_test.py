"""Tests of the packages that levin_train.export() compiles, writes and compares: python tests/exported/export_packages_test.py"""

import json
import pathlib
import tempfile
import unittest
import unittest.mock
import warnings
import zipfile

from export_test import BATCH, Base  # also makes levin known

import torch
import torch.nn.functional as F
from torch import nn

import levin_train


class Packages(unittest.TestCase):
    """What is compiled, written and compared."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "m.pt2"

    def description(self):
        with zipfile.ZipFile(self.path) as archive:
            return json.loads(archive.read(next(name for name in archive.namelist() if name.endswith("extra/levin.json"))))

    def test_smallest_batch_and_baseline(self):
        class Normed(Base):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(3)

            def forward(self, x):
                return self.norm(self.net(x))

            def training_step(self, batch, batch_idx):
                return F.cross_entropy(self(batch[0]), batch[1])

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            done = levin_train.export(Normed(), BATCH, self.path, processor="x86-64-v3")
        self.assertEqual(done.entries, ["training_step"])
        self.assertTrue(any("predict_step is left out" in str(warning.message) for warning in caught))
        description = self.description()
        self.assertEqual(description["entries"]["training_step"]["smallest_batch"], 2)
        self.assertIn("avx2", description["processor_features"])
        self.assertNotIn("avx512f", description["processor_features"])
        self.assertIn("class_path: \"SGD\"", (self.path.with_suffix(".yaml")).read_text())

    def test_function(self):
        encoder = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Tanh())
        levin_train.export_function(encoder, {"x": BATCH[0]}, self.path)
        entry = self.description()["entries"]["function"]
        self.assertEqual([(part["kind"], part["name"]) for part in entry["inputs"]], [("parameter", "0.weight"), ("parameter", "0.bias"), ("batch", "x")])
        self.assertEqual(entry["outputs"], [{"kind": "extra", "name": "output"}])

    def test_function_with_names(self):
        def distance(a, b):
            return {"distance": (a - b).norm(dim=1), "dot": (a * b).sum(1)}

        levin_train.export_function(distance, {"b": torch.randn(8, 3), "a": torch.randn(8, 3)}, self.path)
        entry = self.description()["entries"]["function"]
        self.assertEqual([part["name"] for part in entry["inputs"]], ["b", "a"])
        self.assertEqual([part["name"] for part in entry["outputs"]], ["distance", "dot"])

    def test_alpha_of_an_addition(self):
        """Inductor loses it where it makes addmm of an addition and a product of matrices."""
        levin_train.export_function(lambda a, b: torch.add(a, a @ b, alpha=0.1), {"a": torch.randn(8, 3), "b": torch.randn(3, 3)}, self.path)

    def test_parts_that_inductors_patterns_refuse(self):
        levin_train.export_function(lambda x: x[torch.randperm(x.shape[0])], {"x": torch.randn(8, 3)}, self.path)

    def test_longest_sizes_and_smallest(self):
        """Three positions are the longest; of one alone there is no deviation, in Python as in the package."""
        positions = torch.randn(3, 4)

        def encode(x):
            return (x + positions[:x.shape[1]]).std(1)

        levin_train.export_function(encode, {"x": torch.randn(8, 3, 4)}, self.path, dynamic={"x": {1: "time"}})
        entry = self.description()["entries"]["function"]
        self.assertEqual(entry["inputs"][0]["shape"], ["batch", "time", 4])

    def test_lstm_over_a_length_that_varies(self):
        """One call forward and one backward for each direction and layer, with dropout between, and gradients of the first state."""
        class Reader(Base):
            def __init__(self):
                super().__init__()
                self.rnn = nn.LSTM(3, 5, num_layers=2, batch_first=True, dropout=0.4, bidirectional=True, bias=False)
                self.start, self.head = nn.Parameter(torch.randn(4, 1, 5)), nn.Linear(10, 4)

            def forward(self, x):
                state = self.start.expand(-1, x.shape[0], -1)
                return self.head(self.rnn(x, (state.contiguous(), torch.tanh(state)))[0].mean(1))

            def training_step(self, batch, batch_idx):
                return F.cross_entropy(self(batch[0]), batch[1])

        batches = [(torch.randn(8, length, 3), torch.randint(4, (8,))) for length in (6, 9, 2)]
        levin_train.export(Reader(), batches[0], self.path, batches=batches[1:])
        entry = self.description()["entries"]["training_step"]
        self.assertEqual([part["shape"] for part in entry["inputs"] if part["kind"] == "batch"][0][0], "batch")
        self.assertIsInstance([part["shape"] for part in entry["inputs"] if part["kind"] == "batch"][0][1], str)
        self.assertIn("gradient", {part["kind"] for part in entry["outputs"] if part.get("name") == "start"})

    def test_other_layers_over_a_length_that_varies(self):
        """GRUs and simple layers, of one step too, with gradients of the first state and of the last."""
        class Reader(Base):
            def __init__(self):
                super().__init__()
                self.gru = nn.GRU(3, 5, num_layers=2, batch_first=True, dropout=0.4, bidirectional=True)
                self.tanh, self.relu = nn.RNN(10, 4, bidirectional=True, bias=False), nn.RNN(8, 4, nonlinearity="relu")
                self.start, self.head = nn.Parameter(torch.randn(4, 1, 5)), nn.Linear(4, 4)

            def training_step(self, batch, batch_idx):
                outputs, last = self.gru(batch[0], self.start.expand(-1, batch[0].shape[0], -1).contiguous())
                outputs, last = self.tanh(outputs.transpose(0, 1), last[2:, :, :4].contiguous())
                return F.cross_entropy(self.head(self.relu(outputs, last[:1])[0].mean(0)), batch[1])

        batches = [(torch.randn(8, length, 3), torch.randint(4, (8,))) for length in (6, 9, 1)]
        levin_train.export(Reader(), batches[0], self.path, batches=batches[1:])
        shapes = [part["shape"] for part in self.description()["entries"]["training_step"]["inputs"] if part["kind"] == "batch"]
        self.assertIsInstance(shapes[0][1], str)

    def test_attention_of_all_kinds(self):
        """Of one sequence and of two, causal, with padding, and with the weights that only torch's own function gives."""
        class Attending(Base):
            def __init__(self):
                super().__init__()
                self.own = nn.MultiheadAttention(8, 2, batch_first=True, bias=False)
                self.other = nn.MultiheadAttention(8, 4, batch_first=True, dropout=0.2)
                self.told, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 4)

            def training_step(self, batch, batch_idx):
                x, memory, padding, labels = batch
                causal = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
                x = x + self.own(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0]
                x = x + self.other(x, memory, memory, key_padding_mask=padding, need_weights=False)[0]
                x = x + self.own(x, x, x, attn_mask=causal, key_padding_mask=padding[:, :1].expand(-1, x.shape[1]) & False, need_weights=False)[0]
                mixed, weights = self.told(x, x, x)
                return F.cross_entropy(self.head((x + mixed).mean(1)), labels) + weights.square().mean()

        padding = torch.zeros(8, 7, dtype=torch.bool)
        padding[:4, 5:] = True
        batch = (torch.randn(8, 5, 8), torch.randn(8, 7, 8), padding, torch.randint(4, (8,)))
        levin_train.export(Attending(), batch, self.path, without=["predict_step"])
        self.assertTrue(self.path.exists())

    def test_ctc_loss(self):
        """With targets that are padded and such as lie one behind another, with a sequence too short for its target, and all reductions."""
        class Speech(Base):
            def training_step(self, batch, batch_idx):
                x, lengths, y, target_lengths = batch
                scores = self.net(x).log_softmax(-1).transpose(0, 1)
                per_word = F.ctc_loss(scores, y, lengths, target_lengths)
                each = F.ctc_loss(scores, y, lengths - 3, target_lengths, blank=2, reduction="none", zero_infinity=True)
                return per_word + (each * torch.arange(x.shape[0])).sum() + nn.CTCLoss(reduction="sum")(scores, y, lengths, target_lengths)

            def validation_step(self, batch, batch_idx):
                self.log("val_loss", self.training_step(batch, batch_idx))

        batch = (torch.randn(4, 12, 6), torch.tensor([12, 7, 9, 12]), torch.randint(0, 2, (4, 5)), torch.tensor([5, 3, 5, 4]))
        levin_train.export(Speech(), batch, self.path, without=["predict_step"])
        self.assertIn("validation_step", self.description()["entries"])

    def test_grouped_products(self):
        """A mixture of experts: rows sorted by expert, and a group without rows."""
        class Experts(Base):
            def __init__(self):
                super().__init__()
                self.net, self.experts, self.head = nn.Linear(8, 5), nn.Parameter(torch.randn(5, 8, 4)), nn.Linear(4, 3)

            def training_step(self, batch, batch_idx):
                x, y = batch
                chosen = self.net(x).argmax(1)
                order = chosen.argsort()
                ends = (chosen[:, None] == torch.arange(5)).sum(0).cumsum(0).to(torch.int32)
                mixed = F.grouped_mm(x[order], self.experts, offs=ends)
                return F.cross_entropy(self.head(mixed), y[order])

        levin_train.export(Experts(), (torch.randn(8, 8), BATCH[1]), self.path, without=["predict_step"])
        self.assertIn("gradient", {part["kind"] for part in self.description()["entries"]["training_step"]["outputs"] if part.get("name") == "experts"})

    def test_parts_of_open_dimensions(self):
        """Their gradients, also where a sequence is shorter than the part."""
        class Parts(Base):
            def training_step(self, batch, batch_idx):
                hidden = self.net(batch[0])
                parts = [hidden[:, 1:], hidden[:, :-1], hidden[:, ::2], hidden[:, 1::2], hidden[:, 3:], hidden[:, -3:], hidden[:, -4:-1],
                         hidden[:, 2:5], hidden[:, 1:-1], hidden[1:, 0::2, 1::2], hidden[1::2], hidden.narrow(1, 1, hidden.shape[1] - 2)]
                return sum((index + 1) * (part ** 2).sum() for index, part in enumerate(parts)) / len(hidden)

        levin_train.export(Parts(), (torch.randn(8, 12, 6),), self.path, dynamic={"0": {1: "time"}}, without=["validation_step", "predict_step"])
        self.assertIn("training_step", self.description()["entries"])

    def test_noise_like_images_that_were_permuted(self):
        """Diffusion models have it: the numbers are drawn in the same order, whatever the order in memory that Inductor has chosen."""
        class Denoising(Base):
            def __init__(self):
                super().__init__()
                self.net = nn.Conv2d(3, 3, 3, padding=1)

            def training_step(self, batch, batch_idx):
                image = batch[0].permute(0, 3, 1, 2).to(memory_format=torch.contiguous_format).float()
                noise = torch.randn_like(image)
                return ((self.net(0.5 * image + torch.rand_like(image) * noise) - noise) ** 2).mean()

        levin_train.export(Denoising(), (torch.rand(4, 8, 8, 3),), self.path, without=["predict_step"])
        self.assertTrue(self.path.exists())

    def test_priors_of_numbers(self):
        """The scale of a distribution that is a number of Python, whose square Inductor cannot lower."""
        class Prior(Base):
            def __init__(self):
                super().__init__()
                self.prior = torch.distributions.Normal(0.0, 1.0)

            def training_step(self, batch, batch_idx):
                z = self.net(batch[0])
                return -self.prior.log_prob(z).mean() - torch.distributions.Normal(0.5, 1.0).log_prob(z).mean() + (z / torch.full([], 1.0) ** 2).mean()

        levin_train.export(Prior(), BATCH, self.path, without=["predict_step"])
        self.assertTrue(self.path.exists())

    def test_views_of_permuted_tensors(self):
        """Attention with weights, of heads that were split and permuted as GPT-2 has them."""
        class Heads(Base):
            def __init__(self):
                super().__init__()
                self.project, self.head = nn.Linear(6, 24), nn.Linear(8, 3)

            def training_step(self, batch, batch_idx):
                x, y = batch
                parts = self.project(x).split(8, dim=2)
                q, k, v = (part.view(part.shape[0], part.shape[1], 2, 4).permute(0, 2, 1, 3) for part in parts)
                mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True).transpose(1, 2).reshape(x.shape[0], x.shape[1], 8)
                return F.cross_entropy(self.head(mixed).mean(1), y)

        levin_train.export(Heads(), (torch.randn(4, 7, 6), torch.randint(0, 3, (4,))), self.path, without=["predict_step"])
        self.assertTrue(self.path.exists())

    def test_gradients_of_parts_are_stacked(self):
        """The sum of tensors that are zero but for a part each would be a loop that decides on each element."""
        class Parts(Base):
            def training_step(self, batch, batch_idx):
                q, k, v = self.net.weight[0], self.net.weight[1] * 2, self.net.weight[2] * 3
                return ((batch[0] * (q + k * v)).sum(1) ** 2).mean()

        seen = []
        real = levin_train.exporting.compiled
        with unittest.mock.patch("levin_train.exporting.compiled", lambda graph, *target: seen.append(graph) or real(graph, *target)):
            levin_train.export(Parts(), BATCH, self.path, without=["predict_step"])
        called = [str(node.target) for node in seen[0].module.graph.nodes]
        self.assertEqual([name for name in called if "select_backward" in name], [])
        self.assertIn("aten.stack.default", called)

    def test_rounding_of_a_deep_network_is_no_difference(self):
        """Rectifiers after a normalization of two samples let pass what rounding moves over zero."""
        class Deep(Base):
            def __init__(self):
                super().__init__()
                layers = [nn.Sequential(nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU()) for _ in range(12)]
                self.first, self.deep, self.last = nn.Linear(6, 16), nn.Sequential(*layers), nn.Linear(16, 4)

            def training_step(self, batch, batch_idx):
                return F.cross_entropy(self.last(self.deep(self.first(batch[0]))), batch[1])

        torch.manual_seed(4)
        levin_train.export(Deep(), BATCH, self.path, without=["predict_step"])
        self.assertTrue(self.path.exists())

    def test_what_differs_is_not_written(self):
        real = levin_train.exporting.compiled

        def wrong(graph, *target):
            for node in graph.module.graph.nodes:
                if node.op == "call_function" and "nll_loss_forward" in str(node.target):
                    node.args = (*node.args[:3], 2, *node.args[4:])
            graph.module.recompile()
            return real(graph, *target)

        with unittest.mock.patch("levin_train.exporting.compiled", wrong), self.assertRaises(levin_train.ExportError) as raised:
            levin_train.export(Base(), BATCH, self.path)
        self.assertIn("differs from the module's", str(raised.exception))
        self.assertFalse(self.path.exists())


if __name__ == "__main__":
    unittest.main()
