"""Machine files: every figure with source and date, complete for whatever runs on them."""
from common import check_tests, run_json, spillway_json

WANTED = {"gb200-nvl72", "gb300-nvl72", "gh200", "h200-sxm", "h100-sxm", "b200", "vera-rubin-nvl144"}


def run(lines, quick):
    machines = {machine["name"]: machine for machine in spillway_json("list", "machines", "--json")}
    lines.check("the machines asked for", ", ".join(sorted(machines)), WANTED <= set(machines))
    for name, machine in machines.items():
        figures = machine["figures"]
        bare = [key for key, figure in figures.items() if not figure["source"]]
        undated = [key for key, figure in figures.items() if "https://" in figure["source"] and not figure["date"]]
        lines.check(f"{name}: every figure has a source, every address a date",
                    f"{len(figures)} figures, {machine['figures_assumed']} assumed, without source {bare}, "
                    f"without date {undated}", not bare and not undated)
    check_tests(lines, "machines", "sweeps_tests", "Machines.*")
    for name in sorted(WANTED):
        result = run_json("--model", "llama3.1-70b", "--executor", "sim", "--machine", name, "--devices", "128",
                          "--seq", "8192", "--policy", "qkv_proj_offloaded")
        lines.check(f"{name}: Llama 3.1 70B over 128 devices, offloaded",
                    f"{result['status']}, {result['tflops_per_s_per_device']:.0f} TFLOP/s/device",
                    result["status"] == "ok")
