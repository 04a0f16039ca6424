"""The limits of a device, read from `rules/reference/devices.toml`.

A limit that the table does not state is None: unknown, never 0. A detector that needs an unknown limit stays silent.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = "triage.devices/1"


class DeviceTableError(ValueError):
    """The table of devices is not readable; the message names the file and what is wrong in it."""


@dataclass(frozen=True)
class Device:
    """What one block may ask of an architecture; sizes in bytes, registers of 32 bits. See the table for each name."""

    arch: str
    name: str = ""
    vendor: str = ""
    source: str = ""
    threads_per_block: int | None = None
    block_x: int | None = None
    block_y: int | None = None
    block_z: int | None = None
    warp: int | None = None
    shared_static: int | None = None
    shared_optin: int | None = None
    shared_reserved: int | None = None
    registers_per_thread: int | None = None
    registers_per_block: int | None = None
    registers_per_unit: int | None = None
    grid_x: int | None = None
    grid_y: int | None = None
    grid_z: int | None = None
    cluster_portable: int | None = None
    cluster: int | None = None
    tensor_memory: int | None = None
    tensor_memory_columns: int | None = None
    fp8_mma: bool | None = None

    @property
    def block(self) -> tuple[int | None, int | None, int | None]:
        return (self.block_x, self.block_y, self.block_z)

    @property
    def grid(self) -> tuple[int | None, int | None, int | None]:
        return (self.grid_x, self.grid_y, self.grid_z)


class DeviceTable(Mapping[str, Device]):
    """Architecture → `Device`. `sm_90a`, `sm_100f`, `SM90` and `gfx942:sramecc+` find the row without their suffix."""

    def __init__(self, devices: Mapping[str, Device]) -> None:
        self._devices = dict(devices)

    def __getitem__(self, arch: str) -> Device:
        return self._devices[normalize(arch)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._devices)

    def __len__(self) -> int:
        return len(self._devices)


def normalize(arch: str) -> str:
    """The name of an architecture as the table writes it, without features: `sm_90a` → `sm_90`."""
    text = arch.strip().lower().split(":")[0]
    found = re.fullmatch(r"(?:sm|compute)_?(\d{2,3})[af]?", text)
    return f"sm_{found[1]}" if found else text


def load_devices(path: Path) -> DeviceTable:
    """Read the table of devices. Raises `DeviceTableError` or `OSError`."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceTableError(f"{path}: {error}") from error
    if data.get("schema") != SCHEMA:
        raise DeviceTableError(f"{path}: schema is {data.get('schema')!r}, expected {SCHEMA!r}")
    tables = data.get("arch", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise DeviceTableError(f"{path}: arch must hold one table an architecture")
    return DeviceTable({arch: _device(path, arch, tables) for arch in tables})


def _device(path: Path, arch: str, tables: Mapping[str, Mapping[str, Any]]) -> Device:
    row = _inherited(path, arch, tables)
    kinds = {f.name: str(f.type).removesuffix(" | None") for f in dataclasses.fields(Device)}
    for key, value in row.items():
        if key not in kinds:
            raise DeviceTableError(f"{path}: [arch.{arch}] has an unknown key {key!r}")
        if type(value).__name__ != kinds[key] or (type(value) is int and value < 0):
            raise DeviceTableError(f"{path}: [arch.{arch}] {key} = {value!r}, expected {kinds[key]}")
    return Device(arch=arch, **row)


def _inherited(path: Path, arch: str, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The row of `arch` laid over the rows it names by `like`."""
    chain = [arch]
    while (parent := tables[chain[-1]].get("like")) is not None:
        if parent not in tables:
            raise DeviceTableError(f"{path}: [arch.{chain[-1]}] is like {parent!r}, which has no table")
        if parent in chain:
            raise DeviceTableError(f"{path}: [arch.{arch}] is like itself, by way of {parent!r}")
        chain.append(parent)
    merged: dict[str, Any] = {}
    for name in reversed(chain):
        merged |= {key: value for key, value in tables[name].items() if key != "like"}
    return merged
