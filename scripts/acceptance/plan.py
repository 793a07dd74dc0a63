"""The plan is true (its peak is the capacity a run needs) and tight; host bytes are exact."""
import json

from common import QKV_ON_DEVICE, ROOT, check_tests, run_json

UNIT = 64  # bytes, the alignment of the arenas
AMPLE = 2**42
TINY = [["--micro-batch", "1", "--seq", "37", "--policy", "full"],
        ["--micro-batch", "2", "--seq", "33", "--policy", "qkv_proj_offloaded", "--lhs", "off"],
        ["--micro-batch", "2", "--seq", "33", "--policy", "qkv_proj_offloaded"],
        ["--micro-batch", "3", "--seq", "64", "--policy", "qkv_proj_offloaded", "--pipeline", "on"],
        ["--micro-batch", "3", "--seq", "64", "--policy", "minimal_offloaded", "--pipeline", "on",
         "--rotation-copies", "on"],
        ["--micro-batch", "2", "--seq", "64", "--policy", QKV_ON_DEVICE, "--precision", "fp32"]]
ONE_STEP = ["--steps", "1", "--warmup", "0"]


def options_of(point):
    return [word for key, value in point.items() if key not in ("label", "published", "stands_for", "link", "hbm")
            for word in ("--" + key.replace("_", "-"), str(value))]


def points_of(name):
    """(label, options) of a shipped sweep's own points; included ones belong to another sweep."""
    sweep = json.loads((ROOT / f"sweeps/{name}.json").read_text(encoding="utf-8"))
    return [(point["label"], options_of({**sweep["defaults"], **point})) for point in sweep["points"]]


def check_capacity(lines, label, options, peak):
    """At exactly the peak a run passes, with one unit less it is oom and says how much it wants."""
    exact = run_json(*options, "--hbm", peak)
    less = run_json(*options, "--hbm", peak - UNIT)
    lines.check(f"{label}: {peak} bytes pass, {UNIT} less is oom", f"{exact['status']}, {less['status']}",
                exact["status"] == "ok" and less["status"] == "oom")
    # The scheduler knows the capacity and may choose another order for it, never one that needs more.
    lines.check(f"{label}: what is reported under that capacity is no more", exact["peak_hbm_bytes"],
                exact["peak_hbm_bytes"] <= peak)


def transient(result):
    """(peak, largest live sum) of what is neither state nor a stacked residual, in bytes."""
    curve = [point["bytes"] for point in result["memory_curve"]]
    state = sum(min(bytes_[role] for bytes_ in curve) for role in ("parameters", "gradients", "optimizer"))
    live = max(sum(bytes_.values()) - bytes_["kept"] for bytes_ in curve) - state
    return result["peak_hbm_bytes"] - state - max(bytes_["kept"] for bytes_ in curve), live


def check_tight(lines, label, result):
    peak, live = transient(result)
    lines.check(f"{label}: transient peak at most 1 % above the largest live sum",
                f"{peak} of {live}, {100 * (peak / live - 1):+.3f} %", peak <= 1.01 * live)
    roles = sum(result["peak_hbm_by_role"].values())
    lines.check(f"{label}: roles and holes add up to the peak", f"{roles}", roles == result["peak_hbm_bytes"])


def peak_without_running(options):
    """A result that shows the plan for ample memory. An offload variant is stopped by its host bytes; one
    that keeps nothing on the host is asked under ever less capacity until that changes nothing."""
    result = run_json(*options, "--hbm", AMPLE, "--host", "1") if "qkv_proj_offloaded" in options else None
    if result and result["status"] == "host_oom":
        return result
    result = run_json(*options, "--hbm", UNIT)
    for _ in range(20):
        tighter = run_json(*options, "--hbm", result["peak_hbm_bytes"] - UNIT)
        if tighter["peak_hbm_bytes"] == result["peak_hbm_bytes"]:
            break
        result = tighter
    return result


def check_simulated(lines):
    for label, options in points_of("llama3.1-405b-published"):
        result = run_json(*options)
        check_capacity(lines, label, options, result["peak_hbm_bytes"])
        check_tight(lines, label, result)
        if "qkv_proj_offloaded" in options:
            lines.check(f"{label}: host bytes are 70.875 GiB to the byte", result["host_bytes"],
                        result["host_bytes"] == 76_101_451_776)


def check_quickstart(lines, quick):
    for label, options in points_of("quickstart"):
        options += ONE_STEP  # the later of two equal options counts
        options = [*dict(zip(options[::2], options[1::2])).items()]
        options = [word for pair in options for word in pair]
        result = peak_without_running(options)
        check_tight(lines, label, result)
        if quick:
            lines.info(f"{label}: not run at its exact capacity", "--quick")
        else:
            check_capacity(lines, label, options, result["peak_hbm_bytes"])


def run(lines, quick):
    for options in TINY:
        options = ["--model", "llama-tiny", *options, *ONE_STEP]
        label = " ".join(options[2:-4])
        result = run_json(*options)
        check_capacity(lines, label, options, result["peak_hbm_bytes"])
        check_tight(lines, label, result)
    check_simulated(lines)
    check_quickstart(lines, quick)
    check_tests(lines, "the highest byte that a step changes is the peak's", "harness_tests",
                "CpuExecutor.UsesThePlansBytesAndNoMore")
    check_tests(lines, "no byte outside a live tensor changes", "harness_tests", "CpuExecutorRedzone.*")
    check_tests(lines, "tight in every variant", "sweeps_tests", "RaceVariants.PlansAtFullSizeAreTight")
