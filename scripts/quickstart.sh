#!/usr/bin/env bash
# From a clean clone to the first report: installs what is missing, builds, runs the quickstart sweep (real steps of the
# proxy on this CPU, simulated steps of Llama 3.1 405B), prints the table. A sweep that was stopped goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."
results=results/quickstart

scripts/setup.sh
echo "quickstart: building" >&2
mkdir -p build
if ! { cmake --preset release && cmake --build --preset release --target spillway; } > build/quickstart.log 2>&1; then
  tail -n 40 build/quickstart.log >&2
  echo "quickstart: the build failed; all of its output is in build/quickstart.log" >&2
  exit 1
fi

status=0
build/release/spillway sweep quickstart.json --out "$results" || status=$?
[[ $status -le 1 ]] || exit "$status"  # 1: a point failed, which the report shows
build/release/spillway report "$results" --format html --out "$results/report.html"
echo
echo "HTML report: $PWD/$results/report.html"
exit "$status"
