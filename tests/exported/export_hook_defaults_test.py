"""Tests of hooks that levin_train.export() takes for what they are: those that do as Lightning's own do, and those that cannot be tried, of which
everything that their source calls counts.

    python tests/exported/export_hook_defaults_test.py

Nothing is compiled here.
"""

import copy
import threading
import unittest

from recorded_graphs import BATCH, Base, Refused, verified  # also makes levin known

import torch
import torchmetrics
from lightning.pytorch.utilities import grad_norm

from levin_train import configuration


def model(base=Base, **members):
    return type("Model", (base,), {"__module__": __name__, **members})


def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
    optimizer.zero_grad(set_to_none=True)


def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
    optimizer.step(closure=optimizer_closure)


def lr_scheduler_step(self, scheduler, metric):
    if metric is None:
        scheduler.step()
    else:
        scheduler.step(metric)


def backward(self, loss):
    loss.backward()


def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
    self.clip_gradients(optimizer, gradient_clip_val=gradient_clip_val, gradient_clip_algorithm=gradient_clip_algorithm)


class OfLightning(Base):
    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)


class Updater:
    """Moves the weights of a copy of a network."""

    def update(self, source, target):
        for ours, theirs in zip(source.parameters(), target.parameters()):
            theirs.data = 0.9 * theirs.data + 0.1 * ours.data


class Averaged(Base):
    def __init__(self):
        super().__init__()
        self.average, self.updater = copy.deepcopy(self.net).requires_grad_(False), Updater()

    @property
    def pairs(self):
        return [(self.net, self.average)]

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) + (self.net(batch[0]) - self.average(batch[0])).pow(2).mean()


class Defaults(Refused):
    def test_what_does_as_lightning_does(self):
        hooks = (optimizer_zero_grad, optimizer_step, lr_scheduler_step, backward, configure_gradient_clipping)
        for module in (*(model(**{hook.__name__: hook})() for hook in hooks), OfLightning()):
            with self.subTest(module=[name for name in vars(type(module)) if not name.startswith("__")]):
                graphs, notes = verified(module)
                self.assertEqual(list(graphs), ["training_step"])
                self.assertFalse(any("left out" in note for note in notes), notes)

    def test_what_does_something_else(self):
        def zeroes_twice(self, epoch, batch_idx, optimizer):
            optimizer.zero_grad()
            optimizer.zero_grad()

        def keeps_gradients(self, epoch, batch_idx, optimizer):
            if batch_idx % 2 == 0:
                optimizer.zero_grad()

        def warms_up(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer.step(closure=optimizer_closure)
            for group in optimizer.param_groups:
                group["lr"] = min(1.0, (self.trainer.global_step + 1) / 500)

        def without_closure(self, epoch, batch_idx, optimizer, optimizer_closure):
            optimizer_closure()
            optimizer.step()

        def of_the_epoch(self, scheduler, metric):
            scheduler.step(epoch=self.current_epoch)

        def scaled(self, loss):
            (loss * 2).backward()

        def moves_weights(self, loss):
            loss.backward()
            self.net.weight.data.mul_(0.5)

        def by_hand(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            self.clip_gradients(optimizer, gradient_clip_val=1.0, gradient_clip_algorithm="norm")

        def augments(self, batch, dataloader_idx):
            return [batch[0] + 1, batch[1]]

        def in_place(self, batch, dataloader_idx):
            batch[0].add_(1)
            return batch

        for name, hook in (("optimizer_zero_grad", zeroes_twice), ("optimizer_zero_grad", keeps_gradients), ("optimizer_step", warms_up),
                           ("optimizer_step", without_closure), ("lr_scheduler_step", of_the_epoch), ("backward", scaled), ("backward", moves_weights),
                           ("configure_gradient_clipping", by_hand), ("on_after_batch_transfer", augments), ("on_before_batch_transfer", in_place)):
            with self.subTest(hook=hook.__name__):
                self.refused(model(**{name: hook})(), f'without=["{name}"]')


class Untried(Refused):
    """Hooks that fail on the example: what they changed before counts, and what objects of the module may do."""

    def test_moves_weights_and_fails(self):
        def update(self, outputs, batch, batch_idx):
            for pair in self.pairs:
                self.updater.update(*pair)
            print(self.trainer.global_step / self.trainer.estimated_stepping_batches)

        self.refused(model(Averaged, on_train_batch_end=update)(), "it changes the parameter average.weight")

    def test_fails_before_it_moves_weights(self):
        def update(self):
            if self.trainer.callback_metrics["train_loss_epoch"] < 0.5:
                self.updater.update(self.net, self.average)

        def by_variable(self):
            updater = self.updater
            if self.trainer.callback_metrics["train_loss_epoch"] < 0.5:
                updater.update(self.net, self.average)

        for hook in (update, by_variable):
            self.refused(model(Averaged, on_train_epoch_end=hook)(), "it calls update() of self.updater, which may change what is trained, and it cannot be tried")

    def test_modules_that_cannot_be_copied(self):
        module = model(Averaged, on_train_epoch_end=lambda self: None)()
        module.lock = threading.Lock()

        def update(self):
            self.updater.update(self.net, self.average)

        type(module).on_train_epoch_end = update
        self.refused(module, "and it cannot be tried: TypeError: cannot pickle")


class Source(Refused):
    def left_out(self, module, name):
        _, notes = verified(module)
        self.assertTrue(any(f"{name}() is left out" in note for note in notes), notes)

    def test_what_only_logs(self):
        def logs_norms(self, optimizer):
            self.log_dict(grad_norm(self.net, norm_type=2))

        def imports(self, optimizer):
            from lightning.pytorch.utilities import grad_norm as norms
            self.log_dict(norms(self.net, norm_type=2))

        def prints(self):
            for name, value in self.trainer.logged_metrics.items():
                if name.startswith("train_"):
# print(name)
                    print(f"{name}: {value:.3f}")

        for name, hook in (("on_before_optimizer_step", logs_norms), ("on_before_optimizer_step", imports), ("on_train_epoch_end", prints)):
            with self.subTest(hook=hook.__name__):
                self.left_out(model(**{name: hook})(), name)

    def test_what_a_condition_rules_out(self):
        def average(self, *_):
            if self.use_average:
                self.updater.update(self.net, self.average)
                self.average.load_state_dict(self.net.state_dict())

        def turns_on(self, batch, batch_idx):
            self.use_average = True
            return Averaged.training_step(self, batch, batch_idx)

        self.left_out(model(Averaged, __init__=_with(Averaged, use_average=False), on_train_batch_end=average)(), "on_train_batch_end")
        self.refused(model(Averaged, __init__=_with(Averaged, use_average=True), on_train_batch_end=average)(), "it calls load_state_dict()")
        self.refused(model(Averaged, __init__=_with(Averaged, use_average=False), on_train_batch_end=average, training_step=turns_on)(), "load_state_dict()")

    def test_trainer_knows_its_module(self):
        def training_step(self, batch, batch_idx):
            return Base.training_step(self, batch, batch_idx) + sum(each.pow(2).sum() for each in self.trainer.model.parameters())

        def configure_optimizers(self):
            return torch.optim.SGD(self.trainer.lightning_module.parameters(), lr=0.1)

        graphs, _ = verified(model(training_step=training_step, configure_optimizers=configure_optimizers)(), BATCH)
        self.assertEqual(list(graphs), ["training_step"])

    def test_trainer_knows_whether_it_validates(self):
        """gluonts' modules choose their monitor so."""
        def configure_optimizers(self):
            validates = self.trainer.fit_loop.epoch_loop.val_loop._data_source.is_defined()
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
                                                             "monitor": "val_loss" if validates else "train_loss"}}

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", Base.training_step(self, batch, batch_idx))

        for steps, monitor in (({}, "train_loss"), ({"validation_step": validation_step}, "val_loss")):
            found = configuration.sections(model(configure_optimizers=configure_optimizers, **steps)())
            self.assertEqual(found["lr_scheduler"]["monitor"], monitor)

    def test_reserved_names(self):
        def training_step(self, batch, batch_idx):
            self.log("step", float(self.global_step))
            self.log("epoch", float(self.current_epoch))
            return Base.training_step(self, batch, batch_idx)

        graphs, notes = verified(model(training_step=training_step)())
        self.assertEqual(sum("levin writes the step and the epoch of every row itself" in note for note in notes), 2)
        self.assertEqual([output["name"] for output in graphs["training_step"].outputs if output["kind"] == "log"], [])


class Measured(Base):
    """Its metric objects are updated in a step, and logged at the end of an epoch."""

    def __init__(self):
        super().__init__()
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3)
        self.best, self.never_reset = torchmetrics.MaxMetric(), torchmetrics.MeanMetric()
        self.scores = torchmetrics.MetricCollection({"f1": torchmetrics.F1Score(task="multiclass", num_classes=3)}, prefix="val_")

    def validation_step(self, batch, batch_idx):
        scores = self.net(batch[0])
        self.accuracy(scores, batch[1])
        self.scores.update(scores, batch[1])
        self.never_reset.update(scores.mean())

    def on_validation_epoch_end(self):
        accuracy = self.accuracy.compute()
        self.best(accuracy)
        self.log("val_accuracy", accuracy, prog_bar=True)
        self.log("val_best", self.best.compute())
        self.log("never", self.never_reset.compute())
        self.log_dict(self.scores.compute())
        self.accuracy.reset()
        self.scores.reset()


class AtTheEnd(Refused):
    def logged(self, module, **options):
        graphs, notes = verified(module, **options)
        return {output["name"]: output for output in graphs["validation_step"].outputs if output["kind"] == "metric"}, notes

    def test_metric_objects(self):
        found, notes = self.logged(Measured())
        self.assertEqual(set(found), {"val_accuracy", "val_f1"})
        self.assertEqual({name: (output["metric"]["class_path"], *(output["options"][key] for key in ("on_step", "on_epoch", "prog_bar")))
                          for name, output in found.items()}, {"val_accuracy": ("Accuracy", False, True, True), "val_f1": ("F1Score", False, True, False)})
        self.assertTrue(any('"val_accuracy" is logged by validation_step' in note for note in notes), notes)
        self.assertTrue(any("self.never_reset is updated in validation_step and not logged" in note for note in notes), notes)

    def test_hooks_of_cpp(self):
        self.assertEqual(self.logged(Measured(), without=["on_validation_epoch_end"])[0], {})

    def test_hooks_that_may_end_before(self):
        def ends(self):
            if self.current_epoch % 2:
                return
            self.log("val_accuracy", self.accuracy.compute())
            self.accuracy.reset()

        self.assertEqual(self.logged(model(Measured, on_validation_epoch_end=ends)())[0], {})


def _with(base, **attributes):
    def make(self):
        base.__init__(self)
        vars(self).update(attributes)

    return make


if __name__ == "__main__":
    unittest.main()
