"""Tests of the gradients that levin_train.export() records, also through checkpoint(), and of the comparison with the module itself.

    python tests/exported/export_gradients_test.py

Nothing is compiled here: export_packages_test.py does that.
"""

import unittest
import unittest.mock

from recorded_graphs import Base, Refused, line_with, verified, with_step  # also makes levin known

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from levin_train import checkpointing, reference, steps


class Deep(Base):
    """Layers with dropout and a normalization, so that drawing and updating twice would show."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
        self.second = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.3))
        self.last = nn.Linear(8, 3)


class Checkpointing(Refused):
    def model(self, forward):
        def step(self, batch, batch_idx):
            return F.cross_entropy(forward(self, batch[0]), batch[1])

        return with_step(step, Deep)

    def test_both_kinds(self):
        for reentrant in (True, False):
            def forward(self, x, reentrant=reentrant):
                hidden = checkpoint(self.first, x.requires_grad_(), use_reentrant=reentrant)
                return self.last(checkpoint(self.second, hidden, use_reentrant=reentrant))

            with self.subTest(reentrant=reentrant):
                graphs, _ = verified(self.model(forward))
                names = [entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "gradient"]
                self.assertEqual(names, ["first.0.weight", "first.0.bias", "first.1.weight", "first.1.bias", "second.0.weight", "second.0.bias",
                                         "last.weight", "last.bias"])

    def test_random_numbers_are_drawn_once(self):
        def forward(self, x):
            return self.last(checkpoint(self.first, x, use_reentrant=False))

        graph = verified(self.model(forward))[0]["training_step"]
        drawn = [node for node in graph.module.graph.nodes if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())]
        self.assertEqual(len(drawn), 1)

    def test_reentrant_without_an_input_that_requires_a_gradient(self):
        """As in PyTorch, the function's weights then get none."""
        def forward(self, x):
            return self.last(checkpoint(self.first, x, use_reentrant=True))

        graphs, _ = verified(self.model(forward))
        self.assertEqual([entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "gradient"], ["last.weight", "last.bias"])

    def test_sequential_and_keywords(self):
        def forward(self, x):
            hidden = checkpoint_sequential(nn.Sequential(*self.first, *self.second), 2, x, use_reentrant=False)
            return checkpoint(lambda value, scale: self.last(value) * scale, hidden, scale=2.0, use_reentrant=False)

        verified(self.model(forward))

    def test_conditions_inside(self):
        def forward(self, x):
            def inner(value):
                return value * 2 if value.sum() > -1e9 else value

            return self.last(self.first(checkpoint(inner, x.requires_grad_(), use_reentrant=True)))

        graphs, _ = verified(self.model(forward))
        self.assertEqual(len([entry for entry in graphs["training_step"].outputs if entry["kind"] == "condition"]), 1)

    def test_other_random_numbers_in_the_backward_pass(self):
        def forward(self, x):
            return self.last(checkpoint(self.first, x, use_reentrant=False, preserve_rng_state=False))  # other numbers

        self.refused(self.model(forward), "Leave out preserve_rng_state=False", line=line_with(__file__, "other numbers"))

    def test_torch_is_as_before(self):
        before = torch.utils.checkpoint.CheckpointFunction
        with self.assertRaises(KeyError), checkpointing.run_through(None):
            self.assertIsNot(torch.utils.checkpoint.CheckpointFunction, before)
            raise KeyError
        self.assertIs(torch.utils.checkpoint.CheckpointFunction, before)


class Gradients(Refused):
    """What a parameter's .grad is in a step: in Lightning that of the step before."""

    def test_they_are_not_read(self):
        def norm(self, batch, batch_idx):
            norms = [each.grad.norm() for each in self.net.parameters() if each.grad is not None]  # of the step before
            return Base.training_step(self, batch, batch_idx) * (1 + sum(norms))

        def clipped(self, batch, batch_idx):
            torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)  # clipped
            return Base.training_step(self, batch, batch_idx)

        def kept(self, batch, batch_idx):
            return Base.training_step(self, batch, batch_idx) if self.layers[0].weight.grad is None else None  # of a layer that is kept

        self.assertIn("torch.autograd.grad", self.refused(with_step(norm), "the step reads the gradient of net.weight", line=line_with(__file__, "of the step before")))
        self.refused(with_step(clipped), "the step reads the gradient of net.weight", line=line_with(__file__, "clipped"))
        module = with_step(kept)
        module.layers = [module.net]
        self.refused(module, "the step reads the gradient of net.weight", line=line_with(__file__, "of a layer that is kept"))

    def test_they_may_be_set_to_none(self):
        def step(self, batch, batch_idx):
            self.zero_grad()
            for parameter in self.parameters():
                parameter.grad = None
            x = batch[0].clone().requires_grad_(True)
            assert x.grad is None
            return Base.training_step(self, (x, batch[1]), batch_idx)

        verified(with_step(step))


class InnerBackward(torch.autograd.Function):
    """A checkpoint of the user's own, whose backward pass calls backward()."""

    @staticmethod
    def forward(ctx, function, x):
        ctx.function = function
        ctx.save_for_backward(x)
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            result = ctx.function(x)
        torch.autograd.backward(result, gradient)
        return None, x.grad


class Verification(Refused):
    """The reference is the module's own step and loss.backward(): what the recording has wrong shows."""

    def step(self, batch, batch_idx):
        hidden = InnerBackward.apply(self.first[0], batch[0].requires_grad_())
        return F.cross_entropy(self.last(hidden), batch[1])

    def test_function_with_an_inner_backward(self):
        graphs, _ = verified(with_step(Verification.step, Deep))
        names = [entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "gradient"]
        self.assertEqual(names, ["first.0.weight", "first.0.bias", "last.weight", "last.bias"])

    def test_a_gradient_that_the_recording_loses(self):
        """With autograd.grad(), as exports were recorded once, the inner backward() reaches none of the weights."""
        def recorded_gradients(self, loss, parameters):
            names = [name for name, parameter in parameters.items() if parameter.requires_grad]
            found = torch.autograd.grad(loss, [parameters[name] for name in names], allow_unused=True) if self.training else []
            return {name: gradient for name, gradient in zip(names, found) if gradient is not None}

        with unittest.mock.patch.object(steps.Step, "_gradients_of", recorded_gradients):
            message = self.refused(with_step(Verification.step, Deep), "gets none from the compiled step and one by backward()")
        self.assertRegex(message, r"first\.0\.(weight|bias) gets none")

    def test_each_wrong_output_is_found(self):
        def step(self, batch, batch_idx):
            self.rate += 1
            loss = Base.training_step(self, batch, batch_idx)
            self.log("seen", loss * 3)
            return {"loss": loss, "scores": self.net(batch[0])}

        real = reference.outcome
        for key in (("loss", None), ("log", "seen"), ("extra", "scores"), ("buffer", "rate"), ("gradient", "net.weight")):
            def wrong(*arguments, key=key):
                found = real(*arguments)
                return {**found, key: found[key] + 0.1}

            with self.subTest(key), unittest.mock.patch("levin_train.reference.outcome", wrong):
                self.refused(with_step(step), f"{key[0]} {key[1] or ''}".strip() + " of the compiled step differs")

    def test_what_the_package_lacks_is_found(self):
        real = reference.outcome
        for key in (("log", "more"), ("gradient", "rate"), ("buffer", "other")):
            with self.subTest(key), unittest.mock.patch("levin_train.reference.outcome", lambda *given, key=key: {**real(*given), key: torch.ones(())}):
                self.refused(Base(), key[1])

    def test_a_buffer_that_the_recording_misses(self):
        def step(self, batch, batch_idx):
            return Base.training_step(self, batch, batch_idx)

        def seen(*arguments):
            found = real(*arguments)
            return {**found, ("buffer", "rate"): found["buffer", "rate"] + 1}

        real = reference.outcome
        with unittest.mock.patch("levin_train.reference.outcome", seen):
            self.refused(with_step(step), "buffer rate of the compiled step differs")


if __name__ == "__main__":
    unittest.main()
