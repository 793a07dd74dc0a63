"""Config files of measured models: shipped names, and what models.csv lets be written down here."""
import json

# Spellings in the rows, lower case -> shipped config with the same dimensions.
SHIPPED = {
    "llama3.1-8b": "llama3.1-8b", "llama3-8b": "llama3.1-8b", "llama3_8b": "llama3.1-8b",
    "llama3.1-70b": "llama3.1-70b", "llama3-70b": "llama3.1-70b", "llama3_70b": "llama3.1-70b",
    "llama3.1-405b": "llama3.1-405b", "llama3.1_405b": "llama3.1-405b",
    "deepseek-v3": "deepseek-v3", "deepseekv3": "deepseek-v3",
    "qwen3-30b-a3b": "qwen3-30b-a3b", "qwen3_30b_a3b": "qwen3-30b-a3b",
    "qwen3-8b full-param": "qwen3-8b",
}

# Not in models.csv: Llama 2 7B, https://huggingface.co/meta-llama/Llama-2-7b-hf config.json.
LLAMA2_7B = {"hidden": 4096, "ffn": 11008, "layers": 32, "heads": 32, "vocab": 32000}


def llama_config(hidden, ffn, layers, heads, vocab, tied=False):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": heads, "vocab_size": vocab,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": tied}


def mpt_stand_in(row):
    """A gated MLP with two thirds of the width: 3 D F = 2 D 4D makes parameters and FLOPs of the
    two matrices of MPT's plain MLP, and 3 F = 8 D the bytes of its saved rows. Left over: rotation
    of q and k, which MPT has none of, and norms without means."""
    hidden = int(row["hidden"])
    return llama_config(hidden, round(2 * int(row["ffn"]) / 3), int(row["layers"]), int(row["heads"]),
                        int(row["vocab"]), tied=True)


class Models:
    """Finds the --model of a row; writes configs that are not shipped into a directory."""

    def __init__(self, dimensions, directory):
        self.dimensions = {row["model"]: row for row in dimensions}
        self.directory = directory

    def find(self, name):
        """(value of --model or None, what is approximated or "")."""
        key = name.lower()
        if key in SHIPPED:
            return SHIPPED[key], ""
        if key == "llama2-7b":
            return self.write(key, llama_config(**LLAMA2_7B)), ""
        if key.startswith("mpt-") and key in self.dimensions:
            return self.write(key, mpt_stand_in(self.dimensions[key])), "stand-in"
        return None, ""

    def write(self, name, config):
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")
        return str(path)
