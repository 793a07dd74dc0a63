"""A clean clone's quickstart ends in time with every row of both proxies, the table and the report."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from common import ROOT, Skip, Unusable, fresh, rows_of

LIMIT_SECONDS = 900  # was 600 with one proxy
SIMULATED = {"llama3.1-405b": 4, "deepseek-v3": 6}  # rows that end ok
UNLIKE = {"device, micro batch 2"}  # no other run has its shape: values are compared with none


def run(lines, quick):
    if quick:
        raise Skip("a clean clone takes minutes")
    dirty = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True,
                           text=True, check=True).stdout.splitlines()
    lines.info("files that differ from the commit that is cloned", len(dirty))
    with tempfile.TemporaryDirectory() as directory:
        clone = pathlib.Path(directory) / "spillway"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        output = timed_quickstart(lines, clone)
        check_rows(lines, rows_of(clone / "results/quickstart"))
        check_output(lines, output)
        shutil.copytree(clone / "results/quickstart", fresh("quickstart"))


def timed_quickstart(lines, clone):
    begin = time.monotonic()
    done = subprocess.run(["scripts/quickstart.sh"], cwd=clone, capture_output=True, text=True,
                          timeout=4 * LIMIT_SECONDS, check=False)
    seconds = time.monotonic() - begin
    lines.check(f"scripts/quickstart.sh ends within {LIMIT_SECONDS} s", f"{seconds:.0f} s",
                seconds < LIMIT_SECONDS)
    if not lines.check("its exit code is 0", done.returncode, done.returncode == 0):
        raise Unusable(done.stderr.strip()[-500:])
    return done.stdout


def check_rows(lines, rows):
    for proxy in ("llama3.1-405b-proxy", "deepseek-v3-proxy"):
        check_executed(lines, proxy, [row for row in rows if row["config"]["model"] == proxy])
    for model, expected in SIMULATED.items():
        ok = [row["label"] for row in rows
              if row["config"]["model"] == model and row["kind"] == "simulated" and row["status"] == "ok"]
        lines.check(f"{model}: rows simulated ({expected})", ok, len(ok) == expected)
    total = 6 + 6 + 4 + 7
    lines.check(f"rows in all ({total})", len(rows), len(rows) == total)


def check_executed(lines, proxy, rows):
    executed = [row for row in rows if row["status"] == "ok"]
    out_of_memory = [row for row in rows if row["status"] == "oom"]
    lines.check(f"{proxy}: variants executed (5)", [row["label"] for row in executed], len(executed) == 5)
    lines.check(f"{proxy}: their values were compared", [row["checked"] for row in executed],
                all(row["checked"] for row in executed if row["label"] not in UNLIKE))
    lines.check(f"{proxy}: device under a small --hbm is oom (1)", [row["label"] for row in out_of_memory],
                len(out_of_memory) == 1)
    if len(out_of_memory) == 1:
        fits = all(row["peak_hbm_bytes"] <= int(out_of_memory[0]["config"]["hbm"])
                   for row in executed if row["offloaded_bytes_per_step"] > 0)
        lines.check(f"{proxy}: the offload variants fit under that --hbm", fits, fits)
    for row in executed:
        step = row["step_seconds"]
        lines.info(f"{proxy}: step of {row['label']}, s",
                   f"{step['median']:.3f} ({step['min']:.3f} to {step['max']:.3f}, n {step['n']})")


def check_output(lines, output):
    tables = [line for line in output.splitlines() if line.startswith("|")]
    lines.check("stdout shows the table", f"{len(tables)} lines of tables", len(tables) >= 12)
    path = re.search(r"^HTML report: (\S+)$", output, re.MULTILINE)
    size = pathlib.Path(path[1]).stat().st_size if path and pathlib.Path(path[1]).exists() else 0
    lines.check("stdout names the HTML report, which is there", f"{size} bytes", size > 0)
