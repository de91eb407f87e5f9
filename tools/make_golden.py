#!/usr/bin/env python3
"""Makes tests/data/golden/models.json and the configs that belong to it, from golden specs: what
vLLM's own model code took as the cache of every layer.

One entry per config and variant (TP ranks, cache type): the distinct specs, reduced to the fields
that depend on the config, and which of them each layer has, as [index, layers in a row] pairs.

Usage: make_golden.py [DATA]     DATA holds golden-specs and configs; default ../shared/data
"""
import json
import pathlib
import shutil
import sys

ARCHITECTURES = """LlamaForCausalLM MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM
Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM
Gemma3ForConditionalGeneration Phi3ForCausalLM GptOssForCausalLM DeepseekV2ForCausalLM
DeepseekV3ForCausalLM Llama4ForConditionalGeneration Llama4ForCausalLM Ministral3ForCausalLM
Mistral3ForConditionalGeneration""".split()
FIELDS = """kind num_kv_heads head_size head_size_v dtype kv_quant_mode sliding_window
attention_chunk_size rswa_window tokens_per_state num_head_slots state_content_bytes cache_role
cache_dtype_str model_version is_index_group_leader shapes dtypes mamba_type non_causal
tp_replicated sink_len""".split()
# Configs without golden specs that tests of other behaviour or tools/published_plans.py read.
MORE = ["microsoft--Phi-3-small-instruct.json", "google--gemma-3-27b-it.json",
        "Qwen--Qwen2.5-14B-Instruct.json", "meta-llama--Meta-Llama-3.1-405B.json"]


def compress(layers):
    """Distinct specs, and runs of them in model order. Absent, false, 0 and null are the same."""
    specs, runs = [], []
    for layer in layers:
        spec = {name: layer[name] for name in FIELDS if layer.get(name)}
        if spec not in specs:
            specs.append(spec)
        index = specs.index(spec)
        if runs and runs[-1][0] == index:
            runs[-1][1] += 1
        else:
            runs.append([index, 1])
    return {"specs": specs, "layers": runs}


def expand(golden, variant):
    """The layers of a variant, which lists names by spec, in model order."""
    by_name = {name: spec for spec in variant["by_spec"] for name in spec["layers"]}
    return [by_name[layer["name"]] for layer in golden["layers"] if layer["name"] in by_name]


def entry(golden):
    variants = [{"tp": 1, "kv_dtype": "auto", **compress(golden["layers"])}]
    for variant in golden["variants"]:
        if variant.get("capability"):
            continue
        head = {"tp": variant["tp"], "kv_dtype": variant["kv_cache_dtype"]}
        if "refused" in variant:
            variants.append({**head, "refused": True})
        else:
            variants.append({**head, **compress(expand(golden, variant))})
    return {"config": golden["file"].removeprefix("configs/"), "dtype": golden["dtype"],
            "max_model_len": golden["max_model_len"], "no_cache": len(golden["no_cache"]),
            "variants": variants}


def sources(configs, names):
    """The rows of the data's own list of sources that speak of these files."""
    lines, part = [], ""
    for line in (configs / "SOURCES.md").read_text().split("\n"):
        if line.startswith("# reserialised"):
            part = "reserialised/"
        first = line.split("|")[1].strip() if line.startswith("| ") else ""
        if first == "file":
            lines += ["", f"## {part or 'published'}", "", line,
                      "|" + "---|" * (line.count("|") - 1)]
        elif part + first in names:
            lines.append(line)
    return "\n".join(lines[1:]) + "\n"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    data = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root.parent / "shared/data"
    entries = []
    for path in sorted((data / "golden-specs").glob("*.json")):
        golden = json.loads(path.read_text())
        if golden["architecture"] in ARCHITECTURES:
            entries.append(entry(golden))
    out = root / "tests/data"
    text = ",\n".join(json.dumps(one, separators=(",", ":")) for one in entries)
    (out / "golden").mkdir(parents=True, exist_ok=True)
    (out / "golden/README.md").write_text(
        "# Golden specs of real models\n\n"
        "What vLLM 0.33.0 takes as the cache of every layer. Its own model code was executed on\n"
        "the configs of ../configs, without weights, as for a GPU of compute capability 9.0.\n"
        "tools/make_golden.py wrote models.json: per variant the distinct specs, reduced to what\n"
        "depends on the config (absent, null, false and 0 are the same), and [spec, layers in a\n"
        "row] pairs.\n")
    (out / "golden/models.json").write_text('{"models": [\n' + text + "\n]}\n")

    names = [one["config"] for one in entries] + MORE
    for name in names:
        target = out / "configs" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / "configs" / name, target)
    rows = sources(data / "configs", names)
    (out / "configs/SOURCES.md").write_text(
        "# Model configs: where each file is from\n\n"
        "Copies of published config.json files as the named repositories hold them; the licence\n"
        "column is that repository's, each config itself comes under its model's licence. Those\n"
        "under reserialised/ were written from source text, not copied byte for byte.\n"
        "tools/make_golden.py made this folder and ../golden.\n\n" + rows)
    print(f"{len(entries)} models, {sum(len(e['variants']) for e in entries)} variants")


main()
