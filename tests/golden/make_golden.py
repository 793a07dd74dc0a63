#!/usr/bin/env python3
"""Writes the golden values in this folder: one training step of tiny Llama models.

The values come from transformers' LlamaForCausalLM (eager attention, float32, CPU) and
torch.optim.AdamW. Each case is also run through `forward_f64`, a float64 model written here
from the formulas alone, so a value is stored only where two implementations agree.

Made with Debian 12's python3-torch 1.13.1 (Python 3.11, NumPy 1.24.2) and transformers 4.44.2.
To re-run (the last digits may differ on another processor):

    apt-get install python3-torch python3-venv
    /usr/bin/python3.11 -m venv --system-site-packages /tmp/golden
    /tmp/golden/bin/pip install transformers==4.44.2
    /tmp/golden/bin/python tests/golden/make_golden.py

Files, for each case:
    CASE.config.json  the model's Hugging Face config.json
    CASE.bin          tensors back to back: little-endian float32, the tokens int32, row-major
    CASE.index.json   "tensors": name, shape, dtype and byte offset of each tensor in the bin;
                      the losses and the hyper-parameters

Tensors, with Hugging Face's names and [out, in] matrices:
    tokens            [batch, seq + 1]; inputs are [:, :-1], targets [:, 1:]
    weight/NAME       before the step (exact in bfloat16 too)
    gradient/NAME     of the mean cross-entropy over all batch * seq positions
    updated/NAME      after the AdamW step
To keep the files small, only the cases marked "updated" have updated/.
"""

import json
import math
import platform
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy, embedding, linear, silu
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

HERE = Path(__file__).parent
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)  # decay on all, norms too
MADE_WITH = dict(python=platform.python_version(), torch=str(torch.__version__),
                 transformers=transformers.__version__, numpy=np.__version__)


def llama3_scaling(original):
    return dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=original)


CASES = {
    # Grouped queries and scaled rope; 16 original positions make the scaling act on head_dim 16.
    "tiny": dict(
        seed=1, batch=2, seq=24, updated=False,
        config=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                    intermediate_size=112, num_hidden_layers=3, vocab_size=96, rms_norm_eps=1e-5,
                    rope_theta=500000.0, rope_scaling=llama3_scaling(16))),
    # Sizes that leave part tiles (37, 61, 76), one key/value head, another epsilon.
    "odd": dict(
        seed=2, batch=1, seq=37, updated=True,
        config=dict(hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
                    intermediate_size=76, num_hidden_layers=2, vocab_size=61, rms_norm_eps=1e-6,
                    rope_theta=10000.0, rope_scaling=None)),
    # No grouping; more layers than the others; unscaled rope with the large theta.
    "mha": dict(
        seed=3, batch=3, seq=7, updated=False,
        config=dict(hidden_size=32, num_attention_heads=2, num_key_value_heads=2,
                    intermediate_size=64, num_hidden_layers=5, vocab_size=50, rms_norm_eps=1e-5,
                    rope_theta=500000.0, rope_scaling=None)),
}

CONFIG_KEYS = """architectures attention_bias attention_dropout bos_token_id eos_token_id hidden_act
    hidden_size initializer_range intermediate_size max_position_embeddings mlp_bias model_type
    num_attention_heads num_hidden_layers num_key_value_heads rms_norm_eps rope_scaling rope_theta
    tie_word_embeddings torch_dtype transformers_version use_cache vocab_size""".split()


def inv_freq_f64(head_dim, theta, scaling):
    """Rope's inverse frequencies from the formula, for checking transformers' float32 ones."""
    result = []
    for i in range(0, head_dim, 2):
        f = theta ** (-i / head_dim)
        if scaling:
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            turns = scaling["original_max_position_embeddings"] * f / (2 * math.pi)
            kept = min(max((turns - low) / (high - low), 0.0), 1.0)
            f = kept * f + (1 - kept) * f / scaling["factor"]
        result.append(f)
    return torch.tensor(result, dtype=torch.float64)


def forward_f64(w, c, tokens):
    """The loss in float64 throughout; transformers would fall back to float32 in places."""
    heads, kv_heads = c.num_attention_heads, c.num_key_value_heads
    dim = c.hidden_size // heads
    x = embedding(tokens[:, :-1], w["model.embed_tokens.weight"])
    batch, seq, _ = x.shape
    angle = torch.outer(torch.arange(seq, dtype=torch.float64),
                        inv_freq_f64(dim, c.rope_theta, c.rope_scaling))

    def norm(v, name):
        return v * torch.rsqrt(v.square().mean(-1, keepdim=True) + c.rms_norm_eps) * w[name]

    def split(v, n):
        return v.view(batch, seq, n, dim).transpose(1, 2)

    def rotate(v):  # element i turns with element i + dim/2
        a, b = v[..., :dim // 2], v[..., dim // 2:]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    for i in range(c.num_hidden_layers):
        p = f"model.layers.{i}."
        h = norm(x, p + "input_layernorm.weight")
        q = rotate(split(linear(h, w[p + "self_attn.q_proj.weight"]), heads))
        k = rotate(split(linear(h, w[p + "self_attn.k_proj.weight"]), kv_heads))
        v = split(linear(h, w[p + "self_attn.v_proj.weight"]), kv_heads)
        k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
        future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
        score = (q @ k.transpose(2, 3) / math.sqrt(dim)).masked_fill(future, -math.inf)
        h = (score.softmax(-1) @ v).transpose(1, 2).reshape(batch, seq, -1)
        x = x + linear(h, w[p + "self_attn.o_proj.weight"])
        h = norm(x, p + "post_attention_layernorm.weight")
        h = silu(linear(h, w[p + "mlp.gate_proj.weight"])) * linear(h, w[p + "mlp.up_proj.weight"])
        x = x + linear(h, w[p + "mlp.down_proj.weight"])
    logits = linear(norm(x, "model.norm.weight"), w["lm_head.weight"])
    return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def train_step(params, loss_of):
    """Losses before and after one AdamW step on `params` in place, and the step's gradients."""
    optimizer = torch.optim.AdamW(params.values(), **ADAMW)
    loss = loss_of()
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in params.items()}
    optimizer.step()
    with torch.no_grad():
        return loss.item(), loss_of().item(), gradients


def make_case(name, case):
    torch.manual_seed(case["seed"])
    config = LlamaConfig(**case["config"], max_position_embeddings=128, tie_word_embeddings=False,
                         architectures=["LlamaForCausalLM"], torch_dtype="float32",
                         attn_implementation="eager")
    model = LlamaForCausalLM(config)
    params = dict(model.named_parameters())
    with torch.no_grad():
        for p in params.values():
            # Far larger than a real model's start, so that a wrong term shows in the loss.
            p.uniform_(0.8, 1.2) if p.dim() == 1 else p.normal_(0.0, 0.1)
            p.copy_(p.bfloat16())  # lets a bfloat16 run begin from the very same weights
    weights = {n: p.detach().clone() for n, p in params.items()}
    tokens = torch.randint(config.vocab_size, (case["batch"], case["seq"] + 1))

    def loss_of():
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    loss, loss_after, gradients = train_step(params, loss_of)

    params64 = {n: w.double().requires_grad_() for n, w in weights.items()}
    loss64, loss_after64, gradients64 = train_step(
        params64, lambda: forward_f64(params64, config, tokens))
    error = max(((gradients[n].double() - g).abs().max() / g.abs().max()).item()
                for n, g in gradients64.items())
    assert error < 1e-5, (name, error)
    assert abs(loss - loss64) < 1e-5 and abs(loss_after - loss_after64) < 1e-5, name

    tensors = [("tokens", tokens.int())]
    tensors += [("weight/" + n, w) for n, w in weights.items()]
    tensors += [("gradient/" + n, g) for n, g in gradients.items()]
    if case["updated"]:
        tensors += [("updated/" + n, p.detach()) for n, p in params.items()]

    data, lines = b"", []
    for n, t in tensors:
        dtype, numpy_dtype = ("i32", "<i4") if t.dtype == torch.int32 else ("f32", "<f4")
        lines.append(dict(name=n, shape=list(t.shape), dtype=dtype, offset=len(data)))
        data += t.numpy().astype(numpy_dtype).tobytes()
    (HERE / f"{name}.bin").write_bytes(data)

    index = dict(loss=loss, loss_after=loss_after, loss_f64=loss64, loss_after_f64=loss_after64,
                 gradient_error=error, adamw=ADAMW, made_with=MADE_WITH)
    parts = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in index.items()]
    parts.append(' "tensors": [\n' + ",\n".join("  " + json.dumps(t) for t in lines) + "\n ]")
    (HERE / f"{name}.index.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")

    everything = json.loads(config.to_json_string(use_diff=False))
    kept = {k: everything[k] for k in CONFIG_KEYS}
    (HERE / f"{name}.config.json").write_text(json.dumps(kept, indent=2) + "\n")
    print(f"{name}: loss {loss:.7f} -> {loss_after:.7f}, float64 {loss64:.7f} -> "
          f"{loss_after64:.7f}, gradient error {error:.1e}, {len(data)} bytes")


def make_rope():
    """Llama 3.1's own rope, whose 64 frequencies cross all three of the scaling's ranges."""
    scaling = llama3_scaling(8192)
    config = LlamaConfig(hidden_size=4096, num_attention_heads=32, max_position_embeddings=131072,
                         rope_theta=500000.0, rope_scaling=scaling)
    inv_freq = LlamaRotaryEmbedding(config=config).inv_freq
    assert inv_freq.dtype == torch.float32 and inv_freq.shape == (64,)
    exact = inv_freq_f64(128, 500000.0, scaling)
    assert ((inv_freq.double() - exact).abs() / exact).max() < 1e-6
    head = dict(head_dim=128, rope_theta=500000.0, rope_scaling=scaling, made_with=MADE_WITH)
    parts = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    parts.append(' "inv_freq": [\n' + ",\n".join(f"  {f:.17g}" for f in inv_freq.tolist()) + "\n ]")
    (HERE / "rope_llama31.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)  # one order of summation, so a second run gives the same bytes
    for case_name, settings in CASES.items():
        make_case(case_name, settings)
    make_rope()
