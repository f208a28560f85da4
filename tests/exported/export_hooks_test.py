"""Tests of what levin_train.export() takes of a module besides its steps: hooks, setup(), base classes, metric objects, self.trainer, and what is
given in place of a module or a batch.

    python tests/exported/export_hooks_test.py

Nothing is compiled here: export_packages_test.py does that.
"""

import abc
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

from recorded_graphs import BATCH, Base, recorded, verified  # also makes levin known

import lightning
import torch
import torch.nn.functional as F
import torchmetrics
from lightning.pytorch.demos import boring_classes
from lightning.pytorch.demos.transformer import LightningTransformer
from torch import nn

import levin_train
from levin_train import configuration, errors

HERE = "export_hooks_test.py"


def model(base=Base, **members):
    return type("Model", (base,), {"__module__": __name__, **members})


def update_average(network):
    """What a hook may call that changes weights."""
    network.weight.data = network.weight.data * 0.9


class Refused(unittest.TestCase):
    def message(self, module, batch=BATCH, **options):
        with self.assertRaises(levin_train.ExportError) as raised:
            verified(module, batch, **options)
        return str(raised.exception)


class Hooks(Refused):
    def test_all_are_named_at_once(self):
        def on_train_epoch_end(self):
            self.net.weight.data.mul_(0.9)

        def on_before_optimizer_step(self, optimizer):
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)

        def on_validation_epoch_start(self):
            self.net.load_state_dict(self.best)

        module = model(on_train_epoch_end=on_train_epoch_end, on_before_optimizer_step=on_before_optimizer_step,
                       on_validation_epoch_start=on_validation_epoch_start)()
        message = self.message(module)
        names = ("on_validation_epoch_start", "on_train_epoch_end", "on_before_optimizer_step")
        for name, hook in zip(names, (on_validation_epoch_start, on_train_epoch_end, on_before_optimizer_step)):
            self.assertIn(f"{name}() at {HERE}:{hook.__code__.co_firstlineno}", message)
        self.assertIn(f'without=[{", ".join(f"{chr(34)}{name}{chr(34)}" for name in names)}]', message)
        self.assertIn("gradient_clip_val", message)
        self.assertIn("it calls load_state_dict()", message)
        verified(module, without=names)

    def test_what_changes_nothing_of_training(self):
        class Evaluating(Base):
            def validation_step(self, batch, batch_idx):
                self.outputs.append(self.net(batch[0]))
                self.log("val_loss", super().training_step(batch, batch_idx))

            def on_validation_epoch_start(self):
                self.outputs = []

            def on_validation_epoch_end(self):
                self.log("spread", torch.cat(self.outputs).std())
                self.outputs.clear()

            def on_save_checkpoint(self, checkpoint):
                checkpoint["more"] = self.count

            def on_load_checkpoint(self, checkpoint):
                self.count = checkpoint["more"]

            def on_fit_end(self):
                self.net.requires_grad_(False)

            def on_train_start(self):
                """Nothing yet."""

        module = Evaluating()
        module.outputs = []
        graphs, notes = verified(module)
        self.assertEqual(list(graphs), ["training_step", "validation_step"])
        for name in ("on_validation_epoch_start", "on_validation_epoch_end", "on_save_checkpoint", "on_load_checkpoint", "on_fit_end"):
            self.assertTrue(any(note.startswith(f"{HERE}:") and f"{name}() is left out" in note for note in notes), name)
        self.assertFalse(any("on_train_start" in note for note in notes))
        self.assertTrue(any("self.outputs takes values for hooks" in note for note in notes))

    def test_hooks_of_training_that_only_log(self):
        class Logging(Base):
            def __init__(self):
                super().__init__()
                self.accuracy = torchmetrics.MeanMetric()
                self.losses, self.begun, self.every = [], 0.0, 10

            def training_step(self, batch, batch_idx):
                loss = super().training_step(batch, batch_idx)
                self.losses.append(loss.detach())
                self.accuracy.update(loss)
                return loss

            def summed(self, values, metric):
                values.clear()
                metric.reset()
                return metric.compute()

            def on_train_epoch_start(self):
                self.begun = time.time()

            def on_train_epoch_end(self):
                mean = torch.stack(self.losses).mean()
                self.log_dict({"mean": mean, "accuracy": self.summed(self.losses, self.accuracy), "seconds": time.time() - self.begun})
                self.losses = []

            def on_after_backward(self):
                found = {}
                for name, parameter in self.net.named_parameters():
                    found[name] = parameter.grad.abs().cpu().mean()
                if self.global_step % self.every == 0:
                    self.logger.experiment.add_scalars("gradients", found)

            def on_before_optimizer_step(self, optimizer):
                self.log_dict(lightning.pytorch.utilities.grad_norm(self.net, norm_type=2))
                self.log("rate", optimizer.param_groups[0]["lr"])

        _, notes = verified(Logging())
        for name in ("on_train_epoch_start", "on_train_epoch_end", "on_after_backward", "on_before_optimizer_step"):
            self.assertTrue(any(note.startswith(f"{HERE}:") and f"{name}() is left out" in note for note in notes), name)
        self.assertTrue(any("self.losses takes values for hooks" in note for note in notes))

    def test_hooks_of_training_that_change_it(self):
        def training_step(self, batch, batch_idx):
            return Base.training_step(self, batch, batch_idx) * (1 + self.count) * len(self.kept)

        def counts(self):
            self.count += 1

        def appends(self):
            self.kept.append(1)

        def assigns_data(self):
            for parameter in self.parameters():
                parameter.data = parameter.data * 0.9

        def gives_away(self):
            update_average(self.net)

        def runs(self):
            self.log("again", self.net(torch.zeros(1, 6)).mean())

        def steps(self):
            schedule = self.lr_schedulers()
            schedule.step()

        def steps_at_once(self):
            self.lr_schedulers().step()

        def asks_the_data(self):
            self.trainer.datamodule.set_epoch(self.current_epoch)

        def stops(self, batch, batch_idx):
            return -1

        for reason, name, hook in (("it changes self.count", "on_train_epoch_end", counts), ("it calls append() of self.kept", "on_after_backward", appends),
                                   ("it changes a part of parameter", "on_train_epoch_end", assigns_data),
                                   ("it gives self.net to update_average()", "on_train_start", gives_away),
                                   ("it calls self.net()", "on_train_epoch_end", runs), ("it calls step() of schedule", "on_train_epoch_end", steps),
                                   ("it calls step() of self.lr_schedulers()", "on_train_epoch_end", steps_at_once),
                                   ("it calls set_epoch()", "on_train_epoch_start", asks_the_data), ("what it returns", "on_train_batch_start", stops)):
            with self.subTest(hook=hook.__name__):
                self.assertIn(f"{name}() at {HERE}:{hook.__code__.co_firstlineno} ({reason}",
                              self.message(model(training_step=training_step, **{name: hook})()))

    def test_hooks_of_validation_that_change_training(self):
        def assigns(self):
            self.count = 7

        def helper(self):
            self.net.weight.data.mul_(0.9)

        def calls(self):
            self.helper()

        def training_step(self, batch, batch_idx):
            return Base.training_step(self, batch, batch_idx) * (1 + self.count)

        self.assertIn("it changes self.count, which training may read",
                      self.message(model(on_validation_end=assigns, training_step=training_step)()))
        self.assertIn("it calls mul_()", self.message(model(on_validation_end=calls, helper=helper)()))

    def test_own_way_into_evaluation(self):
        """chemprop keeps some parts in training mode."""
        class Own(Base):
            def __init__(self):
                super().__init__()
                self.drop = nn.Dropout(0.5)

            def on_validation_model_eval(self):
                self.eval()
                self.drop.train()

            def validation_step(self, batch, batch_idx):
                self.log("val_loss", F.cross_entropy(self.drop(self.net(batch[0])), batch[1]))

        graphs, _ = verified(Own())
        self.assertTrue(any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in graphs["validation_step"].module.graph.nodes))

    def test_setup_and_configure_model(self):
        class Late(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net, self.calls = None, []

            def setup(self, stage):
                self.calls.append((stage, self.trainer.is_global_zero))
                self.scale = 2.0 * self.trainer.max_epochs

            def configure_model(self):
                self.calls.append("model")
                if self.net is None:
                    self.net = nn.Linear(6, 3)

            def training_step(self, batch, batch_idx):
                return F.cross_entropy(self.net(batch[0]), batch[1]) * self.scale

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        module = Late()
        verified(module, trainer={"max_epochs": 3})
        self.assertEqual((module.calls, module.scale), ([("fit", True), "model"], 6.0))
        message = self.message(Late())
        self.assertIn('trainer={"max_epochs": …}', message)
        self.assertTrue(message.startswith(HERE), message)

        def setup(self, stage):
            raise FileNotFoundError("data.csv")

        message = self.message(model(setup=setup)())
        self.assertIn('setup() fails before the export: FileNotFoundError: data.csv. Give export() a module that works without it, and say without=["setup"]',
                      message)
        verified(model(setup=setup)(), without=["setup"])


class Classes(Refused):
    def test_abstract_bases(self):
        class Abstract(Base, abc.ABC):
            @abc.abstractmethod
            def loss(self, batch):
                pass

            def training_step(self, batch, batch_idx):
                if any(hasattr(each, "__isabstractmethod__") for each in (self.trainer, self.logger, self.optimizers(), self.trainer.datamodule)):
                    raise TypeError("abstract")
                return self.loss(batch) * (1 + self.global_step)

            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs)]

        class Whole(Abstract):
            def loss(self, batch):
                return F.cross_entropy(self.net(batch[0]), batch[1])

        module = Whole()
        verified(module)
        self.assertIs(type(module), Whole)
        self.assertEqual(configuration.sections(module)["lr_scheduler"], {"class_path": "CosineAnnealingLR", "init_args": {}})

    def test_lightnings_demos(self):
        graphs, _ = verified(boring_classes.BoringModel(), torch.randn(8, 32))
        self.assertEqual(list(graphs), ["training_step", "validation_step", "test_step", "predict_step"])
        self.assertIn("Manual optimization", self.message(boring_classes.ManualOptimBoringModel(), torch.randn(8, 32)))
        tokens = torch.randint(0, 50, (4, 9))
        self.assertEqual(recorded(LightningTransformer(vocab_size=50), (tokens, tokens)).step.name, "training_step")

    def test_files_are_named_with_their_package(self):
        with tempfile.TemporaryDirectory() as folder:
            inner = pathlib.Path(folder) / "mine" / "models"
            inner.mkdir(parents=True)
            for part in (inner, inner.parent):
                (part / "__init__.py").touch()
            self.assertEqual(errors.shown_path(str(inner / "net.py")), "mine/models/net.py")
            self.assertEqual(errors.shown_path(str(pathlib.Path(folder) / "net.py")), "net.py")
        self.assertEqual(errors.shown_path("/x/lib/python3.11/site-packages/timm/layers/a.py"), "timm/layers/a.py")


class Weighted(torchmetrics.Metric):
    """A metric of the user's own, which is the loss."""

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, scores, targets):
        self.total += (scores - targets).pow(2).sum()
        self.count += targets.numel()

    def compute(self):
        return self.total / self.count


class OtherSteps(Refused):
    """Steps besides that of training."""

    def test_prediction_of_other_batches(self):
        def predict_step(self, batch, batch_idx):
            return self.net(batch["only_in_prediction"])

        graphs, notes = verified(model(predict_step=predict_step)())
        self.assertEqual(list(graphs), ["training_step"])
        self.assertTrue(any(note.startswith("predict_step is left out, as it does not take the batch of training: " + HERE) for note in notes))

    def test_a_predict_step_of_a_library(self):
        """As that of pytorch-forecasting, which looks for a callback: the user cannot change it, and trains without."""
        def predict_step(self, batch, batch_idx):
            return self(batch[0]) if self.trainer.callbacks[0] else None

        self.assertIn("self.trainer.callbacks", self.message(model(predict_step=predict_step)()))
        with tempfile.TemporaryDirectory() as folder:
            packages = pathlib.Path(folder) / "site-packages"
            packages.mkdir()
            (packages / "levin_models.py").write_text("class Predicts:\n    def predict_step(self, batch, batch_idx):\n        return self.net(batch[0]) if self.trainer.callbacks[0] else None\n")
            with unittest.mock.patch.object(sys, "path", [str(packages), *sys.path]):
                import levin_models

            graphs, notes = verified(type("Model", (levin_models.Predicts, Base), {"__module__": __name__})())
        self.assertNotIn("predict_step", graphs)
        self.assertTrue(any(note.startswith("predict_step is left out, as") and "self.trainer.callbacks" in note for note in notes))

    def test_what_an_evaluation_may_leave_out(self):
        def validation_step(self, batch, batch_idx):
            self.log("rows", batch[1].tolist()[0])

        self.assertTrue(self.message(model(validation_step=validation_step)()).endswith('without=["validation_step"].'))
        graphs, _ = verified(model(validation_step=validation_step)(), without=["validation_step"])
        self.assertEqual(list(graphs), ["training_step"])


class Metrics(Refused):
    def step(self, loss):
        return lambda module, batch, batch_idx: loss(module, module.net(batch[0])[:, 0], batch[1].float())

    def test_metric_objects_as_losses(self):
        """Value and gradients; also of a class that levin does not have, and in arithmetic."""
        for metric in (torchmetrics.MeanSquaredError(), Weighted()):
            for loss in (lambda self, scores, targets: self.metric(scores, targets),
                         lambda self, scores, targets: 2 * self.metric(scores, targets) + self.net.weight.pow(2).mean(),
                         lambda self, scores, targets: torch.sqrt(self.metric(scores, targets))):
                module = model(training_step=self.step(loss))()
                module.metric = metric
                graphs, notes = verified(module)
                self.assertEqual([entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "gradient"], ["net.weight", "net.bias"])
                self.assertFalse(any("is left out" in note for note in notes))

    def test_logged_losses_of_unknown_classes(self):
        def loss(self, scores, targets):
            value = self.metric(scores, targets)
            self.log("train_loss", self.metric, on_epoch=True)
            return value

        module = model(training_step=self.step(loss))()
        module.metric = Weighted()
        graphs, notes = verified(module)
        self.assertEqual([entry["kind"] for entry in graphs["training_step"].outputs if entry.get("name") == "train_loss"], ["log"])
        self.assertTrue(any("has for an epoch the mean of its values" in note and "Weighted" in note for note in notes))

        def logged(self, scores, targets):
            self.metric(scores, targets)
            self.log("other", self.metric)
            self.log("sum", self.both)  # updates those that it is made of
            self.log("kept", scores.mean())
            return scores.mean()

        module = model(training_step=self.step(logged))()
        module.metric, module.second = Weighted(), Weighted()
        module.both = module.metric + module.second
        graphs, notes = verified(module)
        self.assertEqual([entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "log"], ["kept"])
        for name in ("other", "sum"):
            self.assertTrue(any(f'"{name}" is left out: levin has no metric like' in note and note.startswith(f"{HERE}:") for note in notes), name)

    def test_updated_and_not_logged(self):
        def updated(self, scores, targets):
            self.metric(scores, targets)
            self.metrics["other"].update(scores, targets)
            return scores.mean()

        module = model(training_step=self.step(updated))()
        module.metric, module.metrics = torchmetrics.MeanSquaredError(), {"other": torchmetrics.MeanAbsoluteError()}
        _, notes = verified(module)
        for name in ("metric", "metrics.other"):
            self.assertIn(f"self.{name} is updated in training_step and not logged: it is left out of the package", notes)
        self.assertEqual(float(module.metrics["other"].total), 0)

    def test_metric_objects_in_a_dict(self):
        def logged(self, scores, targets):
            self.metrics["mse"](scores, targets)
            self.log("mse", self.metrics["mse"])
            return scores.mean()

        module = model(training_step=self.step(logged))()
        module.metrics = {"mse": torchmetrics.MeanSquaredError()}
        graphs, _ = verified(module)
        found = [entry["metric"]["attribute"] for entry in graphs["training_step"].outputs if entry["kind"] == "metric"]
        self.assertEqual(found, ["metrics.mse", "metrics.mse"])

    def test_metric_objects_have_their_own_reduction(self):
        """Whatever log_dict() is given for the values beside them."""
        def logged(self, scores, targets):
            self.mse(scores, targets)
            self.log_dict({"mse": self.mse, "plain": scores.mean()}, batch_size=len(scores), reduce_fx="max")
            return scores.mean()

        module = model(training_step=self.step(logged))()
        module.mse = torchmetrics.MeanSquaredError()
        graphs, _ = verified(module)
        outputs = graphs["training_step"].outputs
        self.assertEqual([entry["name"] for entry in outputs if entry["kind"] == "weight"], ["plain"])
        self.assertEqual({entry["name"]: entry["options"]["reduce"] for entry in outputs if entry["kind"] in ("log", "metric")}, {"mse": "mean", "plain": "max"})


    def test_functions_that_look_at_labels(self):
        def training_step(self, batch, batch_idx):
            self.log("accuracy", torchmetrics.functional.accuracy(self.net(batch[0]).argmax(1), batch[1], task="multiclass", num_classes=3))
            return Base.training_step(self, batch, batch_idx)

        source = sys.modules["torchmetrics.functional.classification.accuracy"]
        checks = source._multiclass_stat_scores_tensor_validation
        graphs, _ = verified(model(training_step=training_step)())
        self.assertIn("accuracy", [output["name"] for output in graphs["training_step"].outputs if output["kind"] == "log"])
        self.assertIs(source._multiclass_stat_scores_tensor_validation, checks)

    def test_values_of_batches_that_depend_on_numbers(self):
        class Ranked(Base):
            def __init__(self):
                super().__init__()
                self.area = torchmetrics.AUROC(task="multiclass", num_classes=3)

            def training_step(self, batch, batch_idx):
                self.log("area", self.area(self.net(batch[0]).softmax(1), batch[1]))
                return super().training_step(batch, batch_idx)

        self.assertIn("self.log(…, self.area): its value is computed at the end of an epoch", self.message(Ranked()))


class Given(Refused):
    """What export() says of other things than a module and a batch."""

    def test_modules(self):
        self.assertIn("Give it an object: Base(…)", self.message(Base))
        self.assertIn("load_from_checkpoint", self.message("last.ckpt"))
        self.assertIn("got a int in place of a module", self.message(3))

    def test_batches(self):
        data = torch.utils.data.TensorDataset(*BATCH)
        self.assertIn("next(iter(loader))", self.message(Base(), torch.utils.data.DataLoader(data)))
        self.assertIn("got a TensorDataset in place of a batch", self.message(Base(), data))
        self.assertIn("got a BoringDataModule in place of a batch", self.message(Base(), boring_classes.BoringDataModule()))
        for arguments, wanted in ((("m.pt2",), "no batch"), ((BATCH,), "no path")):
            with self.assertRaisesRegex(levin_train.ExportError, wanted):
                levin_train.export(Base(), *arguments)

    def test_targets(self):
        x, y = BATCH
        for batch, wanted in (((x, y + 2), "classes: they are counted from 0"), ((x, y.int()), ".long()"), ((x, y.unsqueeze(1)), ".squeeze(1)"),
                              ((x, y[:5]), "has not the size of the others")):
            with self.subTest(wanted):
                message = self.message(Base(), batch)
                self.assertIn(wanted, message)
                self.assertTrue(message.startswith("recorded_graphs.py:"), message)
                self.assertIn(wanted, self.message(nn.Linear(6, 3), batch, loss=F.cross_entropy))
        _, notes = verified(nn.Linear(6, 1), (x, torch.randn(8)), loss=F.mse_loss)
        self.assertTrue(any("Using a target size" in note for note in notes))


if __name__ == "__main__":
    unittest.main()
