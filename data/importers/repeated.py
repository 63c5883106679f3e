"""JSON objects whose keys may come twice: what stands under them is joined, where plain JSON readers keep the last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from data.jsonfile import describe
from data.network import DataError


def read_merged(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Under a key written twice, lists are chained and objects merged, in file order; null
    yields to the other. Errors (DataError): unreadable, not JSON, no object, one key with values that do not join."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_merge)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}); fetch the file again") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: holds {describe(value)} where a JSON object is expected")
    return value


def _merge(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    made = {}
    for key, value in pairs:
        made[key] = _join(made[key], value, key) if key in made else value
    return made


def _join(old: Any, new: Any, key: str) -> Any:
    if old is None or new is None or old == new:
        return new if old is None else old
    if isinstance(old, list) and isinstance(new, list):
        return old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return _merge([*old.items(), *new.items()])
    raise DataError(f"key {key!r} is there twice with different values; keep one of them")
