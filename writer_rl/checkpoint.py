"""Checkpoints: a Hugging Face folder that anything can load, with what training needs to go on beside it.

    round-0007/
      config.json generation_config.json model.safetensors tokenizer.json chat_template.jinja ...
                             (a LoRA policy: adapter_config.json adapter_model.safetensors, and base.json, which names its base)
      trainer/
        state.json             what the caller put in: round, recipe, pipeline id, ...
        optimizer.safetensors  moments, one tensor `<parameter index>.<name>` each; under ZeRO one row a rank
        optimizer.json sharding.json scheduler.json rng.json rng.safetensors
      manifest.json            bytes and sha256 of every other file

A checkpoint is written under a temporary name, synced to disk and renamed, so a folder without a leading dot is whole; the
manifest tells where a disk or a copy damaged it later. No pickle anywhere. Of several processes rank 0 alone writes.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import warnings
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from data.network import DataError
from writer_rl import lora
from writer_rl.hashes import fingerprint
from writer_rl.hashes import weights_hash as weights_hash
from writer_rl.moments import Moments, Sharding, gathered_moments, groups_of, restore_moments, sharding_of
from writer_rl.policy import Policy, load_policy

MANIFEST = "manifest.json"
TRAINER = "trainer"


class CheckpointError(DataError):
    """A checkpoint that is torn, damaged, or another model's."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint. `state` is what the caller of `save` put in."""

    folder: Path
    policy: Policy
    state: dict[str, Any]


def save(
    folder: Path,
    policy: Policy,
    optimizer: Optimizer | None = None,
    scheduler: LRScheduler | None = None,
    state: Mapping[str, Any] | None = None,
    accelerator: Accelerator | None = None,
) -> None:
    """Write a checkpoint whole or not at all; one of the same name is replaced. `state` must be JSON.

    With an accelerator every rank must call it: ZeRO's moments are gathered, rank 0 writes, all go on when it is whole.
    An OSError (a full disk) leaves whatever stood under the name, and no rubbish.
    """
    moments = None if optimizer is None else gathered_moments(optimizer, accelerator)
    if accelerator is None or accelerator.is_main_process:
        _write(folder, policy, optimizer, moments, scheduler, state)
    if accelerator is not None:
        accelerator.wait_for_everyone()


def _write(
    folder: Path,
    policy: Policy,
    optimizer: Optimizer | None,
    moments: Moments | None,
    scheduler: LRScheduler | None,
    state: Mapping[str, Any] | None,
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.parent / f".{folder.name}.tmp"
    shutil.rmtree(made, ignore_errors=True)  # of a save that was killed
    try:
        if policy.base is None:
            policy.model.save_pretrained(made)
        else:
            made.mkdir()
            lora.save(made, policy.model, policy.base)
        policy.tokenizer.save_pretrained(made)
        _save_trainer(made / TRAINER, optimizer, moments, scheduler, dict(state or {}))
        files = {path.relative_to(made).as_posix(): fingerprint(path) for path in _files(made)}
        _write_json(made / MANIFEST, {"files": files})
        for path in [*_files(made), made / TRAINER, made]:
            _sync(path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    _rename_over(made, folder)


def load(folder: Path, dtype: str = "float32") -> Checkpoint:
    """The policy and the caller's state, after every file was checked. Raises CheckpointError (or PolicyError)."""
    verify(folder)
    return Checkpoint(folder, load_policy(folder, dtype), _read_json(folder / TRAINER / "state.json"))


def load_state(folder: Path) -> dict[str, Any]:
    """The caller's state alone. Raises CheckpointError where the folder is not whole."""
    verify(folder)
    return dict(_read_json(folder / TRAINER / "state.json"))


def restore_trainer(folder: Path, optimizer: Optimizer, scheduler: LRScheduler, accelerator: Accelerator | None = None) -> None:
    """Put moments, step counts and schedule back, bit for bit, and the random states of torch, numpy and Python.

    The optimizer must be built over the same model in the same way. Raises CheckpointError where it is not, or where ZeRO
    cut the moments for another number of processes or another stage.
    """
    trainer = folder / TRAINER
    if not (trainer / "optimizer.json").exists() or not (trainer / "scheduler.json").exists():
        raise CheckpointError(f"{folder}: was saved without its optimizer, so training cannot go on from it; start a new run")
    file = trainer / "sharding.json"
    here, there = sharding_of(accelerator), Sharding(**_read_json(file)) if file.exists() else None
    if here != there:
        raise CheckpointError(
            f"{folder}: its optimizer state was saved under {_launched(there)}, and this is {_launched(here)}; resume with the "
            "launch command that the run was begun with"
        )
    fits = restore_moments(
        load_file(trainer / "optimizer.safetensors"), _read_json(trainer / "optimizer.json"), optimizer, accelerator
    )
    if not fits:
        raise CheckpointError(
            f"{folder}: its optimizer state is that of another model or another set of trained parameters; resume with the "
            "recipe that the checkpoint was made with"
        )
    scheduler.load_state_dict(_read_json(trainer / "scheduler.json"))
    _restore_rng(trainer)


def _launched(sharding: Sharding | None) -> str:
    return "no ZeRO" if sharding is None else f"ZeRO-{sharding.stage} on {sharding.ranks} processes"


def verify(folder: Path) -> None:
    """Raise CheckpointError unless every file of the manifest is there with its bytes."""
    if not (folder / MANIFEST).is_file():
        raise CheckpointError(f"{folder}: is not a whole checkpoint ({MANIFEST} is missing); use an earlier one")
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder}: {MANIFEST} is damaged ({error}); use an earlier checkpoint") from error
    for name, written in files.items():
        path = folder / name
        if not path.is_file() or fingerprint(path) != written:
            state = "is not what was written" if path.is_file() else "is missing"
            raise CheckpointError(f"{folder}: {name} {state}: the checkpoint is damaged; use an earlier one")


def mend(run_dir: Path) -> None:
    """Finish what a save was killed in: where the old folder had stepped aside, the new one takes its name if it is whole,
    else the old one takes it back. Nothing else that a killed save left stays."""
    for aside in run_dir.glob(".*.old"):
        folder = run_dir / aside.name[1 : -len(".old")]
        made = run_dir / f".{folder.name}.tmp"
        if not folder.exists():
            os.replace(made if is_whole(made) else aside, folder)
        shutil.rmtree(aside, ignore_errors=True)
    for made in run_dir.glob(".*.tmp"):
        if made.is_dir():
            shutil.rmtree(made)


def latest(run_dir: Path) -> Path | None:
    """The whole checkpoint with the highest number, or None. A damaged one is passed over with a warning."""
    for folder in reversed(_numbered(run_dir)):
        try:
            verify(folder)
        except CheckpointError as error:
            warnings.warn(f"passed over: {error}", stacklevel=2)
        else:
            return folder
    return None


def keep_last(run_dir: Path, newest: str, count: int, spare: Collection[str] = ()) -> None:
    """Delete all numbered checkpoints up to `newest` but its last `count` and those named in `spare` (the best one). Later
    ones are of a run that went on from `newest` because they are damaged: they stay until they are made anew."""
    numbered = _numbered(run_dir)
    until = [folder.name for folder in numbered].index(newest) + 1 if (run_dir / newest).is_dir() else 0
    folders = [folder for folder in numbered[:until] if folder.name not in spare]
    for folder in folders[: max(0, len(folders) - count)]:
        shutil.rmtree(folder)


def is_whole(folder: Path) -> bool:
    """Whether `verify` has nothing to say against it."""
    try:
        verify(folder)
    except CheckpointError:
        return False
    return True


def _numbered(run_dir: Path) -> list[Path]:
    """Folders whose name ends in a number (round-0007, epoch-3), in the order of the numbers."""
    found = [(re.fullmatch(r"[^.].*?(\d+)", path.name), path) for path in run_dir.glob("*") if path.is_dir()]
    return [path for _, path in sorted((int(match[1]), path) for match, path in found if match)]


def _save_trainer(
    trainer: Path,
    optimizer: Optimizer | None,
    moments: Moments | None,
    scheduler: LRScheduler | None,
    state: dict[str, Any],
) -> None:
    trainer.mkdir()
    _write_json(trainer / "state.json", state)
    if optimizer is not None and moments is not None:
        save_file(moments.tensors, trainer / "optimizer.safetensors")
        _write_json(trainer / "optimizer.json", groups_of(optimizer))
        if moments.sharding is not None:
            _write_json(trainer / "sharding.json", asdict(moments.sharding))
    if scheduler is not None:
        _write_json(trainer / "scheduler.json", scheduler.state_dict())
    tensors = {"torch": torch.get_rng_state()}
    tensors |= {f"cuda.{index}": rng for index, rng in enumerate(torch.cuda.get_rng_state_all())}
    save_file(tensors, trainer / "rng.safetensors")
    name, keys, *rest = cast(tuple[Any, ...], np.random.get_state(legacy=True))
    _write_json(trainer / "rng.json", {"python": random.getstate(), "numpy": [name, keys.tolist(), *rest]})


def _restore_rng(trainer: Path) -> None:
    tensors = load_file(trainer / "rng.safetensors")
    torch.set_rng_state(tensors.pop("torch"))
    if len(tensors) == torch.cuda.device_count():  # another machine: its generators start anew
        torch.cuda.set_rng_state_all([tensors[f"cuda.{index}"] for index in range(len(tensors))])
    states = _read_json(trainer / "rng.json")
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))


def _rename_over(made: Path, folder: Path) -> None:
    """A folder cannot be renamed over another one that is not empty, so the old one steps aside first."""
    aside = folder.parent / f".{folder.name}.old"
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        os.replace(folder, aside)
    os.replace(made, folder)
    _sync(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))
