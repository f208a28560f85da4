"""What tolist() and numpy() give of data in a step."""

from levin_train.errors import calling_line, refuse


class Values:
    """Torch makes a tensor of it again, as pack_padded_sequence() does of lengths. Any other use is an error of the line that has asked for it."""

    def __init__(self, tensor, what, advice):
        self.__dict__["_levin"] = (tensor, what, advice, calling_line())

    def _used(self, *_, **__):
        _, what, advice, line = self.__dict__["_levin"]
        refuse(what, advice, line)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self._used()

    __call__ = __iter__ = __len__ = __getitem__ = __setitem__ = __contains__ = __bool__ = __int__ = __float__ = __index__ = __array__ = _used
    __str__ = __repr__ = __format__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _used
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = _used

    def __hash__(self):
        return id(self)

    def as_tensor(self, dtype=None, device=None, **_):
        """What torch.tensor() makes of it."""
        tensor = self.__dict__["_levin"][0].detach().clone()
        return tensor.to(device=device or tensor.device, dtype=dtype or tensor.dtype)
