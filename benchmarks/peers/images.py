"""What images.cpp measures, with torchvision and torch's DataLoader. Usage: images.py FOLDER WORKERS | images.py FOLDER, which makes the files"""
import json
import pathlib
import sys
import time

IMAGES = 512


def make(folder):
    """Smooth colors with noise, as photographs compress: 55 kB each."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(1)
    for index in range(IMAGES):
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=numpy.uint8)).resize((500, 375), Image.BICUBIC)
        pixels = numpy.asarray(coarse).astype(numpy.int16) + random.integers(-14, 15, (375, 500, 3), dtype=numpy.int16)
        file = folder / str(index % 4) / f"{index:03}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(file, quality=85)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) < 3:
        make(folder)
        sys.exit()
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    data = datasets.ImageFolder(folder, transforms.Compose(steps))
    workers = int(sys.argv[2])
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    for epoch in range(2):
        started = time.perf_counter()
        images = sum(len(batch) for batch, _ in loader)
        assert images == IMAGES
        if epoch > 0:
            print(json.dumps({"value": time.perf_counter() - started}), flush=True)
