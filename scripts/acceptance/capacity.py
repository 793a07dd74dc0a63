"""The largest micro batch of DeepSeek-V3 under each policy, and why the next one does not fit."""
from common import GIB, run_json, spillway_json

SETTINGS = ["--model", "deepseek-v3", "--devices", "128", "--seq", "4096", "--moe", "capacity", "--precision", "fp8",
            "--projection-precision", "fp8", "--rotation-copies", "on", "--lhs", "on", "--pipeline", "on"]
POLICIES = ["deepseek_v3_device", "deepseek_v3_offload", "full"]
GRACE_SHARE = 240_000_000_000  # bytes of host memory a GPU: 480 GB for two
STATES = {"10 + 2 bytes": "2,4,4,2", "12 + 4 bytes": "4,4,4,4"}


def run(lines, quick):
    for name, state_bytes in STATES.items():
        check_state(lines, name, state_bytes)
    check_impossible(lines)


def ask(state_bytes):
    policies = [word for policy in POLICIES for word in ("--policy", policy)]
    result = spillway_json("capacity", *SETTINGS, "--state-bytes", state_bytes, *policies, "--json", "-")
    return {row["policy"]: row for row in result["policies"]}


def fits(row, micro_batch):
    """As tried by the search; None where it was not asked."""
    for trial in row["tried"]:
        if trial["micro_batch"] == micro_batch:
            return trial["device_bytes_left"] >= 0 and trial["host_bytes_left"] >= 0
    return None


def check_state(lines, name, state_bytes):
    rows = ask(state_bytes)
    device, offload = rows["deepseek_v3_device"], rows["deepseek_v3_offload"]
    for policy, row in rows.items():
        following = row["next"]
        lines.info(f"{name}, {policy}: largest micro batch, and the next one's margin",
                   f"{row['largest_micro_batch']}; {following['micro_batch']}: device "
                   f"{following['device_bytes_left'] / GIB:+.1f} GiB, host {following['host_bytes_left'] / GIB:+.1f} GiB"
                   if following else row["largest_micro_batch"])
    if name.startswith("12"):
        return  # printed beside it, judged by nothing published
    lines.check("kept on the device: micro batch 2 fits", fits(device, 2), fits(device, 2) is True)
    for micro_batch in (4, 8):
        lines.check(f"kept on the device: {micro_batch} does not", fits(device, micro_batch),
                    fits(device, micro_batch) is False)
    lines.check("offloaded: 8 fits", fits(offload, 8), fits(offload, 8) is True)


def check_impossible(lines):
    options = ["--executor", "sim", *SETTINGS, "--micro-batch", "8", "--state-bytes", "2,4,4,2"]
    device = run_json(*options, "--policy", "deepseek_v3_device")
    lines.check("run of the impossible point is a row", f"{device['status']}: {device['reason'][:80]}",
                device["status"] == "oom")
    roles = device["peak_hbm_by_role"]
    named = ("parameters", "gradients", "optimizer", "kept", "in_flight", "gathered_weights", "logits", "workspace")
    lines.check("its itemised peak adds up", ", ".join(f"{role} {roles[role] / GIB:.1f}" for role in named),
                all(role in roles for role in named) and sum(roles.values()) == device["peak_hbm_bytes"])
    offload = run_json(*options, "--policy", "deepseek_v3_offload")
    lines.check("host use is within Grace's share of a GPU, GiB",
                f"{offload['host_bytes'] / GIB:.1f} of {GRACE_SHARE / GIB:.1f}",
                round(offload["host_bytes"] / GIB, 1) == 145.1 and offload["host_bytes"] <= GRACE_SHARE)
