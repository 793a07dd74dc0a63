"""Parameters, bytes and FLOPs of DeepSeek-V3 and relatives; every shared config comes out as expected."""
import json

from common import GIB, ROOT, check_tests, run_json, spillway, spillway_json
from describe import equal

CASES = ROOT.parent / "shared/cases"
DEEPSEEK = ["--model", "deepseek-v3", "--micro-batch", "8", "--seq", "4096"]


def run(lines, quick):
    d = spillway_json("describe", *DEEPSEEK, "--json")
    equal(lines, "DeepSeek-V3: parameters", d["params_total"], 671_026_419_200)
    equal(lines, "DeepSeek-V3: active", d["params_active"], 37_552_297_472)
    equal(lines, "DeepSeek-V3: TFLOP a step and device", round(d["flops_step_causal"] / 1e12, 3), 8_206.742)
    mixtral = spillway_json("describe", "--model", "mixtral-8x7b", "--json")
    equal(lines, "Mixtral-8x7B: parameters, active", (mixtral["params_total"], mixtral["params_active"]),
          (46_702_792_704, 12_879_925_248))
    lite = spillway_json("describe", "--model", "deepseek-v2-lite", "--json")
    equal(lines, "DeepSeek-V2-Lite: parameters", lite["params_total"], 15_706_484_224)
    check_tests(lines, "the published split, line by line", "workloads_tests", "*MoeAccounting*")
    check_bytes(lines)
    check_cases(lines)


def check_bytes(lines):
    """What the offload policy moves and keeps, and what keeping all would take."""
    simulated = ["--executor", "sim", "--devices", "128", *DEEPSEEK, "--moe", "capacity", "--precision", "fp8",
                 "--projection-precision", "fp8", "--state-bytes", "2,4,4,2"]
    offload = run_json(*simulated, "--policy", "deepseek_v3_offload")
    device = run_json(*simulated, "--policy", "deepseek_v3_device", "--hbm", "600GiB")
    equal(lines, "MoE layer offloads, MiB", moe_layer_bytes(offload) / 2**20, 2436)
    equal(lines, "host, GiB over 61 layers", round(offload["host_bytes"] / GIB, 1), 145.1)
    kept = offload["policy_summary"]["kept_bytes"]
    equal(lines, "kept on the device, GiB", round(kept / GIB, 1), 53.4)
    equal(lines, "kept if nothing moved, GiB", round(device["policy_summary"]["kept_bytes"] / GIB, 1), 198.5)
    roles = sum(device["peak_hbm_by_role"].values())
    lines.check("the itemised peak adds up", f"{roles} of {device['peak_hbm_bytes']}",
                roles == device["peak_hbm_bytes"])


def moe_layer_bytes(result):
    """Of one MoE layer: what one more of them adds."""
    config = result["config"]
    options = [word for key in ("model", "executor", "devices", "micro_batch", "seq", "moe", "precision",
                                "projection_precision", "state_bytes", "policy")
               for word in ("--" + key.replace("_", "-"), str(config[key]))]
    few, more = (run_json(*options, "--layers", layers)["host_bytes"] for layers in (4, 5))
    return more - few


def check_cases(lines):
    if not (CASES / "expected.json").exists():
        return lines.info("shared cases", "not beside this checkout; copies of them are in tests/workloads/cases")
    for case in json.loads((CASES / "expected.json").read_text(encoding="utf-8"))["configs"]:
        check_case(lines, case)


def check_case(lines, case):
    options = ["--model", CASES / case["file"], "--micro-batch", case.get("batch", 2), "--seq", case.get("seq", 8192)]
    code, out, err = spillway("describe", *options, "--json")
    named = case["file"] in err and any(word in err for word in case.get("must_mention", []))
    if code != 0:
        ok = case["outcome"] != "ok" and code == 2 and named and not out
        return lines.check(case["file"], f"refused: {err.strip()[:100]}", ok)
    found = json.loads(out)
    wrong = {key: found.get(key) for key, value in case.get("values", {}).items() if found.get(key) != value}
    told = case["outcome"] == "ok" or named  # what may be refused may be accepted with a warning
    return lines.check(case["file"], f"{len(case.get('values', {}))} values, wrong {wrong}",
                       not wrong and told and case["outcome"] != "error")
