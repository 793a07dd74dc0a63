"""scripts/gpu_check.sh packs, builds and stops where a device is needed, with the network off."""
import json
import shutil
import subprocess

from common import ROOT, WORK, Skip

PACK_LIMIT = 40 * 2**20
FILES_LIMIT = 4


def offline():
    """What to put before a command to run it without a network; [] where that cannot be done."""
    for words in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    return []


def gpu_check(*arguments):
    return subprocess.run([*offline(), ROOT / "scripts/gpu_check.sh", *map(str, arguments)], cwd=ROOT, capture_output=True,
                          text=True, timeout=7200, check=False)


def json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(lines, quick):
    lines.info("network", "off" if offline() else "on: unshare -n does not work here")
    pack, out = WORK / "gpu_check_pack", WORK / "gpu_check_out"
    for path in (pack, out):
        shutil.rmtree(path, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    done = gpu_check("--pack", pack)
    size = sum(file.stat().st_size for file in pack.rglob("*") if file.is_file())
    lines.check("--pack collects less than 40 MiB", f"exit code {done.returncode}, {size / 2**20:.1f} MiB",
                done.returncode == 0 and 0 < size < PACK_LIMIT)
    if quick:
        raise Skip("building what was packed takes minutes")
    done = gpu_check("--deps", pack, "--out", out, "--seconds", 3600, "--only", "environment")
    results = json_lines(out / "results.jsonl")
    build = next((line for line in results if line["part"] == "build"), None)
    lines.check("--deps builds with CMake, a compiler and a CUDA toolkit alone",
                f"{build and build['status']} in {build and build['seconds']} s on {build and build['figures'].get('jobs')} cores",
                build is not None and build["status"] == "pass")
    files = sorted(path.name for path in out.iterdir())
    lines.check("at most four files in --out", ", ".join(files), len(files) <= FILES_LIMIT)
    if done.returncode == 2:
        lines.check("it stops where a device is needed, and says so", f"2: {done.stderr.strip()[-100:]}", "CUDA" in done.stderr)
    else:
        lines.check("on this GPU the first part passes", f"exit code {done.returncode}", done.returncode == 0)
