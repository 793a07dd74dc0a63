"""Grouped matmul over experts with uneven counts against oneDNN on the same work as one product."""
import json
import subprocess

from common import BUILD, Unusable

LEAST = 0.60


def run(lines, quick):
    path = BUILD / "spillway_bench"
    if not path.exists():
        raise Unusable(f"{path} is missing: it needs Google Benchmark and a release build")
    done = subprocess.run([path, "--benchmark_filter=grouped", "--benchmark_repetitions=5", "--benchmark_format=json"],
                          capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode != 0:
        raise Unusable(f"spillway_bench: exit code {done.returncode}: {done.stderr[-300:]}")
    ratios = {}
    for bench in json.loads(done.stdout)["benchmarks"]:
        if bench["run_type"] == "iteration":
            ratios.setdefault(bench["run_name"], []).append(bench["ratio"])
    if not ratios:
        raise Unusable("spillway_bench has no grouped benchmark: was it built without oneDNN?")
    for name, values in ratios.items():
        values.sort()
        median = values[len(values) // 2]
        lines.check(f"{name}: rate over oneDNN's, at least {LEAST}",
                    f"median {median:.2f} ({values[0]:.2f} to {values[-1]:.2f})", median >= LEAST)
