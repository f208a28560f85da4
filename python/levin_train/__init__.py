"""levin for Python: what belongs to Python around runs that the `levin` program trains.

    import levin_train
    levin_train.metrics("logs/version_0")               # the columns of metrics.csv
    levin_train.load("last.ckpt")                       # a checkpoint's tensors, by name
    levin_train.export(module, batch, "digits.pt2")     # a LightningModule's steps, compiled with their backward passes, for `levin fit`
    levin_train.load(module, "last.ckpt")               # and the weights that levin trained, back in the module
    levin_train.cmake_dir()                             # for find_package(levin) of your plug-in

There is no training loop here. What needs torch or pandas imports it when it is called.
"""

import importlib
from typing import TYPE_CHECKING

from levin_train.errors import ExportError, LoadError
from levin_train.installed import __version__, cmake_dir
from levin_train.run_metrics import metrics

if TYPE_CHECKING:
    from levin_train.exporting import Export as Export, export as export, export_function as export_function
    from levin_train.loading import load as load

_LATE = {"Export": "exporting", "export": "exporting", "export_function": "exporting", "load": "loading"}

__all__ = ["ExportError", "LoadError", "__version__", "cmake_dir", "metrics", *_LATE]


if not TYPE_CHECKING:  # for which any name would be there

    def __getattr__(name):
        """What needs torch, imported at its first use."""
        if name not in _LATE:
            raise AttributeError(f"module 'levin_train' has no attribute '{name}'")
        return getattr(importlib.import_module(f"levin_train.{_LATE[name]}"), name)


def __dir__():
    return sorted(__all__)
