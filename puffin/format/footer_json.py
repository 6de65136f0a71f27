"""
The footer payload as JSON (spec, "Footer Payload"): the only place that knows the keys.

``render`` writes what Iceberg's Java library writes: compact JSON with keys in the order of the spec, no
``compression-codec`` or ``properties`` without a value, and unescaped characters beyond ASCII.

``parse`` follows that library too: it ignores unknown keys, treats a null ``compression-codec`` as absent and rejects
every other null. It also rejects what JSON parsers disagree about: duplicate keys, NaN and Infinity. An error names the
wrong field by its path (``blobs[2].offset``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from puffin.errors import CorruptPuffinError
from puffin.format.layout import check_limit
from puffin.format.model import INT32, INT64, BlobMetadata, FileMetadata

_MISSING = object()
_LONGEST_SHOWN = 40  # characters of a value in an error


def render(metadata: FileMetadata) -> bytes:
    """Render the footer payload as UTF-8 encoded JSON, not compressed."""
    document: dict[str, Any] = {"blobs": [_blob_document(blob) for blob in metadata.blobs]}
    if metadata.properties:
        document["properties"] = dict(metadata.properties)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def parse(payload: bytes, *, offset: int, max_blobs: int) -> FileMetadata:
    """
    Parse a decompressed footer payload; errors carry its ``offset`` in the file.

    Raises:
        CorruptPuffinError: The payload is not UTF-8 or not JSON; a key occurs twice; a field is missing, of the wrong
            JSON type or out of range; or there are more than ``max_blobs`` blobs.
    """
    root = _Node(_load(payload, offset), "", offset)
    blobs = root["blobs"]
    check_limit("blob-count-limit", len(blobs.as_list()), max_blobs, offset, "blobs")
    return FileMetadata(blobs=tuple(map(_parse_blob, blobs)), properties=root["properties"].as_properties())


def _blob_document(blob: BlobMetadata) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        document["compression-codec"] = blob.compression_codec
    if blob.properties:
        document["properties"] = dict(blob.properties)
    return document


def _parse_blob(blob: _Node) -> BlobMetadata:
    return BlobMetadata(
        type=blob["type"].as_string(),
        fields=tuple(field_id.as_integer("an int", INT32) for field_id in blob["fields"]),
        snapshot_id=blob["snapshot-id"].as_integer("a long", INT64),
        sequence_number=blob["sequence-number"].as_integer("a long", INT64),
        offset=blob["offset"].as_integer("a non-negative long", range(INT64.stop)),
        length=blob["length"].as_integer("a non-negative long", range(INT64.stop)),
        compression_codec=blob["compression-codec"].as_optional_string(),
        properties=blob["properties"].as_properties(),
    )


def _load(payload: bytes, offset: int) -> object:
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as exc:
        byte = f"0x{payload[exc.start]:02x} in byte {exc.start} of the payload"
        raise CorruptPuffinError("footer-utf8", offset=offset, expected="UTF-8", found=byte) from exc

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs):
            key, times = Counter(key for key, _ in pairs).most_common(1)[0]
            found = f"{_shown(key)} {times} times"
            raise CorruptPuffinError("footer-json-keys", offset=offset, expected="distinct keys", found=found)
        return document

    def refuse_constant(name: str) -> NoReturn:
        raise CorruptPuffinError("footer-json", offset=offset, expected="a JSON number", found=name)

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as exc:  # the ValueErrors are JSONDecodeError and the limit on digits
        raise CorruptPuffinError("footer-json", offset=offset, expected="one JSON document", found=str(exc)) from exc


class _Node:
    """
    A JSON value, or a missing one, and its path. Each ``as_`` method checks for a type of the spec.

    Items become nodes one by one, so that a long array needs no more memory than its values.
    """

    def __init__(self, value: object, path: str, offset: int) -> None:
        self._value = value
        self._path = path
        self._offset = offset

    def __getitem__(self, key: str) -> _Node:
        value = self.as_dict().get(key, _MISSING)
        return _Node(value, f"{self._path}.{key}" if self._path else key, self._offset)

    def __iter__(self) -> Iterator[_Node]:
        return (_Node(value, f"{self._path}[{index}]", self._offset) for index, value in enumerate(self.as_list()))

    def as_dict(self) -> dict[str, object]:
        if not isinstance(self._value, dict):
            raise self._wrong("an object")
        return self._value

    def as_list(self) -> list[object]:
        if not isinstance(self._value, list):
            raise self._wrong("an array")
        return self._value

    def as_string(self) -> str:
        if not isinstance(self._value, str):
            raise self._wrong("a string")
        if not _is_text(self._value):
            raise self._wrong("a string of Unicode characters")
        return self._value

    def as_optional_string(self) -> str | None:
        return None if self._value is None or self._value is _MISSING else self.as_string()

    def as_integer(self, kind: str, bounds: range) -> int:
        if not isinstance(self._value, int) or isinstance(self._value, bool) or self._value not in bounds:
            raise self._wrong(kind)
        return self._value

    def as_properties(self) -> Mapping[str, str]:
        if self._value is _MISSING:
            return {}
        properties = {}
        for key, value in self.as_dict().items():
            if isinstance(value, str) and _is_text(key) and _is_text(value):
                properties[key] = value
                continue
            path = f"{self._path}[{_shown(key)}]"
            name = _Node(key, f"the key of {path}", self._offset).as_string()
            properties[name] = _Node(value, path, self._offset).as_string()
        return properties

    def _wrong(self, kind: str) -> CorruptPuffinError:
        expected = f"{self._path or 'the footer payload'} to be {kind}"
        return CorruptPuffinError("footer-field", offset=self._offset, expected=expected, found=_shown(self._value))


def _is_text(value: str) -> bool:
    """Whether it can be encoded: a JSON escape can spell half of a surrogate pair."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """The value as one short line of JSON for an error message."""
    if value is _MISSING:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
