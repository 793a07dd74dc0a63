"""Predicts measured rows of public sources and prints errors, good or bad: scripts/measured.py DIR.

DIR holds CSV files of measurements and models.csv, which this project does not ship. Every row is
predicted from the shipped machine files alone, or listed with the reason why it cannot be.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import mapping
import models
import predict
import report
import rows

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/measured.sh", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--out", default="-", help="file, or - for stdout")
    parser.add_argument("--format", choices=["md", "json"], default="md")
    options = parser.parse_args()
    if not (options.directory / "models.csv").is_file():
        parser.error(f"{options.directory}: found no models.csv, expected a directory of measured rows")
    return options


def program():
    build = pathlib.Path(os.environ.get("SPILLWAY_BUILD") or ROOT / "build/release")
    path = build.resolve() / "spillway"
    if not path.exists():
        sys.exit(f"{path} is missing: build the release preset, or set SPILLWAY_BUILD")
    return str(path)


def machine_figures(spillway):
    listed = subprocess.run([spillway, "list", "machines", "--json"], capture_output=True, text=True, check=True)
    return {machine["name"]: machine["figures"] for machine in json.loads(listed.stdout)}


def main():
    options = parse_arguments()
    measured, dimensions = rows.read_all(options.directory)
    spillway = program()
    with tempfile.TemporaryDirectory(prefix="spillway-measured-") as name:
        directory = pathlib.Path(name)
        found = models.Models(dimensions, directory)
        mapped = [mapping.map_row(row, found) for row in measured]
        results = predict.simulate(spillway, mapped, directory)
        predictions = predict.predict(mapped, results, machine_figures(spillway))
    text = report.render(mapped, predictions, options.format)
    if options.out == "-":
        print(text)
    else:
        pathlib.Path(options.out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
