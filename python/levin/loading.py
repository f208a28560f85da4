"""levin.load(): weights that levin has trained, in the Python module."""

from levin import safetensors


def load(module, path, strict=True):
    """Loads the weights of a levin checkpoint or safetensors file into a module, and gives the module."""
    tensors, _ = safetensors.from_file(path)
    prefix = "state_dict."
    weights = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)} or tensors
    module.load_state_dict(weights, strict=strict)
    return module
