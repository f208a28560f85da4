"""Tests of levin_train.export() with steps as users write them: python tests/exported/export_users_code_test.py

Each is recorded and compared with the module itself (verified()), or refused with its line and what to write instead.
"""

import copy
import functools
import math
import typing
import unittest

from recorded_graphs import BATCH, Base, Refused, line_with, verified, with_step

import torch
import torch.nn.functional as F
import torchmetrics
from torch import nn

X, Y = BATCH
SWA = torch.optim.swa_utils


def conditions(graph):
    return [entry for entry in graph.outputs if entry["kind"] == "condition"]


def loss_of(self, batch):
    return F.cross_entropy(self.net(batch[0]), batch[1])


class Numbers(Refused):
    """int(), float(), and numbers given to torch."""

    def test_float_and_int(self):
        """They convert values of the batch, sizes and numbers of the run; isinstance() knows them, and annotations are left alone."""
        def scaled(loss, by: float = 1.0) -> float:
            return loss * by

        def step(self, batch, batch_idx):
            logits = self.net(batch[0])
            right = (logits.argmax(1) == batch[1]).sum()
            loss = scaled(F.cross_entropy(logits, batch[1]), float(right) + 1.0)
            self.log("accuracy", float(right) / len(batch[1]))
            self.log("of_item", right.item() / batch[1].shape[0])
            self.log("rows", float(len(batch[0])))
            self.log("known", 1.0 if isinstance(1.5, float) and isinstance(1, int) and not isinstance("1", (int, float)) else 0.0)
            hardest = F.cross_entropy(logits, batch[1], reduction="none").topk(max(1, int(0.5 * len(batch[0])))).values.mean()
            return loss + hardest * float("0.5") * int(self.global_step / 2) * int(True)

        graph = verified(with_step(step))[0]["training_step"]
        self.assertEqual(conditions(graph), [])
        self.assertEqual([entry["name"] for entry in graph.outputs if entry["kind"] == "log"], ["accuracy", "of_item", "rows", "known"])

    def test_tensors_of_sizes(self):
        def step(self, batch, batch_idx):
            rows = torch.tensor(len(batch[0])) * torch.tensor(float(len(batch[0])), dtype=torch.float64)
            both = torch.tensor([len(batch[0]), 2, 0.5 * batch[0].shape[0]])
            assert both.dtype == torch.float32 and torch.tensor(len(batch[0])).dtype == torch.int64
            return {"loss": loss_of(self, batch) / rows + both.sum(), "rows": torch.as_tensor([len(batch[0])])}

        graph = verified(with_step(step))[0]["training_step"]
        self.assertEqual([entry["shape"] for entry in graph.inputs if entry["kind"] == "batch"], [["batch", 6], ["batch"]])

    def test_reductions_of_python(self):
        def step(self, batch, batch_idx):
            for name, function in (("least", min), ("most", max), ("all", sum)):
                self.log(name, min(1.0, batch[0].mean().item()), reduce_fx=function)
            return loss_of(self, batch)

        graph = verified(with_step(step))[0]["training_step"]
        self.assertEqual([entry["options"]["reduce"] for entry in graph.outputs if entry["kind"] == "log"], ["min", "max", "sum"])

    def test_what_is_returned_besides_tensors(self):
        def step(self, batch, batch_idx):
            loss = loss_of(self, batch)
            return {"loss": loss, "preds": batch[0].numpy(), "list": batch[1].tolist(), "name": "hi", "number": loss.item(), "none": None, "kept": batch[0] * 2}

        graphs, notes = verified(with_step(step))
        self.assertEqual([entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "extra"], ["kept"])
        self.assertEqual([note.split('"')[1] for note in notes if "is no tensor" in note], ["preds", "list", "name", "number"])

    def test_a_number_chooses_a_part(self):
        def step(self, batch, batch_idx):
            rates = torch.tensor([[1.0, 0.5, 0.1], [2.0, 3.0, 4.0]])
            epoch = min(self.current_epoch, 2)
            return loss_of(self, batch) * rates[0, epoch] * rates[:, epoch].sum() * rates[batch_idx % 2][1:].sum()

        verified(with_step(step))

    def test_beyond_the_end(self):
        def step(self, batch, batch_idx):
            return loss_of(self, batch) * torch.tensor([1.0, 0.5])[self.current_epoch]  # beyond

        message = self.refused(with_step(step), "current_epoch = 8", line=line_with(__file__, "beyond"))
        self.assertIn("An index is beyond the end of a tensor", message)

    def test_functions_that_take_only_numbers_of_python(self):
        for step, wanted in ((lambda self, batch, i: self.net(batch[0].view(int(batch[1].max().item()), -1).view(8, 6)).mean(), "view() takes a number that stays"),
                             (lambda self, batch, i: self.net(batch[0].roll(i, 0)).mean(), "of batch_idx"),
                             (lambda self, batch, i: F.cross_entropy(self.net(batch[0]), batch[1], label_smoothing=min(0.1, i / 100)), "give it a fixed number"),
                             (lambda self, batch, i: self.net(F.dropout(batch[0], i / 100)).mean(), "x * (torch.rand_like(x) >= rate) / (1 - rate)")):
            with self.subTest(wanted):
                self.refused(with_step(step), wanted)

    def test_dropout_of_a_changing_rate(self):
        """As the message says."""
        def step(self, batch, batch_idx):
            rate, x = min(0.5, 0.1 + self.global_step / 1000), batch[0]
            return loss_of(self, (x * (torch.rand_like(x) >= rate) / (1 - rate), batch[1]))

        verified(with_step(step))

    def test_kept_for_later_steps(self):
        """The first step would be the one of all."""
        class Best(Base):
            def training_step(self, batch, batch_idx):
                loss = super().training_step(batch, batch_idx)
                if loss < self.best:
                    self.best = loss.item()  # best
                self.log("best", self.best)
                return loss

        module = Best()
        module.best = 1e9
        self.refused(module, "keeps a number in self.best", line=line_with(__file__, "best"))
        self.assertEqual(module.best, 1e9)

    def test_position_in_a_queue(self):
        class Queue(Base):
            def __init__(self):
                super().__init__()
                self.register_buffer("queue", torch.randn(32, 3))
                self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

            def training_step(self, batch, batch_idx):
                z, count = self.net(batch[0]), len(batch[0])
                loss = -(z @ self.queue.clone().T).logsumexp(1).mean()
                self.put(z.detach(), count)
                self.pointer[0] = (self.pointer[0] + count) % 32
                return loss

            def put(self, rows, count):
                self.queue[(self.pointer + torch.arange(count)) % 32] = rows

        class Sliced(Queue):
            def put(self, rows, count):
                begin = int(self.pointer)  # pointer
                self.queue[begin:begin + count] = rows

        verified(Queue())
        self.refused(Sliced(), "self.queue[(self.pointer + torch.arange(count)) % size]", line=line_with(__file__, "pointer"))


class Sizes(Refused):
    def test_checks_become_conditions(self):
        """Those of other kinds would end runs that Python goes on with."""
        def step(self, batch, batch_idx):
            rows, width = batch[0].shape
            assert rows <= 64 and width == 6
            if rows < 3:
                raise ValueError("too few rows")
            return loss_of(self, batch)

        graph = verified(with_step(step))[0]["training_step"]
        self.assertEqual(len(conditions(graph)), 2)
        self.assertEqual([[bool(value) for value in graph.module(*self.inputs(graph, rows))[-2:]] for rows in (64, 65, 2)],
                         [[True, True], [False, True], [True, False]])

    @staticmethod
    def inputs(graph, rows):
        given = {"parameter": graph.step.weights.parameters, "batch": {"0": torch.randn(rows, 6), "1": torch.zeros(rows, dtype=torch.long)}}
        return [given[entry["kind"]][entry["name"]].detach() for entry in graph.inputs]

    def test_ways_that_are_not_checks(self):
        def step(self, batch, batch_idx):
            rows = len(batch[0])
            if rows > 64:  # way
                rows = 64
            return loss_of(self, batch) / rows

        self.refused(with_step(step), "batches=[…]", line=line_with(__file__, "way"))

    def test_the_line_that_fixes_a_size(self):
        def step(self, batch, batch_idx):
            rows = []
            for x, y in zip(*batch):  # rows
                rows.append(F.cross_entropy(self.net(x[None]), y[None]))
            return torch.stack(rows).mean()

        module = with_step(step)
        self.refused(module, 'fixes the dimension "batch"', line=line_with(__file__, "rows"))

    def test_functions_that_torch_records_for_one_size(self):
        def step(self, batch, batch_idx):
            z = self.net(batch[0])
            alike = z @ z.T
            alike.fill_diagonal_(-1e4)
            counts = torch.bincount(batch[1], minlength=3)
            weighted = torch.bincount(batch[1], weights=batch[0][:, 0], minlength=4)
            loss = F.cross_entropy(z, batch[1], weight=len(batch[1]) / (3 * counts.clamp(min=1).float()))
            return loss + alike.logsumexp(1).mean() + torch.cov(z.T).square().sum() + torch.corrcoef(z.T)[0, 1] + z.T.cov(correction=0).trace() + weighted.sum()

        graph = verified(with_step(step))[0]["training_step"]
        self.assertEqual(len(conditions(graph)), 2)  # of the classes that are counted

    def test_classes_that_come_from_data(self):
        self.refused(with_step(lambda self, batch, _: F.mse_loss(self.net(batch[0]), F.one_hot(batch[1]).float())), "Give it num_classes")
        verified(with_step(lambda self, batch, _: F.mse_loss(self.net(batch[0]), F.one_hot(batch[1], 3).float())))


class Said(Refused):
    """What a refusal or a note says, with the line."""

    def test_batches_that_are_left_out(self):
        class Skipping(Base):
            least = 0

            def training_step(self, batch, batch_idx):
                if batch[1].sum() < self.least:  # skips
                    return None
                return loss_of(self, batch)

        line, step = line_with(__file__, "skips"), Skipping.training_step
        _, notes = verified(Skipping())
        self.assertIn(f"{line}: a batch for which this holds ends the run. Lightning leaves such a batch out: return its loss times 0 for that", notes)
        self.refused(with_step(step, least=1000), "Give export() a batch that has one", line=line)

    def test_losses_of_other_kinds(self):
        for step, wanted in ((lambda self, batch, _: (loss_of(self, batch), batch), "loss is a tuple"),
                             (lambda self, batch, _: self.net(batch[0]), "loss is a tensor of [8, 3]")):
            self.refused(with_step(step), wanted)

    def test_parameters_that_the_step_changes(self):
        def step(self, batch, batch_idx):
            for parameter in self.net.parameters():
                parameter.data.clamp_(-0.01, 0.01)  # clamps
            return loss_of(self, batch)

        self.refused(with_step(step), "the step changes the parameter net.weight", line=line_with(__file__, "clamps"))

    def test_branches_of_torch(self):
        def step(self, batch, batch_idx):
            return self.net(torch.cond(batch[0].sum() > 0, lambda x: x * 2, lambda x: x - 1, (batch[0],))).mean()  # branches

        self.refused(with_step(step), "torch.cond() cannot be exported", line=line_with(__file__, "branches"))

    def test_complex_numbers(self):
        class Phases(Base):
            def __init__(self, weight):
                super().__init__()
                self.weight = nn.Parameter(weight)

            def training_step(self, batch, batch_idx):
                weight = self.weight if self.weight.is_complex() else torch.view_as_complex(self.weight)
                return F.cross_entropy(self.net((batch[0] * weight).abs()), batch[1])

        weight = torch.randn(6, dtype=torch.complex64)
        self.refused(Phases(weight), "torch.view_as_complex() in the step")
        self.refused(Base(), "torch.view_as_complex() in the step", (X.to(torch.complex64), Y))
        verified(Phases(torch.view_as_real(weight)))

    def test_number_of_the_loader(self):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.log(["one", "two"][dataloader_idx], loss_of(self, batch))

        self.refused(with_step(Base.training_step, validation_step=validation_step), "levin adds the loader's number to it")

    def test_lists_that_nothing_reads(self):
        def step(self, batch, batch_idx):
            loss = loss_of(self, batch)
            self.kept.append(loss.detach())
            return loss

        self.assertIn("self.kept takes values that no step reads, and is left out too", verified(with_step(step))[1])


class Pair(typing.NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Logging:
    """A mixin."""

    def shared(self, batch, stage):
        loss = loss_of(self, batch)
        self.log_dict({f"{stage}/loss": loss, f"{stage}/scale": self.scale}, on_epoch=True, batch_size=batch[0].size(0))
        return loss

    @property
    def scale(self):
        return self.net.weight.abs().max().detach()


class Conditions(Refused):
    """Conditions on values, which a package keeps as they were for the example."""

    def test_buffers_that_the_step_changes(self):
        class Counting(Base):
            limit, first = 6, 0

            def __init__(self):
                super().__init__()
                self.register_buffer("n", torch.tensor(self.first))
                self.register_buffer("mean", torch.zeros(()))

            def training_step(self, batch, batch_idx):
                self.n += 1
                loss = loss_of(self, batch)
                return loss * 0.1 if self.n > self.limit else loss  # counted

        class Later(Counting):
            limit = 700

        class Past(Counting):
            first = 7

        class Averaging(Counting):
            def training_step(self, batch, batch_idx):
                loss = loss_of(self, batch)
                if self.mean > 10:  # averaged
                    loss = loss * 2
                self.mean.lerp_(loss.detach(), 0.1)
                return loss

        for module in (Counting(), Later()):
            self.refused(module, "the step decides on n, which the step changes", line=line_with(__file__, "counted"))
        self.assertIn("self.global_step", self.refused(Averaging(), "the step decides on mean,", line=line_with(__file__, "averaged")))
        verified(Past())

    def test_averaged_models(self):
        class Averaged(Base):
            def __init__(self):
                super().__init__()
                self.ema = SWA.AveragedModel(self.net, multi_avg_fn=SWA.get_ema_multi_avg_fn(0.9)).requires_grad_(False)

            def training_step(self, batch, batch_idx):
                self.ema.update_parameters(self.net)  # ema
                return loss_of(self, batch)

        module = Averaged()
        self.refused(module, "the step decides on ema.n_averaged", line=line_with(__file__, "ema"))
        module.ema.update_parameters(module.net)
        verified(module)

    def test_each_is_noted(self):
        def step(self, batch, batch_idx):
            assert (batch[1] >= 0).all()
            if batch[0].isnan().any():
                raise ValueError("nan")
            loss = -torch.distributions.Categorical(logits=self.net(batch[0])).log_prob(batch[1]).mean()
            if batch[0].mean() > 50:  # on a mean
                loss = loss * 2
            if len(batch[0]) > 1 and batch[0].max().item() < 99:  # on a number
                loss = loss * 3
            return loss

        kept = [note for note in verified(with_step(step))[1] if "this condition on values" in note]
        self.assertEqual([note.split(": ")[0] for note in kept], [line_with(__file__, "on a mean"), line_with(__file__, "on a number")])
        self.assertIn("is False for the example, and fixed so in the package: a batch for which it is True ends the run", kept[0])


class Modules(Refused):
    """Whole modules: what they give is what Python gives."""

    def test_metrics_of_a_collection(self):
        class Measured(Base):
            def __init__(self):
                super().__init__()
                metrics = torchmetrics.MetricCollection([torchmetrics.classification.MulticlassAccuracy(3), torchmetrics.classification.MulticlassF1Score(3)])
                self.train_metrics, self.val_metrics = metrics.clone(prefix="train/"), metrics.clone(prefix="val/")
                self.more = nn.ModuleDict({"val_recall": torchmetrics.classification.MulticlassRecall(3)})

            def training_step(self, batch, batch_idx):
                logits = self.net(batch[0])
                self.train_metrics.update(logits, batch[1])
                self.log_dict(self.train_metrics, on_epoch=True)
                return F.cross_entropy(logits, batch[1])

            def validation_step(self, batch, batch_idx):
                logits = self.net(batch[0])
                self.val_metrics(logits.softmax(1), batch[1])
                self.log_dict(self.val_metrics)
                self.more["val_recall"](logits, batch[1])
                self.log("val_recall", self.more["val_recall"], prog_bar=True)

        graphs, _ = verified(Measured())
        names = [dict.fromkeys(entry["name"] for entry in graphs[step].outputs if entry["kind"] == "metric") for step in graphs]
        self.assertEqual([list(each) for each in names], [["train/MulticlassAccuracy", "train/MulticlassF1Score"],
                                                          ["val/MulticlassAccuracy", "val/MulticlassF1Score", "val_recall"]])

    def test_teachers(self):
        """Averaged in the step, frozen and in evaluation, and of torch.optim.swa_utils."""
        class Teacher(Base):
            def __init__(self):
                super().__init__()
                self.normed = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).requires_grad_(False)
                self.teacher = copy.deepcopy(self.net).requires_grad_(False)
                self.averaged = SWA.AveragedModel(self.net, multi_avg_fn=SWA.get_ema_multi_avg_fn(0.9)).requires_grad_(False)
                self.averaged.update_parameters(self.net)

            @torch.no_grad()
            def update(self):
                for mean, now in zip(self.teacher.parameters(), self.net.parameters()):
                    mean.mul_(0.99).add_(now, alpha=0.01)
                self.averaged.update_parameters(self.net)

            def training_step(self, batch, batch_idx):
                self.update()
                self.normed.eval()
                with torch.inference_mode():
                    normed = self.normed(batch[0]).clone()
                target = self.teacher(batch[0]).softmax(1) + self.averaged(batch[0]).detach()
                return F.mse_loss(self.net(batch[0]), target + normed.clone())

        graph = verified(Teacher())[0]["training_step"]
        changed = {entry["name"] for entry in graph.outputs if entry["kind"] == "buffer"}
        self.assertEqual(changed, {"teacher.weight", "teacher.bias", "averaged.module.weight", "averaged.module.bias", "averaged.n_averaged"})

    def test_nested_batches(self):
        def step(self, batch, batch_idx):
            (x, (z, nothing)), pair = batch["a"], batch["b"]
            assert nothing is None and batch["none"] is None
            return F.cross_entropy(self.net(x + z + pair.x), pair.y)

        verified(with_step(step), {"a": (X, (X * 2, None)), "b": Pair(X, Y), "none": None, "meta": {"name": "s"}})

    def test_gradients_within_the_step(self):
        def step(self, batch, batch_idx):
            x = batch[0].clone().requires_grad_(True)
            loss = F.cross_entropy(self.net(x), batch[1])
            gradient, = torch.autograd.grad(loss, x, create_graph=True)
            moved = (x + 0.1 * torch.autograd.grad(loss, x, retain_graph=True)[0].sign()).detach()
            return loss + 10 * (gradient.norm(2, dim=1) - 1).square().mean() + F.cross_entropy(self.net(moved), batch[1])

        verified(with_step(step))

    def test_mixup_and_cutmix(self):
        def step(self, batch, batch_idx):
            x, y = batch
            share, order = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(x.size(0))
            logits = self.net(share * x + (1 - share) * x[order])
            loss = share * F.cross_entropy(logits, y) + (1 - share) * F.cross_entropy(logits, y[order])
            begin = torch.randint(0, 4, ())
            part = x[:, begin + torch.arange(2)]
            return loss + self.net(torch.cat([part, x[:, 2:]], 1)).square().mean()

        verified(with_step(step))

    def test_norms_and_buffers(self):
        class Kept(Base):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)))
                self.register_buffer("center", torch.zeros(3))
                self.register_buffer("steps", torch.zeros((), dtype=torch.long), persistent=False)
                self.parts = nn.ParameterList([nn.Parameter(torch.randn(6)) for _ in range(3)])
                self.scale = nn.ParameterDict({"a": torch.ones(3)})

            def training_step(self, batch, batch_idx):
                x = functools.reduce(lambda x, part: x * part.sigmoid(), self.parts, batch[0])
                logits = self.net(x) * self.scale["a"]
                self.center = 0.9 * self.center + 0.1 * logits.detach().mean(0)
                self.steps += 1
                return F.cross_entropy(logits - self.center, batch[1]) / self.steps

        graph = verified(Kept())[0]["training_step"]
        self.assertLessEqual({"center", "steps"}, {entry["name"] for entry in graph.outputs if entry["kind"] == "buffer"})

    def test_mixins_and_inherited_steps(self):
        class Parent(Logging, Base):
            def training_step(self, batch, batch_idx):
                return self.shared(batch, "train")

        class Child(Parent):
            def training_step(self, batch, batch_idx):
                return super().training_step(batch, batch_idx) * self.scale

            def validation_step(self, *args, **kwargs):
                return self.shared(args[0], "val")

        graphs, _ = verified(Child())
        self.assertEqual([entry["name"] for entry in graphs["validation_step"].outputs if entry["kind"] == "log"], ["val/loss", "val/scale"])

    def test_several_losses_and_precisions(self):
        class Several(Base):
            def __init__(self):
                super().__init__()
                self.weights, self.smooth = nn.Parameter(torch.zeros(2)), functools.partial(F.cross_entropy, label_smoothing=0.1)

            def training_step(self, batch, batch_idx):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    logits = self.net(batch[0])
                losses = {"ce": self.smooth(logits.float(), batch[1]), "l2": logits.double().pow(2).mean()}
                wave = torch.fft.rfft(logits.float()).abs().mean() + torch.complex(batch[0], batch[0]).exp().real.mean()
                self.log_dict({f"train/{name}": value for name, value in losses.items()})
                total = sum((-weight).exp() * loss + weight for weight, loss in zip(self.weights, losses.values()))
                return {"loss": total + wave * math.sqrt(2), "losses": losses}

        graph = verified(Several())[0]["training_step"]
        self.assertEqual([entry["name"] for entry in graph.outputs if entry["kind"] == "extra"], ["losses.ce", "losses.l2"])


if __name__ == "__main__":
    unittest.main()
