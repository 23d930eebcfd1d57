"""TIFF files as writers of pictures do not make them: directory first, and with any claim."""

import struct

FORMATS = {1: "B", 3: "H", 4: "I", 7: "B"}


def tiff(tags, data=b""):
    """Return a TIFF file of `tags` (number: (type, values)), whose `data` comes last.

    The value ``"data"`` is the data's place; a pair of a count and bytes claims so many values.
    """
    entries, extra = [], b""
    after = 8 + 2 + 12 * len(tags) + 4
    placed = {}
    for tag, (kind, values) in sorted(tags.items()):
        if isinstance(values, tuple):
            count, packed = values
        else:
            count = len(values)
            packed = b"".join(
                b"data" if value == "data" else struct.pack(f"<{FORMATS[kind]}", value)
                for value in values
            )
        if len(packed) > 4 or isinstance(values, tuple):
            placed[tag] = struct.pack("<I", after + len(extra))
            extra += packed + b"\0" * (len(packed) % 2)
        else:
            placed[tag] = packed.ljust(4, b"\0")
        entries.append((tag, kind, count))
    begin = struct.pack("<I", after + len(extra))
    directory = b"".join(
        struct.pack("<HHI", *entry) + placed[entry[0]].replace(b"data", begin) for entry in entries
    )
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + directory + b"\0\0\0\0"
    return head + extra.replace(b"data", begin) + data


def directory_first(pillow, compressed, missing=0):
    """Return a file of one strip, which Pillow made and opened, with its data at the end.

    Bytes that are `missing` at the end of the strip are not counted either.
    """
    tags = pillow.tag_v2
    (offset,), (length,) = tags[273], tags[279]
    length -= missing
    kept = {256: 4, 257: 4, 258: 3, 259: 3, 262: 3, 277: 3, 278: 4, 317: 3, 530: 3}
    made = {273: (4, ["data"]), 279: (4, [length])}
    for tag, kind in kept.items():
        if tag in tags:
            values = tags[tag]
            made[tag] = (kind, list(values) if isinstance(values, tuple) else [values])
    if 347 in tags:
        made[347] = (7, list(tags[347]))
    return tiff(made, compressed[offset : offset + length])
