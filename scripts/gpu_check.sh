#!/usr/bin/env bash
# Checks the CUDA executor on a GPU: values, schedules, races, copies, rates. One call, under 8 minutes, no network, nothing
# outside this checkout. What it needs beside CMake, a C++ compiler and a CUDA toolkit is collected beforehand:
#   scripts/gpu_check.sh --pack DIR               where the packages of scripts/packages.txt can be installed
#   scripts/gpu_check.sh --deps DIR --out DIR     on the machine with the GPU: builds for it and runs all parts
# Each part prints one JSON line as it ends, the cheapest and most telling first: part, status (pass, fail, skipped), reason,
# seconds, figures. --out receives results.jsonl (those lines), build.log and run.log. Exit code 0 all passed or skipped,
# 1 a part failed, 2 no GPU to run on (or wrong usage). More options:
#   --build DIR     use spillway_gpu_check in this build directory as it is (no --deps)
#   --only PART     this part alone (may be repeated)
#   --seconds N     for everything [470]
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export XDG_CACHE_HOME=$root/build/cache  # where the algorithms of products are kept
begin=$SECONDS
pack='' deps='' out='' build='' total=470 only=()

usage() {
  echo "gpu_check.sh: $1; expected --pack DIR, or --deps DIR --out DIR, or --build DIR --out DIR" >&2
  exit 2
}

while [[ $# -gt 0 ]]; do
  [[ $# -ge 2 ]] || usage "found '$1' without a value"
  case "$1" in
    --pack) pack=$2 ;;
    --deps) deps=$2 ;;
    --out) out=$2 ;;
    --build) build=$2 ;;
    --only) only+=("$2") ;;
    --seconds) total=$2 ;;
    *) usage "unknown option '$1'" ;;
  esac
  shift 2
done

# Headers only: each package's own directory, never /usr/include as a whole.
collect() {
  local header directory place found
  mkdir -p "$pack/include" || exit 2
  for header in nlohmann/json.hpp CLI/CLI.hpp libfccp/csv.h nvtx3/nvToolsExt.h; do
    directory=${header%%/*} found=''
    for place in /usr/include /usr/local/include "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda-*/include; do
      [[ -z $found && -e $place/$header ]] && found=$place/$directory
    done
    if [[ -n $found ]]; then
      rm -rf "${pack:?}/include/$directory"
      cp -RL "$found" "$pack/include/$directory" || exit 2
    elif [[ $directory != nvtx3 ]]; then  # without it ranges are left out
      echo "gpu_check.sh: $header is missing: run scripts/setup.sh first" >&2
      exit 2
    fi
  done
  echo "packed $(du -sk "$pack" | cut -f1) KiB in $pack: $(ls "$pack/include" | xargs)"
}

line() {  # part status reason seconds figures
  local reason=null
  [[ -z $3 ]] || reason="\"$(printf '%s' "$3" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')\""
  printf '{"part":"%s","status":"%s","reason":%s,"seconds":%d,"figures":%s}\n' "$1" "$2" "$reason" "$4" "$5" |
    tee -a "$out/results.jsonl"
}

left() { echo $((total - (SECONDS - begin))); }

# For the GPU's own architecture alone; CMake asks nvidia-smi for it (scripts/cuda.cmake).
compile() {
  local jobs started=$SECONDS generator=()
  jobs=$(nproc)
  ! command -v ninja >/dev/null || generator=(-G Ninja)
  build=$root/build/gpu_check
  export PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
  {
    cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
      "-DSPILLWAY_PACKED=$deps" -DSPILLWAY_ONEDNN=OFF -DSPILLWAY_CUDA=ON \
      -DSPILLWAY_TESTS=OFF -DSPILLWAY_GPU_CHECK=ON --compile-no-warning-as-error &&
      timeout "$(left)" cmake --build "$build" --target spillway_gpu_check -j "$jobs"
  } >"$out/build.log" 2>&1 ||
    { line build fail "$(grep -m1 -E '(error|Error)[: ]' "$out/build.log" || tail -n 1 "$out/build.log")" \
        $((SECONDS - started)) '{}'; exit 1; }
  line build pass '' $((SECONDS - started)) \
    "{\"jobs\":$jobs,\"built_for\":\"$(sed -n 's/.*CUDA \(.*\)$/\1/p' "$out/build.log" | head -n 1)\"}"
}

# In a process of its own: an error of a device ends a process's use of it.
run_part() {  # name limit
  local limit=$2 started=$SECONDS printed code
  [[ $(left) -ge $limit ]] || limit=$(left)
  if [[ $limit -lt 5 ]]; then
    line "$1" skipped "the $total seconds are spent" 0 '{}'
    return 0
  fi
  printed=$(timeout -k 5 "$limit" "$build/spillway_gpu_check" "$1" --seconds "$limit" 2>>"$out/run.log")
  code=$?
  if [[ $code -eq 2 ]]; then
    tail -n 1 "$out/run.log" >&2
    exit 2
  elif [[ $printed == '{"'* ]]; then
    printf '%s\n' "$printed" | tee -a "$out/results.jsonl"
  else
    line "$1" fail "ended without a result, exit code $code (124: after $limit seconds)" $((SECONDS - started)) '{}'
  fi
  return $((code != 0))
}

if [[ -n $pack ]]; then
  collect
  exit 0
fi
[[ -n $out ]] || usage "no --out"
[[ -n $deps || -n $build ]] || usage "neither --deps nor --build"
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
: >"$out/results.jsonl"
: >"$out/run.log"
if [[ -z $build ]]; then
  [[ -e $deps/include/nlohmann/json.hpp ]] || usage "nothing packed in '$deps'"
  deps=$(cd "$deps" && pwd)
  compile
fi
parts=$("$build/spillway_gpu_check" --list) || usage "no spillway_gpu_check in '$build'"
failed=0
while read -r name limit; do
  [[ ${#only[@]} -eq 0 || " ${only[*]} " == *" $name "* ]] || continue
  run_part "$name" "$limit" </dev/null || failed=1
done <<<"$parts"
exit $failed
