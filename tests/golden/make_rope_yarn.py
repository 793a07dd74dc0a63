#!/usr/bin/env python3
"""Inverse frequencies and attention factors of YaRN as transformers computes them, for the scalings of
published configs; writes rope_yarn.json beside this file. Needs torch and transformers (4.57)."""
import json
import math
import platform
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

# head_dim: the part of a head that turns (qk_rope_head_dim).
CASES = {
    "deepseek-v3": dict(theta=10000.0, dim=64, factor=40.0, mscale=1.0, mscale_all_dim=1.0,
                        original_max_position_embeddings=4096, beta_fast=32, beta_slow=1),
    "deepseek-v2-lite": dict(theta=10000.0, dim=64, factor=40.0, mscale=0.707, mscale_all_dim=0.707,
                             original_max_position_embeddings=4096, beta_fast=32, beta_slow=1),
    "kimi-k2": dict(theta=50000.0, dim=64, factor=32.0, mscale=1.0, mscale_all_dim=1.0,
                    original_max_position_embeddings=4096, beta_fast=1.0, beta_slow=1.0),
    "qwen-style": dict(theta=1000000.0, dim=128, factor=4.0, original_max_position_embeddings=32768),
    "two-scales": dict(theta=10000.0, dim=32, factor=16.0, mscale=1.3, mscale_all_dim=0.6,
                       original_max_position_embeddings=512, truncate=False),
}


def entry(theta, dim, **scaling):
    config = SimpleNamespace(rope_theta=theta, head_dim=dim, hidden_size=dim, num_attention_heads=1,
                             max_position_embeddings=163840,
                             rope_scaling=dict(rope_type="yarn", **scaling))
    frequencies, factor = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
    assert math.isfinite(factor) and len(frequencies) == dim // 2
    return dict(theta=theta, dim=dim, scaling=scaling, attention_factor=factor,
                inv_freq=[float(f) for f in frequencies])


made_with = dict(python=platform.python_version(), torch=str(torch.__version__),
                 transformers=transformers.__version__)
lines = [f' "made_with": {json.dumps(made_with)}']
lines += [f" {json.dumps(name)}: {json.dumps(entry(**case))}" for name, case in CASES.items()]
(Path(__file__).parent / "rope_yarn.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
