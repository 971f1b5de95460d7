"""Makes small real tokenizers, each with the special tokens of a family at their published ids and a chat template of
the family's format. Runs in a stage's environment."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

WORDS = "The engine reads a prompt and says what follows.\n\nOne line\nand another one; two. Überraschung 你好 42.\n"
PIECES = r" ?\p{L}+| ?\p{N}+|\s*\n+| ?[^\s\p{L}\p{N}]+|\s+"
"""Line breaks stick together, as in the families' own tokenizers."""

KIMI = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|im_assistant|>assistant<|im_middle|>EMPTY{{ m.content }}"
    "{% elif m.role == 'user' %}<|im_user|>user<|im_middle|>{{ m.content }}"
    "{% else %}<|im_system|>{{ m.role }}<|im_middle|>{{ m.content }}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>OPEN{% endif %}"
)
"""History is written with an empty pair; so is the last turn, whatever reasoning it has."""
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN3 = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
TOOLS = (
    "{% if tools %}<|im_start|>system\n<tools>{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n</tools><|im_end|>\n"
    "{% endif %}{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ m.content }}\n"
    "</tool_response>{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
    '\n<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As Qwen2.5's templates write tools and their calls."""
JOINED = (
    "<｜begin▁of▁sentence｜>{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}{% elif m.role == 'tool' %}<｜User｜>OUT "
    "{{ m.content }}{% elif m.role == 'assistant' %}<｜Assistant｜>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ ' CALL ' + c.function.name + ' ' + c.function.arguments }}{% endfor %}<｜end▁of▁sentence｜>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
"""As DeepSeek's templates do, which add the arguments to a text."""
LLAMA3 = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
DEEPSEEK = (
    "<｜begin▁of▁sentence｜>{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<｜Assistant｜>{% if loop.last %}LAST{% endif %}"
    "{{ m.content }}<｜end▁of▁sentence｜>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜>OPEN{% endif %}"
)
IM = {"<|im_end|>": 163586, "<|im_user|>": 163587, "<|im_assistant|>": 163588, "<|im_system|>": 163594}
KIMI_IDS = {"[BOS]": 163584, "[EOS]": 163585, **IM, "<|im_middle|>": 163601}
THINK = {"<|media_pad|>": 163605, "<think>": 163606, "</think>": 163607}
QWEN = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
SENTENCE = {"<｜begin▁of▁sentence｜>": 0, "<｜end▁of▁sentence｜>": 1}
DEEPSEEK_IDS = {**SENTENCE, "<think>": 128798, "</think>": 128799, "<｜User｜>": 128803, "<｜Assistant｜>": 128804}
LLAMA = {
    "<|begin_of_text|>": 128000,
    "<|end_of_text|>": 128001,
    "<|start_header_id|>": 128006,
    "<|end_header_id|>": 128007,
    "<|eom_id|>": 128008,
    "<|eot_id|>": 128009,
}


@dataclass(frozen=True)
class Format:
    model_type: str
    vocabulary: int
    ids: dict[str, int]
    template: str
    end: str
    prefix: str = ""
    """What the model itself says before its reasoning; the prompt has it already where this is ""."""
    between: str | None = None
    """Between reasoning and answer; None where the models do not reason."""
    slow: bool = False
    """A tokenizer in Python that comes with the model, as Kimi's: it knows no offsets."""


def _kimi(empty: str, opening: str) -> str:
    return KIMI.replace("EMPTY", empty).replace("OPEN", opening)


def _deepseek(last: str, opening: str) -> str:
    return DEEPSEEK.replace("LAST", last).replace("OPEN", opening)


K25_PROMPT = "{% if thinking is defined and not thinking %}<think></think>{% else %}<think>{% endif %}"
V31_PROMPT = "{% if thinking is defined and thinking %}<think>{% else %}</think>{% endif %}"
R1_EMPTY = _deepseek("", "<think>\n")
FORMATS = {
    "llama-3": Format("llama", 128256, LLAMA, LLAMA3, "<|eot_id|>"),
    "chatml": Format("llama", 2048, {"<|im_start|>": 1, "<|im_end|>": 2}, CHATML, "<|im_end|>"),
    "qwen2.5": Format("qwen2", 151936, QWEN, CHATML, "<|im_end|>"),
    "qwen3": Format(
        "qwen3",
        151936,
        {**QWEN, "<think>": 151667, "</think>": 151668},
        QWEN3,
        "<|im_end|>",
        "<think>\n",
        "\n</think>\n\n",
    ),
    "deepseek-v3": Format(
        "deepseek_v3", 129280, DEEPSEEK_IDS, _deepseek("", ""), "<｜end▁of▁sentence｜>", "<think>\n", "\n</think>\n\n"
    ),
    "deepseek-r1": Format("deepseek_v3", 129280, DEEPSEEK_IDS, R1_EMPTY, "<｜end▁of▁sentence｜>", "", "\n</think>\n\n"),
    "deepseek-v3.1": Format(
        "deepseek_v3", 129280, DEEPSEEK_IDS, _deepseek("</think>", V31_PROMPT), "<｜end▁of▁sentence｜>", "", "</think>"
    ),
    "kimi-k2": Format("kimi_k2", 163840, KIMI_IDS, _kimi("", ""), "<|im_end|>"),
    "kimi-k2-thinking": Format(
        "kimi_k2", 163840, {**KIMI_IDS, **THINK}, _kimi("<think></think>", ""), "<|im_end|>", "<think>", "</think>"
    ),
    "kimi-k2.5": Format(
        "kimi_k25", 163840, {**KIMI_IDS, **THINK}, _kimi("<think></think>", K25_PROMPT), "<|im_end|>", "", "</think>"
    ),
}
FORMATS["kimi-k2.5-slow"] = replace(FORMATS["kimi-k2.5"], slow=True)

_K25 = FORMATS["kimi-k2.5"]
_ALTERNATING = "{% if messages[0].role == 'assistant' %}{{ raise_exception('the user begins') }}{% endif %}"
DATED = "<|im_start|>system\nToday is {{ strftime_now('%d %b %Y') }}.<|im_end|>\n"
"""As Llama-3.2's template writes the day."""
VARIANTS: dict[str, tuple[Format, dict[str, int], str]] = {
    "no-template": (_K25, _K25.ids, ""),
    "shifted": (_K25, {**_K25.ids, "<think>": 163607, "</think>": 163608}, _K25.template),
    "split": (_K25, {token: k for token, k in _K25.ids.items() if token != "<|im_middle|>"}, _K25.template),
    "other-format": (_K25, {"<|im_start|>": 163586, "<|im_end|>": 163587}, CHATML),
    "raising": (FORMATS["llama-3"], LLAMA, _ALTERNATING + LLAMA3),
    "tools": (FORMATS["qwen2.5"], QWEN, TOOLS),
    "joined": (FORMATS["deepseek-v3"], DEEPSEEK_IDS, JOINED),
    "dated": (FORMATS["chatml"], FORMATS["chatml"].ids, DATED + CHATML),
    "altering": (FORMATS["chatml"], FORMATS["chatml"].ids, CHATML.replace("m.content", "m.content | upper")),
}
"""Folders that something is wrong with, or that call tools: format, ids, template."""


def make(folder: Path, form: Format, ids: dict[str, int] | None = None, template: str | None = None) -> None:
    """A model folder with no weights in it; `ids` and `template` in place of the format's own where they are given."""
    from transformers import PreTrainedTokenizerFast

    from pipeline.target import name_tokenizer

    special = form.ids if ids is None else ids
    if form.slow:
        _write_slow(folder, form)
    else:
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=_tokenizer(special, form.vocabulary), eos_token=form.end)
        tokenizer.chat_template = form.template if template is None else template or None
        tokenizer.save_pretrained(folder)
        name_tokenizer(folder / "tokenizer_config.json")
    text = {"model_type": form.model_type, "vocab_size": form.vocabulary, "num_hidden_layers": 8}
    text["num_attention_heads"] = 4
    wrapped = {"model_type": "kimi_k25", "text_config": {**text, "model_type": "deepseek_v3"}}
    config = wrapped if form.model_type == "kimi_k25" else text
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")


SLOW = """from transformers import PreTrainedTokenizer


class BytesTokenizer(PreTrainedTokenizer):
    vocab_size = 256

    def get_vocab(self):
        return {chr(b): b for b in range(256)} | self.added_tokens_encoder

    def _tokenize(self, text, **how):
        return [chr(b) for b in text.encode()]

    def _convert_token_to_id(self, token):
        return ord(token)

    def _convert_id_to_token(self, index):
        return chr(index)

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens).encode("latin-1").decode("utf-8", "replace")

    def save_vocabulary(self, folder, filename_prefix=None):
        return ()
"""
"""A token a byte."""


def _write_slow(folder: Path, form: Format) -> None:
    folder.mkdir(parents=True)
    flags = {"special": True, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    config = {
        "tokenizer_class": "BytesTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_bytes.BytesTokenizer", None]},
        "added_tokens_decoder": {str(k): {"content": token, **flags} for token, k in form.ids.items()},
        "eos_token": form.end,
        "chat_template": form.template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenization_bytes.py").write_text(SLOW, encoding="utf-8")


def _tokenizer(special: dict[str, int], vocabulary: int) -> Any:
    """Byte-level BPE learnt from WORDS, its ids filled up so that the special tokens have theirs."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    learnt = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    learnt.pre_tokenizer = pieces
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learnt.train_from_iterator(
        [WORDS] * 4, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(learnt.to_str())["model"]
    ids = {number: token for token, number in special.items()}
    words = iter(sorted(model["vocab"], key=model["vocab"].get))
    table = {ids.get(k) or next(words, f"<unused {k}>"): k for k in range(min(vocabulary, max([*ids, 600]) + 1))}
    merges = [tuple(pair) for pair in model["merges"]]
    made = Tokenizer(models.BPE(vocab=table, merges=merges))
    made.pre_tokenizer = pieces
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(special))
    return made
