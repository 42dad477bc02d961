"""python -m benchmarks [generate|eviction|length|candidates|scoring|reco|page|all] [--models SET | --base DIR --helper DIR] [--threads 2]"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch

from benchmarks import candidates, eviction, generate, length, page, reco, scoring
from benchmarks.common import print_machine
from kvrescue.models.load import Pair, load_pair

PARTS: dict[str, Callable[[Pair], bool]] = {
    "generate": generate.measure,
    "eviction": eviction.measure,
    "length": length.measure,
    "candidates": candidates.measure,
    "scoring": scoring.measure,
    "reco": reco.measure,
    "page": page.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", default="all", choices=[*PARTS, "all"])
    parser.add_argument("--models", default="smollm2")
    parser.add_argument("--base", default=None)
    parser.add_argument("--helper", default=None)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    pair = load_pair(None if args.base else args.models, args.base, args.helper)
    print_machine(pair)
    chosen = PARTS if args.part == "all" else {args.part: PARTS[args.part]}
    results = {name: measure(pair) for name, measure in chosen.items()}
    print("\n" + ", ".join(f"{name}: {'target met' if met else 'TARGET MISSED'}" for name, met in results.items()))


if __name__ == "__main__":
    main()
