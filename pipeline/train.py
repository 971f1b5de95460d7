"""Stage `train`: speculators' trainer on verified hidden states, from where it was to the best draft model."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from typing import NoReturn

from pipeline import dataset, identity, products, settings, store, training_data, verified, vocabulary
from pipeline.dataset import Sample
from pipeline.draft import checkpoints, record, work
from pipeline.draft.recipe import VALIDATED, Recipe, processes, recipe
from pipeline.draft.record import Record
from pipeline.report import StageError, Stopped, artifact, metric, note, progress
from pipeline.settings import Settings


def main() -> None:
    wanted = settings.of_attempt()
    progress("checking the data", 0, None)
    samples = dataset.read(products.dataset())
    gpus = work.gpus()
    check_gpus(processes(wanted, gpus), gpus)
    planned = recipe(wanted, gpus)
    check_split(len(samples), planned.processes)
    bound = _bound(wanted, samples, planned)
    checkpoint = begin(bound, planned.epochs) if wanted.train.node_rank == 0 else ""  # the first host tells the others
    if checkpoint is None:
        done = record.read(products.checkpoints())
        assert done is not None
        note(f"Training is over: {done.finished} Nothing to do.")
    elif planned.processes > 1:
        _start_processes(wanted, processes(wanted, gpus), checkpoint)
    else:
        work.train(wanted, checkpoint)
    _tell()


def check_gpus(asked: int, gpus: int) -> None:
    """Raises StageError when the host has GPUs, and fewer than are asked for."""
    if 0 < gpus < asked:
        raise StageError(f"stage.train.gpus is {asked}, and the host shows this stage {gpus}; lower it to {gpus}.")


def check_split(samples: int, processes: int) -> None:
    """Raises StageError when there is a process without a sample to learn from, or one without a sample to validate."""
    learnt = int(samples * (1 - VALIDATED))
    if min(learnt, samples - learnt) < processes:
        raise StageError(
            f"{products.dataset()} has {samples} samples, of which {samples - learnt} are held out: too few for "
            f"{processes} training process{'' if processes == 1 else 'es'}; raise run.samples to {10 * processes} at "
            "least and run prepare, extract, verify and vocab again."
        )


def _bound(wanted: Settings, samples: list[Sample], planned: Recipe) -> Record:
    """What a training of this run is bound to. Raises StageError unless all of it is whole and belongs together."""
    data = verified.require(samples)
    verified.require_files(samples)
    target = identity.digest(products.target(wanted))
    entries = store.entries(products.hidden_states())
    if any(entry.get("target") != target for entry in entries.values()):
        raise StageError(
            f"The hidden states in {products.hidden_states()} are another target's than {products.target(wanted)}; run "
            "extract and verify again, in a new run."
        )
    chosen = vocabulary.require(products.vocabulary(), data)
    if not training_data.is_of(products.training_data(), data):
        raise StageError(
            f"The samples in {products.training_data()} are of other data or not whole; run the stage vocab again."
        )
    return Record(data, target, chosen.digest, planned.digest, asdict(planned))


def begin(bound: Record, epochs: int) -> str | None:
    """Makes the folder of checkpoints ready; the name of the checkpoint to go on from, "" for a new training.

    None when the training is over. Checkpoints that are bound to anything else are moved aside, with a word.
    """
    folder = products.checkpoints()
    known = record.read(folder)
    if known is None or (others := known.differences(bound)):
        if checkpoints.every(folder) or known:
            why = f"of another {' and another '.join(others)}" if known else f"without a readable {record.FILE}"
            note(f"The checkpoints in {folder} are {why}; they are in {record.aside(folder)} now. Training anew.")
        bound.write(folder)
        return ""
    if known.finished and known.about.get("epochs") == epochs and checkpoints.has_best(folder):
        return None
    newest = checkpoints.newest(folder, note)
    step = newest.step if newest else 0
    known.history = [entry for entry in known.history if entry["step"] <= step]
    _settle_best(known)
    known.about, known.finished = bound.about, ""
    known.write(folder)
    if newest is None:
        return ""
    note(f"Going on from {newest.folder.name}, after {newest.step} steps.")
    return newest.folder.name


def _settle_best(known: Record) -> None:
    """Lets `best` lead to the best checkpoint that is whole: that of the record may be damaged, and a training that was
    killed may have written its record and not the link."""
    folder, first, why = products.checkpoints(), known.best, ""
    while (best := known.best) and (fault := checkpoints.damage(folder / best["checkpoint"])):
        why = why or f"The best checkpoint {folder / best['checkpoint']} is cut short ({fault})"
        best["lost"] = True
    if best:
        checkpoints.mark_best(folder, best["checkpoint"])
    if first and why:
        note(
            f"{why}; {best['checkpoint']} is the best that is whole: simulated acceptance {best['acceptance']:.3f} in "
            f"place of {first['acceptance']:.3f}."
            if best
            else f"{why}; no other that was judged is whole; the epochs to come decide."
        )


def _start_processes(wanted: Settings, count: int, checkpoint: str) -> None:
    """Starts this host's processes through torchrun and waits. Their errors are told by themselves."""
    train = wanted.train
    meeting = ["--standalone"]
    if train.nodes > 1:
        host, _, port = train.rendezvous.rpartition(":")
        meeting = [f"--nnodes={train.nodes}", f"--node-rank={train.node_rank}"]
        meeting += [f"--master-addr={host}", f"--master-port={port}"]
    command = [sys.executable, "-m", "pipeline.draft.tied", str(os.getpid()), *meeting, f"--nproc-per-node={count}"]
    note(f"{train.nodes * count} training processes, {count} of them here.")
    started = subprocess.Popen([*command, "-m", "pipeline.draft.work", checkpoint])
    try:
        status = started.wait()
    except Stopped:
        started.terminate()  # torchrun passes it on, and each process saves before it ends
        started.wait()
        raise
    if status:
        _failed(status)


def _failed(status: int) -> NoReturn:
    raise StageError(
        f"A training process failed (torchrun ended with {status}); the traceback of the first that did is the cause."
    )


def _tell() -> None:
    folder = products.checkpoints()
    found = record.read(folder)
    best = found.best if found else None
    if found is None or best is None:
        return  # another host keeps the record
    artifact(checkpoints.best(folder))
    metric("best_acceptance", round(best["acceptance"], 5))
    shown = ", ".join(f"{value:.3f}" for value in best["accuracy"])
    note(
        f"{found.finished} The best draft model is {best['checkpoint']}, of epoch {best['epoch']}: simulated "
        f"acceptance {best['acceptance']:.3f} on held-out samples ({shown} by position)."
    )
