"""Measured rows of public sources: predicted, set apart or refused with a reason; errors, good or bad."""
import csv
import json
import os
import pathlib
import subprocess
import sys

from common import BUILD, ROOT, Skip, Unusable, program

VARIABLE = "SPILLWAY_MEASURED"
# Calculon on the rows of Korthikanti et al. (average), SimuMax on its own: docs/measured.md.
PEERS = "Calculon 3.65 % on average, 8.87 % worst; SimuMax -13.5 to +0.1 % on step times, 1.4 % on memory"


CASES = ROOT / "tests/sweeps/cases/measured"
# What becomes of the invented rows there: nothing said, set apart, or refused.
EXPECTED = {"fsdp": "", "accumulated": "", "stand-in": "", "blank": "recomputation not stated",
            "replicas": "2 replicas", "tensor": "tensor", "replicated": "weights replicated",
            "family": "model not stated"}


def check_cases(lines):
    """Rows invented for this: their fate, and four micro batches against one."""
    rows = {row["id"]: row for row in predictions(CASES)[1]["rows"]}
    said = {id_: " ".join([row["reason"] or "", *row["apart"]]).strip() for id_, row in rows.items()}
    wrong = [id_ for id_, words in EXPECTED.items() if words not in said[id_] or (not words and said[id_])]
    lines.check("invented rows are predicted, set apart or refused as meant", f"{len(rows)} rows, wrong: {wrong}",
                not wrong and set(rows) == set(EXPECTED))
    ratio = rows["accumulated"]["predicted_seconds"] / rows["fsdp"]["predicted_seconds"]
    lines.check("four micro batches take three to four times as long as one", f"{ratio:.3f}", 3 < ratio < 4)


def predictions(directory):
    """(rows in the files, what measured.sh says of them)."""
    program()
    done = subprocess.run([sys.executable, ROOT / "scripts/measured/main.py", directory, "--format", "json"],
                          env={**os.environ, "SPILLWAY_BUILD": str(BUILD)}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unusable(f"measured.sh {directory}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    rows = sum(len(list(_records(path))) for path in pathlib.Path(directory).glob("*.csv")
               if path.name not in ("models.csv", "systems.csv"))
    return rows, json.loads(done.stdout)


def _records(path):
    """Records of a CSV file, its header left out."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        yield from list(csv.reader(file))[1:]


def run(lines, quick):
    check_cases(lines)
    directory = os.environ.get(VARIABLE)
    if not directory:
        raise Skip(f"{VARIABLE} names no directory of measured rows; they are not part of this repository")
    total, found = predictions(directory)
    rows = found["rows"]
    by_kind = {"predicted": [r for r in rows if r["point"] and not r["apart"]],
               "set apart": [r for r in rows if r["point"] and r["apart"]], "refused": [r for r in rows if r["reason"]]}
    counts = {kind: len(members) for kind, members in by_kind.items()}
    lines.check(f"each of {total} rows is predicted, set apart or refused with a reason", counts,
                sum(counts.values()) == len(rows) == total)
    for reason, number in found["reasons"].items():
        lines.info(f"not expressible, {number} rows", reason)
    for name, spread in found["distribution"].items():
        for what, d in spread.items():
            if d:
                lines.info(f"error of {what}, {name}, {d['rows']} rows", summary(d))
    for c in found["calibrated"]:
        lines.info(f"{c['machine']}: two figures on {c['fitted_on']} rows, error of {c['held_out']['rows']} others",
                   summary(c["held_out"]))
    for pair in found["pairs"]:
        lines.info(f"{pair['id']} over the first of its pair",
                   f"{pair['predicted']:.3f}, measured {pair['measured']:.3f}")
    lines.info("peers", PEERS)


def summary(d):
    return ", ".join(f"{name} {100 * d[key]:.1f} %" for name, key in
                     (("median", "median"), ("90 %", "p90"), ("worst", "worst"), ("mean", "mean")))
