"""What loader.cpp measures, with torch's DataLoader. Usage: loader.py WORKERS"""
import json
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 1_000_000

if __name__ == "__main__":
    torch.set_num_threads(1)
    data = TensorDataset(torch.rand(SAMPLES, 16), torch.randint(10, (SAMPLES,)))
    loader = DataLoader(data, batch_size=256, shuffle=True, num_workers=int(sys.argv[1]))
    started = time.perf_counter()
    rows = sum(len(features) for features, _ in loader)
    assert rows == SAMPLES
    print(json.dumps({"value": time.perf_counter() - started}), flush=True)
