"""Packs files into one zip whose bytes follow from the files alone: sorted by name, not compressed, without times.

Any zip program opens it. A zip is read only if packing its files again gives the same bytes. So a bundle with anything
changed, added or moved is refused, even where no zip program would look.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from holdfast.errors import InvalidRequest

LIMIT_BYTES: Final = 0xFFFF0000
"""Larger files would need another zip format."""

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_VERSION: Final = 20
_MADE_BY: Final = 3 << 8 | _VERSION
_FIRST_DAY: Final = 0x21
"""1980-01-01: the earliest date that a zip can have."""
_MODE: Final = 0o100644 << 16


def pack(files: Mapping[str, bytes]) -> bytes:
    """The files as one zip. Names are plain ASCII."""
    if sum(map(len, files.values())) > LIMIT_BYTES or len(files) > 0xFFFE:
        raise InvalidRequest("the files are too large, or too many, for one bundle: leave the values out.")
    bodies: list[bytes] = []
    directory: list[bytes] = []
    at = 0
    for name in sorted(files):
        data, written = files[name], name.encode("ascii")
        header = (_VERSION, 0, 0, 0, _FIRST_DAY, zlib.crc32(data), len(data), len(data), len(written), 0)
        bodies += [_LOCAL.pack(b"PK\x03\x04", *header), written, data]
        directory += [_CENTRAL.pack(b"PK\x01\x02", _MADE_BY, *header, 0, 0, 0, _MODE, at), written]
        at += _LOCAL.size + len(written) + len(data)
    listing = b"".join(directory)
    end = _END.pack(b"PK\x05\x06", 0, 0, len(files), len(files), len(listing), at, 0)
    return b"".join([*bodies, listing, end])


def unpack(data: bytes) -> dict[str, bytes]:
    """The files of a zip that ``pack`` wrote. Raises InvalidRequest where ``pack`` would not give these bytes."""
    files: dict[str, bytes] = {}
    at = 0
    while data[at : at + 4] == b"PK\x03\x04" and len(data) >= at + _LOCAL.size:
        *_, size, _, name_size, _ = _LOCAL.unpack_from(data, at)
        at += _LOCAL.size
        name = data[at : at + name_size].decode("ascii", "replace")
        files[name] = data[at + name_size : at + name_size + size]
        at += name_size + size
    if not files:
        raise InvalidRequest("it is not a bundle of evidence: it does not begin as one.")
    if not all(name.isascii() for name in files) or pack(files) != data:
        raise InvalidRequest("its bytes are not those of the files in it: it was altered, cut off, or packed again.")
    return files
