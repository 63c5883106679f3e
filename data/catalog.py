"""Where networks come from: the bundled ones, SocialMemBench, or any folder."""

from __future__ import annotations

from pathlib import Path

from data import socialmem
from data.fetch import FETCH_COMMAND, default_folder
from data.importers import socialmem_tables
from data.network import DataError, Network
from data.teacher import Teacher, load_teacher

BUNDLED = Path(__file__).parent / "bundled"


def load_networks(name_or_path: str | Path, socialmem_folder: str | Path | None = None) -> list[tuple[Network, Teacher | None]]:
    """Networks with their teacher, or None where there is none.

    `own`: the five bundled networks. `socialmem`: the networks in `socialmem_folder`, or where fetch put them. Else a
    path: a JSON file, a folder of them, or a folder that holds such a folder as `networks/`. A network's teacher is
    `teacher/<network id>.json` beside the folder its file is in, else the bundled one. Errors: nothing there, and
    whatever the files get wrong.
    """
    if name_or_path == "own":
        root = BUNDLED / "own"
    elif name_or_path == "socialmem":
        root = Path(socialmem_folder) if socialmem_folder is not None else default_folder()
        if not root.is_dir() or not any(root.iterdir()):
            raise DataError(f"SocialMemBench networks: nothing in {root}; run `{FETCH_COMMAND}`, or name the folder you have")
    else:
        root = Path(name_or_path)
        if not root.exists():
            raise DataError(
                f"networks: {str(name_or_path)!r} is neither `own`, `socialmem` nor a file or folder; check the path"
            )
    networks = root / "networks" if (root / "networks").is_dir() else root
    return [(network, _teacher(network)) for network in _load(networks)]


def _load(path: Path) -> list[Network]:
    """The published tables, as fetch leaves them, or the nested form."""
    return socialmem_tables.load(path) if socialmem_tables.has_tables(path) else socialmem.load(path)


def _teacher(network: Network) -> Teacher | None:
    for folder in (Path(network.source).parent.parent, BUNDLED / "own", BUNDLED / "socialmem"):
        file = folder / "teacher" / f"{network.id}.json"
        if file.is_file():
            return load_teacher(file)
    return None
