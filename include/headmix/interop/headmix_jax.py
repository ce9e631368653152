# SPDX-License-Identifier: MIT
"""Layers of headmix as functions of JAX: libraries built with interop/jax.hpp or jax.cuh, and HEADMIX_JAX_LAYER."""
import ctypes
import json
import os

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Layer"]

# XLA's numbers of types (PrimitiveType).
_TYPES = {"float32": 11, "float64": 12, "bfloat16": 16}


class Layer:
    """The layer `name` of a library: a function of arrays with gradients, for jit, grad, vmap and scan.

    layer = Layer("./libmine.so", "moh")
    parameters = layer.init(seed=0)                    # a dict: name -> array
    y, losses = layer(parameters, x)                   # x [sequences, tokens, D] or [tokens, D]; losses: name -> number
    """

    def __init__(self, library, name):
        self.name, self._library = name, ctypes.CDLL(os.path.abspath(library))
        described = self._function("description", ctypes.c_char_p)()
        for key, value in json.loads(described).items():
            setattr(self, key, value)  # parameters, shapes, losses, context, draws, width, platform
        for part in ("forward", "backward"):
            handler = jax.ffi.pycapsule(getattr(self._library, f"{name}_{part}"))
            jax.ffi.register_ffi_target(f"{name}_{part}", handler, platform=self.platform)
        self._call = jax.custom_vjp(self._primal)
        self._call.defvjp(self._forward, self._backward)

    def init(self, seed=0, dtype=jnp.float32):
        """The initial parameters of a headmix::Module of this seed."""
        if any(None in shape for shape in self.shapes):
            raise ValueError(f"{self.name}: the layer has dynamic sizes; initialise parameters of your own, of "
                             f"{dict(zip(self.parameters, self.shapes))}")
        arrays = [np.empty(shape, dtype) for shape in self.shapes]
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        self._check("initialize", ctypes.c_int(_type(arrays[0].dtype)), ctypes.c_uint64(seed), pointers)
        return {name: jnp.asarray(a) for name, a in zip(self.parameters, arrays)}

    def __call__(self, parameters, x, *, context=None, offsets=None, context_offsets=None, key=None):
        """y and the losses by name.

        context: the second input of cross-attention. offsets, context_offsets: int32 [sequences + 1], the sequences of
        rows [tokens, D]. key: of jax.random, for noise and dropout; without one there are none.
        """
        missing, unknown = set(self.parameters) - set(parameters), set(parameters) - set(self.parameters)
        if missing or unknown:
            raise ValueError(f"{self.name}: expected the parameters {', '.join(self.parameters)}, found "
                             f"{', '.join(sorted(parameters))}")
        if self.context != (context is not None):
            raise ValueError(f"{self.name}: context: expected {'an array' if self.context else 'none'}, found "
                             f"{'none' if context is None else 'an array'}")
        if key is not None:
            key = jax.random.key_data(key).ravel() if self.draws else None
        y, losses = self._call(x, tuple(parameters[name] for name in self.parameters), context, offsets,
                               context_offsets, key)
        return y, dict(zip(self.losses, losses))

    def _function(self, part, result):
        f = getattr(self._library, f"{self.name}_{part}")
        f.restype = result
        return f

    def _check(self, part, *arguments):
        error = self._function(part, ctypes.c_char_p)(*arguments)
        if error is not None:
            raise ValueError(error.decode())

    def _workspace(self, x, operands, bits):
        """Bytes that the forward pass keeps for the backward pass, and that each of them needs for itself."""
        extents = [n for a in operands for n in (a.ndim, *a.shape)]
        found = (ctypes.c_int64 * 2)()
        self._check("workspace", ctypes.c_int(_type(x.dtype)), (ctypes.c_int64 * len(extents))(*extents),
                    ctypes.c_int64(bits), found)
        return tuple(jax.ShapeDtypeStruct((n,), jnp.uint8) for n in found)

    def _primal(self, *inputs):
        return self._forward(*inputs)[0]

    def _forward(self, x, parameters, context, offsets, context_offsets, key):
        further = (context, offsets, context_offsets, key)
        bits = sum(1 << i for i, a in enumerate(further) if a is not None)
        operands = (x, *parameters, *(a for a in further if a is not None))
        for name, a in zip(("x", *self.parameters, "context"), operands[:1 + len(parameters) + (context is not None)]):
            if a.dtype != x.dtype:
                raise ValueError(f"{self.name}: {name}: expected {x.dtype} as x, found {a.dtype}")
        number = jnp.promote_types(x.dtype, jnp.float32)
        results = (jax.ShapeDtypeStruct((*x.shape[:-1], self.width or x.shape[-1]), x.dtype),
                   *(jax.ShapeDtypeStruct((), number) for _ in self.losses),
                   *self._workspace(x, operands, bits))
        call = jax.ffi.ffi_call(f"{self.name}_forward", results, vmap_method="sequential")
        y, *losses, kept, _ = call(*operands, operands=np.int64(bits))
        return (y, tuple(losses)), (kept, x, parameters, further)

    def _backward(self, saved, gradients):
        kept, x, parameters, further = saved
        dy, losses = gradients
        bits = sum(1 << i for i, a in enumerate(further) if a is not None)
        given = tuple(a for a in further if a is not None)
        inputs = (x, *parameters) + ((further[0],) if further[0] is not None else ())
        results = (self._workspace(x, (x, *parameters, *given), bits)[1],
                   *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in inputs))
        call = jax.ffi.ffi_call(f"{self.name}_backward", results, vmap_method="sequential")
        _, dx, *rest = call(kept, dy, *losses, x, *parameters, *given, operands=np.int64(bits))
        n = len(parameters)
        return dx, tuple(rest[:n]), rest[n] if len(rest) > n else None, None, None, None


def _type(dtype):
    if dtype.name not in _TYPES:
        raise ValueError(f"expected numbers of type {', '.join(_TYPES)}, found {dtype.name}")
    return _TYPES[dtype.name]
