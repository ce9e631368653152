# SPDX-License-Identifier: MIT
"""A torch that computes nothing, as far as bench/gpu/baselines.py uses torch: every value is Anything."""

import ctypes
import os
import types

__version__ = "that pretends"
fake_us = ctypes.CDLL(os.environ["FAKE_ROWS"]).fake_us
fake_us.argtypes, fake_us.restype = [ctypes.c_double], ctypes.c_double


class Anything:
    shape = (2, 3)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **more):
        return self

    def __iter__(self):
        return iter([self, self, self])

    def numel(self):
        return 6

    def split(self, sizes, dim=0):
        return [self] * (len(sizes) if isinstance(sizes, list) else 2)

    def topk(self, k):
        return self, self

    def _same(self, *others):
        return self

    __getitem__ = __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = __rfloordiv__ = _same

    def __setattr__(self, name, value):
        pass


anything = Anything()


class Zeros(Anything):
    """Integers in memory, [rows, 2]."""

    def __init__(self, rows):
        object.__setattr__(self, "numbers", (ctypes.c_int64 * (2 * rows))())

    def data_ptr(self):
        return ctypes.addressof(self.numbers)

    def tolist(self):
        return [self.numbers[i : i + 2] for i in range(0, len(self.numbers), 2)]


class Event:
    def __init__(self, timing):
        assert timing

    def record(self):
        self.at = fake_us(0)

    def elapsed_time(self, end):
        return (end.at - self.at) / 1000


class Stream:
    cuda_stream = 17


class CUDAGraph:
    def replay(self):
        fake_us(100)


class Capture:
    def __init__(self, graph, stream, capture_error_mode):
        assert isinstance(stream, Stream) and capture_error_mode == "thread_local"

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


def _nothing(*args, **more):
    return anything


rand = ones = arange = compile = softmax = bmm = empty_like = _grouped_mm = _nothing
bfloat16 = int32 = int64 = None
use_deterministic_algorithms = _nothing


def zeros(*shape, dtype, device):
    return Zeros(shape[0]) if len(shape) == 2 else anything


cuda = types.SimpleNamespace(
    Event=Event,
    Stream=Stream,
    CUDAGraph=CUDAGraph,
    graph=Capture,
    set_stream=_nothing,
    current_stream=Stream,
    synchronize=_nothing,
    empty_cache=_nothing,
    get_device_name=lambda: "no GPU",
    _sleep=_nothing,
)
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 0))
autograd = types.SimpleNamespace(backward=_nothing)
