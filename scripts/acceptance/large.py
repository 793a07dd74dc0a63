"""Each op family on a tensor of more than 2^31 elements; its last rows are compared."""
import subprocess

from common import BUILD, Skip, Unusable


def run(lines, quick):
    if quick:
        raise Skip("large tensors take minutes and up to 20 GiB")
    path = BUILD / "spillway_large_ops"
    built = subprocess.run(["cmake", "--build", BUILD, "--target", path.name], capture_output=True, text=True,
                           timeout=3600, check=False)
    if built.returncode != 0:
        raise Unusable(f"{path.name} does not build: {built.stdout[-300:]}")
    done = subprocess.run([path], capture_output=True, text=True, timeout=3 * 3600, check=False)
    for line in done.stdout.splitlines():
        lines.info("spillway_large_ops", line)
    lines.check("spillway_large_ops ends with exit code 0", f"{done.returncode} {done.stderr.strip()[-300:]}",
                done.returncode == 0)
