"""DeepSeek-V3's proxy, link matched, variants interleaved: ratios to remat beside the published ones."""
import json

from common import ROOT, Skip, hidden_share, percent, run_json, sweep, write_sweep
from link import layers_in_budget

TIMED_STEPS = 10
ALL_LAYERS, DENSE_LAYERS = 20, 2
OFF, ON, PIPELINED = "offload, LHS off", "offload + LHS", "offload + LHS + pipelined"
SMALL, LARGE, REMAT = "device, micro batch 2", "device, micro batch 8", "remat"


def run(lines, quick):
    if quick:
        raise Skip("timed sweeps take minutes")
    content = json.loads((ROOT / "sweeps/deepseek-v3-proxy.json").read_text(encoding="utf-8"))
    layers = layers_in_budget(content, ALL_LAYERS, DENSE_LAYERS)
    lines.info("layers of the proxy", layers or f"all {ALL_LAYERS}")
    if layers:
        content["defaults"]["layers"] = layers
        check_oom_of_all_layers(lines, content)
    rows = {row["label"]: row for row in sweep(write_sweep("deepseek-proxy", content), "deepseek-proxy")}
    ran = [label for label in (SMALL, REMAT, OFF, ON, PIPELINED)
           if rows[label]["status"] == "ok" and rows[label]["step_seconds"]["n"] >= TIMED_STEPS]
    if not lines.check(f"five variants, at least {TIMED_STEPS} timed steps each", ran, len(ran) == 5):
        raise Skip("nothing to compare")
    if LARGE in rows:
        check_oom(lines, rows[LARGE])
    lines.check("values were compared", [label for label in ran if rows[label]["checked"]],
                all(rows[label]["checked"] for label in (REMAT, OFF, ON, PIPELINED)))
    lines.info("link, GB/s", f"{rows[REMAT]['link_bytes_per_second'] / 1e9:.4f}")
    for label in ran:
        report_ratio(lines, label, rows[label], rows[REMAT])
    for label in (OFF, ON, PIPELINED):
        lines.info(f"{label}: hidden of transfer time", percent(hidden_share(rows[label]["transfers"])))
    hidden = hidden_share(rows[PIPELINED]["transfers"])
    lines.check("LHS + pipelined hides at least 95 %", percent(hidden), hidden >= 0.95)


def check_oom(lines, row):
    lines.check("micro batch 8 on the device is oom", row["status"], row["status"] == "oom")


def check_oom_of_all_layers(lines, content):
    """The capacity of the sweep is that of the whole proxy: its point is planned by itself."""
    point = next(point for point in content["points"] if point["label"] == LARGE)
    content["points"].remove(point)
    check_oom(lines, run_json("--model", content["defaults"]["model"], "--policy", point["policy"], "--hbm",
                              point["hbm"]))


def report_ratio(lines, label, row, remat):
    """Rate over remat's, whichever way it comes out."""
    step, base = row["step_seconds"], remat["step_seconds"]
    work = row["tokens_per_s_per_device"] / remat["tokens_per_s_per_device"] * step["median"] / base["median"]
    rate = (row["stands_for"] or {}).get("tflops_per_s_per_device")
    published = remat["stands_for"]["tflops_per_s_per_device"]
    beside = f"{rate / published:.3f}" if rate else "-"
    lines.info(f"{label}: rate over remat's (range), published",
               f"{work * base['median'] / step['median']:.3f} ({work * base['min'] / step['max']:.3f} to "
               f"{work * base['max'] / step['min']:.3f}), {beside}; step {step['median']:.3f} s")
