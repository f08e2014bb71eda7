"""Train the language model on facts, starting from random weights. Importing this module requires
torch.

An exposure is one pass over all facts, in an order drawn from the seed. The learning rate is
constant, so the state after a number of exposures is the same whether training stops there or
continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ktdeval_models.planted.reduced_text import LINE, VOCABULARY, Tokens
from ktdeval_models.planted.transformer import Shape, Transformer

BATCH = 16  #: lines per step
RATE = 1e-3  #: learning rate
_DEVIATION = 0.02  # standard deviation of the initial weights
_BETAS = (0.9, 0.99)
_CLIP = 1.0  # maximum gradient norm


@dataclass(frozen=True)
class Settings:
    """Training settings, without the data."""

    exposures: tuple[int, ...]  #: when to save the weights, in ascending order
    seed: int
    threads: int = 1
    shape: Shape = field(default_factory=Shape)


def snapshots(
    lines: Tokens, answers: Tokens, settings: Settings
) -> Iterator[tuple[int, Transformer]]:
    """Train on lines, [N, LINE], and the token that completes each line, [N]. Yield each requested
    number of exposures with the network at that point.

    The same arguments give the same weights on one machine. Another processor or another version of
    torch may round sums differently and so give different weights.
    """
    with _fix_computation(settings):
        network = _Network(settings.shape)
        optimiser = torch.optim.AdamW(
            network.parameters(), lr=RATE, betas=_BETAS, weight_decay=0.0, fused=True
        )
        read = torch.from_numpy(lines)
        wanted = torch.from_numpy(answers)
        chance = np.random.default_rng(settings.seed)

        for exposure in range(max(settings.exposures) + 1):
            if exposure:
                order = torch.from_numpy(chance.permutation(len(lines)))
                for batch in order.split(BATCH):
                    _learn(network, optimiser, read[batch], wanted[batch])

            if exposure in settings.exposures:
                yield exposure, network.transformer()


def _learn(
    network: _Network,
    optimiser: torch.optim.Optimizer,
    lines: torch.Tensor,
    wanted: torch.Tensor,
) -> None:
    """Make one optimiser step towards the answers to some lines."""
    loss = functional.cross_entropy(network(lines), wanted)
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
    optimiser.step()


@contextmanager
def _fix_computation(settings: Settings) -> Iterator[None]:
    """Compute with a fixed number of threads, a fixed seed and deterministic algorithms. Restore
    the previous settings afterwards.
    """
    threads = torch.get_num_threads()
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            torch.set_num_threads(settings.threads)
            torch.use_deterministic_algorithms(True)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(is_deterministic)


class _Layer(nn.Module):
    """Attention, then a feed-forward block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm_in = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm_out = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, states: torch.Tensor, is_last: bool) -> torch.Tensor:
        """Return the states after the layer, [lines, tokens, width]. The last layer returns only
        the last token's state, since the others are not used.
        """
        lines, length, width = states.shape
        split = self.attend(self.norm_in(states)).view(lines, length, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        if is_last:
            query = query[:, :, -1:]
            states = states[:, -1:]

        # The last token attends to all tokens, since none comes later.
        read = functional.scaled_dot_product_attention(query, key, value, is_causal=not is_last)
        joined = read.transpose(1, 2).reshape(lines, -1, width)
        states = states + self.mix(joined)
        widened = functional.gelu(self.widen(self.norm_out(states)), approximate="tanh")

        return states + self.narrow(widened)


class _Network(nn.Module):
    """The torch version of `Transformer`; its parameters have the names of that class's arrays."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token = nn.Embedding(VOCABULARY, shape.width)
        self.place = nn.Embedding(LINE, shape.width)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=_DEVIATION)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(self, lines: torch.Tensor) -> torch.Tensor:
        """Return the logits for the token after each line, [N, VOCABULARY]."""
        states = self.token(lines) + self.place.weight
        for number, layer in enumerate(self.layers, start=1):
            states = layer(states, is_last=number == self.shape.layers)
        return self.norm(states[:, -1]) @ self.token.weight.T

    def transformer(self) -> Transformer:
        """Return a copy of the current network."""
        state = {}
        for name, weights in self.state_dict().items():
            plain = name.removeprefix("layers.")
            if plain in ("token.weight", "place.weight"):
                plain = plain.removesuffix(".weight")
            state[plain] = weights.numpy().copy()

        return Transformer(self.shape, state)
