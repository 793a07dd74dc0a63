"""Policies, schedules, rotation and repeats change no bit; golden values agree; planned bytes move."""
import collections
import json

from common import QKV_ON_DEVICE, check_tests, run_json, spillway, fresh, rows_of, write_sweep

SHAPES = [(2, 33), (1, 37), (3, 64)]  # micro batch, sequence; no tile divides 33 or 37
POLICIES = ["full", "minimal", "minimal_with_context", "save_qkv_proj", "qkv_proj_offloaded",
            "minimal_offloaded", QKV_ON_DEVICE, "decoder_layer_input=offload", "context=offload"]
# Without a pipeline there is nothing to copy, deepen or unroll; the last layers may keep theirs either way.
ROTATIONS = [{"pipeline": "off"}, {"pipeline": "on"}, {"pipeline": "on", "rotation_copies": "on"},
             {"pipeline": "on", "pipeline_depth": 2}, {"pipeline": "on", "pipeline_depth": 3, "unroll": 2},
             {"pipeline": "on", "rotation_copies": "on", "unroll": 2}, {"pipeline": "off", "resident_tail": 1},
             {"pipeline": "on", "resident_tail": 2}]

# llama-tiny: 4 layers, hidden 64, 4 heads of 16, 2 key heads, ffn 160. Elements a token and layer of each
# name; lse is 4 heads of 4 bytes beside the attention output. The backward reads no mlpwo.
LAYERS = 4
ELEMENTS = {"qkv": 64 + 32 + 32, "out_proj": 64, "mlpwi": 160 + 160, "layer_input": 64, "context": 64}
LSE_BYTES = 4 * 4


def offloaded_bytes(policy, tokens, element_bytes, layers):
    """Bytes that so many layers of one step move to the host, by hand."""
    names = {"qkv_proj_offloaded": ["qkv"], "minimal_offloaded": ["qkv", "out_proj", "mlpwi"],
             "decoder_layer_input=offload": ["layer_input"], "context=offload": ["context"]}.get(policy, [])
    a_token = sum(ELEMENTS[name] for name in names) * element_bytes
    return layers * tokens * (a_token + (LSE_BYTES if "context" in names else 0))


def points(policies, **fields):
    for policy in policies:
        for lhs in ("off", "on"):
            for rotation in ROTATIONS:
                words = " ".join(f"{key}={value}" for key, value in rotation.items())
                yield {"label": f"{policy} lhs={lhs} {words}", "policy": policy, "lhs": lhs, **rotation, **fields}


def visits_of(directory):
    """(losses, digest) of every visit, straight from what the sweep stored."""
    text = (directory / "visits.jsonl").read_text(encoding="utf-8")
    results = [json.loads(line)["result"] for line in text.splitlines()]
    return [(tuple(result["loss"]), result["gradient_digest"]) for result in results]


def check_shape(lines, micro_batch, seq, precision):
    name = f"identity-{micro_batch}x{seq}-{precision}"
    content = {"name": name, "title": name, "points": list(points(POLICIES)), "steps_per_visit": 3,
               "defaults": {"model": "llama-tiny", "micro_batch": micro_batch, "seq": seq,
                            "precision": precision, "steps": 6, "warmup": 0}}
    out = fresh(name)
    spillway("sweep", write_sweep(name, content), "--out", out)  # a failed row is seen below
    rows, visits = rows_of(out), visits_of(out)
    bad = [f"{row['label']}: {row['reason']}" for row in rows if row["status"] != "ok"]
    ran = len(rows) == len(content["points"]) and not bad
    lines.check(f"{name}: every variant runs, its lanes moved what was planned",
                f"{len(rows)} of {len(content['points'])} rows {bad[:3] or ''}", ran)
    kinds = collections.Counter(visits)
    lines.check(f"{name}: one list of losses and one digest over variants, each twice",
                f"{len(kinds)} different among {len(visits)}: {[digest for _, digest in kinds][:3]}",
                len(kinds) == 1 and len(visits) == 2 * len(content["points"]))
    check_bytes(lines, name, rows, micro_batch * seq, 4 if precision == "fp32" else 2)
    return next(iter(kinds))


def check_bytes(lines, name, rows, tokens, element_bytes):
    wrong, moved = [], 0
    for row in rows:
        layers = LAYERS - int(row["config"].get("resident_tail", 0))
        expected = offloaded_bytes(row["config"]["policy"], tokens, element_bytes, layers)
        moved += expected > 0
        for direction in ("d2h", "h2d"):
            found = sum(t["bytes"] for t in row["transfers"] or [] if t["direction"] == direction)
            if found != expected or row["offloaded_bytes_per_step"] != expected:
                wrong.append(f"{row['label']} {direction}: {found}, by hand {expected}")
    lines.check(f"{name}: bytes moved each way are those counted by hand",
                f"{moved} variants move some {wrong[:3] or ''}", not wrong and moved == 4 * 2 * len(ROTATIONS))


def check_process(lines, micro_batch, seq, precision, expected):
    """Another process, alone, with poison: the same bits."""
    result = run_json("--model", "llama-tiny", "--micro-batch", micro_batch, "--seq", seq, "--precision",
                      precision, "--policy", "qkv_proj_offloaded", "--pipeline", "on", "--steps", 3,
                      "--warmup", 0, "--poison", "--slow-copy", 5)
    found = (tuple(result["loss"]), result["gradient_digest"])
    lines.check(f"a process of its own, poison on, copies slowed: {micro_batch}x{seq} {precision}",
                found[1], found == expected)


def run(lines, quick):
    for precision in ("bf16", "fp32"):
        for micro_batch, seq in SHAPES:
            expected = check_shape(lines, micro_batch, seq, precision)
            check_process(lines, micro_batch, seq, precision, expected)
    check_tests(lines, "golden values of transformers' LlamaForCausalLM", "workloads_tests", "*Golden*")
