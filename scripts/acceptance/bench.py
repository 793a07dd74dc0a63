"""Matmul ops against oneDNN alone, and every op's share of the compute lane."""
from common import PROXY, WORK, benchmarks, percent, rows_of, run_json

RATIO_LIMIT = 1.25
SHARE_LIMIT = 0.60


def run(lines, quick):
    check_shares(lines, op_seconds())
    check_ratio(lines)


def check_ratio(lines):
    # The list of one step's products; the smallest of five repetitions disturbs least.
    runs = benchmarks("products/out:0/", "spillway_bench has no products/out:0: was it built without oneDNN?")
    ratios = sorted(b["ratio"] for b in runs)
    lines.info("matrix products run on", runs[0].get("label", "-"))
    lines.check(f"time in matmul ops : oneDNN alone, at most {RATIO_LIMIT}",
                f"median {ratios[len(ratios) // 2]:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})",
                ratios[len(ratios) // 2] <= RATIO_LIMIT)


def op_seconds():
    """Of a measured row of the proxy; measured here when no group before did."""
    for name in ("quickstart", "link"):
        for row in rows_of(WORK / name):
            if row["config"]["model"] == PROXY and row["status"] == "ok" and row["label"] == "remat":
                return row["op_seconds"]
    return run_json("--model", PROXY, "--layers", 4, "--steps", 3, "--warmup", 1)["op_seconds"]


def check_shares(lines, seconds):
    total = sum(time for op, time in seconds.items() if op != "adamw")
    share = seconds["matmul"] / total
    lines.check("matmul ops' share of the compute lane's busy time, optimizer aside, at least 60 %",
                percent(share), share >= SHARE_LIMIT)
    for op, time in sorted(seconds.items(), key=lambda item: -item[1]):
        if op not in ("matmul", "adamw"):
            lines.info(f"share of {op}", percent(time / total))
    lines.info("adamw, beside that", percent(seconds.get("adamw", 0) / total))
