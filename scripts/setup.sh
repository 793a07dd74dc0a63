#!/usr/bin/env bash
# Installs the Debian packages of scripts/packages.txt that are missing. Says nothing when all are there.
#   scripts/setup.sh [--aarch64] [--report] [--tidy]
set -euo pipefail
cd "$(dirname "$0")/.."

groups=" build "
for option in "$@"; do
  case "$option" in
    --aarch64 | --report | --tidy) groups+="${option#--} " ;;
    *) echo "setup.sh: unknown option '$option' (known: --aarch64 --report --tidy)" >&2; exit 2 ;;
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

missing=()
for name in "${wanted[@]}"; do
  is_installed "$name" || missing+=("$name")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

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
