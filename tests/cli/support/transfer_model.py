"""Transfer jobs done row by row. Knows the contract and nothing of the library."""


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
