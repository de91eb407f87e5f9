"""pagedkv layout: files, lines, options, exit codes, and what people see."""
import json
import sys
import tempfile

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import run  # noqa: E402


def tensor(*shape, strides=None, dtype="bfloat16", offset=0):
    made = {"shape": list(shape), "dtype": dtype, "offset": offset}
    return made if strides is None else {**made, "strides": strides}


def problem(*tensors, engine="vllm", **more):
    return {"engine": engine, **more,
            "layers": [{"name": f"l{i}", "tensors": [t]} for i, t in enumerate(tensors)]}


FLASH = problem(tensor(2, 1000, 16, 8, 128))


class Layout(program.Case):
    def file(self, text, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
            file.flush()
            return run("layout", "--file", file.name, *options)

    def read(self, document):
        return self.answer(self.file(document, "--json"))

    def assert_bad(self, document, *parts):
        self.assert_line(self.file(document, "--json"), 2, *parts)

    def test_the_example_of_the_format_is_answered_whole(self):
        answer = self.read(FLASH)
        self.assertEqual(answer["num_layers"], 1)
        # 16 x 8 x 128 elements of 2 bytes a page side, 1000 of them to V
        self.assertEqual(answer["layers"], [{
            "name": "l0", "format": "NL_X_TWO_NB_BS_NH_HS", "num_blocks": 1000, "block_size": 16,
            "tokens": 16000, "num_heads": 8, "head_size": 128, "head_size_v": 128, "kv_size": 2,
            "offset": 0, "block_stride": 32768, "token_stride": 2048, "head_stride": 256,
            "kv_stride": 32768000, "v": None, "dense": True, "dtype": "bfloat16",
            "device": "cuda", "is_mla": False, "hidden_dim": 1024, "elements": 32768000,
            "backend": "vLLM non-MLA flash attention", "shape": "NL x [2, NB, BS, NH, HS]",
            "concrete": "1 x [2, 1000, 16, 8, 128]", "group": 0,
            "normalized": [{"tensor": 0, "shape": [2, 1000, 16, 8, 128],
                            "strides": [16384000, 16384, 1024, 128, 1]}]}])
        self.assertEqual(answer["groups"], [{
            "engine_group": 0, "layers": [0], "format": "NL_X_TWO_NB_BS_NH_HS",
            "concrete": "1 x [2, 1000, 16, 8, 128]", "data_ptrs": [[0, 0]],
            "desc": {"kv_size": 2, "nl": 1, "nb": 1000, "bs": 16, "nh": 8, "hs": 128,
                     "element_size": 2, "block_stride_elems": 0}}])

    def test_a_refusal_is_exit_1_and_names_its_readings(self):
        done = self.file(problem(tensor(2, 2, 16, 8, 128)), "--json")
        self.assert_no(done, "ambiguous", "kv_axis")
        self.assertEqual(len(done.json["readings"]), 2)
        self.assertIn("NL_X_TWO_NB_BS_NH_HS", done.json["readings"][0])
        self.assertIn("NL_X_NB_TWO_BS_NH_HS", done.json["readings"][1])
        self.assert_no(self.file(problem(tensor(10, 3, 16, 8, 128)), "--json"), "unsupported")
        done = self.file({**FLASH, "hints": {"head_dim": 64}}, "--json")
        self.assert_no(done, "inconsistent", "head_dim 128")

    def test_malformed_input_is_exit_2_and_names_the_place(self):
        self.assert_bad("[1, 2", "JSON")
        self.assert_bad("null", "object")
        self.assert_bad({**FLASH, "engine": "mock"}, "engine", "mock")
        self.assert_bad({**FLASH, "colour": 1}, "colour")
        self.assert_bad({**FLASH, "hints": {"layout": "NDH"}}, "NHD, HND, BLHNC, BLNHC")
        self.assert_bad({**FLASH, "hints": {"heads": 8}}, "heads")
        self.assert_bad({**FLASH, "groups": [[0, 0]]}, "groups[0]", "twice")
        self.assert_bad({**FLASH, "groups": [[1]]}, "groups[0]")
        self.assert_bad(problem(tensor(2, 0, 16)), "layers[0]: tensors[0]", "shape[1]")
        self.assert_bad(problem(tensor(8, 8, strides=[-8, 1])), "strides[0]")
        self.assert_bad(problem(tensor(8, 8, strides=[8])), "strides")
        self.assert_bad(problem(tensor(8, 8, dtype="bf16x")), "bf16x")
        self.assert_bad(problem(tensor(1 << 40, 1 << 40)), "2^63-1")
        self.assert_bad(problem(tensor(2, 2, strides=[1 << 62, 1])), "2^63-1")
        self.assert_bad({"ask": []}, "engine")
        self.assert_bad({**FLASH, "ask": [{"q": "size"}]}, "ask[0]")

    def test_a_file_that_cannot_be_read_is_exit_3(self):
        self.assert_line(run("layout", "--file", "no/such/file", "--json"), 3, "no/such/file")

    def test_lines_are_answered_one_by_one(self):
        lines = [json.dumps(FLASH), "", "{", json.dumps(problem(tensor(2, 2, 16, 8, 128))),
                 json.dumps({"ask": [{"q": "interm_buffer", "enable_pd": True}]})]
        done = self.assert_done(run("layout", "--file", "-", stdin="\n".join(lines) + "\n"))
        answers = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual(len(answers), 4)
        self.assertEqual(answers[0]["num_layers"], 1)
        self.assertEqual(answers[1]["code"], "INPUT")
        self.assertEqual(answers[2]["code"], "ambiguous")
        self.assertEqual(answers[3], {"answers": [{"needed": False}]})

    def test_the_seed_warns_of_an_order_that_it_does_not_know(self):
        odd = tensor(4, 16, 8, strides=[8, 32, 1])  # tokens outside of blocks
        self.assert_no(self.file(problem(odd), "--json"), "unsupported", "no engine")
        answer = self.read(problem(odd, tensor(4, 16, 8), revision="seed"))
        self.assertEqual([(row["num_blocks"], row["block_size"]) for row in answer["layers"]],
                         [(16, 4), (4, 16)])
        self.assertEqual(len(answer["warnings"]), 1)
        self.assertIn("l0: revision seed does not know", answer["warnings"][0])
        self.assertNotIn("warnings", self.read(problem(tensor(4, 16, 8), revision="seed")))
        seen = self.assert_done(self.file(problem(odd, revision="seed")))
        self.assertIn("warning: l0: revision seed does not know", seen.out)

    def test_questions_need_no_layers(self):
        asked = [{"q": "format", "format": 3}, {"q": "format", "format": 77},
                 {"q": "text", "format": 5,
                  "desc": {"nl": 3, "nb": 100, "bs": 16, "nh": 8, "hs": 128}},
                 {"q": "split", "tensor": {"shape": [100, 2, 64]}},
                 {"q": "split", "tensor": {"shape": [3, 3, 8]}}]
        answers = self.read({"ask": asked})["answers"]
        self.assertEqual(answers[0]["shape"], "NL x [NB, BS, HS]")
        self.assertEqual(answers[1], {"known": False, "shape": "Unknown (77)",
                                      "backend": "Unknown (77)"})
        self.assertEqual(answers[2], {"text": "3 x [1600, 1, 128]"})
        self.assertEqual(answers[3]["v"], {"shape": [100, 64], "strides": [128, 1], "offset": 64})
        self.assertEqual(answers[4]["code"], "VALUE")

    def test_one_tensor_may_be_given_by_options(self):
        by_options = run("layout", "--engine", "vllm", "--shape", "2,1024,16,8,128", "--strides",
                         "16777216,16384,128,2048,1", "--hint", "layout=HND,num_kv_heads=8",
                         "--dtype", "float16", "--offset", 4, "--json")
        row = self.answer(by_options)["layers"][0]
        self.assertEqual((row["format"], row["num_heads"], row["offset"], row["dtype"]),
                         ("NL_X_TWO_NB_NH_BS_HS", 8, 8, "float16"))
        several = run("layout", "--hint=layout=HND", "--engine", "vllm", "--shape",
                      "2,1024,16,8,128", "--hint", "num_kv_heads=16", "--json")
        self.assertEqual(self.answer(several)["layers"][0]["format"], "NL_X_TWO_NB_NH_BS_HS")
        cross = run("layout", "--engine=vllm", "--shape=8,2,2,16,8,128",
                    "--structure=cross_layer", "--json")
        self.assertEqual(self.answer(cross)["num_layers"], 2)

    def test_bad_options_are_named(self):
        good = ("--engine", "vllm", "--shape", "2,8,16,8,128")
        self.assert_line(run("layout"), 2, "--file", "--engine")
        self.assert_line(run("layout", "--engine", "vllm"), 2, "--shape")
        self.assert_line(run("layout", "--file", "-", *good), 2, "--engine")
        self.assert_line(run("layout", "--engine", "vllm", "--shape", "2,,8"), 2, "--shape")
        self.assert_line(run("layout", "--engine", "vllm", "--shape", "2,8,"), 2, "--shape")
        self.assert_line(run("layout", *good, "--strides", "1,2"), 2, "strides")
        self.assert_line(run("layout", *good, "--hint", "layout"), 2, "--hint")
        self.assert_line(run("layout", *good, "--hint"), 2, "--hint needs a value")
        self.assert_line(run("layout", *good, "--hint", "layout=HND", "--hint", "layout=NHD"), 2,
                         "layout", "once")
        self.assert_line(run("layout", *good, "--hint", "colour=1"), 2, "colour")
        self.assert_line(run("layout", *good, "--dtype", "x"), 2, "dtype")
        self.assert_line(run("layout", *good, "--offset", "-1"), 2, "--offset")
        self.assert_line(run("layout", "--engine", "x", "--shape", "2,8"), 2, "engine")

    def test_people_see_the_axes_in_memory(self):
        done = self.assert_done(run("layout", "--engine", "vllm", "--shape", "4096,64,128",
                                    "--strides", "9216,128,1"))
        self.assertIn("NL_X_NB_BS_HS", done.out)
        self.assertIn("padded", done.out)
        # 64 x 128 elements of 2 bytes, and 1024 elements that are somebody else's
        self.assertIn("every 18432 bytes, 2048 of them not its own", done.out)
        self.assertLess(done.out.index("4096 blocks"), done.out.index("64 tokens"))
        self.assert_line(run("layout", "--engine", "vllm", "--shape", "2,2,16,8,128"), 1,
                         "two readings")


program.main()
