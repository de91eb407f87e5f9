"""pagedkv plan MODEL: configs in, plans out, and what each option changes.

Llama 3.1 8B has 32 layers of 8 KV heads of 128 elements of two bytes: a token costs
32 x 8 x (128 + 128) x 2 = 131072 bytes, a block of 16 tokens 2 MiB, its longest request of 131072
tokens 8192 blocks.
"""
import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import CONFIGS, GIB, run, run_config, run_specs  # noqa: E402

LLAMA = CONFIGS / "meta-llama--Meta-Llama-3.1-8B.json"
GEMMA = CONFIGS / "google--gemma-2-9b.json"
DEEPSEEK = CONFIGS / "deepseek-ai--DeepSeek-V3.json"
BLOCK = 2 << 20


class Models(program.Case):
    def plan(self, model, *options):
        return self.answer(run("plan", model, "--json", *options))

    def llama(self, *options):
        """A plan in 32 GiB, where nothing but the option decides."""
        return self.plan(LLAMA, "--memory", "32GiB", *options)


class Memory(Models):
    def test_without_memory_only_the_costs_are_printed(self):
        answer = self.plan(LLAMA)
        self.assertEqual(answer["bytes_per_token"], 131072)
        self.assertEqual(answer["bytes_per_request"], 8192 * BLOCK)
        self.assertEqual(answer["bytes_per_block"], BLOCK)
        for key in ("num_blocks", "tokens", "max_concurrency"):
            self.assertNotIn(key, answer)
        screen = self.assert_done(run("plan", LLAMA)).out
        self.assertIn("128.00 KiB", screen)
        self.assertIn("16.00 GiB", screen)

    def test_memory_is_bytes_or_a_number_with_a_unit(self):
        for text, blocks in (("34359738368", 16384), ("32GiB", 16384), ("32768MiB", 16384),
                             ("0.03125TiB", 16384), ("34359738367", 16383),
                             ("34.359738368GB", 16384), ("34359738368B", 16384)):
            self.assertEqual(self.plan(LLAMA, "--memory", text)["num_blocks"], blocks, text)

    def test_a_fraction_of_a_unit_is_cut_to_bytes(self):
        # 8.11 GiB are 8708046192.64 bytes, 4152.3 blocks
        answer = self.plan(LLAMA, "--memory", "8.11GiB", "--max-model-len", 4096)
        self.assertEqual(answer["num_blocks"], 4152)
        document = run("plan", LLAMA, "--memory", "8.11GiB", "--emit-specs").json
        self.assertEqual(document["available_bytes"], 8708046192)

    def test_the_largest_memory_is_exact(self):
        document = run("plan", LLAMA, "--memory", "9223372036854775807", "--emit-specs").json
        self.assertEqual(document["available_bytes"], 2**63 - 1)
        self.assertEqual(self.plan(LLAMA, "--memory", "9223372036854775807")["num_blocks"],
                         (2**63 - 1) // BLOCK)

    def test_other_texts_are_no_memory(self):
        for text in ("", "-1", "8XiB", "GiB", "8GiBs", "nan", "inf", "1e999GiB", "8388608TiB",
                     "9223372036854775808", "8,5GiB", "+8GiB"):
            self.assert_line(run("plan", LLAMA, "--memory", text), 2, "--memory")

    def test_too_little_memory_is_a_no_with_its_numbers(self):
        self.assert_no(run("plan", LLAMA, "--memory", "8GiB", "--json"), "VALUE", "worker 0",
                       "8589934592", "2097152", " 65520 tokens")  # 4095 x 16
        self.assert_line(run("plan", LLAMA, "--memory", "8GiB"), 1, " 65520 tokens")
        self.assert_no(run("plan", LLAMA, "--memory", "0", "--json"), "VALUE", "worker 0")

    def test_the_screen_says_what_fits_and_what_binds(self):
        screen = self.assert_done(run("plan", LLAMA, "--memory", "32GiB")).out
        for part in ("16,384 blocks", "2.00 of 131,072", "262,144", "memory:"):
            self.assertIn(part, screen)


class Options(Models):
    def test_the_length_is_the_models_or_what_is_asked_for(self):
        self.assertEqual(self.llama()["max_model_len"], 131072)
        answer = self.llama("--max-model-len", 4096)
        self.assertEqual((answer["max_model_len"], answer["max_concurrency"]), (4096, 64.0))

    def test_auto_shortens_the_length_to_what_fits(self):
        answer = self.plan(LLAMA, "--memory", "8GiB", "--max-model-len", "auto")
        self.assertEqual(answer["max_model_len"], 65520)
        self.assertEqual(self.llama("--max-model-len", "auto")["max_model_len"], 131072)
        self.assert_line(run("plan", LLAMA, "--max-model-len", "auto"), 2, "--memory")

    def test_tp_splits_heads_and_then_repeats_them(self):
        for tp, block in ((2, BLOCK // 2), (8, BLOCK // 8), (16, BLOCK // 8)):
            self.assertEqual(self.llama("--tp", tp)["bytes_per_block"], block)
        self.assert_no(run("plan", LLAMA, "--tp", 64, "--json"), "VALUE", "tp 64")

    def test_field_case_16_blocks_are_counted_per_rank(self):
        ranks = self.plan(LLAMA, "--memory", 3258 * BLOCK // 4, "--tp", 4, "--max-model-len", 1024)
        self.assertEqual(ranks["num_blocks"], 3258)

    def test_a_latent_is_whole_on_every_rank(self):
        answer = self.plan(DEEPSEEK, "--tp", 8)
        self.assertEqual((answer["bytes_per_token"], answer["tp_replicas"]), (61 * 576 * 2, 8))

    def test_pp_deals_the_layers_out(self):
        answer = self.llama("--pp", 3)
        shares = [len(stage["groups"][0]["layers"]) for stage in answer["workers"]]
        self.assertEqual(shares, [11, 11, 10])  # the last stage has the head too
        # each has 32 GiB: 11 layers of 65536 bytes a block
        self.assertEqual(answer["num_blocks"], 32 * GIB // (11 * 65536))
        answer = self.llama("--pp", 5)
        shares = [len(stage["groups"][0]["layers"]) for stage in answer["workers"]]
        self.assertEqual(shares, [6, 6, 7, 7, 6])  # what is left over goes before the last
        self.assert_line(run("plan", LLAMA, "--pp", 33), 2, "--pp 33")

    def test_dp_counts_replicas_together(self):
        answer = self.llama("--dp", 3)
        self.assertEqual((answer["tokens"], answer["tokens_all_replicas"]), (262144, 786432))

    def test_dcp_shares_tokens_within_tp(self):
        answer = self.llama("--tp", 8, "--dcp", 2)
        self.assertEqual(answer["blocks_per_request"], 4096)
        self.assertEqual(self.llama("--tp", 8)["blocks_per_request"], 8192)
        self.assert_line(run("plan", LLAMA, "--tp", 8, "--dcp", 3), 2, "--dcp 3")

    def test_pcp_is_handed_on(self):
        self.assertEqual(run("plan", LLAMA, "--pcp", 2, "--emit-specs").json["options"]["pcp"], 2)

    def test_the_layout_is_named_or_chosen(self):
        self.assertEqual(self.llama()["layout"], "LBNHC")
        for name, layout, stride in (("NHD", "LBNHC", 65536), ("HND", "LBHNC", 65536),
                                     ("BLHNC", "BLHNC", BLOCK)):
            answer = self.llama("--layout", name)
            self.assertEqual(answer["layout"], layout)
            self.assertEqual(answer["tensors"][0]["block_stride"], stride)
        self.assert_line(run("plan", LLAMA, "--layout", "HBLNC"), 2, "HBLNC")

    def test_block_size_and_type_change_the_block(self):
        answer = self.llama("--block-size", 32)
        self.assertEqual((answer["groups"][0]["block_size"], answer["bytes_per_block"]),
                         (32, 2 * BLOCK))
        answer = self.llama("--kv-dtype", "fp8")
        self.assertEqual((answer["kv_dtype"], answer["bytes_per_block"]), ("fp8", BLOCK // 2))
        answer = self.llama("--kv-dtype", "int8_per_token_head")
        self.assertEqual(answer["bytes_per_token"], 32 * 8 * (128 + 128 + 8))
        done = run("plan", LLAMA, "--kv-dtype", "int3", "--json")
        self.assert_no(done, "VALUE", "int3")

    def test_batched_tokens_widen_windows(self):
        # a window of 4096: ceil(min(4095 + batch, 8192) / 16) + 1 blocks, and 512 of full layers
        for batch, blocks in ((1, 256 + 1), (1024, 320 + 1), (8192, 512 + 1)):
            answer = self.plan(GEMMA, "--memory", "32GiB", "--max-num-batched-tokens", batch)
            self.assertEqual(answer["blocks_per_request"], 512 + blocks)

    def test_max_num_seqs_may_bind_before_memory(self):
        self.assertEqual(self.llama("--max-num-seqs", 1)["binds"], "max_num_seqs")
        self.assertEqual(self.llama("--max-num-seqs", 2)["binds"], "memory")

    def test_caching_can_be_off(self):
        off = run("plan", LLAMA, "--no-prefix-caching")
        self.assertIn("caching is off", self.assert_done(off).out)
        document = run("plan", LLAMA, "--no-prefix-caching", "--emit-specs").json
        self.assertIs(document["caching"], False)

    def test_field_case_13_padding_is_shown(self):
        # with scales 4160 and 2064 bytes a token: pages of 66560 bytes, 33024 of them used
        text = {"layer_types": None, "architectures": ["Gemma2ForCausalLM"], "head_dim": 256,
                "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8,
                "hidden_size": 2048, "torch_dtype": "bfloat16"}
        done = self.assert_done(run_config(text, "--memory", "1GiB", "--kv-dtype",
                                           "int8_per_token_head"))
        self.assertIn("0.0%", done.out)  # layers of one width waste nothing
        wide = {"kind": "sliding_window", "block_size": 16, "num_kv_heads": 8, "head_size": 256,
                "dtype": "int8", "state_content_bytes": 520, "sliding_window": 128}
        narrow = {"kind": "full_attention", "block_size": 16, "num_kv_heads": 2,
                  "head_size": 512, "dtype": "int8", "state_content_bytes": 1032}
        both = program.document({"name": "w", **wide}, {"name": "n", **narrow})
        self.assertIn("50.4%", self.assert_done(run_specs(both)).out)


class Sources(Models):
    def test_emitted_specs_give_the_same_plan(self):
        own = {"architecture", "kv_dtype", "bytes_per_token", "bytes_per_request", "dp",
               "tokens_all_replicas", "binds"}
        for model in (LLAMA, GEMMA, DEEPSEEK, CONFIGS / "openai--gpt-oss-20b.json"):
            for options in ((), ("--tp", 4), ("--layout", "BLHNC", "--block-size", 64),
                            ("--max-model-len", "auto", "--max-num-batched-tokens", 512),
                            ("--kv-dtype", "fp8", "--no-prefix-caching")):
                options = ("--memory", "48GiB", *options)
                plan = self.plan(model, *options)
                document = self.answer(run("plan", model, "--emit-specs", *options))
                again = self.answer(run_specs(document, "--json"))
                self.assertEqual({k: v for k, v in plan.items() if k not in own}, again)

    def test_emitted_specs_of_stages_give_the_same_plan(self):
        options = ("--memory", "32GiB", "--pp", 2)
        plan = self.plan(LLAMA, *options)
        again = self.answer(run_specs(run("plan", LLAMA, "--emit-specs", *options).json, "--json"))
        self.assertEqual(again.get("workers"), plan["workers"])

    def test_every_emitted_layer_says_where_it_comes_from(self):
        document = self.answer(run("plan", GEMMA, "--emit-specs"))
        self.assertEqual([source["layer"] for source in document["sources"]],
                         [layer["name"] for layer in document["layers"]])
        self.assertEqual({source["label"] for source in document["sources"]}, {"exact"})
        self.assertTrue(all(source["why"] for source in document["sources"]))

    def test_a_folder_stands_for_its_config(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_bytes(LLAMA.read_bytes())
            self.assertEqual(self.plan(folder), self.plan(LLAMA))

    def test_gguf_is_refused_clearly(self):
        self.assert_line(run_config("GGUF\x03\x00\x00\x00"), 2, "GGUF", "config.json")

    def test_an_unknown_architecture_is_named(self):
        for options in ((), ("--json",), ("--emit-specs",)):
            self.assert_line(run_config({"architectures": ["NoSuchModel"]}, *options), 2,
                             "NoSuchModel")

    def test_bad_configs_are_exit_2_and_one_line(self):
        for text in ("", "{", "[]", '{"architectures": []}', '{"a": NaN}', '{"a": 1, "a": 1}',
                     json.dumps({"architectures": ["LlamaForCausalLM"]})):
            for options in ((), ("--json",)):
                self.assert_line(run_config(text, *options), 2)


program.main()
