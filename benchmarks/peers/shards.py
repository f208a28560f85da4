"""What shards.cpp measures, with webdataset and torch's DataLoader. Usage: shards.py FOLDER WORKERS | shards.py FOLDER, which makes the files"""
import io
import json
import pathlib
import sys
import tarfile
import time

SHARDS, SAMPLES = 10, 2000


def make(folder):
    import numpy

    random = numpy.random.default_rng(1)
    folder.mkdir(parents=True)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:02}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for sample in range(SAMPLES):
                for name, content in (("bin", random.standard_normal(256).astype("<f4").tobytes()), ("cls", str(sample % 10).encode())):
                    entry = tarfile.TarInfo(f"{shard:02}{sample:04}.{name}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) < 3:
        make(folder)
        sys.exit()
    import torch
    import webdataset
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    files = sorted(map(str, folder.glob("*.tar")))
    data = webdataset.WebDataset(files, shardshuffle=len(files)).shuffle(1000).to_tuple("bin", "cls")
    data = data.map_tuple(lambda content: torch.frombuffer(bytearray(content), dtype=torch.float32), int).batched(32)
    workers = int(sys.argv[2])
    loader = DataLoader(data, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(2):
        started = time.perf_counter()
        samples = sum(len(features) for features, _ in loader)
        assert samples == SHARDS * SAMPLES
        if epoch > 0:
            print(json.dumps({"value": time.perf_counter() - started}), flush=True)
