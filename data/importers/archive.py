"""A folder or a zip as named byte streams. A zip is never unpacked: nothing of it can reach the disk."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from data.network import DataError

MAX_BYTES = 4 * 1024**3  # of all files opened in one archive, unpacked
MAX_RATIO = 500  # unpacked to packed, for files above RATIO_FROM; chat text packs about 10 to 1
RATIO_FROM = 8 * 1024**2
MAX_NAMES = 500_000


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which `part 10` follows `part 2`."""
    parts = re.split(r"([0-9]+)", name)  # odd places are digits
    digits = (part.lstrip("0") if place % 2 else part for place, part in enumerate(parts))
    return tuple((place % 2, len(part) if place % 2 else 0, part) for place, part in enumerate(digits))


@dataclass
class Archive:
    """Files of a folder or zip by their relative names, in natural order."""

    path: Path
    zipped: zipfile.ZipFile | None
    names: tuple[str, ...]
    opened: int = field(default=0)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A file's bytes. Errors (DataError): over the size or ratio limit, encrypted, damaged, unreadable."""
        where = f"{self.path}: {name}"
        with ExitStack() as stack:
            try:
                yield stack.enter_context(self._open(name, where))
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
                raise DataError(f"{where}: damaged, or packed in a way that cannot be read ({error}); export again") from error
            except OSError as error:
                raise DataError(f"{where}: cannot be read ({error.strerror or error}); check the path") from error

    def _open(self, name: str, where: str) -> IO[bytes]:
        if self.zipped is None:
            return (self.path / name).open("rb")
        info = self.zipped.getinfo(name)
        if info.flag_bits & 1:
            raise DataError(f"{where}: is encrypted; unpack it first and name the folder")
        self.opened += info.file_size  # zipfile never reads more than this of a member, whatever the stream holds
        if self.opened > MAX_BYTES:
            raise DataError(f"{where}: the archive unpacks to more than {MAX_BYTES} bytes; unpack it first if you trust it")
        if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * max(1, info.compress_size):
            raise DataError(f"{where}: unpacks to over {MAX_RATIO} times its size; unpack it first if you trust it")
        return self.zipped.open(info)


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """A folder, or a zip (by its content). Errors: neither, or a name that leads out of the archive."""
    if path.is_dir():
        names = [str(one.relative_to(path).as_posix()) for one in path.rglob("*") if one.is_file() and _inside(one, path)]
        yield Archive(path, None, tuple(sorted(names, key=natural)))
        return
    try:
        zipped = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(f"{path}: neither a folder nor a readable zip ({error}); check the path") from error
    with zipped:
        infos = [info for info in zipped.infolist() if not info.is_dir()]
        if len(infos) > MAX_NAMES:
            raise DataError(f"{path}: holds {len(infos)} files, more than {MAX_NAMES}; this is no chat export")
        for info in infos:
            _check_name(info.filename, path)
        names = list(dict.fromkeys(info.filename for info in infos))
        yield Archive(path, zipped, tuple(sorted(names, key=natural)))


def _inside(file: Path, folder: Path) -> bool:
    """Links are followed only inside the folder that the user named."""
    return file.resolve().is_relative_to(folder.resolve())


def _check_name(name: str, path: Path) -> None:
    pure = PurePosixPath(name.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or re.match(r"[A-Za-z]:", name):
        raise DataError(f"{path}: the archive names a file outside itself ({name!r}); refused, do not unpack it either")
