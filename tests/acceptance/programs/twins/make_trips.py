#!/usr/bin/env python3
"""Writes trips/: train.parquet and test.parquet, trips in groups of 50 rows, and signals.h5, the speed during each. Needs pandas, pyarrow
and h5py."""

import pathlib

import h5py
import numpy as np
import pandas as pd

if __name__ == "__main__":
    random, trips = np.random.default_rng(5), 500
    folder = pathlib.Path(__file__).parent / "trips"
    folder.mkdir(exist_ok=True)
    frame = pd.DataFrame({"trip": np.arange(trips), "distance": random.uniform(1, 20, trips).round(1)})
    frame["city"] = random.choice(["Bonn", "Oslo", "Rome"], trips)
    stops = random.integers(0, 12, trips)
    speed = random.normal(30, 3, (trips, 32))
    for trip, count in enumerate(stops):
        speed[trip, random.choice(32, count, replace=False)] = 0
    frame["late"] = (stops + frame.distance / 4 + 3 * (frame.city == "Rome") > 9).astype(int)
    frame[:400].to_parquet(folder / "train.parquet", index=False, row_group_size=50)
    frame[400:].to_parquet(folder / "test.parquet", index=False, row_group_size=50)
    with h5py.File(folder / "signals.h5", "w") as file:
        file.create_dataset("speed", data=speed.round().astype(np.int8))
