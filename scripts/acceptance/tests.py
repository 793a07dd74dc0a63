"""scripts/test.sh --tsan is clean and takes less than 15 minutes."""
import re
import subprocess
import time

from common import ROOT, Skip

LIMIT_SECONDS = 900


def run(lines, quick):
    if quick:
        raise Skip("all builds and tests take minutes")
    begin = time.monotonic()
    done = subprocess.run(["scripts/test.sh", "--tsan"], cwd=ROOT, capture_output=True, text=True,
                          timeout=6 * LIMIT_SECONDS, check=False)
    seconds = time.monotonic() - begin
    for line in done.stdout.splitlines():
        if line.startswith("== ") or re.search(r"\d+% tests passed", line):
            lines.info("scripts/test.sh", line)
    lines.check("scripts/test.sh --tsan is clean", done.returncode if done.returncode == 0 else
                f"{done.returncode}: {(done.stdout + done.stderr)[-600:]}", done.returncode == 0)
    lines.check(f"it takes less than {LIMIT_SECONDS} s, builds as they were found", f"{seconds:.0f} s",
                seconds < LIMIT_SECONDS)
