"""The CUDA executor compiles and links for every GPU it names, free of warnings, and starts without a driver."""
import json
import pathlib
import subprocess

from common import ROOT, Skip, Unusable, spillway

ARCHITECTURES = ["80", "90a", "100a", "103a", "120"]


def built(preset):
    done = subprocess.run(["cmake", "--preset", preset], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unusable(f"cmake --preset {preset}: {done.stderr[-400:]}")
    return subprocess.run(["cmake", "--build", "--preset", preset, "--clean-first", "--target", "spillway",
                           "spillway_gpu_check"], cwd=ROOT, capture_output=True, text=True, timeout=7200, check=False)


def check_driverless(lines, program):
    done = subprocess.run([program, "run", "--model", "llama-tiny", "--executor", "cuda"], capture_output=True, text=True,
                          check=False)
    if done.returncode == 0:
        lines.info("--executor cuda", "there is a GPU here")
        return
    words = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "-"
    lines.check("without a driver --executor cuda says so and exits 2", f"{done.returncode}: {words[:90]}",
                done.returncode == 2 and "CUDA" in words)
    code, _, err = spillway("run", "--model", "llama-tiny", "--steps", 2, "--warmup", 1)
    lines.check("everything else runs", f"exit code {code} {err.strip()[-80:]}", code == 0)


def run(lines, quick):
    preset = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
    named = next(p for p in preset["configurePresets"] if p["name"] == "cuda")["cacheVariables"]["CMAKE_CUDA_ARCHITECTURES"]
    missing = [a for a in ARCHITECTURES if f"{a}-real" not in named.split(";")]
    lines.check("preset cuda names sm_80, 90a, 100a, 103a, 120", named, not missing)
    if quick:
        raise Skip("compiling for all of them takes minutes")
    done = built("cuda")
    output = done.stdout + done.stderr
    warnings = [line for line in output.splitlines() if "warning" in line.lower()]
    lines.check("it compiles and links for all of them", f"exit code {done.returncode} {output[-200:] if done.returncode else ''}",
                done.returncode == 0)
    lines.check("without a warning", f"{len(warnings)} {warnings[:2] or ''}", not warnings)
    check_driverless(lines, str(pathlib.Path(ROOT) / "build/cuda/spillway"))
