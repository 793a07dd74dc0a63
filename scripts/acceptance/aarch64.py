"""Host code compiles for aarch64 and the tests pass under qemu-user."""
import os
import re
import subprocess
import time

from common import ROOT, Skip

STEPS = [("scripts/setup.sh", ["scripts/setup.sh", "--aarch64"]),
         ("configures", ["cmake", "--preset", "aarch64"]),
         ("compiles", ["cmake", "--build", "--preset", "aarch64"]),
         ("tests pass under qemu-user", ["ctest", "--preset", "aarch64"])]


def run(lines, quick):
    if quick:
        raise Skip("a cross build and an emulator take minutes")
    untimed = {key: value for key, value in os.environ.items() if key != "SPILLWAY_TIMED_TESTS"}
    for what, command in STEPS:
        begin = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * 3600, check=False,
                              env=untimed)
        counted = re.search(r"\d+% tests passed.*", done.stdout)
        text = counted[0] if counted else ""
        if done.returncode != 0:
            text += (done.stdout + done.stderr)[-400:]
        if not lines.check(what, f"{time.monotonic() - begin:.0f} s {text}", done.returncode == 0):
            return
