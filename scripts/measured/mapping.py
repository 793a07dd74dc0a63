"""A measured row as a point of the simulator, or the reason why it is none. One rule for all rows:
nothing here looks at a row's result."""
from dataclasses import dataclass, field

# What of a system's description names a machine file; the first that is found counts.
MACHINES = [("H100 96GB", "h100-96gb-hbm2e"), ("A100", "a100-80gb"), ("H200", "h200-sxm"), ("B200 nodes", "b200"),
            ("GB300", "gb300-nvl72"), ("GB200", "gb200-nvl72"), ("B200", "b200"), ("H100", "h100-sxm")]
UNKNOWN_GPU = "h100-sxm"

# PyTorch's op-wise selective checkpointing saves attention and every second matmul of a layer, in
# the order wq, wk, wv, wo, w1, w3, w2: torchtitan, parallelize_llama.py, _save_list and mm_count.
TORCHTITAN_SELECTIVE = "query_proj=device,value_proj=device,context=device,mlpwi_0=device,mlpwo=device"
# All names of a program; MaxText's largest set. Row ops in between are computed again.
KEEP_ALL = "minimal_with_context"
RECOMPUTE = [("op SAC", TORCHTITAN_SELECTIVE), ("selective op AC", TORCHTITAN_SELECTIVE), ("full", "full"),
             ("none", KEEP_ALL), ("minimal_with_context", KEEP_ALL), ("minimal_flash", KEEP_ALL)]

LAYER_INPUT = "decoder_layer_input=offload"
ALL_OFFLOADED = ",".join(f"{name}=offload" for name in (
    "decoder_layer_input", "query_proj", "key_proj", "value_proj", "context", "out_proj", "mlpwi_0", "mlpwi_1",
    "mlpwo"))
# `what` of the single-device rows: policy, LHS, pipelining.
OFFLOADS = {"gc": ("full", "on", "off"), "gradient checkpointing only": ("full", "on", "off"),
            "checkpoint_hs": (LAYER_INPUT, "on", "on"), "hidden_states offload": (LAYER_INPUT, "on", "on"),
            "alst": (LAYER_INPUT, "off", "off"), "trl_gc": (LAYER_INPUT, "on", "off"),
            "trl_all": (ALL_OFFLOADED, "on", "off")}

# Bytes of weight, m, v and gradient: FSDP keeps fp32 shards. torchtitan reduces gradients in fp32,
# llm-foundry (mixed_precision PURE) and MaxText in bf16.
STATE_BYTES = {"torchtitan": "4,4,4,4", "llm-foundry": "4,4,4,2", "MaxText": "4,4,4,2"}


@dataclass
class Mapped:
    row: object
    reason: str = ""  # why it cannot be expressed; empty: it can
    apart: list = field(default_factory=list)  # what is not stated or only approximated
    stand_in: bool = False
    point: dict = field(default_factory=dict)


PARALLEL = {"tp": "tensor", "pp": "pipeline", "cp": "context", "sp": "sequence (Ulysses)"}


def not_expressible(row, model):
    """The first reason against a row, in words that count rows; "" when there is none."""
    text = " ".join(row.raw.values())
    if not (row.seconds or row.tokens_per_s or row.tflops or row.peak_gib):
        return "no step time, rate or peak of its own, only a ratio in words"
    if "TPU" in text:
        return "runs on a TPU"
    split = [name for kind, name in PARALLEL.items() if row.degrees.get(kind, 1) > 1]
    if split:
        return "parallelism not modelled: " + ", ".join(split)
    if row.parallelism.startswith("PP") or "stages" in row.model:
        return "parallelism not modelled: pipeline"
    if "mamba" in text.lower():
        return "layers of a kind not modelled (Mamba)"
    if model is None:
        return "model not stated or of a family not modelled"
    if "rest not read" in row.parallelism or not row.gpus:
        return "parallelism or number of GPUs not stated"
    if "FSDP" not in row.sharding and row.parallelism != "single device":
        return "weights replicated (DDP, ZeRO-1 or -2): not modelled"
    return ""


def precision(row):
    name = row.precision.upper()
    if "NVFP4" in name:
        return {"precision": "nvfp4", "projection_precision": "fp8"}
    if "FP8" in name:
        return {"precision": "fp8", "projection_precision": "fp8"}
    return {"precision": "bf16"}


def policy(row, mapped):
    for words, name in RECOMPUTE:
        if words in row.recompute:
            return name
    mapped.apart.append("recomputation not stated, none assumed")
    return KEEP_ALL


def machine(row, mapped):
    for words, name in MACHINES:
        if words in row.system:
            return name
    mapped.apart.append(f"GPU not stated, {UNKNOWN_GPU} assumed")
    return UNKNOWN_GPU


def single_device(row, mapped):
    name, lhs, pipeline = OFFLOADS[row.raw["what"]]
    mapped.apart.append("optimizer not stated, 8 bytes a parameter assumed")
    return {"policy": name, "lhs": lhs, "pipeline": pipeline, "devices": 1, "state_bytes": "2,2,2,2"}


def sharded(row, mapped):
    if row.fsdp is None:
        row.fsdp = row.gpus
    if row.replicas > 1:
        mapped.apart.append(f"{row.replicas} replicas: all-reduce of gradient shards added, not overlapped")
    if row.seconds is None and row.tflops:
        mapped.apart.append("rate in TFLOP/s, attention taken as counted whole (MaxText before July 2025)")
    if "A3" in row.system and row.replicas > 1:
        mapped.apart.append("network of A3 not stated, 400 Gb/s a GPU assumed")
    framework = row.raw.get("framework", "")
    state = next((value for name, value in STATE_BYTES.items() if name in framework), "4,4,4,4")
    # FSDP gathers the next layer during this one: collectives rotated.
    return {"policy": policy(row, mapped), "devices": row.fsdp, "state_bytes": state, "lhs": "on",
            "pipeline_collectives": "on" if row.fsdp > 1 else "off"}


def map_row(row, models):
    name, approximation = models.find(row.model)
    mapped = Mapped(row, not_expressible(row, name), stand_in=approximation == "stand-in")
    if mapped.reason:
        return mapped
    single = row.parallelism == "single device"
    point = {"model": name, "machine": machine(row, mapped), "micro_batch": row.micro_batch, "seq": row.seq}
    point |= precision(row)
    point |= single_device(row, mapped) if single else sharded(row, mapped)
    mapped.point = point
    if not row.accumulate:
        row.accumulate = 1
    return mapped
