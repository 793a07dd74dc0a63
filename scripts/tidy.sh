#!/usr/bin/env bash
# clang-format (check only) and clang-tidy over the tracked and new source files. --fix formats in place first.
#   scripts/tidy.sh [--fix] [file...]        without files: all of them
set -euo pipefail
cd "$(dirname "$0")/.."

fix=no
if [[ "${1:-}" == --fix ]]; then
  fix=yes
  shift
fi
scripts/setup.sh --tidy

files=("$@")
if [[ ${#files[@]} -eq 0 ]]; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh')
fi
[[ ${#files[@]} -gt 0 ]] || { echo "tidy: no source files" >&2; exit 1; }

[[ "$fix" == no ]] || clang-format -i "${files[@]}"
clang-format --dry-run --Werror "${files[@]}"

# A configuration of its own: clang cannot read g++'s precompiled headers nor nvcc's options, and findings belong to files.
cmake --preset release -B build/tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_UNITY_BUILD=OFF -DSPILLWAY_CUDA=OFF > /dev/null
# Only what the release build compiles; headers are seen through the files that include them.
units=()
for file in "${files[@]}"; do
  ! grep -qF "\"file\": \"$PWD/$file\"" build/tidy/compile_commands.json || units+=("$file")
done
if [[ ${#units[@]} -gt 0 ]]; then
  printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 \
    clang-tidy -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option
fi
echo "tidy: ${#files[@]} files formatted as they should be, ${#units[@]} units without findings"
