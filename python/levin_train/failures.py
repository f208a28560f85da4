"""Steps that fail in Python: what is said of them, before anything is compiled."""

import re

from levin_train.errors import ExportError, StepFailure, raising_line

_KNOWN = (
    (r"Target (-?\d+) is out of bounds", "The target has the class {0}, and the model has fewer classes: they are counted from 0"),
    (r"expected scalar type Long but found (\w+)|expected .*Long.* but (?:got|found) .*?(Float|Int|Double)",
     "The target of this loss is a class: give it as torch.int64, with .long() in the dataset"),
    (r"0D or 1D target tensor expected, multi-target not supported|1D target tensor expected",
     "The target of this loss has one class for each sample, of the shape [batch]: take off its other dimension, with .squeeze(1)"),
    (r"Found dtype (\w+) but expected (\w+)|result type (\w+) can't be cast", "The target has another type than the output: .float() in the dataset"),
    (r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)",
     "The outputs are {0} and the targets {1}: something of the batch has not the size of the others"),
    (r"index out of range in self", "An index is beyond the table of an embedding"),
    (r"index (?:\d+ )?is out of bounds for (?:a )?dimension", "An index is beyond the end of a tensor"),
    (r"not (?:a )?(?:Number|Unknown)\b|must be \w+(?: or \w+)?, not Number",
     "A number of the run, such as self.global_step, is a tensor here: compute with it, torch.ones(…) * number"),
)


def refuse_failure(step, error, tensors, numbers):
    """Raises ExportError for an exception that came out of a step. `numbers`: of the run, where they are others than in the first step."""
    text = f"{type(error).__name__}: {error}"
    advice = next((advice.format(*(group or "" for group in found.groups())) for pattern, advice in _KNOWN if (found := re.search(pattern, str(error)))),
                  "A package gives a step its batch and the numbers of the run")
    where = raising_line(error) or step.where
    if branching := re.search(r"HigherOrderOperator (\w+) and mode", text):
        raise ExportError(f"{where}: torch.{branching[1]}() cannot be exported. Compute both ways, and take one with torch.where.") from error
    sizes, own = step.layout.sizes(tensors), step.layout.sizes()
    if sizes != own and not step.layout.is_compared:  # the example itself has run before
        raise ExportError(f"{where + ': ' if where else ''}{step.name} takes this batch, and fails on one of the sizes {sizes} instead of {own} that "
                          f"levin makes of it ({text.rstrip('.')}). Give several batches of your loader, which are taken as they are: "
                          "levin_train.export(module, batches=[…], path=…).") from error
    at = f" in the step with {', '.join(f'{name} = {value}' for name, value in numbers.items())}" if numbers else ""
    raise StepFailure(f"{where + ': ' if where else ''}{step.name} fails in Python on a batch like the example"
                      f"{f' with the sizes {sizes}' if sizes else ''}{at}: {text.rstrip('.')}. {advice}.") from error
