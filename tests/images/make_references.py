#!/usr/bin/env python3
"""Writes references.safetensors: small images, and what torchvision 0.28 makes of them. Run it with a Python that has torch,
torchvision and safetensors. The file's metadata has the cases, [function, image, arguments], whose results are the tensors "0",
"1", …; lists of numbers that torchvision computes; and the instructions of this CPU, with which some results round otherwise."""
import json
import pathlib

import torch
from safetensors.torch import save_file
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.functional import _compute_resized_output_size
from torchvision.transforms.v2 import functional as F

GENERATOR = torch.Generator().manual_seed(20)


def noise(*shape, low=0, high=256):
    """Numbers that go up and down over rows and columns, so that neighbours are alike, as in photographs."""
    waves = torch.rand(shape[:-2] + (3, 3), generator=GENERATOR)
    smooth = F.resize(waves, list(shape[-2:]), antialias=True)
    mixed = 0.7 * smooth + 0.3 * torch.rand(shape, generator=GENERATOR)
    least, most = mixed.amin(), mixed.amax()
    return (low + (mixed - least) / (most - least) * (high - 1 - low)).to(torch.uint8)


def floats(image, dtype=torch.float32):
    return (image.to(torch.float64) / 255 + torch.rand(image.shape, generator=GENERATOR, dtype=torch.float64) / 256).clamp(0, 1).to(dtype)


IMAGES = {
    "rgb": noise(3, 11, 9),
    "gray": noise(1, 9, 12),
    "square": noise(3, 8, 8),
    "batch": noise(2, 3, 7, 6),
    "clips": noise(2, 2, 3, 5, 4),
    "thin": noise(3, 6, 1),
    "dull": noise(3, 19, 23, low=60, high=150),
    "wide": noise(1, 27, 31),
    "flat": torch.full((3, 16, 17), 77, dtype=torch.uint8),
    "rgb float": floats(noise(3, 7, 10)),
    "gray float": floats(noise(1, 10, 7)),
    "dull float": floats(noise(1, 18, 17, low=60, high=150)),
    "rgb double": floats(noise(3, 5, 6), torch.float64),
}
# Grey pixels, and pixels of pure colours, among others.
IMAGES["rgb"][:, 0, :3] = 0
IMAGES["rgb"][:, 0, 3:5] = 255
IMAGES["rgb"][:, 1, 0], IMAGES["rgb"][:, 1, 1], IMAGES["rgb"][:, 1, 2] = torch.tensor([[255, 0, 0], [0, 255, 0], [0, 0, 255]])
IMAGES["rgb"][:, 1, 3] = torch.tensor([200, 200, 10])
COLOR = ["rgb", "clips", "gray", "batch", "rgb float", "gray float", "rgb double"]
FEW = ["rgb", "gray", "rgb float"]
CASES, RESULTS = [], {}


def case(function, image, result, **arguments):
    RESULTS[str(len(CASES))] = result.contiguous().clone()
    CASES.append([function, image, arguments])


def cases(function, names, compute, **arguments):
    for name in names:
        case(function, name, compute(IMAGES[name]), **arguments)


def geometry():
    for mode in ("nearest", "bilinear", "bicubic"):
        interpolation = InterpolationMode(mode)
        for size in ([5, 4], [6, 12], [13, 3], [18, 15]):
            names = FEW if size != [18, 15] else ["gray"]
            cases("resize", names, lambda image: F.resize(image, size, interpolation), size=size, interpolation=mode)
        cases("resize", ["batch", "clips", "thin", "rgb double"], lambda image: F.resize(image, [4, 3], interpolation), size=[4, 3], interpolation=mode)
        cases("resize", ["dull"], lambda image: F.resize(image, [7, 6], interpolation), size=[7, 6], interpolation=mode)
    cases("resize", ["rgb"], lambda image: F.resize(image, [11, 9]), size=[11, 9], interpolation="bilinear")
    cases("crop", FEW + ["batch"], lambda image: F.crop(image, 2, 1, 4, 5), top=2, left=1, size=[4, 5])
    for size in ([4, 4], [5, 6], [12, 5], [6, 14], [15, 17]):
        cases("center_crop", ["rgb", "gray float", "batch"], lambda image: F.center_crop(image, size), size=size)
    for padding, fill in (([1, 2, 3, 0], 0), ([2, 2, 2, 2], 9), ([0, 0, 0, 1], 255)):
        cases("pad", ["rgb", "batch"], lambda image: F.pad(image, padding, fill=fill), padding=padding, fill=fill)
    cases("pad", ["rgb float"], lambda image: F.pad(image, [1, 0, 2, 3], fill=0.25), padding=[1, 0, 2, 3], fill=0.25)
    for flip in ("horizontal_flip", "vertical_flip"):
        cases(flip, ["rgb", "batch", "gray float"], getattr(F, flip))


def motions():
    rotations = [(0, 0), (15, 0), (-37.5, 120), (90, 0), (180, 7), (270, 9), (-90, 3), (405, 128), (123.4, 255)]
    for mode in ("nearest", "bilinear"):
        interpolation = InterpolationMode(mode)
        for degrees, fill in rotations:
            names = ["rgb", "square"] if mode == "nearest" or abs(degrees) % 90 else ["gray"]
            cases("rotate", names, lambda image: F.rotate(image, degrees, interpolation, fill=fill), degrees=degrees,
                  interpolation=mode, fill=fill)
        for name, degrees, fill in (("rgb float", 30, 0.5), ("gray float", -200, 0), ("rgb double", 77, 0.25), ("clips", 12, 0), ("thin", 60, 40), ("batch", 12, 0), ("batch", 50, 33)):
            cases("rotate", [name], lambda image: F.rotate(image, degrees, interpolation, fill=fill), degrees=degrees,
                  interpolation=mode, fill=fill)
        moves = [(0, [2, -1], 1, [0, 0], 0), (0, [0, 0], 1.7, [0, 0], 50), (0, [0, 0], 0.6, [0, 0], 200), (0, [0, 0], 1, [20, 0], 0),
                 (0, [0, 0], 1, [0, -15], 90), (33, [1.5, 0.25], 1.25, [10, -7], 0), (-160, [-3, 2], 0.8, [-12, 25], 31)]
        for degrees, translate, scale, shear, fill in moves:
            for name in ["rgb", "batch" if fill else "gray", "gray float"]:
                value = fill / 256 if "float" in name else fill
                arguments = {"degrees": degrees, "translate": translate, "scale": scale, "shear": shear}
                result = F.affine(IMAGES[name], degrees, translate, scale, shear, interpolation, fill=value)
                case("affine", name, result, **arguments, interpolation=mode, fill=value)


def colors():
    for function in ("adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_sharpness"):
        for factor in (0, 0.35, 1, 1.9):
            names = COLOR + ["thin"] if factor in (0.35, 1.9) else ["rgb"]
            cases(function, names, lambda image: getattr(F, function)(image, factor), factor=factor)
    for shift in (-0.5, -0.31, -0.05, 0, 0.02, 0.2, 0.5):
        names = COLOR + ["flat"] if shift == 0.2 else ["rgb", "dull", "rgb float"] if shift == -0.31 else ["rgb"]
        cases("adjust_hue", names, lambda image: F.adjust_hue(image, shift), shift=shift)
    for channels in (1, 3):
        cases("grayscale", COLOR, lambda image: F.rgb_to_grayscale(image, channels), channels=channels)
    cases("invert", COLOR, F.invert)
    for bits in range(9):
        cases("posterize", FEW if bits in (0, 3, 8) else ["rgb"], lambda image: F.posterize(image, bits), bits=bits)
    for threshold in (0, 100, 127.5, 255):
        cases("solarize", ["rgb", "batch"], lambda image: F.solarize(image, threshold), threshold=threshold)
    for threshold in (0.4, 1):
        cases("solarize", ["rgb float"], lambda image: F.solarize(image, threshold), threshold=threshold)
    cases("autocontrast", COLOR + ["dull", "flat", "thin", "dull float"], F.autocontrast)
    cases("equalize", COLOR + ["wide", "dull", "flat", "dull float"], F.equalize)


def filters_and_types():
    for height, width, down, across in ((3, 3, 0.8, 0.8), (5, 3, 1.5, 0.4), (1, 7, 1, 2.5), (5, 5, 30, 0.05)):
        cases("gaussian_blur", FEW + ["batch", "clips", "rgb double"], lambda image: F.gaussian_blur(image, [width, height], [across, down]),
              kernel=[height, width], sigma=[down, across])
    for name, value in (("rgb", 0), ("batch", 200), ("rgb float", 0.5)):
        result = F.erase(IMAGES[name], 1, 2, 4, 3, torch.tensor(value))
        case("erase", name, result, top=1, left=2, size=[4, 3], value=value)
    cases("to_float", ["rgb", "gray", "rgb float", "rgb double"], lambda image: F.to_dtype(
        image, image.dtype if image.is_floating_point() else torch.float32, scale=True))
    mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    cases("normalize", ["rgb float", "rgb double"], lambda image: F.normalize(image, mean, deviation), mean=mean, deviation=deviation)
    cases("normalize", ["gray float"], lambda image: F.normalize(image, [0.5], [0.25]), mean=[0.5], deviation=[0.25])


def augmentations():
    for name, (magnitudes, signed) in v2.RandAugment._AUGMENTATION_SPACE.items():
        for names, bins, strength, mode, fill in ((["rgb", "dull"], 31, 9, "nearest", 0), (["rgb", "gray"], 11, 9, "nearest", 128),
                                                   (["square", "rgb float"], 31, 30, "bilinear", 1)):
            transform = v2.RandAugment(magnitude=strength, num_magnitude_bins=bins, interpolation=InterpolationMode(mode), fill=fill)
            for image in names:
                found = magnitudes(bins, *IMAGES[image].shape[-2:])
                magnitude = 0.0 if found is None else float(found[strength])
                for sign in (1, -1) if signed else (1,):
                    result = transform._apply_image_or_video_transform(IMAGES[image], name, sign * magnitude, transform.interpolation, transform._fill)
                    case("augment", image, result, operation=name, magnitude=sign * magnitude, interpolation=mode, fill=fill)


def numbers():
    """[name, bins, size, magnitudes], and [size, shorter side, new size]."""
    magnitudes = []
    for name, (compute, _) in v2.RandAugment._AUGMENTATION_SPACE.items():
        for bins, size in ((2, [7, 9]), (25, [32, 48]), (31, [224, 200])):
            found = compute(bins, *size)
            magnitudes.append([name, bins, size, [0.0] * bins if found is None else [float(value) for value in found]])
    sizes = [([480, 640], 256), ([640, 480], 224), ([333, 500], 256), ([7, 7], 3), ([1, 99], 2), ([375, 500], 232), ([1000, 3], 1)]
    return magnitudes, [[size, shorter, _compute_resized_output_size(size, [shorter])] for size, shorter in sizes]


geometry()
motions()
colors()
filters_and_types()
augmentations()
magnitudes, sizes = numbers()
metadata = {"cases": CASES, "magnitudes": magnitudes, "sizes": sizes, "cpu": torch.backends.cpu.get_cpu_capability()}
path = pathlib.Path(__file__).with_name("references.safetensors")
save_file({**{f"image {name}": image for name, image in IMAGES.items()}, **RESULTS}, path,
          {name: json.dumps(value, separators=(",", ":")) for name, value in metadata.items()})
print(f"{path}: {len(CASES)} cases, {path.stat().st_size} bytes")
