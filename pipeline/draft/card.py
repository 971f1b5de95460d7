"""The model card of an exported draft model: what it is, how it is served, its figures and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ROUNDING = (
    "*rounding*: an answer is another than the target's alone. In {} that is no fault: two orders of a sum may round "
    "to other tokens."
)


@dataclass(frozen=True)
class Facts:
    """What a card tells. Nothing in it names a variable of the operator's or its value."""

    name: str
    target: str
    """The target's folder as the draft's config has it."""
    architecture: str
    config: Mapping[str, Any]
    """The draft model's config.json."""
    evaluation: Mapping[str, Any]
    training: Mapping[str, Any]
    vocabulary: Mapping[str, Any]
    data: Mapping[str, Any]
    """Of the data: digest, samples, tokens, source, target and tokenizer digests, layers."""
    run: Mapping[str, Any]
    """run.json: the run's name, versions, patches."""
    engine: str
    """The vLLM that the draft model is made for."""


def write(facts: Facts) -> str:
    """Markdown, with the header that model hubs read."""
    parts = [_header(facts), _about(facts), _serving(facts), _acceptance(facts), _provenance(facts)]
    return "\n".join(parts)


def _header(facts: Facts) -> str:
    return (
        "---\n"
        f"base_model: {facts.target}\n"
        "library_name: vllm\n"
        "tags:\n- speculative-decoding\n- eagle3\n- speculators\n"
        "---\n\n"
        f"# EAGLE-3 draft model for {facts.name}\n"
    )


def _about(facts: Facts) -> str:
    config, decoder = facts.config, facts.config["transformer_layer_config"]
    norms = [name for name in ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output") if config.get(name)]
    rows = [
        ("target", f"{facts.architecture}, {facts.target}"),
        (
            "decoder",
            f"{decoder['num_hidden_layers']} {decoder['model_type']} layer, hidden size {decoder['hidden_size']}",
        ),
        ("vocabulary", f"{config['draft_vocab_size']} of the target's {decoder['vocab_size']} tokens"),
        ("aux layers", f"{config['eagle_aux_hidden_state_layer_ids']} (vLLM's ids: the input of layer k)"),
        ("norms", ", ".join(norms) or "none beside the decoder's"),
        ("made for", f"vLLM {facts.engine}"),
    ]
    return _table(("", ""), rows)


def _serving(facts: Facts) -> str:
    count = facts.config["speculators_config"]["proposal_methods"][0]["speculative_tokens"]
    asked = f'{{"method": "eagle3", "model": "FOLDER/plain", "num_speculative_tokens": {count}}}'
    return (
        "## Serve it\n\n"
        "    vllm serve FOLDER\n\n"
        f"The config names its target, `{facts.target}` (`speculators_config.verifier.name_or_path`). Where the target "
        "lies elsewhere, write its place there, or give both to the engine:\n\n"
        f"    vllm serve TARGET --speculative-config '{asked}'\n\n"
        "`plain/` has the same weights under a config for engines that take target and draft apart. Whatever is "
        "proposed, the answers are the target's own.\n"
    )


def _acceptance(facts: Facts) -> str:
    found = facts.evaluation
    head = ("prompts", "number", "untrained", "simulated", "served", "per position", "lossless")
    exact = found["dtype"] == "float32"
    other = "**no**" if exact else "rounding"  # as the gate of `evaluate` has it: exact in 32-bit floats alone
    rows = []
    for one in found["sets"]:
        served = one["served"]
        rates = " / ".join(f"{n / served['rounds']:.0%}" for n in served["per_position"]) if served["rounds"] else "-"
        lengths = [_length(one.get(kind)) for kind in ("untrained", "simulated", "served")]
        same = {True: "yes", False: other}.get(one["lossless"], "-")
        rows.append((one["name"], one["prompts"], *lengths, rates, same))
    sources = [f"- {one['name']}: {one['source']}; sha256 {one['digest']}" for one in found["sets"]]
    speed = [f"{one['name']} {one['speed_up']}" for one in found["sets"] if one.get("speed_up")]
    told = f"Speed-up against the target alone: {', '.join(speed)}." if speed else str(found.get("speed") or "")
    if not exact and any(row[-1] == other for row in rows):
        told += f"\n\n{_ROUNDING.format(found['dtype'])}"
    return (
        "## Acceptance\n\n"
        f"Tokens that a round gives, the target's own included, under greedy decoding: {found['proposed']} proposed "
        f"tokens a round, answers of at most {found['max_tokens']} tokens, in {found['dtype']}, by vLLM "
        f"{found['versions'].get('vllm', '')}.\n\n" + _table(head, rows) + "\n" + "\n".join(sources) + f"\n\n{told}\n"
    )


def _provenance(facts: Facts) -> str:
    run, data, vocabulary = facts.run, facts.data, facts.vocabulary
    rows: list[tuple[str, Any]] = [
        ("run", run.get("run", "")),
        ("pair of the data", run.get("pair", "")),
        *((f"version of {name}", version) for name, version in (run.get("versions") or {}).items()),
        *((f"{name} of training and evaluation", version) for name, version in facts.evaluation["versions"].items()),
        ("conversations", data["source"]),
        ("samples", data["samples"]),
        ("tokens", data["tokens"]),
        ("data sha256", data["digest"]),
        ("target sha256", data["target"]),
        ("tokenizer sha256", data["tokenizer"]),
        ("draft sha256", facts.evaluation["draft_sha256"]),
        ("coverage of the assistant's tokens", f"{vocabulary['coverage']:.2%}"),
        ("longest sample", f"{data['max_length']} tokens"),
    ]
    rows += [
        (f"training: {name}", value) for name, value in facts.training.items() if isinstance(value, int | float | str)
    ]
    patches = list(_patches(run.get("patches") or {}))
    told = _table(("stage", "patch", "sha256"), patches) if patches else "No patch was in force.\n"
    return "## Where it comes from\n\n" + _table(("", ""), rows) + "\n### Patches in force\n\n" + told


def _patches(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterable[tuple[str, str, str]]:
    seen = set()
    for stage, patches in found.items():
        for patch in patches:
            key = (stage, str(patch.get("id")), str(patch.get("digest", ""))[:16])
            if patch.get("state", "active") == "active" and key not in seen:
                seen.add(key)
                yield key


def _length(figures: Mapping[str, Any] | None) -> str:
    return f"{figures['acceptance_length']:.2f}" if figures else "-"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)
