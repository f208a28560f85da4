"""What exports remember from one to the next, in the folder of Inductor's cache."""

import os

from torch._inductor.runtime.cache_dir_utils import cache_dir


def path_of(name):
    return os.path.join(cache_dir(), name)


def write(path, text):
    """Writes a file as a whole, as another export may read it at the same time."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)
