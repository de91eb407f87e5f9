"""pagedkv plan --specs: documents in, answers out."""
import json
import subprocess
import sys

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import FULL, GIB, PROGRAM, document, layer, run, run_specs  # noqa: E402


def answers(text, *options):
    """Answers of plan --specs - to lines of documents."""
    return run("plan", "--specs", "-", *options, stdin=text)


class ExitCodes(program.Case):
    def test_a_plan_is_exit_0_and_one_document(self):
        answer = self.answer(run_specs(document(layer("a"), layer("b")), "--json"))
        self.assertEqual(answer["num_blocks"], GIB // (2 * 65536))
        self.assertEqual(answer["bytes_per_block"], 131072)
        self.assertEqual(answer["tokens"], 8192 * 16)  # 8192 blocks / 64 a request x 1024
        self.assertEqual(answer["max_concurrency"], 128.0)
        self.assertEqual(answer["max_model_len"], 1024)
        self.assertEqual(answer["layout"], "LBNHC")
        group, = answer["groups"]
        self.assertEqual((group["kind"], group["block_size"], group["page_bytes"],
                          group["layers"], group["is_eagle"]),
                         ("full_attention", 16, 65536, ["a", "b"], False))
        tensor, = answer["tensors"]
        self.assertEqual((tensor["size"], tensor["offset"], tensor["layer_stride"],
                          tensor["block_stride"], tensor["layers"]),
                         (GIB, 0, GIB // 2, 65536, ["a", "b"]))

    def test_a_refusal_is_exit_1_and_says_its_kind(self):
        self.assert_no(run_specs(document(layer("a"), available_bytes=0), "--json"), "VALUE",
                       "worker 0", "available_bytes 0", "65536")
        window = {"kind": "sliding_window", "sliding_window": 64}
        self.assert_no(run_specs(document(layer("a", **window), options={"dcp": 2}), "--json"),
                       "ASSERT", "dcp")
        latent = {"kind": "mla_attention", "num_kv_heads": 1, "head_size": 575, "block_size": 32}
        self.assert_no(run_specs(document(layer("a"), layer("b", **latent)), "--json"),
                       "NOTIMPL", "mla_attention")
        # sizes beyond 2^63-1 cannot be planned either
        self.assert_no(run_specs(document(*(layer(n, page_size_padded=1 << 62) for n in "abc")),
                                 "--json"), "VALUE", "2^63-1")

    def test_a_refusal_for_people_is_one_line(self):
        self.assert_line(run_specs(document(layer("a"), available_bytes=0)), 1, "worker 0")

    def test_bad_input_is_exit_2_one_line_and_nothing_on_stdout(self):
        cases = (
            ("", "line 1"), ("{", "line 1"), ("[]", "object"), ('{"max_model_len": NaN}', "NaN"),
            ('{"max_model_len": 1, "max_model_len": 1}', "once"),
            ('{"max_model_len": 9223372036854775808}', "2^63-1"),
            (json.dumps(document(layer("a", kind="flash"))), '"flash"'),
            (json.dumps(document(layer("a", rswa_window=1))), '"rswa_window"'),
            (json.dumps(document(layer("a"), options={"tpp": 1})), '"tpp"'),
            (json.dumps(document(layer("a"), **{"new\nline\x1b[31m": 1})), "not a known field"),
            (json.dumps(document(layer("a"), **{"x" * 100000: 1})), "not a known field"),
            ('{"a": ' + "[" * 1000000, "64 levels"), ('{"a": "' + "\\" * 99999, "line 1"),
        )
        for text, part in cases:
            for options in ((), ("--json",), ("--derived",)):
                self.assert_line(run_specs(text, *options), 2, part)

    def test_a_screen_shows_what_fits(self):
        done = self.assert_done(run_specs(document(layer("a"))))
        for part in ("16,384 blocks", "full_attention", "LBNHC", "64.00 KiB"):
            self.assertIn(part, done.out)


class Answers(program.Case):
    def test_a_model_without_a_cache_has_one_block(self):
        answer = self.answer(run_specs(document(), "--json"))
        self.assertEqual([answer[key] for key in ("num_blocks", "bytes_per_block", "tokens",
                                                  "max_concurrency", "groups", "tensors")],
                         [1, 0, 0, 0, [], []])

    def test_stages_are_listed_and_the_first_is_on_top(self):
        stages = [{"available_bytes": 1200 * 65536, "layers": ["a", "b"]},
                  {"available_bytes": 700 * 65536, "layers": ["c"]}]
        answer = self.answer(run_specs(document(layer("a"), layer("b"), layer("c"),
                                                options={"workers": stages}), "--json"))
        self.assertEqual([w["num_blocks"] for w in answer["workers"]], [600, 600])  # row 57
        self.assertEqual([w["tensors"][0]["size"] for w in answer["workers"]],
                         [78643200, 39321600])
        for key in ("num_blocks", "bytes_per_block", "groups", "tensors"):
            self.assertEqual(answer[key], answer["workers"][0][key])

    def test_sizes_that_cannot_be_resolved_are_null(self):
        window = {"kind": "sliding_window", "sliding_window": 64, "block_size": 48,
                  "num_kv_heads": 2}
        both = document(layer("a", block_size=32, num_kv_heads=3), layer("b", **window),
                        prefix_match_unit=32)
        answer = self.answer(run_specs(both, "--json"))  # row 67
        for key in ("scheduler_block_size", "hash_block_size", "hit_alignment"):
            self.assertIsNone(answer[key])

    def test_derived_adds_the_quantities_of_layers(self):
        answer = self.answer(run_specs(document(layer("a"), max_model_len=1000), "--derived"))
        one, = answer["derived"]["layers"]
        self.assertEqual(one, {
            "name": "a", "num_heads": 8, "num_states": 16, "state_content_bytes": 512,
            "page_bytes": 65536, "unpadded_page_bytes": 65536, "block_stride_alignment": 1,
            "block_table_token_alignment": 128, "prefix_cacheable": True,
            "prefix_replay_tokens": 0, "has_layer_views": True, "uses_slot_mapping": True,
            "max_memory_bytes": 63 * 65536, "max_blocks": [63, 1, 32, 251],
            "admission_cap": None, "retained_tokens": None, "event_kind": "full_attention",
            "event_window": None})
        self.assertEqual(answer["derived"]["estimated_max_model_len"], 1000)
        group, = answer["derived"]["groups"]
        self.assertEqual(group["spec"]["kind"], "full_attention")
        self.assertNotIn("name", group["spec"])

    def test_derived_stands_beside_a_refusal(self):
        done = run_specs(document(layer("a"), available_bytes=65536 * 10), "--derived")
        self.assert_no(done, "VALUE")
        self.assertEqual(set(done.json["derived"]), {"layers", "estimated_max_model_len"})
        self.assertEqual(done.json["derived"]["estimated_max_model_len"], 160)

    def test_row_70_block_lists_are_selected_by_the_groups_that_are_transferred(self):
        latent = {"kind": "mla_attention", "block_size": 64, "num_kv_heads": 1, "dtype": "uint8"}
        ring = {"kind": "circular_buffer", "block_size": 8, "num_kv_heads": 1, "head_size_v": 0}
        sparse = document(
            layer("s", **latent, state_content_bytes=656), layer("r", **ring),
            layer("i", **latent, state_content_bytes=132, cache_role="indexer"),
            options={"layout": "BLHNC", "hisparse": {"host_bytes": GIB}})
        config = self.answer(run_specs(sparse, "--derived"))["derived"]["config"]
        # groups: source, indexer, resident, hot (both derived: not transferred), ring
        self.assertEqual(config["transfer_group_ids"], [0, 1, 4])
        self.assertEqual(config["select_transfer"], [[0, 100], [1, 101], [4, 104]])
        self.assertEqual(config["transfer_index"], {"s": 0, "i": 1, "r": 2})
        self.assertEqual(config["prefix_cacheable_group_ids"], [0, 1])
        self.assertEqual(config["host_group_ids"], [0])


class Questions(program.Case):
    def test_smaller_documents_always_answer_json(self):
        for options in ((), ("--json",)):
            spec = self.answer(run_specs({"merge": [FULL, {**FULL, "sliding_window": 4}]},
                                         *options))["spec"]
            self.assertEqual(spec["sliding_window"], 4)
        self.assert_no(run_specs({"merge": [FULL, {**FULL, "num_kv_heads": 4}]}), "ASSERT")

    def test_uniform_layers_have_the_quantities_of_a_wrapper(self):
        pair = [FULL, {**FULL, "num_kv_heads": 4}]
        answer = self.answer(run_specs({"uniform": pair, "max_model_len": 1000}))  # row 34
        self.assertEqual((answer["mergeable"], answer["uniform_type"]), (False, True))
        self.assertEqual((answer["page_bytes"], answer["max_pages"], answer["max_memory_bytes"]),
                         (98304, 63, 6193152))
        self.assertEqual((answer["spec_kind"], answer["layers_per_page_size"]),
                         ("full_attention", 1))
        pair = [{**FULL, "sliding_window": 4}, {**FULL, "sliding_window": 8}]
        self.assertEqual(self.answer(run_specs({"uniform": pair}))["mergeable"], "VALUE")

    def test_a_resize_and_a_view_are_answered(self):
        answer = self.answer(run_specs({"resize": FULL, "block_size": 32}))
        self.assertEqual((answer["spec"]["block_size"], answer["page_bytes"]), (32, 131072))
        view = {"views": FULL, "layout": "LBNHC", "num_blocks": 10, "num_layers": 3}
        self.assertEqual(self.answer(run_specs(view)), {  # row 37
            "shape": [3, 10, 8, 16, 512], "strides": [655360, 65536, 512, 4096, 1], "offset": 0})

    def test_names_are_explained(self):
        self.assertEqual(self.answer(run_specs({"quant_mode": "fp8_ds_mla"})), {
            "mode": "fp8_per_tensor", "quantized": True, "per_token_head": False, "nvfp4": False,
            "turboquant": False, "ultraquant": False, "octave": False})
        self.assertEqual(self.answer(run_specs({"layout_of": "BLHNC"})), {
            "order": "BLHNC", "layer_order": "BHNC", "layer_compact": False,
            "block_contiguous": True, "block_compact": True, "block_outermost": True})


class Lines(program.Case):
    def test_each_line_is_answered_by_a_line(self):
        lines = [json.dumps(document(layer("a"))), "", " \t", "{", json.dumps({"merge": [FULL]}),
                 json.dumps(document(layer("a"), available_bytes=0)),
                 json.dumps({"max_model_len": 1, "x": 1}), json.dumps(document())]
        done = self.assert_done(answers("\n".join(lines)))  # the last one without a newline
        got = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual([one.get("code") for one in got],
                         [None, "INPUT", None, "VALUE", "INPUT", None])
        self.assertEqual(got[0]["num_blocks"], 16384)
        self.assertIn('"x"', got[4]["error"])
        self.assertEqual(got[5]["num_blocks"], 1)

    def test_nothing_is_answered_by_nothing(self):
        for text in ("", "\n", "\n\n \r\n"):
            self.assertEqual(self.assert_done(answers(text)).out, "")

    def test_lines_may_end_with_carriage_returns(self):
        self.assertEqual(json.loads(answers(json.dumps(document()) + "\r\n").out)["num_blocks"], 1)

    def test_zero_bytes_and_other_garbage_are_answered_as_bad_input(self):
        text = b'{"max_model_len"\0: 1}\n\xff\xfe\n\0\n{"max_model_len": 1}\n'
        done = subprocess.run([PROGRAM, "plan", "--specs", "-"], input=text, capture_output=True,
                              check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        got = [json.loads(line).get("code") for line in done.stdout.splitlines()]
        self.assertEqual(got, ["INPUT", "INPUT", "INPUT", None])

    def test_derived_goes_with_lines(self):
        done = self.assert_done(answers(json.dumps(document(layer("a"))) + "\n", "--derived"))
        self.assertIn("derived", done.json)

    def test_an_answer_comes_before_the_next_line_is_sent(self):
        with subprocess.Popen([PROGRAM, "plan", "--specs", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as peer:
            for blocks in (100, 200):
                peer.stdin.write(json.dumps(document(layer("a"), available_bytes=65536 * blocks))
                                 + "\n")
                peer.stdin.flush()
                self.assertEqual(json.loads(peer.stdout.readline())["num_blocks"], blocks)
            peer.stdin.close()
            self.assertEqual(peer.stdout.read(), "")
            self.assertEqual(peer.wait(timeout=60), 0)


program.main()
