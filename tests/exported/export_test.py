"""Tests of levin_train.export(): what it refuses, with the line and the advice, and what it records of a step.

    python tests/exported/export_test.py

Nothing is compiled here: export_packages_test.py does that.
"""

import inspect
import random
import unittest

from recorded_graphs import BATCH, Base, line_with, recorded  # also makes levin known

import torch
import torch.nn.functional as F
import torchmetrics
from torch import nn

import levin_train

SEEN = []


def refused(advice, **options):
    """Marks a step that is refused at its line with the comment "here", with this in the message."""
    def mark(step):
        REFUSED.append((step, advice, options))
        return step

    return mark


REFUSED = []


class Steps:
    """Training steps that are refused. Each is put into Base."""

    @refused("masks over a fixed length")
    def number_of_a_tensor(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self.net(x), y) * int(y.max())  # here

    @refused("torch.cos() is there for math.cos()")
    def python_number_of_a_value(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx)
        return loss * loss.__float__()  # here

    @refused("functions of math take it")
    def python_number_of_the_step(self, batch, batch_idx):
        return Base.training_step(self, batch, batch_idx) * self.global_step.__float__()  # here

    @refused("Keep tensors")
    def a_list(self, batch, batch_idx):
        weights = batch[1].tolist()  # here
        return Base.training_step(self, batch, batch_idx) * weights[0]

    @refused("torch's function of that name")
    def numpy(self, batch, batch_idx):
        scale = batch[0].numpy().max()  # here
        return Base.training_step(self, batch, batch_idx) * scale

    @refused("masks of a fixed length")
    def routing(self, batch, batch_idx):
        rows = torch.where(batch[1] == 0)[0]
        return self.net(batch[0]).mean() + sum(batch[0][row].mean() for row in range(rows.numel()))  # here

    @refused("masks of a fixed length")
    def routing_by_a_mask(self, batch, batch_idx):
        rows = batch[0][batch[1] == 0]
        return self.net(batch[0]).mean() + sum(rows[index].mean() for index in range(len(rows)))  # here

    @refused("the step changes self.count from 2 to 3, which")
    def counter(self, batch, batch_idx):
        self.count += 1  # here
        return Base.training_step(self, batch, batch_idx)

    @refused("Log the value, return it from the step")
    def kept_outputs(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx)
        self.kept.append(loss.detach())  # here
        return loss * len(self.kept)

    @refused("SEEN of ")
    def global_list(self, batch, batch_idx):
        SEEN.append(len(SEEN))  # here
        return Base.training_step(self, batch, batch_idx)

    @refused("torch.rand(())")
    def random_of_python(self, batch, batch_idx):
        return Base.training_step(self, batch, batch_idx) * (2.0 if random.random() < 1e-9 else 1.0)  # here

    @refused("the step changes self.rng")
    def random_of_an_object(self, batch, batch_idx):
        return Base.training_step(self, batch, batch_idx) * self.rng.random()  # here

    @refused("the step changes self.alpha from a tensor [0.81, 0.81, 0.81] to a tensor [0.729, 0.729, 0.729]")
    def tensor_that_is_no_buffer(self, batch, batch_idx):
        self.alpha.mul_(0.9)  # here
        return (self.net(batch[0]) * self.alpha).mean()

    @refused("compute with the whole tensor")
    def loop_over_rows(self, batch, batch_idx):
        return sum(self.net(batch[0][row]).sum() for row in range(batch[0].shape[0]))  # here

    @refused("Do not decide on the size")
    def way_by_size(self, batch, batch_idx):
        loss = Base.training_step(self, batch, batch_idx)
        return loss * 2 if batch[0].shape[0] > 200 else loss  # here

    @refused("Log it under a name that stays the same")
    def name_by_number(self, batch, batch_idx):
        self.log(f"loss_{batch_idx}", 1.0)  # here
        return Base.training_step(self, batch, batch_idx)

    @refused("self.trainer.max_epochs")
    def reads_the_trainer(self, batch, batch_idx):
        return Base.training_step(self, batch, batch_idx) / self.trainer.max_epochs  # here

    @refused("is torch.autograd.grad(loss, x)[0]")
    def backward(self, batch, batch_idx):
        Base.training_step(self, batch, batch_idx).backward()  # here

    @refused("Manual optimization cannot be exported")
    def manual(self, batch, batch_idx):
        self.optimizers().zero_grad()  # here

    @refused("Give export() a batch that has one")
    def no_loss(self, batch, batch_idx):  # here
        self.net(batch[0])

    @refused("Check detach()")
    def no_gradient(self, batch, batch_idx):  # here
        return Base.training_step(self, batch, batch_idx).detach()

    @refused("Log one value")
    def many_values(self, batch, batch_idx):
        self.log("x", self.net(batch[0]))  # here
        return Base.training_step(self, batch, batch_idx)

    @refused("levin has mean, sum, min and max")
    def reduction(self, batch, batch_idx):
        self.log("x", 1.0, reduce_fx=torch.prod)  # here
        return Base.training_step(self, batch, batch_idx)

    @refused("changes the parameter net.bias")
    def changes_a_parameter(self, batch, batch_idx):
        self.net.bias.data.mul_(0.9)  # here
        return Base.training_step(self, batch, batch_idx)

    @refused("changes the parameter net.bias")
    def might_change_a_parameter(self, batch, batch_idx):  # here
        self.net.bias.data.clamp_(-1, 1)
        return Base.training_step(self, batch, batch_idx)

    @refused("the buffer rate another shape")
    def changes_a_shape(self, batch, batch_idx):  # here
        self.rate = batch[0].mean(1)
        return Base.training_step(self, batch, batch_idx)

    @refused("the gradient of embedding.weight is sparse")
    def sparse(self, batch, batch_idx):  # here
        return self.embedding(batch[1]).mean()


class Refusals(unittest.TestCase):
    def check(self, make, step, wanted):
        lines, first = inspect.getsourcelines(step)
        where = first + next(index for index, line in enumerate(lines) if "# here" in line)
        if "def " in lines[where - first]:
            where = first  # of the decorator, where Python says that a function begins
        with self.assertRaises(levin_train.ExportError) as raised:
            recorded(make())
        self.assertIn(wanted, str(raised.exception))
        self.assertTrue(str(raised.exception).startswith(f"export_test.py:{where}:"), f"{raised.exception} (wanted line {where})")

    def test_steps(self):
        for step, wanted, _ in REFUSED:
            with self.subTest(step.__name__):
                def make(step=step):
                    module = type("Model", (Base,), {"training_step": step, "__module__": __name__})()
                    if step.__name__ == "sparse":
                        module.embedding = nn.Embedding(3, 2, sparse=True)
                    return module

                self.check(make, step, wanted)

    def test_hooks(self):
        def on_train_epoch_end(self):  # here
            self.net.weight.data.mul_(0.9)

        def configure_gradient_clipping(self, optimizer, *_):  # here
            self.clip_gradients(optimizer, 1.0)

        for hook in (on_train_epoch_end, configure_gradient_clipping):
            self.check(type("Model", (Base,), {hook.__name__: hook, "__module__": __name__}), hook, f'without=["{hook.__name__}"]')
            recorded(type("Model", (Base,), {hook.__name__: hook, "__module__": __name__})(), without=[hook.__name__])

    def test_what_fails_in_python(self):
        def step(self, batch, batch_idx):
            return self.net(batch[1]).mean()  # here

        self.check(type("Model", (Base,), {"training_step": step, "__module__": __name__}), step, "fails in Python on a batch like the example")

    def message(self, module, batch=BATCH, **options):
        with self.assertRaises(levin_train.ExportError) as raised:
            recorded(module, batch, **options)
        return str(raised.exception)

    def test_modules(self):
        view = Base()
        view.transposed = view.net.weight.T
        view.training_step = None
        lazy, shared, hooked, double = Base(), Base(), Base(), Base()
        lazy.extra = nn.LazyLinear(3)
        shared.other = nn.Linear(6, 3)
        shared.other.weight.data = shared.net.weight.data
        hooked.net.weight.register_hook(lambda gradient: gradient * 2)
        double.net.weight = nn.Parameter(double.net.weight.detach().to(torch.complex64))
        self.assertIn("Run the module on a batch", self.message(lazy))
        self.assertIn("lies in the memory of", self.message(shared))
        self.assertIn("has a hook on its gradient", self.message(hooked))
        self.assertIn("torch.complex64", self.message(double))
        self.assertIn("no training_step", self.message(nn.Linear(2, 2)))
        self.assertIn("no step or hook", self.message(Base(), without=["on_train_epoch_stop"]))
        self.assertIn("precision is", self.message(Base(), precision="8"))
        self.assertIn("processor is", self.message(Base(), processor="z80"))

    def test_what_configure_optimizers_changes(self):
        class Hooked(Base):
            def configure_optimizers(self):
                for parameter in self.parameters():
                    parameter.register_hook(lambda gradient: gradient * 0.1)  # hooked
                return super().configure_optimizers()

        class Accumulated(Base):
            def configure_optimizers(self):
                self.net.bias.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.mul_(0.1))
                return super().configure_optimizers()

        class ByHand(Base):
            def configure_optimizers(self):
                self.automatic_optimization = False
                return super().configure_optimizers()

        self.assertTrue(self.message(Hooked()).startswith(f"{line_with(__file__, 'hooked')}: net.weight has a hook on its gradient"))
        self.assertIn("net.bias has a hook on its gradient", self.message(Accumulated()))
        self.assertIn("automatic_optimization = False", self.message(ByHand()))

    def test_view_of_a_weight(self):
        class View(Base):
            def __init__(self):
                super().__init__()
                self.transposed = self.net.weight.detach().T

            def training_step(self, batch, batch_idx):
                return super().training_step(batch, batch_idx) + (batch[0] @ self.transposed).mean()

        self.assertIn("self.transposed, which lies in the memory of net.weight", self.message(View()))

    def test_parameter_in_a_list(self):
        class Hidden(Base):
            def __init__(self):
                super().__init__()
                self.scales = [torch.ones(3, requires_grad=True)]

            def training_step(self, batch, batch_idx):
                return (self.net(batch[0]) * self.scales[0]).mean()

        self.assertIn("ParameterList", self.message(Hidden()))

    def test_batches(self):
        self.assertIn("has no tensor", self.message(Base(), "text"))
        self.assertIn("Give it one type", self.message(Base(), batches=[(torch.randn(4, 6, 1), BATCH[1])]))
        self.assertIn("differ in their structure", self.message(Base(), batches=[[1]]))
        self.assertIn('names "time"', self.message(Base(), dynamic={"time": {1: "time"}}))


class Graphs(unittest.TestCase):
    """What is recorded of steps that are exported."""

    def outputs(self, step, batch=BATCH, **options):
        module = type("Model", (Base,), {"training_step": step, "__module__": __name__})()
        module.metric = torchmetrics.classification.MulticlassAccuracy(3)
        return recorded(module, batch, **options).outputs

    def test_names_of_nested_batches(self):
        class Nested(Base):
            def training_step(self, batch, batch_idx):
                return F.cross_entropy(self.net(batch["a"]["x"]) + batch["b"][1], batch["b"][0])

        graph = recorded(Nested(), {"a": {"x": torch.randn(8, 6)}, "b": [BATCH[1], torch.randn(3)], "name": "digits"})
        found = {entry["name"]: entry["shape"] for entry in graph.inputs if entry["kind"] == "batch"}
        self.assertEqual(found, {"a.x": ["batch", 6], "b.0": ["batch"], "b.1": [3]})

    def test_dimensions_of_several_examples(self):
        class Mean(Base):
            def training_step(self, batch, _):
                return self.net(batch).mean()

        class Second(Base):
            def training_step(self, batch, _):
                return self.net(batch[0]).mean() * batch[1].sum()

        graph = recorded(Mean(), torch.randn(8, 5, 6), batches=[torch.randn(8, 9, 6)])
        self.assertEqual(graph.inputs[-1]["shape"], ["batch", "input_1", 6])
        graph = recorded(Second(), (torch.randn(8, 6), torch.randn(8)), batches=[(torch.randn(5, 6), torch.randn(8))])
        self.assertEqual([entry["shape"] for entry in graph.inputs[-2:]], [["batch", 6], [8]])

    def test_arguments_by_position(self):
        def step(self, batch, number):
            return Base.training_step(self, batch, number) * (1 + number)

        graph = recorded(type("Model", (Base,), {"training_step": step, "__module__": __name__})())
        self.assertEqual([entry["name"] for entry in graph.inputs if entry["kind"] == "number"], ["batch_idx"])

    def test_positions_in_a_batch_stay(self):
        class Second(Base):
            def training_step(self, batch, batch_idx):
                return self.net(batch[1]).mean()

        graph = recorded(Second(), (torch.randn(8, 6), torch.randn(8, 6), torch.randn(8)))
        self.assertEqual([entry["name"] for entry in graph.inputs if entry["kind"] == "batch"], ["0", "1"])

    def test_conditions(self):
        def step(self, batch, batch_idx):
            assert (batch[1] >= 0).all(), "labels"
            loss = Base.training_step(self, batch, batch_idx)
            return loss if loss > 0 else loss * 2

        conditions = [entry for entry in self.outputs(step) if entry["kind"] == "condition"]
        self.assertEqual([entry["taken"] for entry in conditions], [True, True])
        self.assertTrue(all(entry["where"].startswith("export_test.py:") for entry in conditions))

    def test_validation_of_distributions(self):
        def step(self, batch, batch_idx):
            return -torch.distributions.Categorical(logits=self.net(batch[0])).log_prob(batch[1]).mean()

        self.assertTrue(any(entry["kind"] == "condition" for entry in self.outputs(step)))

    def test_logs(self):
        def step(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            self.log("loss", loss, prog_bar=True, on_epoch=True, reduce_fx="max", batch_size=len(batch[0]))
            self.log_dict({"a": 1.0, "b": loss.item()}, sync_dist=True, rank_zero_only=True)
            self.metric(self.net(batch[0]), batch[1])
            self.log("accuracy", self.metric)
            self.log("batch_accuracy", self.metric(self.net(batch[0]), batch[1]))
            return {"loss": loss, "hidden": self.net(batch[0])}

        outputs = self.outputs(step)
        self.assertEqual([(entry["kind"], entry.get("name")) for entry in outputs if entry["kind"] != "gradient"],
                         [("loss", None), ("log", "loss"), ("weight", "loss"), ("log", "a"), ("log", "b"), ("metric", "accuracy"), ("metric", "accuracy"),
                          ("log", "batch_accuracy"), ("extra", "hidden"), ("condition", None)])
        options = outputs[1]["options"]
        self.assertEqual((options["prog_bar"], options["on_epoch"], options["reduce"], options["sync_dist"]), (True, True, "max", None))
        self.assertEqual((outputs[3]["options"]["sync_dist"], outputs[3]["options"]["rank_zero_only"]), (True, True))
        self.assertEqual(outputs[5]["metric"]["class_path"], "Accuracy")

    def test_metric_objects_are_as_before(self):
        def step(self, batch, batch_idx):
            self.log("accuracy", self.metric(self.net(batch[0]), batch[1]))
            return Base.training_step(self, batch, batch_idx)

        module = type("Model", (Base,), {"training_step": step, "__module__": __name__})()
        module.metric = torchmetrics.classification.MulticlassAccuracy(3, average="micro")
        before = {name: id(value) for name, value in vars(module.metric).items() if name in ("update", "compute")}
        recorded(module)
        self.assertEqual({name: id(value) for name, value in vars(module.metric).items() if name in ("update", "compute")}, before)
        self.assertEqual(float(module.metric(torch.eye(3), torch.tensor([0, 1, 0]))), float(torch.tensor(2 / 3)))

    def test_weights(self):
        class Weights(Base):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(6, 3)
                self.head.weight = self.net.weight
                self.unused = nn.Parameter(torch.ones(2))
                self.frozen = nn.Linear(3, 3).requires_grad_(False)
                self.register_buffer("seen", torch.zeros(()), persistent=False)

            def training_step(self, batch, batch_idx):
                self.seen += 1
                return F.cross_entropy(self.frozen(self.net(batch[0]) + self.head(batch[0])), batch[1])

        module = Weights()
        graph = recorded(module)
        self.assertEqual([entry["name"] for entry in graph.outputs if entry["kind"] == "gradient"], ["net.weight", "net.bias", "head.bias"])
        self.assertEqual([entry["name"] for entry in graph.outputs if entry["kind"] == "buffer"], ["seen"])
        described = {entry["name"]: entry for entry in levin_train.exporting.describe(module, graph.step.weights, "32-true", "native", {}, {})["weights"]}
        self.assertEqual(described["net.weight"]["aliases"], ["head.weight"])
        self.assertEqual((described["frozen.weight"]["trained"], described["unused"]["trained"], described["seen"]["saved"]), (False, True, False))
        self.assertEqual(float(module.seen), 0)

    def test_export_leaves_the_module_as_it_was(self):
        module = Base()
        module.net.eval()
        before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        random_state = torch.get_rng_state()
        recorded(module)
        self.assertIs(type(module), Base)
        self.assertFalse(module.net.training)
        self.assertTrue(torch.equal(random_state, torch.get_rng_state()))
        self.assertTrue(all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items()))


if __name__ == "__main__":
    unittest.main()
