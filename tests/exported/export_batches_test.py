"""Tests of the batches that levin_train.export() takes: several of a loader, of any shape and kind.

    python tests/exported/export_batches_test.py

Nothing is compiled here: what is recorded is compared with the module.
"""

import collections
import dataclasses
import unittest

from recorded_graphs import Base, recorded, verified

import numpy
import torch
import torch.nn.functional as F
from torch import nn

import levin_train
from levin_train.structure import flatten, named_leaves


class Mapping(collections.UserDict):
    """As transformers' BatchEncoding: a map that is no dict, and whose items are attributes too."""

    def __getattr__(self, name):
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    y: torch.Tensor


@dataclasses.dataclass(slots=True)
class Slots:
    x: torch.Tensor
    y: torch.Tensor


Pair = collections.namedtuple("Pair", ["x", "y"])


class Plain:
    """An object with tensors in attributes, and a number that is the size of one of them."""

    def __init__(self, x, y):
        self.x, self.y, self._rows = x, y, x.shape[0]

    def __len__(self):
        return self._rows


def rows(count):
    return torch.randn(count, 6), torch.randint(0, 3, (count,))


class Named(Base):
    """Reads x and y of a batch."""

    def training_step(self, batch, batch_idx):
        x, y = (batch["x"], batch["y"]) if isinstance(batch, (dict, collections.UserDict)) else (batch.x, batch.y)
        return F.cross_entropy(self.net(torch.as_tensor(x)), torch.as_tensor(y))


def message(*args, **options):
    try:
        recorded(*args, **options)
    except levin_train.ExportError as error:
        return str(error)
    raise AssertionError("it is exported")


def shapes(graph):
    return {entry["name"]: entry["shape"] for entry in graph.inputs if entry["kind"] == "batch"}


class Kinds(unittest.TestCase):
    """Containers that a batch may be."""

    def test_containers(self):
        for make in (lambda x, y: Mapping(x=x, y=y), Frozen, Slots, Pair, Plain, lambda x, y: collections.OrderedDict(x=x, y=y)):
            with self.subTest(make):
                graphs, _ = verified(Named(), make(*rows(8)), without=["predict_step"])
                self.assertEqual(shapes(graphs["training_step"]), {"x": ["batch", 6], "y": ["batch"]})

    def test_rebuilt_batches_leave_the_first_alone(self):
        first = Mapping(x=torch.ones(2), y={"z": [torch.zeros(3), None, "text"]})
        leaves, structure = flatten(first)
        again = structure.rebuild(iter(range(len(leaves))))
        self.assertEqual([".".join(path) for path, _ in leaves], ["x", "y.z.0", "y.z.1", "y.z.2"])
        self.assertEqual((type(again), again.data), (Mapping, {"x": 0, "y": {"z": [1, 2, 3]}}))
        self.assertIsInstance(first["x"], torch.Tensor)

    def test_texts_and_lists_without_tensors_are_one_leaf(self):
        self.assertEqual([name for name, _ in named_leaves({"x": torch.ones(2), "path": ["a", "b"]})[0]], ["x", "path"])

    def test_arrays_of_numpy(self):
        x, y = rows(8)
        graphs, notes = verified(Named(), {"x": x.numpy(), "y": y.numpy()}, without=["predict_step"])
        self.assertEqual(shapes(graphs["training_step"]), {"x": ["batch", 6], "y": ["batch"]})
        self.assertTrue(any('"x" of the batch is an array of NumPy' in note for note in notes))
        self.assertIn("array of <U1", message(Named(), {"x": x, "y": y, "name": numpy.array(["a", "b"])}))

    def test_what_is_no_tensor_is_fixed_with_a_note(self):
        class Scaled(Named):
            def training_step(self, batch, batch_idx):
                return super().training_step(batch, batch_idx) * batch["scale"]

        x, y = rows(8)
        graphs, notes = verified(Scaled(), {"x": x, "y": y, "scale": 3.0}, without=["predict_step"])
        self.assertTrue(any('"scale" of the batch is not a tensor: 3.0 is fixed in the package' in note for note in notes))
        batches = [{"x": x, "y": y, "scale": 3.0, "path": ["a"]}, {"x": x[:5], "y": y[:5], "scale": 4.0, "path": ["b", "c"]}]
        found = message(Scaled(), batches[0], batches=batches[1:])
        self.assertRegex(found, r'export_batches_test.py:\d+: the step reads "scale" of the batch, which is no tensor and differs between the batches: 3.0, 4.0')
        verified(Named(), batches[0], batches[1:], without=["predict_step"])  # what no step reads may differ


class Several(unittest.TestCase):
    """Several batches: what differs varies."""

    def test_dimensions_that_are_alike_in_all_batches_are_one(self):
        class Three(Base):
            def training_step(self, batch, batch_idx):
                x, y, weights = batch
                return F.cross_entropy(self.net(x), y) + weights.mean()

        batches = [(*rows(count), torch.randn(other, 4)) for count, other in ((8, 8), (5, 9), (6, 6))]
        self.assertEqual(shapes(recorded(Three(), None, batches=batches)),
                         {"0": ["batch", 6], "1": ["batch"], "2": ["2_0", 4]})
        verified(Three(), batches[0], batches[1:], without=["predict_step"])

    def test_sizes_of_one_and_of_none(self):
        """In each batch a dimension has the size 1, or two have the same by accident."""
        class Pairs(Base):
            def training_step(self, batch, batch_idx):
                x, y = batch
                return (self.net(x)[:, None] - self.net(y)[None]).square().sum() / (x.shape[0] + y.shape[0])

        batches = [(torch.randn(one, 6), torch.randn(other, 6)) for one, other in ((1, 3), (3, 1), (4, 4), (2, 0))]
        graphs, _ = verified(Pairs(), batches[0], batches[1:], without=["predict_step"])
        self.assertEqual(shapes(graphs["training_step"]), {"0": ["batch", 6], "1": ["1_0", 6]})

    def test_the_number_of_rows_stays_open(self):
        """Where all tensors begin with it: the last batch of an epoch has fewer."""
        graph = recorded(Base(), rows(8), batches=[rows(8)])
        self.assertEqual(shapes(graph), {"0": ["batch", 6], "1": ["batch"]})

    def test_batches_of_one_size_fix_it(self):
        class Fixed(Base):
            def training_step(self, batch, batch_idx):
                return F.cross_entropy(self.net(batch[0]), batch[1]) + batch[2].mean()

        graphs, notes = verified(Fixed(), (*rows(8), torch.randn(3)), [(*rows(8), torch.randn(3))], without=["predict_step"])
        self.assertEqual(shapes(graphs["training_step"]), {"0": [8, 6], "1": [8], "2": [3]})
        self.assertTrue(any("all sizes are fixed" in note for note in notes))

    def test_numbers_that_are_a_size_follow_it(self):
        class Counting(Named):
            def training_step(self, batch, batch_idx):
                return super().training_step(batch, batch_idx) / len(batch)

        graphs, notes = verified(Counting(), Plain(*rows(8)), [Plain(*rows(5)), Plain(*rows(11))], without=["predict_step"])
        self.assertEqual(shapes(graphs["training_step"]), {"x": ["batch", 6], "y": ["batch"]})
        self.assertTrue(any('"_rows" of the batch is taken for the size of "x" in dimension 0' in note for note in notes), notes)

    def test_unions_of_graphs(self):
        """Nodes, edges, and one target for each graph: levin could make no such batch."""
        class Graphs(Base):
            def training_step(self, batch, batch_idx):
                hidden = self.net(batch["x"])
                source, destination = batch["edges"]
                hidden = hidden.index_add(0, destination, hidden[source])
                count = batch["ptr"].shape[0] - 1
                pooled = hidden.new_zeros(count, 3).index_add(0, batch["graph"], hidden)
                return F.cross_entropy(pooled, batch["y"])

        def union(*nodes):
            total = sum(nodes)
            return {"x": torch.randn(total, 6), "edges": torch.randint(0, total, (2, 2 * total + len(nodes))), "y": torch.randint(0, 3, (len(nodes),)),
                    "graph": torch.arange(len(nodes)).repeat_interleave(torch.tensor(nodes)), "ptr": F.pad(torch.tensor(nodes).cumsum(0), (1, 0))}

        graphs, _ = verified(Graphs(), union(3, 4), [union(2, 5, 1), union(6, 2, 2, 3)], without=["predict_step"])
        self.assertEqual(shapes(graphs["training_step"]),
                         {"x": ["batch", 6], "edges": [2, "edges_1"], "y": ["y_0"], "graph": ["batch"], "ptr": ["ptr_0"]})
        self.assertIn("Give several batches of your loader", message(Graphs(), union(9, 11)))

    def test_offsets_of_bags(self):
        class Bags(Base):
            def __init__(self):
                super().__init__()
                self.words = nn.EmbeddingBag(20, 6)

            def training_step(self, batch, batch_idx):
                return F.cross_entropy(self.net(self.words(batch["words"], batch["offsets"])), batch["y"])

        def bags(*sizes):
            return {"words": torch.randint(0, 20, (sum(sizes),)), "offsets": F.pad(torch.tensor(sizes).cumsum(0), (1, 0))[:-1],
                    "y": torch.randint(0, 3, (len(sizes),))}

        graphs, _ = verified(Bags(), bags(3, 1, 2), [bags(4, 4), bags(1, 2, 3, 4)], without=["predict_step"])
        self.assertEqual(shapes(graphs["training_step"]), {"words": ["batch"], "offsets": ["offsets_0"], "y": ["offsets_0"]})

    def test_decisions_on_sizes_become_conditions(self):
        class Limited(Base):
            def training_step(self, batch, batch_idx):
                assert batch[0].shape[0] <= 40
                return F.cross_entropy(self.net(batch[0]), batch[1]) * (2 if batch[0].shape[0] > batch[2].shape[0] else 1)

        batches = [(*rows(count), torch.randn(other)) for count, other in ((8, 3), (5, 4))]
        graph = verified(Limited(), batches[0], batches[1:], without=["predict_step"])[0]["training_step"]
        self.assertEqual([entry["taken"] for entry in graph.outputs if entry["kind"] == "condition"], [True, True])

        def conditions(batch):
            values = {**dict(graph.step.weights.parameters), **graph.step.weights.buffers, **dict(zip(graph.step.layout.names, batch))}
            outputs = graph.module(*[values[entry["name"]].detach() for entry in graph.inputs])
            return [bool(value) for entry, value in zip(graph.outputs, outputs) if entry["kind"] == "condition"]

        self.assertEqual(conditions((*rows(7), torch.randn(2))), [True, True])
        self.assertEqual(conditions((*rows(7), torch.randn(9))), [True, False])
        self.assertEqual(conditions((*rows(41), torch.randn(9))), [False, True])
        found = message(Limited(), batches[0], batches=[(*rows(3), torch.randn(9))])
        self.assertRegex(found, r"export_batches_test.py:\d+: training_step goes another way for the batch with")

    def test_whole_numbers_that_are_the_same_in_all_batches(self):
        """They are conditions of the package, in either way that Python asks for them."""
        class Padded(Base):
            def training_step(self, batch, batch_idx):
                x, y, lengths = batch
                steps = int(lengths.max()) + lengths.min().item() // 2 + int(torch.tensor(3))
                mask = torch.arange(x.shape[1]) < lengths[:, None] + len([0] * int(lengths.max().item())) - 5
                return F.cross_entropy((self.net(x) * mask[:, :, None]).sum(1) / steps, y)

        class Pooled(Base):
            def training_step(self, batch, batch_idx):
                x, _, group = batch
                return x.new_zeros(group.max() + 1, 3).index_add(0, group, self.net(x[:, 0])).square().mean()

        def padded(count, longest=5):
            lengths = torch.randint(3, longest, (count,))
            lengths[0], lengths[1] = longest, 2
            return torch.randn(count, 5, 6), torch.randint(0, 3, (count,)), lengths

        graph = verified(Padded(), padded(8), [padded(6)], without=["predict_step"])[0]["training_step"]
        self.assertEqual([entry["taken"] for entry in graph.outputs if entry["kind"] == "condition"], [True] * 2)
        self.assertEqual(shapes(graph), {"0": ["batch", 5, 6], "1": ["batch"], "2": ["batch"]})
        graph = verified(Pooled(), padded(8), [padded(6)], without=["predict_step"])[0]["training_step"]
        self.assertEqual(len([entry for entry in graph.outputs if entry["kind"] == "condition"]), 1)
        self.assertRegex(message(Padded(), padded(8), batches=[padded(6, longest=4)]),
                         r"export_batches_test.py:\d+: a number is made of a tensor's value, which is 5 in one batch and 4 in another")
        self.assertIn("a number is made of a tensor's value", message(Padded(), padded(8)))

    def test_whole_numbers_that_are_a_size_of_the_batch(self):
        """As torchaudio makes masks of lengths: of batches that are padded to their longest text."""
        class Masked(Base):
            def training_step(self, batch, batch_idx):
                x, y, lengths = batch
                mask = torch.arange(int(lengths.max())) < lengths[:, None]
                mask = mask & (torch.arange(lengths.max().item()) >= 0)
                return F.cross_entropy((self.net(x) * mask[:, :, None]).sum(1) / lengths[:, None], y)

        def padded(count, longest):
            lengths = torch.randint(2, longest + 1, (count,))
            lengths[1] = longest
            return torch.randn(count, longest, 6), torch.randint(0, 3, (count,)), lengths

        graph = verified(Masked(), padded(8, 5), [padded(6, 7), padded(7, 4)], without=["predict_step"])[0]["training_step"]
        self.assertEqual(shapes(graph), {"0": ["batch", "0_1", 6], "1": ["batch"], "2": ["batch"]})
        shorter = padded(8, 6)
        shorter[2].clamp_(max=4)
        weights = {**graph.step.weights.parameters, **graph.step.weights.buffers, **dict(zip("012", shorter))}
        found = graph.module(*(weights[entry["name"]].detach() for entry in graph.inputs))
        self.assertEqual({bool(value) for entry, value in zip(graph.outputs, found) if entry["kind"] == "condition"}, {False})
        self.assertIn("give export() several batches of your loader", message(Masked(), padded(8, 5)))

    def test_none_in_place_of_a_tensor(self):
        class Masked(Base):
            def training_step(self, batch, batch_idx):
                loss = F.cross_entropy(self.net(batch["x"]), batch["y"], reduction="none")
                return (loss if batch["mask"] is None else loss * batch["mask"]).mean()

        def masked(count, mask):
            x, y = rows(count)
            return {"x": x, "y": y, "mask": mask}

        without, with_one = masked(8, None), masked(5, torch.ones(5))
        _, notes = verified(Masked(), without, [masked(5, None)], without=["predict_step"])
        self.assertEqual([note for note in notes if "mask" in note],
                         ['"mask" of the batch is None, and so it is in the package, which does not use a tensor of that name'])
        for one, other in ((without, with_one), (with_one, without)):
            self.assertIn('"mask" of the batch is a tensor in one example batch, and None in another', message(Masked(), one, batches=[other]))

    def test_batches_of_other_structures(self):
        self.assertIn("differ in their structure", message(Base(), rows(8), batches=[{"0": rows(8)[0], "1": rows(8)[1]}]))
        self.assertIn("Give it one type", message(Base(), rows(8), batches=[(rows(8)[0], rows(8)[1].float())]))
        self.assertIn("needs a batch", message(Base(), None, batches=[]))


if __name__ == "__main__":
    unittest.main()
