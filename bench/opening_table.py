"""Values of the shipped network in openings, with and without its opening table: `python bench/opening_table.py`.

Prints mean squared error and share of values with the wrong sign, on positions that the table was taught and on
held-out ones: of the network alone, of the network + opening table, and of a table that has an effect on all openings.
"""

import argparse

import numpy as np
import torch

from regard import models
from regard.connectx import Labels, Solver, load_network
from regard.connectx.data.label_storage import bits_from_keys, canonical_keys
from regard.connectx.game.board_batch import checked_shape, planes_of
from regard.connectx.solver.build_book import positions_to_solve


def main() -> None:
    """Evaluate the networks and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", type=int, default=4000)
    count = parser.parse_args().positions
    torch.set_num_threads(1)
    net, solver, shape = load_network("four"), Solver(), checked_shape(6, 7, 4)
    assert net.opening_table is not None
    everywhere = models.with_opening_table(net, net.config.opening_table, net.config.opening_table_bits).eval()
    assert everywhere.opening_table is not None
    with torch.no_grad():
        everywhere.opening_table.table.copy_(net.opening_table.table)
    networks = {"network": models.with_opening_table(net), "network + table": net, "table everywhere": everywhere}
    layers = [positions_to_solve(stones, 6, 7, 4) for stones in range(net.config.opening_table[2] + 1)]
    position, mask = (np.concatenate(parts).view(np.int64) for parts in zip(*layers, strict=True))
    position, mask = bits_from_keys(np.sort(canonical_keys(position, mask, shape)), shape)
    labels = Labels(shape, position, mask, np.zeros((len(mask), 7), np.int8), np.zeros(len(mask), np.uint8))
    held_out, random = labels.held_out(), np.random.default_rng(0)
    for name, which in (("held out", held_out), ("others", ~held_out)):
        sample = labels[random.permutation(np.flatnonzero(which))[:count]]
        scores = [solver.score(int(p), int(m)) for p, m in zip(sample.position, sample.mask, strict=True)]
        planes, exact = planes_of(sample.position, sample.mask, shape), np.sign(scores)
        for network, module in networks.items():
            value = models.Evaluator(module)(planes).value
            error, wrong = ((value - exact) ** 2).mean(), 100 * (value * exact < 0).mean()
            print(f"{name:10} {network:18} squared error {error:.4f}   wrong sign {wrong:.2f} %")


if __name__ == "__main__":
    main()
