#!/usr/bin/env bash
# Installs the Debian packages of scripts/packages.txt that are missing. Says nothing when all are there.
#   scripts/setup.sh [--aarch64] [--cudnn] [--report] [--tidy]
# --cudnn: also the headers of cuDNN's front end, from PyPI into build/deps; without a network it says so and goes on.
set -euo pipefail
cd "$(dirname "$0")/.."

groups=" build "
for option in "$@"; do
  case "$option" in
    --aarch64 | --cudnn | --report | --tidy) groups+="${option#--} " ;;
    *) echo "setup.sh: unknown option '$option' (known: --aarch64 --cudnn --report --tidy)" >&2; exit 2 ;;
  esac
done

is_installed() {
  dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

wanted=()
while read -r group name _; do
  [[ -z "$group" || "$group" == \#* || "$groups" != *" $group "* ]] || wanted+=("$name")
done < scripts/packages.txt

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: no apt-get here; going on without installing. Needed, by Debian's names: ${wanted[*]}" >&2
  exit 0
fi

frontend=nvidia-cudnn-frontend==1.32.0
get_cudnn_frontend() {
  local to=build/deps/cudnn-frontend wheel
  [[ ! -e $to/include/cudnn_frontend.h ]] || return 0
  mkdir -p "$to"
  if ! python3 -m pip download --quiet --no-deps --dest "$to" "$frontend" >&2; then
    echo "setup.sh: no $frontend from PyPI: attention by cuDNN is not built" >&2
    return 0
  fi
  wheel=$(ls "$to"/*.whl)
  python3 - "$wheel" "$to" <<'PYTHON'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("include/")])
PYTHON
  rm "$wheel"
}
finish() {
  [[ "$groups" != *" cudnn "* ]] || get_cudnn_frontend
  exit 0
}

missing=()
for name in "${wanted[@]}"; do
  is_installed "$name" || missing+=("$name")
done
[[ ${#missing[@]} -gt 0 ]] || finish

as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: not root and no sudo; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup.sh: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
finish
