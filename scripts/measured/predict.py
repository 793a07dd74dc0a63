"""Runs the points of mapped rows as one sweep and turns their results into predictions."""
import json
import subprocess
from dataclasses import dataclass


@dataclass
class Prediction:
    mapped: object
    seconds: float  # of the row's step: all its micro batches, one optimizer
    measured: float  # None where only memory was published
    peak_gib: float
    matmul: float  # of `seconds`, in matrix products
    attention: float  # in attention kernels

    def error(self):
        return None if self.measured is None else self.seconds / self.measured - 1

    def peak_error(self):
        measured = self.mapped.row.peak_gib
        return None if measured is None else self.peak_gib / measured - 1


def simulate(program, mapped, directory):
    """{id: result} of the rows that can be expressed. Capacities are lifted: that a row fitted is known."""
    same = {}  # rows of equal points, which a sweep takes once
    for m in mapped:
        if not m.reason:
            same.setdefault(json.dumps(m.point, sort_keys=True), []).append(m)
    points = [{"label": members[0].row.id, "hbm": "100000GiB", "host": "100000GiB", **members[0].point}
              for members in same.values()]
    sweep = {"name": "measured", "title": "Measured rows", "defaults": {"executor": "sim"}, "points": points}
    file = directory / "measured.json"
    file.write_text(json.dumps(sweep, indent=1), encoding="utf-8")
    out = directory / "results"
    done = subprocess.run([program, "sweep", str(file), "--out", str(out)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"spillway sweep {file}: exit code {done.returncode}: {done.stderr.strip()[-800:]}")
    lines = (out / "results.jsonl").read_text(encoding="utf-8").splitlines()
    results = {result["label"]: result for result in map(json.loads, lines) if "label" in result}
    return {m.row.id: results[members[0].row.id] for members in same.values() for m in members}


def replica_seconds(row, point, result, figures):
    """A ring all-reduce of gradient shards over R replicas, 2 (R - 1) / R times their bytes, after the step."""
    if row.replicas <= 1:
        return 0.0
    weight, m, v, gradient = map(int, point["state_bytes"].split(","))
    shard = result["peak_hbm_by_role"]["optimizer"] / (m + v) * gradient
    rate = figures["nic_bandwidth"]["value"] * figures["nic_efficiency"]["value"]
    return 2 * (row.replicas - 1) / row.replicas * shard / rate


def measured_seconds(row, result):
    if row.seconds:
        return row.seconds
    if row.tflops:
        return result["counted_flops_full_attention"] * row.accumulate / (row.tflops * 1e12)
    if row.tokens_per_s:
        return row.micro_batch * row.accumulate * row.seq / row.tokens_per_s
    return None


def predict(mapped, results, machines):
    """Gradient accumulation: forward and backward so many times, the optimizer once."""
    predictions = []
    for m in mapped:
        if m.reason:
            continue
        result = results[m.row.id]
        if result["status"] != "ok":
            raise SystemExit(f"{m.row.id}: {result['status']}: {result['reason']}")
        step, optimizer = result["step_seconds"]["median"], result["op_seconds"]["adamw"]
        times = m.row.accumulate
        seconds = times * (step - optimizer) + optimizer
        seconds += replica_seconds(m.row, m.point, result, machines[m.point["machine"]])
        matmul = times * sum(result["op_seconds"].get(kind, 0) for kind in ("matmul", "grouped_matmul"))
        attention = times * sum(result["op_seconds"].get(kind, 0) for kind in ("attention", "attention_backward"))
        predictions.append(Prediction(m, seconds, measured_seconds(m.row, result), result["peak_hbm_bytes"] / 2**30,
                                      matmul, attention))
    return predictions
