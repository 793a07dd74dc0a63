#!/usr/bin/env bash
# Builds and tests: release, then address and undefined-behaviour sanitizers. Stops at the first failure.
#   scripts/test.sh [--tsan] [--aarch64]
# --tsan     also tests whose suite name starts with Threads, and steps of a tiny model in every way they can be
#            scheduled, under the thread sanitizer
# --aarch64  also a cross build for aarch64, its tests under qemu-user
set -euo pipefail
cd "$(dirname "$0")/.."

presets=(release asan)
setup=()
for option in "$@"; do
  case "$option" in
    --tsan) presets+=(tsan) ;;
    --aarch64) presets+=(aarch64); setup+=(--aarch64) ;;
    *) echo "test.sh: unknown option '$option' (known: --tsan --aarch64)" >&2; exit 2 ;;
  esac
done

! command -v nvcc > /dev/null || setup+=(--cudnn)
scripts/setup.sh "${setup[@]}"
for preset in "${presets[@]}"; do
  echo "== $preset"
  begin=$SECONDS
  cmake --preset "$preset" > /dev/null
  targets=()
  [[ $preset != tsan ]] || targets=(--target harness_tests spillway)
  cmake --build --preset "$preset" "${targets[@]}"
  echo "== $preset: built in $((SECONDS - begin)) s"
  ctest --preset "$preset"
  [[ $preset == aarch64 ]] ||
    TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/scripts/tsan.supp" scripts/tiny_steps.sh "build/$preset/spillway"
  echo "== $preset: built and tested in $((SECONDS - begin)) s"
done
