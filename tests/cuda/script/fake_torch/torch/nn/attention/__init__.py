# SPDX-License-Identifier: MIT
import contextlib
from types import SimpleNamespace

SDPBackend = SimpleNamespace(CUDNN_ATTENTION=1, FLASH_ATTENTION=2)


def sdpa_kernel(backend):
    if backend == 2:
        raise RuntimeError("no such kernel here\nand why")
    return contextlib.nullcontext()
