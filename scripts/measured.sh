#!/bin/sh
# Predicts measured training results of public sources and prints the errors (docs/measured.md):
#   scripts/measured.sh DIR [--out FILE] [--format md|json]
# DIR holds their CSV files; SPILLWAY_BUILD is the build to use, if not build/release.
export PYTHONDONTWRITEBYTECODE=1  # no __pycache__ beside the sources
exec python3 "$(dirname "$0")/measured/main.py" "$@"
