"""Parameters, bytes and FLOPs of Llama 3.1 405B are the published ones."""
from common import GIB, run_json, spillway_json

MODEL = ["--model", "llama3.1-405b", "--micro-batch", "2", "--seq", "8192"]


def equal(lines, what, found, expected):
    lines.check(f"{what} = {expected}", found, found == expected)


def run(lines, quick):
    d = spillway_json("describe", *MODEL, "--json")
    equal(lines, "parameters", d["params_total"], 405_853_388_800)
    equal(lines, "QKV of one layer, MiB", d["qkv_bytes_per_layer"] / 2**20, 576)
    equal(lines, "QKV of 126 layers, GiB", d["qkv_bytes_all_layers"] / GIB, 70.875)
    equal(lines, "TFLOP a step, causal", round(d["flops_step_causal"] / 1e12, 3), 41_352.495)
    equal(lines, "TFLOP a step, full square", round(d["flops_step_full"] / 1e12, 3), 43_014.956)

    simulated = ["--executor", "sim", "--devices", "128", *MODEL]
    full = run_json(*simulated, "--policy", "full")
    offload = run_json(*simulated, "--policy", "qkv_proj_offloaded")
    executed = full["executed_matmul_flops"] / 1e12
    equal(lines, "TFLOP executed under `full`", round(executed, 1), 51_465.8)
    extra = full["attention_backward_extra_flops"] / 1e12
    equal(lines, "TFLOP of the tiled backward's second QK^T", round(extra, 1), 277.1)
    removed = executed - offload["executed_matmul_flops"] / 1e12
    equal(lines, "TFLOP that QKV offload removes", round(removed, 1), 1_246.8)
