"""Run in a stage environment: why a row of hidden states is not the reference's.

Two causes are no fault of who computed it, and both are shown row by row, by the reference itself. *tie*: a router
takes the experts of the highest scores; where the last one taken and the first one left out are as good as equal,
another order of the same sums may take the other one. Run again with the other expert of that one layer and row, the
reference must give the engine's row. *rounding*: 32-bit floats do not determine the row; the reference gives one as far
off when its embeddings differ in their last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from reference import Reference

NEAR = 1e-5
"""A margin between two scores (of 0 to 1) below which they count as equal."""
LAST_BIT = 2.0**-23
"""Of a 32-bit float, as a share of it."""
DRAWS = 8
FACTOR = 4
"""How much further off than in DRAWS such forwards a row may be: an engine rounds in every layer."""


@dataclass
class Row:
    """A row that is not the reference's. `prompt` and `row` number it; layers are indices of layer outputs."""

    prompt: int
    row: int
    diff: float
    """Largest absolute difference in any captured layer."""
    cause: str = ""
    tie: tuple[int, int] | None = None
    """(layer, row) of the other expert with which the row is the engine's."""
    margin: float = float("inf")
    """Between the two scores there, in the reference."""
    after: float = float("inf")
    """Largest absolute difference once the other expert is taken."""
    moved: float = 0.0
    """By how much last bits of the embeddings move the row in the reference."""


class Routers:
    """The routers of a reference's layers: their margins, and the other expert at given places."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.margins: dict[int, Any] = {}
        """Layer → [S], of the latest forward."""
        self._other: set[tuple[int, int]] = set()
        for index, layer in enumerate(reference.layers):
            gate = getattr(layer.mlp, "gate", None)
            if gate is not None:
                gate.register_forward_hook(self._hook(index))

    def forward(self, prompt: Sequence[int], other: Sequence[tuple[int, int]] = ()) -> Any:
        """States [S, L, H]; at each (layer, row) of `other` the first expert left out replaces the last one taken."""
        self._other = set(other)
        states, _ = self.reference.forward(prompt)
        self._other = set()
        return states

    def moved(self, prompt: Sequence[int], expected: Any) -> Any:
        """The largest absolute differences [S, L] from `expected` of DRAWS forwards with other last bits."""
        import torch

        def hook(module: object, arguments: object, output: Any) -> Any:
            return output * (1 + LAST_BIT * torch.randn_like(output))

        torch.manual_seed(20)
        handle = self.reference.model.get_input_embeddings().register_forward_hook(hook)
        try:
            draws = [(self.forward(prompt) - expected).abs().amax(2) for _ in range(DRAWS)]
        finally:
            handle.remove()
        return torch.stack(draws).amax(0)

    def _hook(self, layer: int) -> Any:
        config = self.reference.config
        taken = config.num_experts_per_tok
        assert config.n_group == 1, "only the best groups' experts can be taken, and this knows one group"

        def hook(gate: Any, arguments: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            hidden = arguments[0].reshape(-1, config.hidden_size)
            scores = (hidden.float() @ gate.weight.float().T).sigmoid()
            best = (scores + gate.e_score_correction_bias).topk(taken + 1)
            self.margins[layer] = best.values[:, taken - 1] - best.values[:, taken]
            # (ids, weights) in transformers 4, (logits, weights, ids) in 5
            ids = next(one for one in output if not one.is_floating_point())
            weights = next(one for one in output if one.shape == ids.shape and one.is_floating_point())
            for row in (row for at, row in self._other if at == layer):
                ids[row] = best.indices[row, [*range(taken - 1), taken]]
                chosen = scores[row, ids[row]]
                weights[row] = (
                    chosen / chosen.sum() if config.norm_topk_prob else chosen
                ) * config.routed_scaling_factor

        return hook


@dataclass(frozen=True)
class Pair:
    """What an engine and the reference have of one prompt."""

    prompt: Sequence[int]
    states: Any
    """[S, L, H] of the engine."""
    expected: Any
    """[S, L, H] of the reference."""
    margins: dict[int, Any]
    """Layer → [S], of its router; none where the target is no mixture of experts."""


class Explained:
    """Holds engines' states against a reference, and looks for the cause of each row that differs."""

    def __init__(self, routers: Routers, pairs: Sequence[Pair], tolerance: float) -> None:
        """`tolerance` is a share of a layer's largest value."""
        import torch

        self._routers = routers
        self.rows: list[Row] = []
        """Those that differ by more."""
        self.near = 0
        """Rows whose smallest margin in any layer is below NEAR."""
        self.size = torch.stack([pair.expected.abs().amax((0, 2)) for pair in pairs]).amax(0)
        """[L], the largest value of each captured layer."""
        self.same = torch.zeros_like(self.size)
        """[L], the largest absolute difference in all other rows."""
        self._limits = tolerance * self.size
        for number, pair in enumerate(pairs):
            self._compare(number, pair)

    def _compare(self, number: int, pair: Pair) -> None:
        import torch

        if pair.margins:
            self.near += int((torch.stack(list(pair.margins.values())).amin(0) < NEAR).sum())
        diff = (pair.states - pair.expected).abs().amax(2)
        wrong = self._wrong(diff)
        self.same = torch.maximum(self.same, diff.index_fill(0, torch.tensor(wrong, dtype=torch.int64), 0).amax(0))
        found = {row: Row(number, row, float(diff[row].max())) for row in wrong}
        self.rows += found.values()
        self._find_ties(pair, diff, found)
        rest = [row for row in found.values() if not row.cause]
        if rest:
            moved = self._routers.moved(pair.prompt, pair.expected)
        for one in rest:
            one.moved = float(moved[one.row].max())
            beyond = diff[one.row] > self._limits
            one.cause = "rounding" if bool((diff[one.row] <= FACTOR * moved[one.row])[beyond].all()) else ""

    def _find_ties(self, pair: Pair, diff: Any, found: Mapping[int, Row]) -> None:
        """Takes the other expert where one is near, row after row, and keeps it where the row becomes the engine's."""
        margins, other = pair.margins, list[tuple[int, int]]()
        for row in sorted(found):
            while diff[row].gt(self._limits).any():
                first = self._first(diff[row])
                place = self._nearest(row, first, margins, other)
                if place is None:
                    break
                margin = float(margins[place[0]][row])
                tried = (pair.states - self._routers.forward(pair.prompt, [*other, place])).abs().amax(2)
                better = not tried[row].gt(self._limits).any() or self._first(tried[row]) > first
                if not better:
                    break
                other.append(place)
                mended = set(self._wrong(diff)) - set(self._wrong(tried))
                diff, margins = tried, dict(self._routers.margins)
                for one in mended & found.keys():
                    told = found[one]
                    told.cause, told.tie, told.margin, told.after = "tie", place, margin, float(diff[one].max())

    def _wrong(self, diff: Any) -> list[int]:
        """Rows of which a layer differs by more than is allowed; `diff` [S, L]."""
        return [int(row) for row in (diff > self._limits).any(1).nonzero()]

    def _first(self, diff: Any) -> int:
        """The first of the captured layers that does; `diff` [L]."""
        return int((diff > self._limits).int().argmax())

    def _nearest(
        self, row: int, first: int, margins: Mapping[int, Any], other: Sequence[tuple[int, int]]
    ) -> tuple[int, int] | None:
        """Where the first row that differs may have taken another expert: the smallest margin of the layers between
        the last captured one that is right and the first that is not. Rows before it are right, so it is its own."""
        outputs = self._routers.reference.outputs
        span = range(outputs[first - 1] + 1 if first else 0, outputs[first] + 1)
        places = [(layer, row) for layer in span if layer in margins and (layer, row) not in other]
        places = [(layer, row) for layer, row in places if float(margins[layer][row]) < NEAR]
        return min(places, key=lambda place: float(margins[place[0]][row]), default=None)

    def told(self) -> dict[str, Any]:
        """For the report."""
        return {
            "size": self.size.tolist(),
            "same": self.same.tolist(),
            "near": self.near,
            "beyond": [asdict(row) for row in self.rows],
            "unexplained": sum(not row.cause for row in self.rows),
        }
