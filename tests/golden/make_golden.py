#!/usr/bin/env python3
"""Writes the golden values in this folder: one training step of tiny models.

The values come from transformers' own model (eager attention, float32, CPU) and torch.optim.AdamW.
Each case is also run through `model_f64.py`, a float64 model written from the formulas alone, so a
value is stored only where two implementations agree, router choices included.

Each table of cases names the versions that made it (Python 3.11 both). To re-run (the last digits
may differ on another processor), name the cases, or none for all:

    apt-get install python3-torch python3-venv     # Debian 12: torch 1.13.1, NumPy 1.24.2
    /usr/bin/python3.11 -m venv --system-site-packages /tmp/golden
    /tmp/golden/bin/pip install transformers==4.44.2
    /tmp/golden/bin/python tests/golden/make_golden.py tiny odd mha rope_llama31

    python3.11 -m venv /tmp/golden_moe
    /tmp/golden_moe/bin/pip install torch==2.6.0 numpy==2.4.6 transformers==4.57.6
    /tmp/golden_moe/bin/python tests/golden/make_golden.py tiny_deepseek tiny_deepseek_direct_q \\
        tiny_mixtral tiny_qwen2 tiny_qwen3 tiny_qwen3_moe

Files, for each case:
    CASE.config.json  the model's Hugging Face config.json
    CASE.bin          tensors back to back: little-endian float32, int32 where told, row-major
    CASE.index.json   "tensors": name, shape, dtype and byte offset of each tensor in the bin;
                      the losses, the hyper-parameters, and the smallest gap of a router's choices

Tensors, with Hugging Face's names and [out, in] matrices:
    tokens            int32 [batch, seq + 1]; inputs are [:, :-1], targets [:, 1:]
    weight/NAME       before the step (exact in bfloat16 too); e_score_correction_bias among them
    gradient/NAME     of the mean cross-entropy over all batch * seq positions
    updated/NAME      after the AdamW step
    experts/LAYER     int32 [batch * seq, top_k]: a router's choices, in ascending order;
                      LAYER is "model.layers.1.mlp.gate" or whatever the router is called
    expert_weights/LAYER  float32 [batch * seq, top_k]: what their outputs are multiplied by
To keep the files small, only the cases marked "updated" have updated/. An expert without tokens
has a gradient of zeros, and the step decays it like any other weight.

A router's choice jumps where two scores tie, so tokens are drawn such that the last score chosen
beats the next by at least `gap` at every position: float32 and bfloat16 then choose alike (also
checked here with transformers' own model in bfloat16).
"""

import copy
import json
import platform
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from model_f64 import forward_f64, inv_freq_f64

HERE = Path(__file__).parent
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)  # decay on all, norms too
MADE_WITH = dict(python=platform.python_version(), torch=str(torch.__version__),
                 transformers=transformers.__version__, numpy=np.__version__)


def llama3_scaling(original):
    return dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=original)


# Llama; these and rope_llama31 were made with transformers 4.44.2 and torch 1.13.1.
CASES = {
    # Grouped queries and scaled rope; 16 original positions make the scaling act on head_dim 16.
    "tiny": dict(
        family="Llama", seed=1, batch=2, seq=24, updated=False,
        config=dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                    intermediate_size=112, num_hidden_layers=3, vocab_size=96, rms_norm_eps=1e-5,
                    rope_theta=500000.0, rope_scaling=llama3_scaling(16))),
    # Sizes that leave part tiles (37, 61, 76), one key/value head, another epsilon.
    "odd": dict(
        family="Llama", seed=2, batch=1, seq=37, updated=True,
        config=dict(hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
                    intermediate_size=76, num_hidden_layers=2, vocab_size=61, rms_norm_eps=1e-6,
                    rope_theta=10000.0, rope_scaling=None)),
    # No grouping; more layers than the others; unscaled rope with the large theta.
    "mha": dict(
        family="Llama", seed=3, batch=3, seq=7, updated=False,
        config=dict(hidden_size=32, num_attention_heads=2, num_key_value_heads=2,
                    intermediate_size=64, num_hidden_layers=5, vocab_size=50, rms_norm_eps=1e-5,
                    rope_theta=500000.0, rope_scaling=None)),
}

# The other families, made with transformers 4.57.6 and torch 2.6.0. `gap`: see the head.
CASES |= {
    # Groups of three experts, so that experts and groups are both chosen; yarn whose ramp crosses
    # the six frequencies and whose gain is not 1; keys of the published config.
    "tiny_deepseek": dict(
        family="DeepseekV3", seed=4, batch=2, seq=21, updated=False, gap=0.015,
        config=dict(hidden_size=32, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=18,
                    kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=12, v_head_dim=14,
                    intermediate_size=40, num_hidden_layers=3, first_k_dense_replace=1,
                    moe_intermediate_size=9, n_routed_experts=12, n_group=4, topk_group=2,
                    num_experts_per_tok=4, n_shared_experts=1, norm_topk_prob=True,
                    routed_scaling_factor=2.5, vocab_size=41, rms_norm_eps=1e-6, rope_theta=1000.0,
                    rope_scaling=dict(type="yarn", factor=4.0, beta_fast=2.0, beta_slow=0.3,
                                      mscale=1.0, mscale_all_dim=0.8,
                                      original_max_position_embeddings=64),
                    max_position_embeddings=256, scoring_func="sigmoid", topk_method="noaux_tc",
                    moe_layer_freq=1)),
    # Queries without a latent, values wider than keys without rope, unscaled rope; no such keys.
    "tiny_deepseek_direct_q": dict(
        family="DeepseekV3", seed=25, batch=3, seq=13, updated=False, gap=0.015,
        config=dict(hidden_size=36, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None,
                    kv_lora_rank=22, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=18,
                    intermediate_size=46, num_hidden_layers=3, first_k_dense_replace=1,
                    moe_intermediate_size=12, n_routed_experts=8, n_group=4, topk_group=2,
                    num_experts_per_tok=3, n_shared_experts=1, norm_topk_prob=True,
                    routed_scaling_factor=1.5, vocab_size=43, rms_norm_eps=1e-6,
                    rope_theta=10000.0, rope_scaling=None)),
    "tiny_mixtral": dict(
        family="Mixtral", seed=6, batch=2, seq=21, updated=False, gap=0.01,
        config=dict(hidden_size=40, num_attention_heads=4, num_key_value_heads=2,
                    intermediate_size=14, num_hidden_layers=2, num_local_experts=8,
                    num_experts_per_tok=2, vocab_size=53, rms_norm_eps=1e-5, rope_theta=1e6)),
    # Biases of q, k and v that no key announces.
    "tiny_qwen2": dict(
        family="Qwen2", seed=7, batch=2, seq=21, updated=False,
        config=dict(hidden_size=42, num_attention_heads=3, num_key_value_heads=1,
                    intermediate_size=58, num_hidden_layers=3, vocab_size=47, rms_norm_eps=1e-6,
                    rope_theta=1e6, rope_scaling=None)),
    # A head_dim that is not hidden / heads, q and k normalised per head, tied embeddings.
    "tiny_qwen3": dict(
        family="Qwen3", seed=8, batch=2, seq=21, updated=False,
        config=dict(hidden_size=36, num_attention_heads=4, num_key_value_heads=2, head_dim=14,
                    intermediate_size=50, num_hidden_layers=3, vocab_size=59, rms_norm_eps=1e-6,
                    rope_theta=1e6, rope_scaling=None, tie_word_embeddings=True)),
    # As Qwen3 with experts; weights that are not normalised.
    "tiny_qwen3_moe": dict(
        family="Qwen3Moe", seed=19, batch=2, seq=21, updated=False, gap=0.008,
        config=dict(hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=20,
                    intermediate_size=50, moe_intermediate_size=13, num_hidden_layers=2,
                    num_experts=9, num_experts_per_tok=3, norm_topk_prob=False, vocab_size=45,
                    rms_norm_eps=1e-6, rope_theta=1e6, rope_scaling=None)),
}

CONFIG_KEYS = """architectures attention_bias attention_dropout bos_token_id decoder_sparse_step
    dtype eos_token_id first_k_dense_replace head_dim hidden_act hidden_size initializer_range
    intermediate_size kv_lora_rank layer_types max_position_embeddings max_window_layers mlp_bias
    mlp_only_layers model_type moe_intermediate_size moe_layer_freq n_group n_routed_experts
    n_shared_experts norm_topk_prob num_attention_heads num_experts num_experts_per_tok
    num_hidden_layers num_key_value_heads num_local_experts output_router_logits q_lora_rank
    qk_head_dim qk_nope_head_dim qk_rope_head_dim rms_norm_eps rope_interleave rope_scaling
    rope_theta routed_scaling_factor router_aux_loss_coef router_jitter_noise scoring_func
    sliding_window tie_word_embeddings topk_group topk_method torch_dtype transformers_version
    use_cache use_sliding_window v_head_dim vocab_size""".split()


def build(case):
    """The model with random weights that bfloat16 holds exactly."""
    settings = dict(dict(max_position_embeddings=128, tie_word_embeddings=False), **case["config"])
    name = case["family"] + "ForCausalLM"
    config = getattr(transformers, case["family"] + "Config")(
        **settings, architectures=[name], torch_dtype="float32", attn_implementation="eager")
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for n, p in model.named_parameters():
            # Far larger than a real model's start, so that a wrong term shows in the loss.
            norm = p.dim() == 1 and not n.endswith("bias")
            p.uniform_(0.8, 1.2) if norm else p.normal_(0.0, 0.1)
            p.copy_(p.bfloat16())  # lets a bfloat16 run begin from the very same weights
        for bias in correction_biases(model).values():
            bias.uniform_(-0.15, 0.15)
            bias.copy_(bias.bfloat16())
    return config, model


def correction_biases(model):
    """Not parameters: training moves them by rules of its own, which a step here leaves out."""
    return {n: b for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")}


@torch.no_grad()
def clear_tokens(w, c, case):
    """Rows grown token by token: the first of a random order whose gap suffices, else the best."""
    rows = []
    for _ in range(case["batch"]):
        row = torch.zeros(0, dtype=torch.int64)
        for _ in range(case["seq"]):
            order = torch.randperm(c.vocab_size)
            tried = torch.cat((row.expand(c.vocab_size, -1), order[:, None], order[:, None]), -1)
            routes = forward_f64(w, c, tried)[1]  # the last column is a target, and of no effect
            gap = torch.stack([r[2][:, -1] for r in routes.values()]).amin(0)
            enough = (gap >= case["gap"]).nonzero()
            row = tried[enough[0, 0] if len(enough) else gap.argmax(), :-1]
        rows.append(torch.cat((row, torch.randint(c.vocab_size, (1,)))))
    return torch.stack(rows)


def smallest_gap(routes):
    return min(gap.min().item() for _, _, gap in routes.values())


@torch.no_grad()
def choices(model, inputs):
    """What each router of transformers' model chooses: {its name: (experts, weights)}."""
    c, outputs = model.config, {}
    hooks = [m.register_forward_hook(lambda _, __, out, n=n: outputs.update({n: out}))
             for n, m in model.named_modules() if n.endswith(".gate")]
    model(input_ids=inputs, use_cache=False)
    for hook in hooks:
        hook.remove()
    result = {}
    for name, out in outputs.items():
        if isinstance(out, tuple):
            experts, weights = out
        else:  # logits, of which the layer around takes the largest
            weights, experts = out.float().softmax(-1).topk(c.num_experts_per_tok)
            if getattr(c, "norm_topk_prob", True):  # Mixtral has no such key
                weights = weights / weights.sum(-1, keepdim=True)
        experts, order = experts.sort(-1)
        result[name] = (experts, weights.gather(-1, order))
    return result


def check_choices(found, routes, model, inputs):
    """transformers, the float64 model, and transformers in bfloat16 agree."""
    half = copy.deepcopy(model).bfloat16()
    half.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq  # stays float32 when loaded
    in_half = choices(half, inputs)
    assert len(found) == len(routes)
    for (name, (experts, weights)), (exact_experts, exact_weights, _) in zip(
            found.items(), routes.values()):
        assert torch.equal(experts, exact_experts.flatten(0, 1)), name
        assert (weights - exact_weights.flatten(0, 1)).abs().max() < 1e-5, name
        assert torch.equal(experts, in_half[name][0]), name


def loss_of(model, tokens):
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def train_step(params, loss_of):
    """Losses before and after one AdamW step on `params` in place, and the step's gradients."""
    optimizer = torch.optim.AdamW(params.values(), **ADAMW)
    loss = loss_of()
    loss.backward()
    for p in params.values():
        if p.grad is None:  # an expert without tokens
            p.grad = torch.zeros_like(p)
    gradients = {name: p.grad.clone() for name, p in params.items()}
    optimizer.step()
    with torch.no_grad():
        return loss.item(), loss_of().item(), gradients


def make_case(name, case):
    torch.manual_seed(case["seed"])
    config, model = build(case)
    params, biases = dict(model.named_parameters()), correction_biases(model)
    weights = {n: p.detach().clone() for n, p in (params | biases).items()}
    all64 = {n: w.double() for n, w in weights.items()}
    params64 = {n: all64[n].requires_grad_() for n in params}
    shape = (case["batch"], case["seq"] + 1)
    tokens = (clear_tokens(all64, config, case) if "gap" in case
              else torch.randint(config.vocab_size, shape))

    found, index = choices(model, tokens[:, :-1]), {}
    if found:
        routes = forward_f64(all64, config, tokens)[1]
        check_choices(found, routes, model, tokens[:, :-1])
        index["smallest_gap"] = smallest_gap(routes)

    loss, loss_after, gradients = train_step(params, lambda: loss_of(model, tokens))
    loss64, loss_after64, gradients64 = train_step(
        params64, lambda: forward_f64(all64, config, tokens)[0])
    error = max(((gradients[n].double() - g).abs().max() / g.abs().max().clamp(min=1e-30)).item()
                for n, g in gradients64.items())
    assert error < 1e-5, (name, error)
    assert abs(loss - loss64) < 1e-5 and abs(loss_after - loss_after64) < 1e-5, name
    if found:
        index["smallest_gap_after"] = smallest_gap(forward_f64(all64, config, tokens)[1])
        assert min(index.values()) > 1e-3, (name, index)
    index = dict(loss=loss, loss_after=loss_after, loss_f64=loss64, loss_after_f64=loss_after64,
                 gradient_error=error, adamw=ADAMW, made_with=MADE_WITH, **index)

    tensors = [("tokens", tokens.int())]
    tensors += [("weight/" + n, w) for n, w in weights.items()]
    tensors += [("gradient/" + n, g) for n, g in gradients.items()]
    if case["updated"]:
        tensors += [("updated/" + n, p.detach()) for n, p in params.items()]
    tensors += [("experts/" + n, experts.int()) for n, (experts, _) in found.items()]
    tensors += [("expert_weights/" + n, w) for n, (_, w) in found.items()]
    size = write(name, config, index, tensors)
    print(f"{name}: loss {loss:.7f} -> {loss_after:.7f}, float64 {loss64:.7f} -> "
          f"{loss_after64:.7f}, gradient error {error:.1e}, {size} bytes")
    for n, (experts, _) in found.items():
        print(f"  {n}: tokens of each expert {experts.flatten().bincount().tolist()}, gaps from "
              f"{index['smallest_gap']:.4f} before, {index['smallest_gap_after']:.4f} after")


def write(name, config, index, tensors):
    """The three files of a case; returns the size of the largest."""
    data, lines = b"", []
    for n, t in tensors:
        dtype, numpy_dtype = ("i32", "<i4") if t.dtype == torch.int32 else ("f32", "<f4")
        lines.append(dict(name=n, shape=list(t.shape), dtype=dtype, offset=len(data)))
        data += t.numpy().astype(numpy_dtype).tobytes()
    (HERE / f"{name}.bin").write_bytes(data)

    parts = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in index.items()]
    parts.append(' "tensors": [\n' + ",\n".join("  " + json.dumps(t) for t in lines) + "\n ]")
    (HERE / f"{name}.index.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")

    everything = json.loads(config.to_json_string(use_diff=False))
    kept = {k: everything[k] for k in CONFIG_KEYS if k in everything}
    (HERE / f"{name}.config.json").write_text(json.dumps(kept, indent=2) + "\n")
    return len(data)


def make_rope():
    """Llama 3.1's own rope, whose 64 frequencies cross all three of the scaling's ranges."""
    scaling = llama3_scaling(8192)
    config = LlamaConfig(hidden_size=4096, num_attention_heads=32, max_position_embeddings=131072,
                         rope_theta=500000.0, rope_scaling=scaling)
    inv_freq = LlamaRotaryEmbedding(config=config).inv_freq
    assert inv_freq.dtype == torch.float32 and inv_freq.shape == (64,)
    exact, _ = inv_freq_f64(128, 500000.0, scaling)
    assert ((inv_freq.double() - exact).abs() / exact).max() < 1e-6
    head = dict(head_dim=128, rope_theta=500000.0, rope_scaling=scaling, made_with=MADE_WITH)
    parts = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    parts.append(' "inv_freq": [\n' + ",\n".join(f"  {f:.17g}" for f in inv_freq.tolist()) + "\n ]")
    (HERE / "rope_llama31.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)  # one order of summation, so a second run gives the same bytes
    for wanted in sys.argv[1:] or [*CASES, "rope_llama31"]:
        make_rope() if wanted == "rope_llama31" else make_case(wanted, CASES[wanted])
