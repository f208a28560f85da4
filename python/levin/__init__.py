"""Brings a model that Python defines to levin: its steps, compiled with their backward passes, in one file.

    import levin
    levin.export(module, batch, "digits.pt2")

`levin fit --config digits.yaml` trains it, and `levin.load(module, "last.ckpt")` brings the weights back. It needs torch alone.
"""

from levin.errors import ExportError, LoadError
from levin.exporting import Export, export, export_function
from levin.loading import load

__all__ = ["Export", "ExportError", "LoadError", "export", "export_function", "load"]
