#!/usr/bin/env python3
"""Prints the events of smeltr sessions, one JSON object a line. Usage: read_session.py FILE|DIRECTORY...

A second reader, written from docs/formats.md alone. It needs nothing of smeltr but that folder: docs/events.md has
the names.
"""

from __future__ import annotations

import codecs
import ctypes
import json
import math
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAJOR, U64 = 2, 2**64 - 1
COLUMN_TYPES = {"double": 2, "Text": 3, "List": 4}  # All others are integers: 1.
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


def decompress(frame: bytes, size: int) -> bytes:
    try:
        from compression import zstd  # Since Python 3.14.

        return zstd.decompress(frame)
    except ImportError:
        out = ctypes.create_string_buffer(size)
        zstd = ctypes.CDLL(f"libzstd{SUFFIX}" + (".1" if SUFFIX == ".so" else ""))
        done = zstd.ZSTD_decompress(out, ctypes.c_size_t(size), bytes(frame), ctypes.c_size_t(len(frame)))
        return out.raw if done == size else b""


def holds(data: bytes, expected: int) -> bool:
    """Whether the checksum does; yes where there is no library to tell."""
    try:
        xxh3 = ctypes.CDLL(f"libxxhash{SUFFIX}" + (".0" if SUFFIX == ".so" else "")).XXH3_64bits
    except OSError:
        return True
    xxh3.restype = ctypes.c_uint64
    found = xxh3(bytes(data), ctypes.c_size_t(len(data)))
    return expected in (found, found % 2**32) if len(data) == 12 else expected == found


class Names:
    """What docs/events.md says: fields as (name, type, whether optional), of kinds and of elements of lists."""

    def __init__(self, page: str) -> None:
        self.kinds: dict[int, tuple[str, str, bool]] = {}  # Name, source, whether the interface is in front.
        self.fields: dict[str, list[tuple[str, str, bool]]] = {}
        self.numbers: dict[str, list[str]] = {}
        for line in page.splitlines():
            if match := re.match(r"## (\w+) \((?:(\d+), source (\w+)(, per API)?|element of lists)\)", line):
                fields = self.fields[match[1]] = []
                if match[2]:
                    self.kinds[int(match[2])] = (match[1], match[3], bool(match[4]))
            elif match := re.match(r"- `(\w+)` \((?:std::)?([\w<>]+)(, optional)?\)", line):
                fields.append((match[1], match[2], bool(match[3])))
            elif match := re.match(r"- `(\w+)`: (0.*)", line):
                self.numbers[match[1]] = [value.partition(" ")[2] for value in match[2].split(", ")]


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError("the bytes end too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        byte = self.number(1)
        return byte if byte < 128 else (byte & 127 | self.varint() << 7) & U64

    def plane(self, count: int, compressed: int) -> bytes:
        plane = decompress(self.take(self.number(4)), count) if compressed else self.take(count)
        if len(plane) != count:
            raise ValueError("a plane of another length")
        return plane

    def numbers(self, count: int, columns: list[Any]) -> list[int]:
        transform = self.number(1)
        near = columns[self.varint()] if transform == 3 else [0] * count
        base = self.varint()
        if transform == 0:
            return [base] * count
        factor_or_step, width, mask = self.varint(), self.number(1), self.number(1)
        planes = [self.plane(count, mask >> k & 1) for k in range(width)] or [bytes(count)]
        stored = [int.from_bytes(value, "little") for value in zip(*planes, strict=False)]
        if transform in (1, 3):
            return [
                (value * factor_or_step + base + other) & U64
                for value, other in zip(stored, near, strict=False)
            ]
        values = []
        for value in stored:
            zigzag = (value + factor_or_step) & U64
            base = (base + ((zigzag >> 1) ^ -(zigzag & 1))) & U64
            values.append(base)
        return values


class Reader:
    def __init__(self, names: Names) -> None:
        self.names, self.damaged = names, False
        self.texts: list[str] | None = None

    def column(self, data: Cursor) -> tuple[int, Cursor]:
        column_type, column = data.number(1), Cursor(data.take(data.number(4)))
        if column_type == COLUMN_TYPES["Text"] and self.texts is None:
            raise ValueError("the chunk's texts are damaged")
        return column_type, column

    def complain(self, text: str) -> None:
        self.damaged = True
        print(text, file=sys.stderr)

    def value(self, field_type: str, number: Any) -> Any:  # noqa: ANN401 - whatever JSON has
        if field_type == "Text":
            return self.texts[number] if number < len(self.texts) else ""
        if field_type == "double":
            (double,) = struct.unpack("<d", number.to_bytes(8, "little"))
            return double if math.isfinite(double) else None
        if field_type in ("bool", "int64_t"):
            return number != 0 if field_type == "bool" else number - (number >> 63 << 64)
        if named := self.names.numbers.get(field_type):
            return named[number] if number < len(named) else "unknown"
        return number

    def shown(self, fields: list[tuple[str, str, bool]], row: tuple[Any, ...]) -> dict[str, Any]:
        values = [
            (name, self.value(kind, raw), optional, raw)
            for (name, kind, optional), raw in zip(fields, row, strict=False)
        ]
        return {name: value for name, value, optional, raw in values if not optional or (raw and value != 0)}

    def attribute(self, attribute: dict[str, Any]) -> Any:  # noqa: ANN401
        types = {"bool": "bool", "int": "int64_t", "float": "double"}
        if attribute["type"] in types:
            return self.value(types[attribute["type"]], attribute["bits"])
        return attribute["text"] if attribute["type"] == "string" else None

    def lists(self, data: Cursor, element: str, count: int) -> list[Any]:
        total = data.varint()
        lengths, shape_count, shapes = data.numbers(count, []), data.varint(), [0] * total
        if shape_count:
            shapes = self.column(data)[1].numbers(total, [])
        plain = element not in self.names.fields
        fields = [("", element, False)] if plain else self.names.fields[element]
        columns = []
        for _ in range(data.varint()):
            column = self.column(data)[1]
            if len(columns) < len(fields):  # The others are of a newer writer.
                placement = column.number(1)
                of_shape = column.numbers(shape_count, []) if placement else [0]
                own = column.numbers(total, []) if placement != 1 else [0] * total
                columns.append(
                    [(o + of_shape[s if placement else 0]) & U64 for o, s in zip(own, shapes, strict=False)]
                )
        columns += [[0] * total] * (len(fields) - len(columns))
        rows: Iterator[Any] = zip(*columns, strict=False)
        rows = (self.value(element, row[0]) if plain else self.shown(fields, row) for row in rows)
        found = [[next(rows) for _ in range(length)] for length in lengths]
        if element == "Attribute":
            return [{a["key"]: self.attribute(a) for a in attributes} for attributes in found]
        return found

    def block(self, data: Cursor, kind: int, api: int, opaque: bool, count: int) -> list[dict[str, Any]]:
        name, source, per_api = self.names.kinds.get(kind, (f"Kind#{kind}", "System", False))
        fields = [(key, "uint64_t", False) for key in ("seq", "ts_mono_ns", "pid", "tid")]
        fields += [("payload_hex", "List<byte>", False)] if opaque else self.names.fields[name]
        columns: list[list[Any]] = []
        for _ in range(data.varint()):
            column_type, column = self.column(data)
            if len(columns) == len(fields):
                break  # Of a newer writer.
            outer, _, element = fields[len(columns)][1].rstrip(">").partition("<")
            if column_type != COLUMN_TYPES.get(outer, 1):
                raise ValueError("a column of another type than its field")
            columns.append(self.lists(column, element, count) if element else column.numbers(count, columns))
        for _, field_type, _ in fields[len(columns) :]:  # What an older writer did not have.
            columns.append([[] if "<" in field_type else 0] * count)
        if per_api:
            name = "".join(self.names.numbers["Api"][api : api + 1]) + name
        events = [
            {"source": source, "kind": name} | self.shown(fields, row) for row in zip(*columns, strict=False)
        ]
        return [e | {"payload_hex": bytes(e["payload_hex"]).hex()} for e in events] if opaque else events

    def chunk(self, header: bytes, body: bytes, where: str) -> Iterator[dict[str, Any]]:
        block_count, _, text_count, at, text_sum = struct.unpack_from("<HHIIQ", header, 52)
        self.texts = None
        if holds(body[:at], text_sum):
            section = Cursor(body[:at])
            lengths = section.numbers(text_count, [])
            compressed, stored = section.number(1), section.take(at - section.at)
            characters = Cursor(decompress(stored, sum(lengths)) if compressed else stored)
            self.texts = ["", *(characters.take(length).decode("utf-8", "each_byte") for length in lengths)]
        for i in range(block_count):
            kind, api, flags, count, size, _, block_sum = struct.unpack_from("<HBBIIIQ", header, 72 + 24 * i)
            data, at = body[at : at + size], at + size
            try:
                if not holds(data, block_sum):
                    raise ValueError("its checksum does not hold")
                if kind in self.names.kinds or flags & 1:
                    yield from self.block(Cursor(data), kind, api, bool(flags & 1), count)
                else:
                    print(f"{where}: {count} events of the unknown kind {kind}", file=sys.stderr)
            except (ValueError, IndexError) as error:
                self.complain(f"{where}: {count} events of kind {kind}: {error}")

    def file(self, path: Path) -> Iterator[dict[str, Any]]:
        data = path.read_bytes()
        major, _, header_sum = struct.unpack_from("<HHI", data.ljust(16, b"\0"), 8)
        if len(data) >= 16 and major != MAJOR and (header_sum == 0 or holds(data[:12], header_sum)):
            raise SystemExit(f"{path} is of format {major}, and this reads {MAJOR}")
        at = 16
        while at < len(data) and data[at : at + 8] != b"smltINDX":
            size, body_size = struct.unpack_from("<II", data.ljust(at + 24, b"\0"), at + 16)
            header, body = data[at : at + size], data[at + size : at + size + body_size]
            is_chunk = header[:8] == b"smltCHNK" and len(header) == size >= 72
            if not (is_chunk and holds(header[16:], int.from_bytes(header[8:16], "little"))):
                self.complain(f"{path}: no chunk at byte {at}")
                found = data.find(b"smltCHNK", at + 1)
                at = found if found >= 0 else len(data)
            elif len(body) < body_size:
                return self.complain(f"{path}: it ends inside the chunk at byte {at}")
            else:
                yield from self.chunk(header, body, f"{path}, chunk at byte {at}")
                at += size + body_size


def main() -> int:
    # As smeltr does: each byte that is no UTF-8 becomes U+FFFD.
    codecs.register_error("each_byte", lambda e: ("\ufffd" * (e.end - e.start), e.end))
    page = Path(__file__).resolve().parent.parent / "docs" / "events.md"
    reader = Reader(Names(page.read_text()))
    for argument in map(Path, sys.argv[1:]):
        names = sorted(argument.glob("events*.smlt"), key=lambda file: int("0" + file.stem[7:]))
        for file in names if argument.is_dir() else [argument]:
            for event in reader.file(file):
                print(json.dumps(event))
    return int(reader.damaged)


if __name__ == "__main__":
    sys.exit(main())
