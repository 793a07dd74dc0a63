"""The published rows of both models, simulated with one figure fitted each: rates, outcomes, peaks."""
from common import sweep

# The article's figures, typed in here a second time on purpose. TFLOPs/s/device and what is allowed, percent;
# the first of each sweep is the fitted row.
LLAMA = {"no offload": (2669, 0.01), "QKV offload + LHS": (2746, 1), "QKV offload, LHS off": (2569, 1.5),
         "QKV offload + LHS + pipelined": (2718, 1)}
DEEPSEEK = {"offload, LHS off": (541.6, 0.01), "offload + LHS + pipelined": (908.2, 5), "remat, LHS off": (578.3, 5)}
PEAKS = {"offload, LHS off": 145.6, "offload + LHS + pipelined": 165.2}  # GiB
PEAK_PERCENT, GROWTH_PERCENT = 5, 15
OOM = "device, micro batch 8"
PREDICTED = ["remat + LHS", "offload + LHS"]  # nobody published them
GIB = 2**30


def run(lines, quick):
    llama = {row["label"]: row for row in sweep("llama3.1-405b-published.json", "fit-llama")}
    check_rates(lines, "Llama 3.1 405B", llama, LLAMA)
    deepseek = {row["label"]: row for row in sweep("deepseek-v3-published.json", "fit-deepseek")}
    check_rates(lines, "DeepSeek-V3", deepseek, DEEPSEEK)
    lines.check(f"DeepSeek-V3, {OOM}: out of memory", deepseek[OOM]["status"], deepseek[OOM]["status"] == "oom")
    for label in PREDICTED:
        lines.info(f"DeepSeek-V3, {label}: predicted", f"{deepseek[label]['tflops_per_s_per_device']:.1f}")
    check_peaks(lines, deepseek)


def check_rates(lines, model, rows, published):
    fitted = next(iter(rows.values()))["fitted"]
    first = next(iter(published))
    lines.check(f"{model}: one figure, fitted on '{first}'", fitted,
                fitted is not None and all(row["fitted"] == fitted for row in rows.values()) and fitted["on"] == first)
    for label, (expected, allowed) in published.items():
        ours = rows[label]["tflops_per_s_per_device"]
        off = 100 * (ours / expected - 1)
        lines.check(f"{model}, {label}: within {allowed} % of {expected}", f"{ours:.1f} ({off:+.2f} %)", abs(off) <= allowed)
    order = sorted(published, key=lambda label: -rows[label]["tflops_per_s_per_device"])
    lines.check(f"{model}: published order", " > ".join(order),
                order == sorted(published, key=lambda label: -published[label][0]))


def check_peaks(lines, rows):
    ours = {label: rows[label]["peak_hbm_bytes"] / GIB for label in PEAKS}
    for label, published in PEAKS.items():
        off = 100 * (ours[label] / published - 1)
        lines.check(f"DeepSeek-V3, {label}: peak within {PEAK_PERCENT} % of {published} GiB",
                    f"{ours[label]:.1f} ({off:+.1f} %)", abs(off) <= PEAK_PERCENT)
    growth, published = (values["offload + LHS + pipelined"] - values["offload, LHS off"] for values in (ours, PEAKS))
    off = 100 * (growth / published - 1)
    lines.check(f"DeepSeek-V3: growth of the peak within {GROWTH_PERCENT} % of {published:.1f} GiB",
                f"{growth:.1f} ({off:+.0f} %)", abs(off) <= GROWTH_PERCENT)
