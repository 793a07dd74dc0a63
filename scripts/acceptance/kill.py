"""A sweep killed ten times at random moments ends with the report of an uninterrupted one."""
import json
import random
import subprocess
import time

from common import HERE, Unusable, fresh, program, rows_of, spillway

KILLS = 10
# Fields whose value is a time, depends on one, or on how often memory was asked for. The rest must be equal.
TIMED = {"step_seconds", "projected", "steps", "tflops_per_s_per_device", "tflops_per_s_per_device_full_attention",
         "tokens_per_s_per_device", "exposed_transfer_seconds", "compute_lane", "op_seconds", "timeline",
         "link_bytes_per_second"}
TIMED_PARTS = {"seconds", "exposed_seconds"}


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items() if key not in TIMED_PARTS}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def content(directory):
    """label -> row, times aside. Simulated rows keep theirs: they must be equal to the last bit."""
    rows = {}
    for row in rows_of(directory):
        if row["kind"] == "measured":
            row = without_times({key: value for key, value in row.items() if key not in TIMED})
        rows[row["label"]] = row
    return rows


def start(out):
    return subprocess.Popen([program(), "sweep", str(HERE / "kill.json"), "--out", str(out)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def killed_after(out, seconds):
    """Whether the sweep was still running when it was killed."""
    process = start(out)
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    if process.returncode not in (0, 1):
        raise Unusable(f"continuing the sweep: exit code {process.returncode}: {err.decode()[-300:]}")
    return False


def kill_repeatedly(lines, out, whole_seconds, seed):
    """Kills KILLS times at moments spread over the run; later starts that find it finished end early."""
    rng = random.Random(seed)
    moments, done = [], 0
    while done < KILLS:
        seconds = rng.uniform(0.01, 1.6 * whole_seconds / KILLS)
        if not killed_after(out, seconds):
            break
        done += 1
        moments.append(f"{seconds:.2f}")
        code, _, err = spillway("report", out, "--format", "json")
        if code not in (0, 2):  # 2: no result yet
            lines.check("a report of a killed sweep", err.strip()[-200:], False)
    lines.info("killed after, s", ", ".join(moments))
    return done


def check_store(lines, out):
    for name, key in (("results.jsonl", lambda e: e["key"]), ("visits.jsonl", lambda e: (e["key"], e["visit"]))):
        text = (out / name).read_text(encoding="utf-8")
        entries = [json.loads(line) for line in text.splitlines()]
        keys = {key(entry) for entry in entries}
        lines.check(f"{name}: every line whole, none twice", f"{len(entries)} lines, {len(keys)} different",
                    text.endswith("\n") and len(keys) == len(entries))


def check_equal(lines, whole, killed):
    different = sorted({f"{label}: {key}" for label in whole.keys() | killed.keys()
                        for key in whole.get(label, {}).keys() | killed.get(label, {}).keys()
                        if whole.get(label, {}).get(key) != killed.get(label, {}).get(key)})
    lines.check("the report equals that of an uninterrupted sweep, times aside",
                f"{len(killed)} rows, different: {different[:5]}", len(whole) == 11 and not different)
    lines.check("rows in the same order", list(killed)[:3], list(killed) == list(whole))


def run(lines, quick):
    whole, begin = fresh("kill-whole"), time.monotonic()
    if killed_after(whole, 3600):
        raise Unusable("the uninterrupted sweep takes over an hour")
    seconds = time.monotonic() - begin
    lines.info("the uninterrupted sweep", f"{seconds:.1f} s")
    seed = random.SystemRandom().randrange(2**32)
    lines.info("seed of the moments", seed)
    kills, tries = 0, 0
    while kills < KILLS and tries < 5:  # a sweep that ended early is checked, then another one is killed
        out = fresh(f"kill-{tries}")
        kills += kill_repeatedly(lines, out, seconds, seed + tries)
        killed_after(out, 3600)
        check_store(lines, out)
        check_equal(lines, content(whole), content(out))
        tries += 1
    lines.check(f"killed at least {KILLS} times", kills, kills >= KILLS)
