"""Checks of numbers that people set: the value comes back as float or array, or a sentence is raised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadewise.errors import FadewiseError, NotAllowed, SettingError, shown

PerDevice = float | NDArray[np.float64]
"""One number for all devices, or an array with one number each."""


SMALLEST, LARGEST = 1e-50, 1e50
"""What `positive` admits: beyond, the products of a few settings leave what a float can hold."""


def _range(above: float | None, least: float | None, most: float | None) -> str:
    """The allowed range in words."""
    parts = []
    if above is not None:
        parts.append(f"above {above:g}")
    if least is not None:
        parts.append(f"at least {least:g}")
    if most is not None:
        parts.append(f"at most {most:g}")
    return " and ".join(parts)


def _outside(
    values: np.float64 | NDArray[np.float64], above: float | None, least: float | None, most: float | None
) -> NDArray[np.bool_]:
    outside = ~np.isfinite(values)
    if above is not None:
        outside |= values <= above
    if least is not None:
        outside |= values < least
    if most is not None:
        outside |= values > most
    return outside


def number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> float:
    """A finite number within the given range."""
    allowed = _range(above, least, most)
    if isinstance(value, bool | str) or value is None:
        raise NotAllowed(name, value, f"a number {allowed}".strip())
    try:
        result = float(value)  # type: ignore[arg-type]  # whatever it is, float() decides
    except (TypeError, ValueError):
        raise NotAllowed(name, value, f"a number {allowed}".strip()) from None
    except OverflowError:
        raise NotAllowed(name, value, f"a finite number {allowed}".strip()) from None
    if _outside(np.float64(result), above, least, most):
        raise _out_of_range(name, value, allowed)
    return result


def positive(name: str, value: object) -> float:
    """A number above 0 of a magnitude with which one can calculate."""
    result = number(name, value, above=0)
    if not SMALLEST <= result <= LARGEST:
        raise NotAllowed(name, value, f"from {SMALLEST:g} to {LARGEST:g}")
    return result


def _out_of_range(name: str, value: Any, allowed: str) -> NotAllowed:
    finite = "finite " if np.isinf(float(value)) else ""
    return NotAllowed(name, value, f"a {finite}number {allowed}".strip())


def whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """A whole number within the given range."""
    allowed = f"a whole number at least {least}" + ("" if most is None else f" and at most {most}")
    # Whole numbers are compared as such: a seed may have more digits than a float holds.
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise NotAllowed(name, value, allowed)
    if value < least or (most is not None and value > most):
        raise NotAllowed(name, value, allowed)
    return int(value)


def choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in allowed:
        raise NotAllowed(name, value, "one of " + ", ".join(allowed))


def per_device(
    name: str,
    value: ArrayLike,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> PerDevice:
    """One finite number for all devices, or a one-dimensional array with one each."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        raise NotAllowed(name, value, "one number, or one number a device") from None
    if array.ndim == 0:
        return number(name, value, above=above, least=least, most=most)
    if array.ndim == 1 and not len(array):
        raise NotAllowed(name, value, "one number, or one number a device")
    if array.ndim != 1:
        raise SettingError(name, f"has shape {array.shape}; it must be one number, or one number a device")
    if array.dtype.kind not in "fiu":
        raise NotAllowed(name, value, "one number, or one number a device")
    array = np.array(array, dtype=np.float64)
    for device in np.flatnonzero(_outside(array, above, least, most))[:1]:
        raise _out_of_range(f"{name} of device {device}", array[device], _range(above, least, most))
    array.flags.writeable = False
    return array


def positive_per_device(name: str, value: ArrayLike) -> PerDevice:
    """As `positive`, one number for all devices or one each."""
    result = per_device(name, value, above=0)
    if not isinstance(result, np.ndarray):
        return positive(name, value)
    for device in np.flatnonzero((result < SMALLEST) | (result > LARGEST))[:1]:
        positive(f"{name} of device {device}", result[device])
    return result


def instance(name: str, value: object, of: type[Any], as_in: str) -> None:
    """A part of the right kind."""
    if not isinstance(value, of):
        raise NotAllowed(name, value, f"a {of.__name__}, as in {as_in}")


def sized(name: str, value: PerDevice, devices: int) -> PerDevice:
    """The same value, refused if it is an array for another number of devices."""
    if isinstance(value, np.ndarray) and len(value) != devices:
        raise SettingError(name, f"has {len(value)} values for {devices} devices; it must have one each")
    return value


def part(value: PerDevice, of: slice | NDArray[np.int64]) -> PerDevice:
    """The share of some devices in a per-device value; one number stays one number."""
    return value[of] if isinstance(value, np.ndarray) else value


def of_devices(name: str, value: PerDevice, first: int, count: int) -> PerDevice:
    """The part of a per-device setting for `count` devices from `first` on."""
    if isinstance(value, np.ndarray) and len(value) < first + count:
        raise SettingError(name, f"has {len(value)} values for {first + count} devices; it must have one each")
    return part(value, slice(first, first + count))


def gains(values: ArrayLike, devices: int) -> NDArray[np.float64]:
    """Channel gains |h|² as a float64 array of the right length; see `bad_gain` for the values."""
    try:
        given = np.asarray(values)
    except ValueError:  # lists of different lengths
        given = np.empty(0, object)
    if given.dtype.kind not in "fiu":
        raise FadewiseError(f"gains are {shown(values)}; they must be real numbers, |h|² of each device")
    array = np.ascontiguousarray(given, dtype=np.float64)
    if array.shape != (devices,):
        raise FadewiseError(f"gains have shape {array.shape}; there must be one gain for each of {devices} devices")
    return array


def bad_gain(values: NDArray[np.float64], first_device: int = 0) -> FadewiseError:
    """The sentence for gains among which one is NaN, negative or infinite."""
    index = int(np.flatnonzero(~((values >= 0) & (values < np.inf)))[0])
    return FadewiseError(
        f"the channel gain of device {first_device + index} is {values[index]}; "
        "it must be a finite number, 0 where the device is unreachable"
    )
