#!/usr/bin/env bash
# Checks every promise of one stage of the work and prints each with its figure and pass, FAIL or info.
# Exit code 1 if any fails. What it runs is in scripts/acceptance/, one file per group of promises.
#   scripts/acceptance.sh N [--only GROUP]... [--quick] [--list]     N: the stage (2: Llama with QKV offload)
# --only   only this group (more than once: these groups)
# --quick  leave out what takes minutes
# --list   only list the groups
# SPILLWAY_BUILD=DIR uses the programs in DIR as they are; else the release preset is built first.
# Times are part of it: run it on a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1  # no __pycache__ beside the sources

command -v python3 >/dev/null || scripts/setup.sh
python3 scripts/acceptance/main.py "$@" --list >/dev/null  # refuses wrong options before anything is built
case " $* " in *" --list "* | *" -h "* | *" --help "*) build=no ;; *) build=yes ;; esac
if [[ $build == yes && -z "${SPILLWAY_BUILD:-}" ]]; then
  scripts/setup.sh
  echo "acceptance: building" >&2
  mkdir -p build
  if ! { cmake --preset release && cmake --build --preset release; } > build/acceptance.log 2>&1; then
    tail -n 40 build/acceptance.log >&2
    echo "acceptance: the build failed; all of its output is in build/acceptance.log" >&2
    exit 1
  fi
fi
exec python3 scripts/acceptance/main.py "$@"
