#!/usr/bin/env python3
"""Writes lightning_names.json: Lightning's callbacks, and the flags of its Trainer. docs/from-lightning.md answers each of them.

    python3 -m pip install lightning==2.6.6 && python3 make_lightning_names.py
"""
import inspect
import json
import pathlib

import lightning.pytorch as pl

flags = [name for name in inspect.signature(pl.Trainer.__init__).parameters if name != "self"]
names = {"version": pl.__version__, "callbacks": sorted(pl.callbacks.__all__), "flags": flags}
pathlib.Path(__file__).with_name("lightning_names.json").write_text(json.dumps(names, indent=1) + "\n")
