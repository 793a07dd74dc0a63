"""Rows nobody published: recomputation with LHS, LHS alone, a PCIe 5 link and Vera Rubin, both workloads."""
from common import check_tests, sweep

# Label of a row, and of the one it is set beside.
PAIRS = [("Llama, PCIe 5: QKV offload + LHS + pipelined", "Llama, PCIe 5: QKV offload + LHS"),
         ("Llama, Vera Rubin: QKV offload + LHS", "Llama, Vera Rubin: no offload"),
         ("Llama, Vera Rubin: QKV offload + LHS + pipelined", "Llama, Vera Rubin: QKV offload + LHS"),
         ("DeepSeek: offload + LHS + pipelined", "DeepSeek: remat + LHS"),
         ("DeepSeek: offload + LHS + pipelined", "DeepSeek: offload + LHS"),
         ("DeepSeek, PCIe 5: offload + LHS + pipelined", "DeepSeek, PCIe 5: offload + LHS"),
         ("DeepSeek, Vera Rubin: offload + LHS + pipelined", "DeepSeek, Vera Rubin: remat + LHS"),
         ("Llama, Vera Rubin: no offload", "Llama: no offload"),
         ("DeepSeek, Vera Rubin: remat + LHS", "DeepSeek: remat + LHS")]


def run(lines, quick):
    rows = {row["label"]: row for row in sweep("predictions.json", "predictions")}
    failed = [label for label, row in rows.items() if row["status"] == "failed"]
    lines.check("every row is predicted or said not to fit", f"{len(rows)} rows, failed: {failed}",
                len(rows) >= 20 and not failed)
    for label, row in rows.items():
        if row["status"] == "ok":
            lines.info(label, f"{row['step_seconds']['median']:.3f} s, {row['tflops_per_s_per_device']:.0f} "
                              f"TFLOP/s/device, transfers exposed {row['exposed_transfer_seconds']:.3f} s")
        else:
            lines.info(label, row["status"])
    for label, beside in PAIRS:
        rates = [rows[name]["tflops_per_s_per_device"] for name in (label, beside)]
        lines.info(f"{label} over {beside}", f"{100 * (rates[0] / rates[1] - 1):+.1f} %" if all(rates) else "-")
    check_tests(lines, "settings of the published sweeps", "sweeps_tests", "Predictions.*")
