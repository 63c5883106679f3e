"""Reading JSON that people wrote: every misfit is a DataError that names the file, the place and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from data.network import DataError

T = TypeVar("T")
NAMES = {str: "a text", int: "a whole number", list: "a list", dict: "an object", bool: "true or false"}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Errors: no such file, not UTF-8, not JSON (with line and column), not an object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text at byte {error.start}; save it as UTF-8") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}; mend the file") from error
    except RecursionError as error:
        raise DataError(f"{path}: JSON nested too deeply to be read; this is not a file of ours") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: holds {describe(value)} where a JSON object is expected; use one object a file")
    return value


def describe(value: object) -> str:
    """What a value is, in words for an error message."""
    return "null" if value is None else NAMES.get(type(value), type(value).__name__)


def take(fields: object, key: str, kind: type[T], where: str) -> T:
    """`fields[key]`, which must be there and of `kind` (true is no number). `where` opens the error: file, row."""
    if not isinstance(fields, dict):
        raise DataError(f"{where}: is {describe(fields)} where an object with {key!r} is expected")
    if key not in fields:
        raise DataError(f"{where}: field {key!r} is missing; add it")
    value = fields[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"{where}: field {key!r} is {describe(value)} where {NAMES[kind]} is expected")
    return value


def texts(fields: object, key: str, where: str) -> tuple[str, ...]:
    """A list of texts under `key`."""
    values = take(fields, key, list, where)
    for value in values:
        if not isinstance(value, str):
            raise DataError(f"{where}: field {key!r} holds {describe(value)} where only texts are expected")
    return tuple(values)
