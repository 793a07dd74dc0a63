#!/usr/bin/env bash
# Steps of a tiny model in every way its copies can be scheduled; fails when one fails or changes a bit.
#   scripts/tiny_steps.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1

said=$(mktemp)
trap 'rm -f "$said"' EXIT
reference=""
for policy in full qkv_proj_offloaded decoder_layer_input=offload; do
  for lhs in off on; do
    for pipeline in off on; do
      digest=$("$program" run --model llama-tiny --micro-batch 2 --seq 33 --steps 2 --warmup 0 --policy "$policy" \
        --lhs "$lhs" --pipeline "$pipeline" 2> "$said" | grep "gradient digest") || { cat "$said" >&2; exit 1; }
      reference=${reference:-$digest}
      if [[ $digest != "$reference" ]]; then
        echo "tiny_steps: $policy, lhs $lhs, pipeline $pipeline: found '$digest', expected '$reference'" >&2
        exit 1
      fi
    done
  done
done
echo "tiny_steps: 12 variants, $reference"
