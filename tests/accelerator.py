"""Accelerators that this machine does not have: tensors that lie on the CPU, say they lie on ``cuda:0`` or ``cuda:1``, and mind it.

Whatever mixes two devices fails as CUDA fails, and every wait of the host for a number is counted. It proves where tensors lie and how
often the host waits; not speed, and not another device's arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

_NUMBERS = {Tensor.item, Tensor.tolist, Tensor.__int__, Tensor.__float__, Tensor.__bool__, Tensor.__index__, Tensor.numpy}
_INDEXED = {Tensor.__getitem__, Tensor.__setitem__}
"""As on CUDA, what stands in the brackets may lie on the host."""
_BETWEEN_DEVICES = {Tensor.copy_}


class OnDevice(torch.Tensor):
    """``inner`` on the CPU, under another device's name."""

    inner: Tensor
    lies_on: torch.device

    @staticmethod
    def __new__(cls, inner: Tensor, device: torch.device) -> OnDevice:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=device)
        made.inner = inner
        made.lies_on = device
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class Accelerators(TorchFunctionMode):
    """While it is entered, tensors may be made on such devices and moved to them."""

    waits = 0
    """How often the host waited for a number."""

    def __enter__(self) -> Accelerators:
        Accelerators.waits = 0
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.__future__.set_overwrite_module_params_on_conversion(False)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        if func == Tensor.device.__get__:
            return getattr(args[0], "lies_on", None) or func(*args)
        if func is Tensor.to and isinstance(args[0], OnDevice | Tensor):
            return _moved(args[0], *args[1:], **kwargs)
        if func is torch._has_compatible_shallow_copy_type:
            return type(args[0]) is type(args[1])
        if func in (Tensor.cpu, Tensor.cuda):
            return _moved(args[0], func.__name__)
        devices: set[torch.device] = set()
        tree_map_only(OnDevice, lambda one: devices.add(one.lies_on), (args, kwargs))
        if devices:
            _mind(func, args, kwargs, devices)
            Accelerators.waits += func in _NUMBERS
        named = kwargs.get("device")
        device = torch.device(named) if named is not None else next(iter(devices), None)
        if func in _BETWEEN_DEVICES:
            device = getattr(args[0], "lies_on", None)
        inner_args, inner_kwargs = tree_map_only(OnDevice, lambda one: one.inner, (args, kwargs))
        if named is not None and device is not None and device.type != "meta":
            inner_kwargs["device"] = torch.device("cpu")
        result = func(*inner_args, **inner_kwargs)
        if device is None or device.type in ("cpu", "meta"):
            return result
        if args and isinstance(args[0], OnDevice) and result is args[0].inner:
            return args[0]  # changed in place
        return tree_map_only(Tensor, lambda one: one if isinstance(one, OnDevice) else OnDevice(one, device), result)


def _mind(func: Callable[..., Any], args: Any, kwargs: dict[str, Any], devices: set[torch.device]) -> None:
    if "_for_cpu" in str(func):
        raise NotImplementedError(f"{func} exists on the CPU only")
    if func in _BETWEEN_DEVICES:
        return
    hosts: set[torch.device] = set()
    minded = args[:1] if func in _INDEXED else args
    tree_map_only(Tensor, lambda one: hosts.add(one.device) if not isinstance(one, OnDevice) and one.dim() else None, (minded, kwargs))
    if len(devices) > 1 or hosts:
        raise RuntimeError(f"Expected all tensors to be on the same device, but found {sorted(map(str, devices | hosts))} in {func}")


def _moved(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    copy = kwargs.pop("copy", False)
    if args and isinstance(args[0], Tensor):
        args = (getattr(args[0], "lies_on", args[0].device), args[0].dtype)
    device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    inner, before = (tensor.inner, tensor.lies_on) if isinstance(tensor, OnDevice) else (tensor, tensor.device)
    device = device or before
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", 0)
    if device == before and dtype in (None, inner.dtype) and not copy:
        return tensor
    Accelerators.waits += device.type == "cpu" and before.type != "cpu"
    moved = inner.to(dtype=dtype or inner.dtype, copy=True)
    return moved if device.type == "cpu" else OnDevice(moved, device)
