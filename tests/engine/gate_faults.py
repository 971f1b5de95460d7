"""Run in the seed environment: injects each fault into real states of a target and prints what its gate says.

`gate_faults.py TARGET` prints `RESULT {case: [gate, fault, sentence]}`; cases called `clean …` have no fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import torch
from reference import Reference

from pipeline.gates import attribution, aux_layers, final_norm, finite, rotary, rows
from pipeline.gates.report import GateReport

IDS = (2, 4, 5, 8)


def main() -> None:
    torch.manual_seed(20)
    reference = Reference(sys.argv[1], range(8))
    with torch.no_grad():
        reference.model.model.norm.weight.uniform_(0.5, 1.5)  # as a real target's: far from 1
    samples = Samples(reference)
    cases = [*rows_cases(samples), *finite_cases(samples), *attribution_cases(samples), *norm_cases(samples)]
    cases += [*layer_cases(samples), *rotary_cases(samples)]
    print("RESULT " + json.dumps({name: [r.gate, r.fault, r.sentence] for name, r in cases}), flush=True)


class Samples:
    """Four prompts with a shared prefix and their true states."""

    def __init__(self, reference: Reference) -> None:
        prefix = [(7 * i * i + 13 * i) % 900 + 10 for i in range(48)]
        tails = [
            [(11 * i + 5 * k * i * i + k) % 900 + 10 for i in range(length)] for k, length in enumerate((30, 21, 44, 9))
        ]
        self.reference = reference
        self.model = reference.model
        self.prompts = [prefix + tail for tail in tails]
        forwards = [reference.forward(prompt) for prompt in self.prompts]
        self.logits = [logits for _, logits in forwards]
        self.everything = [
            torch.cat([self.model.model.embed_tokens(torch.tensor(p)).detach().unsqueeze(1), outputs], dim=1)
            for p, (outputs, _) in zip(self.prompts, forwards, strict=True)
        ]
        """[S, N + 1, H]: the input of each layer and the last one's output, so that the index is vLLM's id."""
        self.states = [every[:, list(IDS)] for every in self.everything]


Cases = Iterator[tuple[str, GateReport]]


def rows_cases(s: Samples) -> Cases:
    states, ids = s.states[0], s.prompts[0]
    yield "clean rows", rows.check(states, ids, ids, 4)
    yield "rows missing", rows.check(states[:-7], ids, ids, 4)
    yield "rows too many", rows.check(s.states[2], ids, ids, 4)
    yield "layers missing", rows.check(states[:, :3], ids, ids, 4)
    yield "other tokens", rows.check(states, [*ids[:-1], 1], ids, 4)


def finite_cases(s: Samples) -> Cases:
    states = s.states[0]
    yield "clean finite", finite.check(states)
    for name, value in (("NaN", float("nan")), ("NaN (infinite)", float("inf"))):
        broken = states.clone()
        broken[5, 2, 7] = value
        yield name, finite.check(broken)
    layer, row = states.clone(), states.clone()
    layer[:, 1] = 0
    row[9, 3] = 0
    yield "zeros (layer)", finite.check(layer)
    yield "zeros (row)", finite.check(row)


def cut(stream: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    """As speculators' generator cuts what was captured: by the prompts' lengths, whatever is there."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return [stream[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def attribution_cases(s: Samples) -> Cases:
    true, lengths = s.states, [len(p) for p in s.prompts]
    yield "clean attribution", attribution.check(true, cut(torch.cat(true), lengths))
    half = [t.bfloat16() for t in true]
    noise = [t * (1 + 0.01 * torch.randn_like(t)) for t in half]
    yield "clean attribution (bfloat16)", attribution.check(half, noise)
    chunked = [true[0], true[1], true[2][:60]]
    yield "truncated (last)", attribution.check(true[:3], cut(torch.cat(chunked), lengths[:3]))
    chunked = [true[0], true[1][:17], true[2], true[3]]
    yield "truncated (others shift)", attribution.check(true, cut(torch.cat(chunked), lengths))
    cached = [true[0], true[1][48:], true[2][48:], true[3][48:]]
    yield "prefix-cache hit", attribution.check(true, cut(torch.cat(cached), lengths))
    yield "prefix-cache hit (guarded)", attribution.check(true, cached)
    order = [true[0], true[2], true[1], true[3]]
    yield "shifted (order)", attribution.check(true, order)
    stray = torch.cat([torch.randn(1, 4, true[0].shape[2]), *true])
    yield "shifted (by one)", attribution.check(true, cut(stray, lengths))
    yield "shifted (none left)", attribution.check(true, [true[0], true[1][:0], true[2], true[3]])
    yield "numbers differ", attribution.check(true, [true[0], true[1] * 1.01, true[2], true[3]])
    strange = true[1] + torch.randn_like(true[1]) * true[1].std()
    strange[:4] = true[1][:4]
    strange[4] = true[2][20]
    yield "numbers differ (a row like another's)", attribution.check(true, [true[0], strange, true[2], true[3]])
    strange[:50] = true[1][:50]  # the prefix that all have is 48 long
    strange[50] = true[2][50]
    yield (
        "numbers differ (a row like another's in its place)",
        attribution.check(true, [true[0], strange, true[2], true[3]]),
    )


def norm_cases(s: Samples) -> Cases:
    last, logits = s.states[2][:, 3], s.logits[2]
    head, norm = s.model.lm_head.weight.detach(), s.model.model.norm
    weight, epsilon = norm.weight.detach(), norm.variance_epsilon
    given = (logits, head, weight, epsilon)
    yield "clean final norm", final_norm.check(last, *given)
    yield "clean final norm (bfloat16)", final_norm.check(last.bfloat16(), *given)
    yield "missing norm", final_norm.check(last, *given, targets=last @ head.T)
    yield "norm twice", final_norm.check(norm(last).detach(), *given)
    yield "wrong layer (last but one)", final_norm.check(s.everything[2][:, 7], *given)
    yield "shifted (late)", final_norm.check(torch.cat([last[:1], last[:-1]]), *given)
    yield "shifted (early)", final_norm.check(torch.cat([last[1:], last[-1:]]), *given)


def layer_cases(s: Samples) -> Cases:
    every = s.everything[0]
    yield "clean aux layers", aux_layers.check(every[:, list(IDS)], every, IDS)
    yield "clean aux layers (bfloat16)", aux_layers.check(every[:, list(IDS)].bfloat16(), every, IDS)
    yield "wrong layer (late)", aux_layers.check(every[:, [3, 5, 6, 8]], every, IDS)
    yield "wrong layer (early)", aux_layers.check(every[:, [1, 3, 4, 8]], every, IDS)
    yield "wrong layer (order)", aux_layers.check(every[:, [4, 2, 5, 8]], every, IDS)


def rotary_cases(s: Samples) -> Cases:
    model, prompt, states = s.model, s.prompts[2], s.states[2]
    yield "clean rotary", rotary.check(states, states + 1e-6 * torch.randn_like(states))
    yield "clean rotary (bfloat16)", rotary.check(states.bfloat16(), states)
    with torch.no_grad():
        scrambled = torch.tensor([[(i * 3) // 2 for i in range(len(prompt))]])
        turned = model(torch.tensor([prompt]), position_ids=scrambled, output_hidden_states=True).hidden_states
        yield "rotary", rotary.check(torch.stack([turned[k][0] for k in IDS[:3]], 1), states[:, :3])
        model.model.layers[0].mlp.down_proj.weight.mul_(1.05)
        other, _ = s.reference.forward(prompt)
    yield "numbers differ (weights)", rotary.check(other[:, [1, 3, 4, 7]], states)


if __name__ == "__main__":
    main()
