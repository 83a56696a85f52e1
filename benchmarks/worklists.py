"""Random designs written in every worklist format and rebuilt by readers that share no code with the writers.

python benchmarks/worklists.py -o results/worklists.json --processes 16         # 10,000 designs
python benchmarks/worklists.py -o /tmp/small.json --designs 100
"""

import argparse
import sys
import time
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # where the readers are

from random_worklists import FORMATS, faults
from setting import provenance, write


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/worklists.json"))
    parser.add_argument("--designs", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    start = time.perf_counter()
    if given.processes == 1:
        found = [faults(seed) for seed in range(given.designs)]
    else:
        with get_context("spawn").Pool(given.processes) as pool:
            found = pool.map(faults, range(given.designs), chunksize=50)
    wrong = {name: sum(name in one for one in found) for name in FORMATS}
    print(
        f"{given.designs:,} designs, {len(FORMATS)} formats, {time.perf_counter() - start:.0f} s; not rebuilt: {wrong}"
    )
    write(given.output, {"measured_on": provenance("cpu"), "designs": given.designs, "not_rebuilt": wrong})
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
