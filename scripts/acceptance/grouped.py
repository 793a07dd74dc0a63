"""Grouped matmul over experts with uneven counts against oneDNN on the same work as one product."""
from common import benchmarks

LEAST = 0.60


def run(lines, quick):
    ratios = {}
    for bench in benchmarks("grouped", "spillway_bench has no grouped benchmark: was it built without oneDNN?"):
        ratios.setdefault(bench["run_name"], []).append(bench["ratio"])
    for name, values in ratios.items():
        values.sort()
        median = values[len(values) // 2]
        lines.check(f"{name}: rate over oneDNN's, at least {LEAST}",
                    f"median {median:.2f} ({values[0]:.2f} to {values[-1]:.2f})", median >= LEAST)
