"""Transfer jobs done row by row, and random ones. Knows the contract and nothing of the library."""
import random

FORMS = ("2LTD", "L2TD", "2TD", "T2D", "MLA", "BLOCKS")


class Refused(Exception):
    """With the code of the rule."""


def width(plane):
    return plane["heads"] * plane["row_bytes"]


def chosen(job, layers):
    numbers = job.get("layers", list(range(len(layers))))
    if any(not 0 <= l < len(layers) for l in numbers):
        raise Refused("RANGE")
    return numbers


def paged_row(side, layer, plane, slot, head):
    """(file, offset) of a row."""
    pages = side["layers"][layer]
    at = pages["planes"][plane]
    block, token = divmod(slot, pages["block_size"])
    return (side["buffers"][at["buffer"]],
            at["offset"] + block * at["block_stride"] + token * at["token_stride"]
            + head * at["head_stride"])


def paged_bounds(side, sizes):
    for pages in side["layers"]:
        for at in pages["planes"]:
            end = (at["offset"] + (pages["num_blocks"] - 1) * at["block_stride"]
                   + (pages["block_size"] - 1) * at["token_stride"]
                   + (at["heads"] - 1) * at["head_stride"] + at["row_bytes"])
            if end > sizes[side["buffers"][at["buffer"]]]:
                raise Refused("BOUNDS")


def chunk_row(chunk, layers, one, layer, plane, token, head):
    form, rows = chunk["chunk"], chunk["tokens"]
    index, t = divmod(token, rows)
    planes = layers[layer]["planes"]
    own, every = width(planes[plane]), sum(map(width, planes))
    before = sum(map(width, planes[:plane]))
    n, l = (1, 0) if one else (len(layers), layer)
    if form in ("2LTD", "2TD"):
        at = n * rows * before + l * rows * own + t * own
    elif form == "L2TD":
        at = l * rows * every + rows * before + t * own
    elif form in ("T2D", "MLA"):
        at = l * rows * every + t * every + before
    else:
        size = layers[0]["block_size"]
        block = size * sum(width(p) for pages in layers for p in pages["planes"])
        at = (t // size * block + size * sum(width(p) for pages in layers[:layer]
                                             for p in pages["planes"])
              + size * before + t % size * own)
    return chunk["files"][index], chunk["offset"] + at + head * planes[plane]["row_bytes"]


def check_chunk(job, chunk, layers, numbers, sizes):
    form = chunk["chunk"]
    one = form in ("2TD", "T2D")
    held = [layers[numbers[0]]] if one else layers
    shapes = [[width(p) for p in pages["planes"]] for pages in held]
    if one and len(numbers) != 1:
        raise Refused("CONTENT")
    if form not in ("MLA", "BLOCKS") and any(len(shape) != 2 for shape in shapes):
        raise Refused("CONTENT")
    if form == "BLOCKS":
        block_sizes = {pages["block_size"] for pages in layers}
        if len(block_sizes) > 1 or chunk["tokens"] % layers[0]["block_size"]:
            raise Refused("CONTENT")
    elif any(shape != shapes[0] for shape in shapes):
        raise Refused("CONTENT")
    total = chunk["tokens"] * sum(map(sum, shapes))
    if any(chunk["offset"] + total > sizes[name] for name in chunk["files"]):
        raise Refused("BOUNDS")
    return one


def same_layers(job, a, b, numbers, heads):
    if len(a["layers"]) != len(b["layers"]):
        raise Refused("CONTENT")
    for l in numbers:
        x, y = a["layers"][l], b["layers"][l]
        if [(heads and p["heads"], p["row_bytes"]) for p in x["planes"]] != \
                [(heads and p["heads"], p["row_bytes"]) for p in y["planes"]]:
            raise Refused("CONTENT")
        if "blocks" in job and x["block_size"] != y["block_size"]:
            raise Refused("CONTENT")


def limit(sides, numbers, blocks):
    return min(side["layers"][l]["num_blocks"] * (1 if blocks else side["layers"][l]["block_size"])
               for side in sides for l in numbers)


def in_range(ids, most, negative):
    if any(i >= most or (i < 0 and not negative) for i in ids):
        raise Refused("RANGE")


def slots_of(blocks, size, n):
    return [blocks[i // size] * size + i % size for i in range(n)]


def token_count(job, n, size):
    most = n * size
    tokens = job.get("tokens", most)
    if not most - size < tokens <= most:
        raise Refused("RANGE")
    return tokens


def one_size(sides, numbers):
    sizes = {side["layers"][l]["block_size"] for side in sides for l in numbers}
    if len(sizes) > 1:
        raise Refused("CONTENT")
    return sizes.pop()


def chunk_moves(job, sizes):
    gather = job["op"] == "gather"
    paged, chunk = (job["src"], job["dst"]) if gather else (job["dst"], job["src"])
    layers = paged["layers"]
    numbers = chosen(job, layers)
    if "blocks" in job:
        size = one_size([paged], numbers)
    one = check_chunk(job, chunk, layers, numbers, sizes)
    paged_bounds(paged, sizes)
    in_range(job.get("blocks", job.get("slots")), limit([paged], numbers, "blocks" in job),
             "slots" in job)
    slots = job["slots"] if "slots" in job else \
        slots_of(job["blocks"], size, token_count(job, len(job["blocks"]), size))
    if len(slots) > chunk["tokens"] * len(chunk["files"]):
        raise Refused("RANGE")
    tokens = moving(job, [(i, slot) for i, slot in enumerate(slots)])
    tokens = [(i, slot) for i, slot in tokens if slot >= 0]
    moves = []
    for l in numbers:
        for p, plane in enumerate(layers[l]["planes"]):
            for i, slot in tokens:
                for h in range(plane["heads"]):
                    ends = [paged_row(paged, l, p, slot, h),
                            chunk_row(chunk, layers, one, l, p, i, h)]
                    moves.append((l, *(ends if gather else ends[::-1]), plane["row_bytes"]))
    return len(tokens), moves


def moving(job, tokens):
    skip = job.get("skip_tokens", 0)
    if not 0 <= skip <= len(tokens):
        raise Refused("RANGE")
    return tokens[skip:]


def copy_moves(job, sizes):
    src, dst = job["src"], job["dst"]
    numbers = chosen(job, src["layers"])
    same_layers(job, src, dst, numbers, True)
    if "blocks" in job:
        size = one_size([src, dst], numbers)
    for side in (src, dst):
        paged_bounds(side, sizes)
    blocks = "blocks" in job
    lists = list(zip(*job["blocks"])) if blocks else (job["src_slots"], job["dst_slots"])
    for side, ids in zip((src, dst), lists):
        in_range(ids, limit([side], numbers, blocks), not blocks)
    if blocks:
        n = token_count(job, len(job["blocks"]), size)
        lists = [slots_of(ids, size, n) for ids in lists]
    tokens = [(a, b) for a, b in moving(job, list(zip(*lists))) if a >= 0 and b >= 0]
    moves = [(l, paged_row(src, l, p, a, h), paged_row(dst, l, p, b, h), plane["row_bytes"])
             for l in numbers for p, plane in enumerate(src["layers"][l]["planes"])
             for a, b in tokens for h in range(plane["heads"])]
    return len(tokens), moves


def swap_moves(job, sizes):
    src = job["src"]
    numbers = chosen(job, src["layers"])
    paged_bounds(src, sizes)
    for ids in zip(*job["blocks"]):
        in_range(ids, limit([src], numbers, True), False)
    moves = []
    for l in numbers:
        size = src["layers"][l]["block_size"]
        for p, plane in enumerate(src["layers"][l]["planes"]):
            for a, b in job["blocks"]:
                for x, y in ((a, b), (b, a)):
                    moves += [(l, paged_row(src, l, p, x * size + t, h),
                               paged_row(src, l, p, y * size + t, h), plane["row_bytes"])
                              for t in range(size) for h in range(plane["heads"])]
    return 0, moves


def heads_of(rank, ranks, total):
    if total < ranks:
        return [rank * total // ranks]
    return list(range(rank * total // ranks, (rank + 1) * total // ranks))


def reshard_moves(job, sizes):
    total, first = job["heads_total"], job["src"][0]
    numbers = chosen(job, first["layers"])
    sides = job["src"] + job["dst"]
    for side in sides:
        same_layers(job, first, side, numbers, False)
    size = one_size(sides, numbers)
    for ranks in (job["src"], job["dst"]):
        if total > len(ranks) and total % len(ranks):
            raise Refused("CONTENT")
        for side in ranks:
            if any(p["heads"] != max(1, total // len(ranks)) for l in numbers
                   for p in side["layers"][l]["planes"]):
                raise Refused("CONTENT")
    for side in sides:
        paged_bounds(side, sizes)
    lists = list(zip(*job["blocks"]))
    for ranks, ids in zip((job["src"], job["dst"]), lists):
        in_range(ids, limit(ranks, numbers, True), False)
    n = token_count(job, len(job["blocks"]), size)
    tokens = moving(job, list(zip(*(slots_of(ids, size, n) for ids in lists))))
    home = {}
    for r in range(len(job["src"])):
        for i, head in enumerate(heads_of(r, len(job["src"]), total)):
            home.setdefault(head, (r, i))
    moves = []
    for l in numbers:
        for p, plane in enumerate(first["layers"][l]["planes"]):
            for r, side in enumerate(job["dst"]):
                for i, head in enumerate(heads_of(r, len(job["dst"]), total)):
                    rank, own = home[head]
                    moves += [(l, paged_row(job["src"][rank], l, p, a, own),
                               paged_row(side, l, p, b, i), plane["row_bytes"])
                              for a, b in tokens]
    return len(tokens), moves


MOVES = {"gather": chunk_moves, "scatter": chunk_moves, "copy": copy_moves, "swap": swap_moves,
         "reshard": reshard_moves}


def perform(job, files):
    """The answer, and the files afterwards: {name: bytes}. Raises Refused."""
    sizes = {name: len(data) for name, data in files.items()}
    tokens, moves = MOVES[job["op"]](job, sizes)
    written = {name: bytearray(len(data)) for name, data in files.items()}
    read = {name: bytearray(len(data)) for name, data in files.items()}
    after = {name: bytearray(data) for name, data in files.items()}
    steps = {}
    for layer, (src, s), (dst, d), n in moves:
        if any(written[dst][d:d + n]):
            raise Refused("OVERLAP")
        written[dst][d:d + n] = b"\1" * n
        read[src][s:s + n] = b"\1" * n
        after[dst][d:d + n] = files[src][s:s + n]
        steps[layer] = steps.get(layer, 0) + n
    if job["op"] != "swap":
        for name in files:
            if any(a and b for a, b in zip(written[name], read[name])):
                raise Refused("OVERLAP")
    answer = {"ok": True, "tokens": tokens, "bytes": sum(steps.values())}
    if job.get("layerwise"):
        some = job["src"] if job["op"] != "scatter" else job["dst"]
        some = some[0] if isinstance(some, list) else some
        numbers = job.get("layers", list(range(len(some["layers"]))))
        answer["steps"] = [steps.get(l, 0) for l in numbers]
    return answer, {name: bytes(data) for name, data in after.items()}


# ---- random jobs ----

class Maker:
    """Random structures; files get their sizes when all is placed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sizes = {}

    def chance(self, share):
        return self.random.random() < share

    def pick(self, low, high):
        return self.random.randint(low, high)

    def file(self, bytes_, name):
        name = f"{name}{len(self.sizes)}.bin"
        self.sizes[name] = bytes_
        return name

    def pad(self):
        return self.pick(1, 9) if self.chance(0.3) else 0

    def plane(self, heads, row, blocks, size, offset):
        """(plane, end) with axes in random order and random padding."""
        strides, extent = {}, row
        axes = [("head", heads), ("token", size)]
        self.random.shuffle(axes)
        for name, n in axes + [("block", blocks)]:
            strides[name] = extent + self.pad()
            extent = (n - 1) * strides[name] + extent if n > 1 else extent
        if self.chance(0.1):  # blocks inside of tokens or heads
            strides, extent = {}, row
            axes = [("head", heads), ("token", size), ("block", blocks)]
            self.random.shuffle(axes)
            for name, n in axes:
                strides[name] = extent + self.pad()
                extent = (n - 1) * strides[name] + extent
        return {"buffer": 0, "offset": offset, "heads": heads, "row_bytes": row,
                "block_stride": strides["block"], "token_stride": strides["token"],
                "head_stride": strides["head"]}, offset + extent

    def interleave(self, layers):
        """All planes of all layers side by side in each block, as a pool of pages would."""
        at = 0
        for pages in layers:
            for plane in pages["planes"]:
                plane["offset"] = at
                plane["head_stride"] = plane["row_bytes"]
                plane["token_stride"] = width(plane)
                at += width(plane) * pages["block_size"] + self.pad()
        for pages in layers:
            for plane in pages["planes"]:
                plane["block_stride"] = at
        return max(plane["offset"] + (pages["num_blocks"] - 1) * at
                   + width(plane) * pages["block_size"]
                   for pages in layers for plane in pages["planes"])

    def pages(self, shapes, sizes, name="p"):
        """A side: shapes[layer] = [(heads, row)], sizes[layer] = (blocks, block_size)."""
        files = [[self.pick(0, 5), []] for _ in range(self.pick(1, 2))]
        layers = []
        for shape, (blocks, size) in zip(shapes, sizes):
            planes = []
            for heads, row in shape:
                number = self.pick(0, len(files) - 1)
                plane, end = self.plane(heads, row, blocks, size, files[number][0])
                plane["buffer"] = number
                files[number][0] = end + self.pad()
                planes.append(plane)
            layers.append({"num_blocks": blocks, "block_size": size, "planes": planes})
        if self.chance(0.3):
            end = self.interleave(layers)
            for pages in layers:
                for plane in pages["planes"]:
                    plane["buffer"] = 0
            return {"buffers": [self.file(end + self.pad(), name)], "layers": layers}
        return {"buffers": [self.file(end, name) for end, _ in files], "layers": layers}

    def options(self, job, n_layers):
        if self.chance(0.4):
            job["layers"] = self.random.sample(range(n_layers), self.pick(1, n_layers))
        if self.chance(0.3):
            job["layerwise"] = self.chance(0.8)
        if self.chance(0.5):
            job["workers"] = self.pick(1, 5)

    def tokens(self, job, n_blocks, size):
        """`tokens` and `skip_tokens` of a job over blocks."""
        most = n_blocks * size
        if self.chance(0.4):
            job["tokens"] = most - self.pick(0, size - 1)
        self.skip(job, job.get("tokens", most))

    def skip(self, job, n):
        if self.chance(0.3):
            job["skip_tokens"] = self.pick(0, n)

    def gather_or_scatter(self):
        form = self.random.choice(FORMS)
        n_layers = self.pick(1, 4)
        n_planes = 2 if form not in ("MLA", "BLOCKS") else self.pick(1, 3)
        shape = [(self.pick(1, 4), self.pick(1, 40)) for _ in range(n_planes)]
        shapes = [shape] * n_layers
        if form == "BLOCKS" and self.chance(0.3):
            shapes = [[(self.pick(1, 3), self.pick(1, 20))] for _ in range(n_layers)]
        blocks, size = self.pick(2, 9), self.pick(1, 6)
        one_size_ = form == "BLOCKS" or self.chance(0.7)
        sizes = [(blocks, size if one_size_ else self.pick(1, 6)) for _ in range(n_layers)]
        job = {"op": self.random.choice(("gather", "scatter"))}
        self.options(job, n_layers)
        if form in ("2TD", "T2D"):
            job["layers"] = [self.pick(0, n_layers - 1)]
        paged = self.pages(shapes, sizes)
        numbers = job.get("layers", list(range(n_layers)))
        if one_size_ and self.chance(0.5):
            ids = self.random.sample(range(blocks), self.pick(1, blocks))
            job["blocks"] = ids
            n = len(ids) * size
            self.tokens(job, len(ids), size)
        else:
            most = limit([paged], numbers, False)
            job["slots"] = self.random.sample(range(most), self.pick(1, most))
            if self.chance(0.5):
                start = self.pick(0, most - 1)
                job["slots"] = list(range(start, self.pick(start + 1, most)))
            job["slots"] = [-self.pick(1, 9) if self.chance(0.1) else s for s in job["slots"]]
            n = len(job["slots"])
            self.skip(job, n)
        rows = self.pick(1, n + 3)
        if form == "BLOCKS":
            rows = (rows + size - 1) // size * size
        held = 1 if form in ("2TD", "T2D") else n_layers
        total = rows * sum(h * r for pages in shapes[:held] for h, r in pages)
        offset = self.pad()
        chunk = {"chunk": form, "tokens": rows, "offset": offset,
                 "files": [self.file(offset + total + self.pad(), "c")
                           for _ in range((n + rows - 1) // rows)]}
        job["src"], job["dst"] = (paged, chunk) if job["op"] == "gather" else (chunk, paged)
        return job

    def copy(self):
        n_layers = self.pick(1, 3)
        shapes = [[(self.pick(1, 4), self.pick(1, 40)) for _ in range(self.pick(1, 3))]
                  for _ in range(n_layers)]
        by_blocks = self.chance(0.5)
        job = {"op": "copy"}
        self.options(job, n_layers)
        size = self.pick(1, 6)
        sides = [self.pages(shapes, [(self.pick(2, 8), size if by_blocks else self.pick(1, 6))
                                     for _ in range(n_layers)]) for _ in range(2)]
        if self.chance(0.2):
            sides[1] = sides[0]
        job["src"], job["dst"] = sides
        numbers = job.get("layers", list(range(n_layers)))
        most = [limit([side], numbers, by_blocks) for side in sides]
        n = self.pick(1, min(most))
        lists = [self.random.sample(range(m), n) for m in most]
        if by_blocks:
            job["blocks"] = [list(pair) for pair in zip(*lists)]
            self.tokens(job, n, size)
        else:
            job["src_slots"], job["dst_slots"] = [
                [-1 if self.chance(0.1) else slot for slot in slots] for slots in lists]
            self.skip(job, n)
        return job

    def swap(self):
        n_layers = self.pick(1, 3)
        shapes = [[(self.pick(1, 4), self.pick(1, 40)) for _ in range(self.pick(1, 3))]
                  for _ in range(n_layers)]
        job = {"op": "swap"}
        self.options(job, n_layers)
        blocks = self.pick(2, 9)
        job["src"] = self.pages(shapes, [(blocks, self.pick(1, 5)) for _ in range(n_layers)])
        ids = self.random.sample(range(blocks), self.pick(1, blocks // 2) * 2)
        job["blocks"] = [list(pair) for pair in zip(ids[::2], ids[1::2])]
        return job

    def reshard(self):
        n_layers, total = self.pick(1, 2), self.random.choice((1, 2, 4, 8, 3, 6))
        ranks = [self.random.choice([r for r in (1, 2, 3, 4, 8) if total % r == 0 or total < r])
                 for _ in range(2)]
        rows = [[self.pick(1, 20) for _ in range(self.pick(1, 3))] for _ in range(n_layers)]
        size, blocks = self.pick(1, 5), self.pick(2, 5)
        job = {"op": "reshard", "heads_total": total}
        self.options(job, n_layers)
        for name, n in zip(("src", "dst"), ranks):
            shapes = [[(max(1, total // n), row) for row in layer] for layer in rows]
            job[name] = [self.pages(shapes, [(blocks, size)] * n_layers) for _ in range(n)]
        n = self.pick(1, blocks)
        lists = [self.random.sample(range(blocks), n) for _ in range(2)]
        job["blocks"] = [list(pair) for pair in zip(*lists)]
        self.tokens(job, n, size)
        return job

    def job(self):
        self.sizes = {}
        kind = self.random.choice(("gather_or_scatter", "gather_or_scatter", "copy", "swap",
                                   "reshard"))
        job = getattr(self, kind)()
        used = set()
        for side in (job["src"], job.get("dst", {})):
            for one in side if isinstance(side, list) else [side]:
                used.update(one.get("buffers", one.get("files", [])))
        return job, {name: self.random.randbytes(size) for name, size in self.sizes.items()
                     if name in used}


def all_pages(job):
    for name in ("src", "dst"):
        side = job.get(name, {})
        for one in side if isinstance(side, list) else [side]:
            yield from one.get("layers", [])


def spoil(job, rng):
    """Changes one thing of a job, which may or may not be wrong then."""
    big = rng.choice((1 << 20, 1 << 40, (1 << 62) + 1))
    ids = [name for name in ("slots", "src_slots", "dst_slots", "blocks") if name in job]
    kind = rng.choice(("id", "id", "layer", "count", "plane", "plane", "shape", "chunk", "twice"))
    if kind == "id":
        ids = job[rng.choice(ids)]
        i = rng.randrange(len(ids))
        if isinstance(ids[i], list):
            ids[i][rng.randrange(2)] = rng.choice((big, -1, 9))
        else:
            ids[i] = rng.choice((big, -1, 50))
    elif kind == "layer":
        job["layers"] = [rng.choice((0, 1, 4, -1, big))]
    elif kind == "count" and job["op"] != "swap":
        name = rng.choice(("tokens", "skip_tokens") if "blocks" in job else ("skip_tokens",))
        job[name] = rng.choice((0, 3, 10, big, -1))
    elif kind == "plane":
        plane = rng.choice(rng.choice(list(all_pages(job)))["planes"])
        name = rng.choice(("offset", "block_stride", "token_stride", "head_stride", "row_bytes",
                           "heads"))
        plane[name] = rng.choice((big, plane[name] + 1, max(1, plane[name] - 1), 1))
    elif kind == "shape":
        pages = rng.choice(list(all_pages(job)))
        if rng.random() < 0.3 and len(pages["planes"]) > 1:
            pages["planes"].pop()
        else:
            name = rng.choice(("num_blocks", "block_size"))
            pages[name] = rng.choice((1, pages[name] + 1, big))
    elif kind == "chunk":
        for name in ("src", "dst"):
            chunk = job.get(name, {})
            if isinstance(chunk, dict) and "chunk" in chunk:
                what = rng.choice(("offset", "tokens", "chunk", "files"))
                if what == "chunk":
                    chunk[what] = rng.choice(FORMS)
                elif what == "files":
                    chunk[what].append(chunk[what][0])
                else:
                    chunk[what] = rng.choice((big, chunk[what] + 1))
    elif kind == "twice":
        ids = job[rng.choice(ids)]
        ids[rng.randrange(len(ids))] = ids[0]
