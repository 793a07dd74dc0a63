"""The models of make_golden.py in float64, from the formulas alone; transformers must agree.

`w` maps Hugging Face's names to float64 tensors, `c` is the transformers config; nothing else of
transformers is used here. Products and sums that transformers gathers and scatters (the experts)
are taken densely, and rope turns the pairs where they lie, so that layout errors would show.
"""

import math

import torch
from torch.nn.functional import cross_entropy, embedding, linear, one_hot, silu


def inv_freq_f64(dim, theta, scaling):
    """Rope's inverse frequencies and what cosines and sines are multiplied by."""
    f = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if not scaling:
        return f, 1.0
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    if scaling["rope_type"] == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept = ((original * f / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return kept * f + (1 - kept) * f / factor, 1.0

    def index_of(turns):  # of the frequency that turns so often within the original length
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(index_of(scaling["beta_fast"])), 0)
    high = min(math.ceil(index_of(scaling["beta_slow"])), dim - 1)
    kept = 1 - ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    gain = yarn_gain(factor, scaling["mscale"]) / yarn_gain(factor, scaling["mscale_all_dim"])
    return kept * f + (1 - kept) * f / factor, gain


def yarn_gain(factor, mscale):
    return 0.1 * mscale * math.log(factor) + 1


class Rope:
    def __init__(self, c, dim, seq):
        f, self.gain = inv_freq_f64(dim, c.rope_theta, getattr(c, "rope_scaling", None))
        angle = torch.outer(torch.arange(seq, dtype=torch.float64), f)
        self.cos, self.sin = self.gain * angle.cos(), self.gain * angle.sin()

    def turn(self, a, b):
        return a * self.cos - b * self.sin, b * self.cos + a * self.sin

    def halves(self, v):  # element i turns with element i + dim/2
        return torch.cat(self.turn(*v.chunk(2, -1)), -1)

    def neighbours(self, v):  # element 2i turns with element 2i + 1
        return torch.stack(self.turn(v[..., 0::2], v[..., 1::2]), -1).flatten(-2)


def rms_norm(v, weight, eps):
    return v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps) * weight


def attend(q, k, v, scale):
    """[batch, heads, seq, dim] each; key/value heads are repeated to the number of query heads."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    score = (q @ k.transpose(2, 3) * scale).masked_fill(future, -math.inf)
    return (score.softmax(-1) @ v).transpose(1, 2).flatten(2)


def grouped_attention(w, p, c, h):
    dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    rope = Rope(c, dim, h.shape[1])

    def heads_of(name):  # [batch, heads, seq, dim], normalised per head where the model does
        v = linear(h, w[f"{p}{name}_proj.weight"], w.get(f"{p}{name}_proj.bias"))
        v = v.unflatten(-1, (-1, dim)).transpose(1, 2)
        norm = w.get(f"{p}{name}_norm.weight")
        return v if norm is None else rms_norm(v, norm, c.rms_norm_eps)

    context = attend(rope.halves(heads_of("q")), rope.halves(heads_of("k")), heads_of("v"),
                     1 / math.sqrt(dim))
    return linear(context, w[p + "o_proj.weight"])


def latent_attention(w, p, c, h):
    nope, turned, eps = c.qk_nope_head_dim, c.qk_rope_head_dim, 1e-6  # the latents' own epsilon
    rope = Rope(c, turned, h.shape[1])
    if c.q_lora_rank is None:
        q = linear(h, w[p + "q_proj.weight"])
    else:
        q = linear(h, w[p + "q_a_proj.weight"])
        q = linear(rms_norm(q, w[p + "q_a_layernorm.weight"], eps), w[p + "q_b_proj.weight"])
    q = q.unflatten(-1, (c.num_attention_heads, -1)).transpose(1, 2)
    latent = linear(h, w[p + "kv_a_proj_with_mqa.weight"])
    shared_key = rope.neighbours(latent[..., c.kv_lora_rank:]).unsqueeze(1)
    kv = rms_norm(latent[..., :c.kv_lora_rank], w[p + "kv_a_layernorm.weight"], eps)
    kv = linear(kv, w[p + "kv_b_proj.weight"])
    kv = kv.unflatten(-1, (c.num_attention_heads, -1)).transpose(1, 2)
    q = torch.cat((q[..., :nope], rope.neighbours(q[..., nope:])), -1)
    k = torch.cat((kv[..., :nope], shared_key.expand(-1, c.num_attention_heads, -1, -1)), -1)
    scale = 1 / math.sqrt(nope + turned)
    if c.rope_scaling:
        scale *= yarn_gain(c.rope_scaling["factor"], c.rope_scaling["mscale_all_dim"]) ** 2
    return linear(attend(q, k, kv[..., nope:], scale), w[p + "o_proj.weight"])


def gap_after(values, k):
    """The k largest of each row, and by how much the smallest of them beats the next."""
    ordered, index = values.sort(-1, descending=True)
    none_left = torch.full_like(ordered[..., :1], -math.inf)
    return index[..., :k], ordered[..., k - 1] - torch.cat((ordered, none_left), -1)[..., k]


def choose(w, p, c, logits):
    """Experts in ascending order, their weights and the smallest gap of each token's choices."""
    if c.model_type != "deepseek_v3":
        scores = logits.softmax(-1)
        experts, gap = gap_after(scores.detach(), c.num_experts_per_tok)
        normalise, scale = getattr(c, "norm_topk_prob", True), 1.0  # Mixtral has no such key
    else:
        scores = logits.sigmoid()
        wanted = scores.detach() + w[p + "gate.e_score_correction_bias"]
        wanted = wanted.unflatten(-1, (c.n_group, -1))
        groups, group_gap = gap_after(wanted.topk(2).values.sum(-1), c.topk_group)
        kept = one_hot(groups, c.n_group).sum(-2).bool()
        wanted = wanted.masked_fill(~kept.unsqueeze(-1), -math.inf).flatten(-2)
        experts, gap = gap_after(wanted, c.num_experts_per_tok)
        gap = torch.minimum(gap, group_gap)
        normalise, scale = c.norm_topk_prob, c.routed_scaling_factor
    experts = experts.sort(-1).values
    weights = scores.gather(-1, experts)
    if normalise:
        weights = weights / weights.sum(-1, keepdim=True)
    return experts, weights * scale, gap


GATED = ("gate_proj", "up_proj", "down_proj")


def gated(w, p, h, names=GATED):
    gate, up, down = (w[f"{p}{name}.weight"] for name in names)
    return linear(silu(linear(h, gate)) * linear(h, up), down)


def feed_forward(w, p, c, h, routes):
    moe = p + ("block_sparse_moe." if c.model_type == "mixtral" else "mlp.")
    if moe + "gate.weight" not in w:
        return gated(w, moe, h)
    logits = linear(h, w[moe + "gate.weight"])
    experts, weights, gap = choose(w, moe, c, logits)
    routes[p] = (experts, weights.detach(), gap)
    share = torch.zeros_like(logits).scatter(-1, experts, weights)
    names = ("w1", "w3", "w2") if c.model_type == "mixtral" else GATED
    out = sum(share[..., e:e + 1] * gated(w, f"{moe}experts.{e}.", h, names)
              for e in range(share.shape[-1]))
    shared = moe + "shared_experts."
    return out + gated(w, shared, h) if shared + "up_proj.weight" in w else out


def forward_f64(w, c, tokens):
    """The loss, and for each layer with a router ("model.layers.1.") what `choose` gives."""
    attention = latent_attention if hasattr(c, "kv_lora_rank") else grouped_attention
    x = embedding(tokens[:, :-1], w["model.embed_tokens.weight"])
    routes = {}
    for i in range(c.num_hidden_layers):
        p = f"model.layers.{i}."
        h = rms_norm(x, w[p + "input_layernorm.weight"], c.rms_norm_eps)
        x = x + attention(w, p + "self_attn.", c, h)
        h = rms_norm(x, w[p + "post_attention_layernorm.weight"], c.rms_norm_eps)
        x = x + feed_forward(w, p, c, h, routes)
    x = rms_norm(x, w["model.norm.weight"], c.rms_norm_eps)
    logits = linear(x, w.get("lm_head.weight", w["model.embed_tokens.weight"]))  # absent: tied
    return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()), routes
