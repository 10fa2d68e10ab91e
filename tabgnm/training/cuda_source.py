"""Compile a CUDA source with NVRTC, which comes with torch, and launch what is in it.

For what Triton cannot say: who waits for whom within a kernel, and what stays in shared memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import threading
from pathlib import Path
from typing import Any

import torch

# Numbers of attributes: of a function; of a device, for a multiprocessor and for a thread block.
_MOST_SHARED_MEMORY = 8
_OF_MULTIPROCESSOR, _OF_BLOCK = 81, 97


def _library(name: str) -> ctypes.CDLL:
    """Load a library that torch has loaded before, or that lies in the packages it came with."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        packages = importlib.util.find_spec("nvidia")
        for folder in (packages.submodule_search_locations or ()) if packages is not None else ():
            for path in sorted(Path(folder).glob(f"*/lib/{name}")):
                return ctypes.CDLL(str(path))
        raise


def _compile(nvrtc: ctypes.CDLL, source: bytes, options: list[bytes]) -> bytes:
    """Return the binary for a GPU."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def text(of_size: Any, of_text: Any) -> bytes:
        of_size(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        of_text(program, buffer)
        return buffer.raw

    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"source.cu", 0, None, None):
        raise RuntimeError("NVRTC does not take the source")
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
            raise RuntimeError(text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace"))
        return text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _binary(source: bytes, options: list[bytes]) -> bytes:
    """Return the binary, compiled once for all processes: where Triton keeps its own."""
    from triton.runtime.cache import get_cache_manager  # not there on a machine without a GPU

    nvrtc = _library(f"libnvrtc.so.{str(torch.version.cuda).split('.')[0]}")
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    known_by = b"\0".join([source, *options, f"{major.value}.{minor.value}".encode()])
    cache, name = get_cache_manager(hashlib.sha256(known_by).hexdigest()), "kernel.cubin"
    path = cache.get_file(name)
    if path is None:
        path = cache.put(_compile(nvrtc, source, options), name, binary=True)
    return Path(path).read_bytes()


def _check(cuda: ctypes.CDLL, result: int) -> None:
    if result:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"CUDA error {result}: {(text.value or b'unknown').decode()}")


def shared_memory(device: torch.device) -> tuple[int, int]:
    """Return the bytes of shared memory that a thread block, and all on a multiprocessor, may have."""
    cuda, handle, value = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
    _check(
        cuda,
        cuda.cuDeviceGet(ctypes.byref(handle), torch.cuda.current_device() if device.index is None else device.index),
    )
    values = []
    for attribute in (_OF_BLOCK, _OF_MULTIPROCESSOR):
        _check(cuda, cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle))
        values.append(value.value)
    return values[0], values[1]


class Kernel:
    """A kernel that takes one structure, on one GPU.

    Parameters
    ----------
    source : bytes
        With the kernel as `extern "C"`.
    name : str
    device : torch.device
    """

    def __init__(self, source: bytes, name: str, device: torch.device) -> None:
        major, minor = torch.cuda.get_device_capability(device)
        binary = _binary(source, [f"--gpu-architecture=sm_{major}{minor}".encode()])
        self._cuda, self._device = ctypes.CDLL("libcuda.so.1"), device
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            torch.cuda.current_stream().synchronize()  # the context of the device has to be this thread's
            self._check(self._cuda.cuModuleLoadData(ctypes.byref(self._module), binary))
            self._check(self._cuda.cuModuleGetFunction(ctypes.byref(self._function), self._module, name.encode()))
        self._shared_memory, self._lock = 0, threading.Lock()

    def _check(self, result: int) -> None:
        _check(self._cuda, result)

    def reserve(self, n_bytes: int) -> None:
        """Allow thread blocks this much shared memory."""
        with self._lock:
            if n_bytes > self._shared_memory:
                self._check(self._cuda.cuFuncSetAttribute(self._function, _MOST_SHARED_MEMORY, n_bytes))
                self._shared_memory = n_bytes

    def launch(self, n_blocks: int, n_threads: int, n_bytes: int, argument: ctypes.Structure) -> None:
        """Launch it on the current stream with this much shared memory for each block, not more than reserved."""
        stream = ctypes.c_void_p(torch.cuda.current_stream(self._device).cuda_stream)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        size = n_blocks, 1, 1, n_threads, 1, 1, n_bytes
        self._check(self._cuda.cuLaunchKernel(self._function, *size, stream, arguments, None))
