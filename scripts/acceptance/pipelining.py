"""Rotation to any depth, unrolled, with a resident tail: the same bits; what each costs at full size."""
import json

from common import GIB, ROOT, check_tests, run_json
from plan import options_of

PROOFS = [
    ("what moves where, and that every rotated program computes the same", "offload_tests", "Pipeline.*"),
    ("the last layers keep what the others offload, and compute the same", "offload_tests", "ResidentTail.*"),
    ("LHS on and off, collectives, experts, two stacks: no race, the same meaning", "sweeps_tests", "PipelineMatrix.*"),
    ("growth of the peak by cause sums to the planned peaks", "sweeps_tests", "MemoryGrowth.*"),
]
TINY = {"llama-tiny": "minimal_offloaded", "deepseek-tiny": "deepseek_v3_offload"}
VARIANTS = [["--pipeline", "on", "--pipeline-depth", "2"], ["--pipeline", "on", "--pipeline-depth", "9"],
            ["--pipeline", "on", "--unroll", "2"], ["--pipeline", "on", "--rotation-copies", "on", "--unroll", "2"],
            ["--resident-tail", "1"], ["--resident-tail", "2", "--pipeline", "on"],
            ["--resident-tail", "3", "--pipeline", "on", "--pipeline-depth", "2", "--unroll", "2"],
            ["--resident-tail", "99"]]
FULL_SIZE = {"llama3.1-405b-published": "QKV offload + LHS", "deepseek-v3-published": "offload + LHS"}
# The article's peaks with LHS off and with LHS + pipelined, GiB.
PUBLISHED_PEAKS = 145.6, 165.2


def offloaded(result):
    return sum(t["bytes"] for t in result["transfers"] if t["direction"] == "d2h")


def check_bits(lines, model, policy):
    common = ["--model", model, "--policy", policy, "--micro-batch", "2", "--seq", "33", "--steps", "3", "--warmup", "0"]
    plain = run_json(*common, "--lhs", "off")
    layers = int(plain["config"]["layers"])
    for variant in VARIANTS:
        for lhs in ("on", "off"):
            stressed = run_json(*common, *variant, "--lhs", lhs, "--slow-copy", "20", "--poison")
            same = all(plain[key] == stressed[key] for key in ("loss", "gradient_digest"))
            lines.check(f"{model}, {' '.join(variant)} --lhs {lhs}, copies slowed, poison: the same bits",
                        stressed["gradient_digest"], same)
        tail = min(layers, int(variant[1])) if variant[0] == "--resident-tail" else 0
        if model == "llama-tiny":  # all layers alike
            expected = offloaded(plain) * (layers - tail) // layers
            lines.check(f"{model}, {' '.join(variant)}: bytes of {layers - tail} of {layers} layers move",
                        offloaded(stressed), offloaded(stressed) == expected)


def show_full_size(lines, sweep_name, label):
    sweep = json.loads((ROOT / f"sweeps/{sweep_name}.json").read_text(encoding="utf-8"))
    point = next(point for point in sweep["points"] if point["label"] == label)
    base = {**sweep["defaults"], **point}
    base["rotation_copies"] = "off"
    for variant in [[], ["--pipeline", "on"], ["--pipeline", "on", "--rotation-copies", "on"],
                    ["--pipeline", "on", "--pipeline-depth", "2"], ["--pipeline", "on", "--unroll", "2"],
                    ["--pipeline", "on", "--rotation-copies", "on", "--unroll", "2"], ["--resident-tail", "2"],
                    ["--pipeline", "on", "--resident-tail", "1"], ["--pipeline", "on", "--resident-tail", "4"]]:
        given = {key: value for key, value in base.items()
                 if "--" + key.replace("_", "-") not in variant}
        result = run_json(*options_of(given), *variant)
        step = (result["step_seconds"] or {}).get("median")
        exposed = sum(t["exposed_seconds"] for t in result["transfers"] or [])
        lines.info(f"{base['model']}, {label} {' '.join(variant)}",
                   f"{result['status']}, step {'-' if step is None else f'{step:.3f}'} s, copies exposed "
                   f"{exposed:.4f} s, peak {result['peak_hbm_bytes'] / GIB:.2f} GiB")


def check_growth(lines):
    sweep = json.loads((ROOT / "sweeps/deepseek-v3-published.json").read_text(encoding="utf-8"))
    points = {point["label"]: {**sweep["defaults"], **point} for point in sweep["points"]}
    peaks = [run_json(*options_of(points[label]))["peak_hbm_bytes"] / GIB
             for label in ("offload, LHS off", "offload + LHS + pipelined")]
    growth, published = peaks[1] - peaks[0], PUBLISHED_PEAKS[1] - PUBLISHED_PEAKS[0]
    lines.check("DeepSeek-V3, LHS off to LHS + pipelined: growth of the peak within 15 % of 19.6 GiB",
                f"{peaks[0]:.1f} to {peaks[1]:.1f} GiB, {growth:+.2f}", abs(growth / published - 1) <= 0.15)


def run(lines, quick):
    for what, binary, pattern in PROOFS:
        check_tests(lines, what, binary, pattern)
    for model, policy in TINY.items():
        check_bits(lines, model, policy)
    check_growth(lines)
    for sweep_name, label in FULL_SIZE.items():
        show_full_size(lines, sweep_name, label)
