#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the test units of this folder: for each layer a list of configurations in which every two values of options
that may stand together do so at least once (a covering array of strength 2, by a greedy search).

  python3 tests/definition/generate.py            # writes <layer>_<n>_test.cpp and prints the numbers of pairs
  python3 tests/definition/generate.py --pairs    # also what is left out, with the reason
  python3 tests/definition/generate.py --draw 2   # writes ../differential/drawn.cpp: layers with options drawn by seed 2
"""
import glob
import itertools
import os
import random
import sys

PER_UNIT = 8
FEW = 2  # of each layer on other backends than Reference<double>, where not all configurations are tested
TRIES = 12


class Value:
    """A value of an option: its name, template arguments of the layer, members of layer_options."""

    def __init__(self, name, types=(), data=""):
        self.name, self.types, self.data = name, list(types), data


V = Value
NOT_HERE = "-"  # of an option of another router


def flag(name, member=None, types=None, data=None):
    return [V("no " + name), V(name, types if types is not None else [name], data or f".{member or name} = true")]


MASKS = [
    V("full", [], ""),
    V("causal", ["causal"], ".mask = mask_kind::causal"),
    V("sliding_window", ["sliding_window<3>"], ".mask = mask_kind::window"),
    V("first_and_latest_keys", ["first_and_latest_keys"], ".mask = mask_kind::first_and_latest"),
    V("neighbouring_keys", ["neighbouring_keys"], ".mask = mask_kind::neighbours"),
]
POSITIONS = [
    V("no rope"),
    V("rope<>", ["rope<>"], ".rope_theta = 10000"),
    V("rope<dynamic>", ["rope<dynamic>"], ".rope_theta = 50"),
]
SCORES = [
    V("products"),
    V("cosine_scores", ["cosine_scores<6>"], ".scores = scores_kind::cosine"),
    V("qk_norm", ["qk_norm"], ".scores = scores_kind::layer_norm"),
]
IMAGES = [
    V("no relative bias"),
    V("relative_position_bias", ["relative_position_bias<2, 3, 4>"], ".image_height = 2, .image_width = 3"),
    V("relative_position_bias, pretrained", ["relative_position_bias<2, 3, 4, 3, 5>"],
      ".image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5"),
]
# Maps: by distance, then by place; a cap before or behind them.
SLOPES = [
    V("no alibi"),
    V("alibi", ["alibi"], "{map_kind::alibi}"),
    V("geometric_alibi", ["geometric_alibi"], "{map_kind::geometric_alibi}"),
    V("learned_slope", ["learned_slope"], "{map_kind::learned_slope}"),
]
OWN_MAPS = [
    V("no own map"),
    V("learned_gain", ["learned_gain"], "{map_kind::learned_gain}"),
    V("place_and_head", ["place_and_head"], "{map_kind::place_and_head}"),
]
CAPS = [
    V("no cap"),
    V("cap first", ["soft_cap<2>"], "{map_kind::soft_cap, 2}"),
    V("cap last", ["soft_cap<5, 2>"], "{map_kind::soft_cap, 2.5}"),
    V("soft_cap<dynamic>", ["soft_cap<dynamic>"], "{map_kind::soft_cap, 1.5}"),
]
CONTEXT = [V("self"), V("context_dim", ["context_dim<5>"], ".context_width = 5")]
VALUES = [V("values of the keys' input"), V("value_dim", ["value_dim<3>"], ".value_width = 3")]
PADDED = flag("padded")
KV_HEADS = [V("no kv_heads"), V("kv_heads", ["kv_heads<2>"], ".kv_heads = 2")]
DROPOUTS = {
    "probability_dropout": [V("no probability_dropout"),
                            V("probability_dropout", ["probability_dropout<1, 4>"], ".probability_dropout = 0.25")],
    "output_dropout": [V("no output_dropout"), V("output_dropout", ["output_dropout<1, 4>"], ".output_dropout = 0.25")],
}


def losses(name, *kinds):
    return V(name, ["loss::" + k for k in kinds], ".losses = {" + ", ".join("loss_kind::" + k for k in kinds) + "}")


ROUTER_FACTORS = {
    "softmax": {
        "gating": [V("gating::detached", ["gating::detached"]),
                   V("gating::raw", ["gating::raw"], ".gating = gating_kind::raw"),
                   V("gating::renormalized", ["gating::renormalized"], ".gating = gating_kind::renormalized")],
        "noise": [V("no noise"), V("noise<>", ["noise<>"], ".noise = true"),
                  V("noise, no floor", ["noise<number<0>>"], ".noise = true, .noise_floor = 0")],
        "sampled": [V("none sampled"), V("sampled<1>", ["sampled<1>"], ".sampled = 1"),
                    V("sampled<2>", ["sampled<2>"], ".sampled = 2")],
        "init": [V("zeros"), V("init", ["init<fan_in_uniform>"])],
        "top_k": [V("top 2", [], ".top_k = 2"), V("top 1", [], ".top_k = 1"), V("top 4", [], ".top_k = 4")],
        "softmax_losses": [
            V("default losses", [], ".losses = {loss_kind::load_balance, loss_kind::z}"),
            losses("z, cv_squared", "z", "cv_squared"),
            losses("first_choice_balance, head_balance", "first_choice_balance", "head_balance"),
            losses("z_with_padding, head_balance_unscaled, load_balance", "z_with_padding", "head_balance_unscaled",
                   "load_balance"),
        ],
    },
    "two_stage": {
        "stages": [V("1 and 2 of 5", ["1", "5", "2"], ".top_k = 2, .shared = 1, .routed = 5"),
                   V("2 and 1 of 4", ["2", "4", "1"], ".top_k = 1, .shared = 2, .routed = 4"),
                   V("2 of 6", ["0", "6", "2"], ".top_k = 2, .shared = 0, .routed = 6"),
                   V("all 6 shared", ["6", "0", "0"], ".top_k = 0, .shared = 6, .routed = 0")],
        "scaling": [V("scaling::unit_mean"), V("scaling::paper", ["scaling::paper"], ".paper_scaling = true")],
        "stage_losses": [
            V("default loss", [], ".losses = {loss_kind::head_balance}"),
            losses("cv_squared", "cv_squared"),
            losses("load_balance, z", "load_balance", "z"),
            losses("first_choice_balance, head_balance_unscaled", "first_choice_balance", "head_balance_unscaled"),
        ],
    },
    "query_norm": {
        # Not of two heads: the standardised lengths of two are always 1 and -1 over the root of 2, without a gradient.
        "norms": [V("3 and 1 of 3", ["3", "3", "1"], ".top_k = 1, .shared = 3, .routed = 3"),
                  V("2 of 6", ["0", "6", "2"], ".top_k = 2, .shared = 0, .routed = 6"),
                  V("1 and 3 of 5", ["1", "5", "3"], ".top_k = 3, .shared = 1, .routed = 5")],
        "estimator": [V("estimator::all"), V("estimator::active", ["estimator::active"], ".estimates_active = true")],
        "norm_losses": [
            V("default loss", [], ".losses = {loss_kind::head_balance}"),
            losses("load_balance, first_choice_balance", "load_balance", "first_choice_balance"),
            losses("head_balance_unscaled", "head_balance_unscaled"),
        ],
    },
    "loss_free": {},
}
ROUTER_DATA = {
    "softmax": ".router = router_kind::softmax_top_k",
    "two_stage": ".router = router_kind::two_stage",
    "query_norm": ".router = router_kind::query_norm",
    "loss_free": ".router = router_kind::loss_free",
}


def written(template, *arguments):
    return template + "<" + ", ".join(arguments) + ">"


def with_routers(factors, forbidden, kinds):
    factors["router"] = [V(k, [], ROUTER_DATA[k]) for k in kinds]
    for kind in kinds:
        for name, values in ROUTER_FACTORS[kind].items():
            factors[name] = [V(NOT_HERE)] + values
            for other in kinds:
                for value in factors[name]:
                    if (value.name == NOT_HERE) == (other == kind):
                        forbidden[("router", other), (name, value.name)] = None
    if "softmax" in kinds:
        forbidden[("sampled", "sampled<2>"), ("top_k", "top 1")] = \
            "headmix: a router cannot sample more experts than it chooses"
    if "two_stage" in kinds:
        why = "headmix: TwoStage<shared, 0, 0> takes none of load_balance, first_choice_balance, head_balance, " \
              "head_balance_unscaled and z: all heads are on, so there is no choice to balance; leave the loss out"
        for value in ("load_balance, z", "first_choice_balance, head_balance_unscaled"):
            forbidden[("stages", "all 6 shared"), ("stage_losses", value)] = why


def router_type(c, experts):
    kind = c["router"].name
    if kind == "loss_free":
        return f"LossFreeTopK<{experts}, 2>"
    types = [t for name in ROUTER_FACTORS[kind] for t in c[name].types]
    if kind == "softmax":
        return written("SoftmaxTopK", str(experts), c["top_k"].name[4:], *types)
    return written("TwoStage" if kind == "two_stage" else "QueryNorm", *types)


def attention(factors):
    factors["mask"] = MASKS
    for bias in ("query_bias", "key_bias", "value_bias", "output_bias"):
        factors[bias] = flag(bias)
    factors["kv_heads"] = KV_HEADS
    factors["context"] = CONTEXT
    factors["values"] = VALUES
    factors["padded"] = PADDED
    factors["position"] = POSITIONS
    factors["slopes"] = SLOPES
    factors["own_maps"] = OWN_MAPS
    factors["cap"] = CAPS
    factors.update(DROPOUTS)


MAPS = ("slopes", "own_maps", "cap")


def maps_of(c):
    """The score maps in their order."""
    if "cap" not in c:
        return []
    maps = [c["slopes"], c["own_maps"]]
    maps = [c["cap"]] + maps if c["cap"].name == "cap first" else maps + [c["cap"]]
    return [m for m in maps if m.types]


def options_of(c, layer_factors, rng):
    """The layer's options: in any order, but for maps."""
    types = [t for name in layer_factors if name not in MAPS for t in c[name].types]
    rng.shuffle(types)
    for n, m in enumerate(maps_of(c)):
        types.insert(rng.randint(0, len(types)) if n == 0 else len(types), m.types[0])
    ordered = [m.types[0] for m in maps_of(c)]
    places = [i for i, t in enumerate(types) if t in ordered]
    for place, t in zip(places, ordered):
        types[place] = t
    return types


def multi_head():
    factors, forbidden = {}, {}
    attention(factors)
    factors["scores"], factors["image"] = SCORES, IMAGES
    own = list(factors)
    return factors, forbidden, own, lambda c, options: written("MultiHead", "6", "6", "4", *options), \
        ".family = family::multi_head, .heads = 6", "headmix/layer/multi_head.hpp"


def moh():
    factors, forbidden = {}, {}
    attention(factors)
    factors["scores"], factors["image"] = SCORES, IMAGES
    factors["projections"] = [V("chosen"), V("dense_projections", ["dense_projections"], ".dense_projections = true")]
    own = list(factors)
    with_routers(factors, forbidden, ["softmax", "two_stage", "query_norm", "loss_free"])
    return factors, forbidden, own, lambda c, options: written("Moh", "6", "4", router_type(c, 6), *options), \
        ".family = family::moh, .heads = 6, .experts = 6", "headmix/layer/moh.hpp"


def moa():
    factors, forbidden = {}, {}
    attention(factors)
    own = list(factors)
    with_routers(factors, forbidden, ["softmax", "two_stage", "loss_free"])
    return factors, forbidden, own, lambda c, options: written("Moa", "6", "4", router_type(c, 5), *options), \
        ".family = family::moa, .experts = 5", "headmix/layer/moa.hpp"


def mae():
    factors, forbidden = {}, {}
    attention(factors)
    for name in ("query_bias", "key_bias", "value_bias", "kv_heads"):
        del factors[name]
    factors["left_out"] = [V("1 left out"), V("left_out_heads<2>", ["left_out_heads<2>"], ".left_out = 2")]
    factors["pool"] = [V("default pool"), V("pool::all", ["pool::all"], ".pool = pool_kind::all"),
                       V("pool::prefix", ["pool::prefix"], ".pool = pool_kind::prefix"),
                       V("pool::window", ["pool::window<2>"], ".pool = pool_kind::window")]
    for mask in ("first_and_latest_keys", "neighbouring_keys"):
        forbidden[("mask", mask), ("pool", "default pool")] = \
            "headmix: Mae has no default pool for a mask of your own, which may hide later rows from a query that the " \
            "gate would see; add pool::prefix, pool::window<n> or pool::all"
    factors["gate"] = [V("gate_dim<5>", ["gate_dim<5>"], ".gate_dim = 5"), V("default gate_dim")]
    own = list(factors)
    factors["program"] = [V("mixture")] + [
        V("choice::" + p, [], f".program = program_kind::{p}") for p in ("given", "drawn", "uniform", "best")
    ] + [V("mean", [], ".program = program_kind::mean")]

    def layer(c, options):
        name = written("Mae", "6", "5", "4", *options)
        p = c["program"].name
        return name if p == "mixture" else name + "::mean" if p == "mean" else f"{name}::expert<{p}>"

    return factors, forbidden, own, layer, ".family = family::mae, .heads = 5", "headmix/layer/mae.hpp"


def mh_moe():
    factors, forbidden = {}, {}
    factors["no_head"] = [V("head"), V("no_head", ["no_head"], ".head = false")]
    factors["no_merge"] = [V("merge"), V("no_merge", ["no_merge"], ".merge = false")]
    for name in ("head_bias", "merge_bias", "output_bias"):
        factors[name] = flag(name)
    factors["residual"] = flag("subtoken_residual", "residual")
    factors["shared_expert"] = [
        V("no shared expert"),
        V("shared_expert", ["shared_expert<FeedForward<3>>"], ".shared_expert = {.hidden = 3}"),
        V("shared_expert, gelu", ["shared_expert<FeedForward<5, activation::gelu>>"],
          ".shared_expert = {.hidden = 5, .activation = activation_kind::gelu}"),
        V("shared_expert, ternary", ["shared_expert<FeedForward<4, activation::relu, weights::ternary>>"],
          ".shared_expert = {.hidden = 4, .activation = activation_kind::relu, .ternary = true}"),
    ]
    factors["capacity"] = [V("no capacity"), V("capacity<1>", ["capacity<1>"], ".capacity = 1"),
                           V("capacity<1, 2>", ["capacity<1, 2>"], ".capacity = 0.5"),
                           V("capacity<dynamic>", ["capacity<dynamic>"], ".capacity_rows = 3")]
    factors["padded"] = PADDED
    factors["output_dropout"] = DROPOUTS["output_dropout"]
    own = list(factors)
    factors["split"] = [V("Smoe", [], ".split = 1, .head = false, .merge = false"), V("1 sub-token", [], ".split = 1"),
                        V("2 sub-tokens", [], ".split = 2"), V("3 sub-tokens", [], ".split = 3")]
    factors["activation"] = [V("swiglu"), V("gelu", ["activation::gelu"], ".activation = activation_kind::gelu"),
                             V("relu", ["activation::relu"], ".activation = activation_kind::relu")]
    factors["weights"] = [V("real"), V("ternary", ["weights::ternary"], ".ternary = true")]
    with_routers(factors, forbidden, ["softmax", "two_stage", "loss_free"])
    why = "headmix: two options contradict each other (excludes<{}, {}>)"
    forbidden[("no_head", "no_head"), ("head_bias", "head_bias")] = why.format("no_head", "head_bias")
    forbidden[("no_merge", "no_merge"), ("merge_bias", "merge_bias")] = why.format("no_merge", "merge_bias")
    # Smoe names no_head and no_merge itself.
    for name, other in (("no_head", "head"), ("no_merge", "merge")):
        forbidden[("split", "Smoe"), (name, other)] = None

    def layer(c, options):
        expert = written("FeedForward", "3", *c["activation"].types, *c["weights"].types)
        if c["split"].name == "Smoe":
            options = [t for t in options if t not in ("no_head", "no_merge")]
            return written("Smoe", "6", router_type(c, 5), expert, *options)
        return written("MhMoe", "6", c["split"].data.split(" = ")[1][0], router_type(c, 5), expert, *options)

    return factors, forbidden, own, layer, ".family = family::mh_moe, .experts = 5", "headmix/layer/smoe.hpp"


# Numbers of heads and experts are no powers of two, where the two kinds of slopes of ALiBi are equal.
LAYERS = {"moa": moa, "moh": moh, "multi_head": multi_head, "mh_moe": mh_moe, "mae": mae}


class Search:
    def __init__(self, factors, forbidden):
        self.names = list(factors)
        self.sizes = [len(v) for v in factors.values()]
        number = {name: {v.name: i for i, v in enumerate(values)} for name, values in factors.items()}
        place = {name: i for i, name in enumerate(self.names)}
        n = len(self.names)
        # allowed[f][a][g]: the values of g that may stand with value a of f.
        self.allowed = [[[set(range(self.sizes[g])) for g in range(n)] for _ in range(self.sizes[f])] for f in range(n)]
        for ((f, a), (g, b)) in forbidden:
            f, a, g, b = place[f], number[f][a], place[g], number[g][b]
            self.allowed[f][a][g].discard(b)
            self.allowed[g][b][f].discard(a)
        self.real = [[v.name != NOT_HERE for v in values] for values in factors.values()]
        self.rng = random.Random(46)

    def narrowed(self, domains, f, a):
        """Domains after f has value a; None if one is empty."""
        rest = []
        for g, domain in enumerate(domains):
            left = {a} if g == f else domain & self.allowed[f][a][g]
            if not left:
                return None
            rest.append(left)
        return rest

    def complete(self, start, uncovered):
        domains = [set(range(s)) for s in self.sizes]
        row = [None] * len(self.names)
        gain = 0
        for f, a in start:
            domains = self.narrowed(domains, f, a)
            if domains is None:
                return None, -1
            row[f] = a
        order = [f for f in range(len(row)) if row[f] is None]
        self.rng.shuffle(order)
        for f in order:
            best, value, best_domains = -1, None, None
            choices = list(domains[f])
            self.rng.shuffle(choices)
            for a in choices:
                score = sum(1 for g, b in enumerate(row) if b is not None and ((f, a, g, b) in uncovered))
                if score > best:
                    rest = self.narrowed(domains, f, a)
                    if rest is not None:
                        best, value, best_domains = score, a, rest
            if value is None:
                return None, -1
            row[f], domains = value, best_domains
            gain += best
        return row, gain

    def triples(self):
        """The number of triples of values of which every two may stand together."""
        n = 0
        for f, g, h in itertools.combinations(range(len(self.names)), 3):
            for a, b, c in itertools.product(range(self.sizes[f]), range(self.sizes[g]), range(self.sizes[h])):
                n += self.real[f][a] and self.real[g][b] and self.real[h][c] and b in self.allowed[f][a][g] and \
                    c in self.allowed[f][a][h] and c in self.allowed[g][b][h]
        return n

    def rows(self):
        uncovered, all_pairs = {}, 0
        for f, g in itertools.combinations(range(len(self.names)), 2):
            for a in range(self.sizes[f]):
                for b in range(self.sizes[g]):
                    if self.real[f][a] and self.real[g][b] and b in self.allowed[f][a][g]:
                        if all(self.complete([(f, a), (g, b)], {})[0] is None for _ in range(8)):
                            continue
                        uncovered[f, a, g, b] = uncovered[g, b, f, a] = None
                        all_pairs += 1
        rows = []
        while uncovered:
            best, best_gain = None, -1
            start = next(iter(uncovered))
            for _ in range(TRIES):
                row, gain = self.complete([(start[0], start[1]), (start[2], start[3])], uncovered)
                if gain > best_gain:
                    best, best_gain = row, gain
            rows.append(best)
            for f, g in itertools.permutations(range(len(best)), 2):
                uncovered.pop((f, best[f], g, best[g]), None)
        return rows, all_pairs


HEADER = """// SPDX-License-Identifier: MIT
// Written by generate.py: {}, configurations {} to {} of {}.

#include "{}"

#include "check.hpp"
{}
namespace headmix::definition::{}_{} {{

"""

ROUTERS = ("loss_free_top_k", "softmax_top_k", "two_stage")


def wrapped(text, first, indent):
    """Lines of at most 120 characters, broken behind commas; the first one stands behind `first`."""
    lines, line = [], first
    for word in text.split(", "):
        if len(line) + len(word) + 2 > 120:
            lines.append(line.rstrip())
            line = indent
        line += word + ", "
    return "\n".join(lines + [line[:-2]])


def default_pool(c):
    return ".pool = pool_kind::all" if c["mask"].name == "full" else ".pool = pool_kind::prefix"


def data_of(c, layer_data):
    data = [layer_data]
    expert = [v.data for name, v in c.items() if name in ("activation", "weights") and v.data]
    for name, v in c.items():
        if name in MAPS or name in ("activation", "weights"):
            continue
        text = v.data
        if name == "pool" and v.name == "default pool":
            text = default_pool(c)
        if name == "stage_losses" and v.name == "default loss" and c["stages"].name == "all 6 shared":
            text = ".losses = {}"
        if name in ("no_head", "no_merge") and c["split"].name == "Smoe":
            text = ""
        if text:
            data.append(text)
    if "activation" in c:
        data.append(".expert = {" + ", ".join([".hidden = 3"] + expert) + "}")
    if maps_of(c):
        data.append(".maps = {" + ", ".join(m.data for m in maps_of(c)) + "}")
    return data


# The order of members of layer_options, in which designated initialisers stand.
MEMBERS = ["family", "heads", "mask", "query_bias", "key_bias", "value_bias", "output_bias", "kv_heads",
           "context_width", "value_width", "padded", "rope_theta", "scores", "image_height", "image_width", "trained_height",
           "trained_width", "maps", "probability_dropout", "output_dropout", "dense_projections", "router", "experts",
           "top_k", "shared", "routed", "gating", "noise", "noise_floor", "sampled", "paper_scaling",
           "estimates_active", "losses", "left_out", "gate_dim", "pool", "program", "split", "head", "merge",
           "head_bias", "merge_bias", "residual", "expert", "shared_expert", "capacity", "capacity_rows"]


def split_members(text):
    """'.a = {.b = 1}, .c = 2' as its members."""
    depth, parts, part = 0, [], ""
    for ch in text:
        depth += ch == "{"
        depth -= ch == "}"
        if ch == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += ch
    return [p for p in parts + [part.strip()] if p]


def initialiser(c, layer_data):
    members = {}
    for text in data_of(c, layer_data):
        for m in split_members(text):
            members[m.split(" = ")[0][1:]] = m
    return "{" + ", ".join(members[m] for m in MEMBERS if m in members) + "}", set(members) - set(MEMBERS)


DRAWN = 2  # of each layer
# Values that a random case would have to bind or to set.
UNDRAWN = {"rope<dynamic>", "soft_cap<dynamic>", "capacity<dynamic>", "choice::given", "value_dim"}

DRAWN_HEADER = """// SPDX-License-Identifier: MIT
// Written by definition/generate.py --draw {}: {} layers whose options were drawn at random.

#include "../definition/own_options.hpp"
#include "differential.hpp"
{}
namespace headmix::differential {{
namespace {{

using namespace headmix::definition;

"""


def draw(seed):
    """The text of layers with random options."""
    rng = random.Random(seed)
    headers, structs, entries = set(), "", []
    for name, make in LAYERS.items():
        factors, forbidden, own, layer, _, header = make()
        search = Search(factors, forbidden)
        search.rng = rng
        headers.add(header)
        if "router" in factors:
            headers.update(f"headmix/router/{r}.hpp" for r in ROUTERS)
        drawn = 0
        while drawn < DRAWN:
            row, _ = search.complete([], {})
            if row is None:
                continue
            c = {f: factors[f][row[i]] for i, f in enumerate(factors)}
            values = {v.name for v in c.values()}
            is_image = any(v.startswith("relative_position_bias") for v in values)
            if values & UNDRAWN or (is_image and "context_dim" in values):
                continue
            shape = ["shape.width = 6"]
            shape += ["shape.context_width = 5"] if "context_dim" in values else []
            shape += ["shape.padded = true"] if "padded" in values else []
            shape += ["shape.length = 6"] if is_image else []
            shape += ["shape.contiguous = true"] if name == "mh_moe" else []
            shape += ["shape.reads_padding = true"] if any("z_with_padding" in v for v in values) else []
            n = len(entries)
            structs += f"struct drawn_{n} {{\n"
            structs += wrapped(layer(c, options_of(c, own, rng)) + ";", "  using layer = ", " " * 6) + "\n"
            structs += "  static std::tuple<> sizes(Dice&, Shape& shape) {\n"
            structs += wrapped(", ".join(shape) + ";", "    ", " " * 4) + "\n    return {};\n  }\n};\n"
            entries.append(f'entry<drawn_{n}>("{name}, drawn {drawn}")')
            drawn += 1
    includes = "".join(f'#include "{h}"\n' for h in sorted(headers))
    return DRAWN_HEADER.format(seed, len(entries), includes) + structs + \
        "\n}  // namespace\n\nstd::vector<Entry> drawn_layers() {\n  return {" + \
        ",\n          ".join(entries) + "};\n}\n\n}  // namespace headmix::differential\n"


def main():
    if "--draw" in sys.argv:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential", "drawn.cpp")
        with open(path, "w") as f:
            f.write(draw(int(sys.argv[sys.argv.index("--draw") + 1])))
        return
    folder = os.path.dirname(os.path.abspath(__file__))
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")] or list(LAYERS)
    for name in wanted:
        factors, forbidden, own, layer, layer_data, header = LAYERS[name]()
        search = Search(factors, forbidden)
        rows, pairs = search.rows()
        rng = random.Random(name)
        for old in glob.glob(os.path.join(folder, name + "_[0-9]*_test.cpp")):
            os.remove(old)
        for unit in range(0, len(rows), PER_UNIT):
            last = min(unit + PER_UNIT, len(rows))
            number = unit // PER_UNIT
            routers = "".join(f'#include "headmix/router/{r}.hpp"\n' for r in ROUTERS if "router" in factors)
            text = HEADER.format(name, unit, last - 1, len(rows), header, routers, name, number)
            for n in range(unit, last):
                c = {f: factors[f][rows[n][i]] for i, f in enumerate(factors)}
                type_text = layer(c, options_of(c, own, rng))
                data, unknown = initialiser(c, layer_data)
                assert not unknown, unknown
                text += f"struct configuration_{n} {{\n"
                text += f'  static constexpr char const* name = "{name} {n}";\n'
                text += wrapped(type_text + ";", "  using layer = ", " " * 6) + "\n"
                text += "  static layer_options options() {\n"
                text += wrapped(data + ";", "    return ", " " * 12) + "\n  }\n};\n"
                text += f'TEST_CASE("definition: {name} {n}") {{ check<configuration_{n}>(); }}\n'
                if n + 1 == FEW:
                    text += "#ifndef HEADMIX_DEFINITION_FEW\n"
                text += "\n"
            text += "#endif\n\n" if unit == 0 else ""
            text += f"}}  // namespace headmix::definition::{name}_{number}\n"
            with open(os.path.join(folder, f"{name}_{number}_test.cpp"), "w") as f:
                f.write(text)
        real = [[(f, a) for f, a in enumerate(row) if search.real[f][a]] for row in rows]
        triples = len({t for row in real for t in itertools.combinations(row, 3)})
        print(f"{name}: {len(rows)} configurations, {pairs} pairs and {triples} of {search.triples()} triples of "
              f"values of {len(factors)} options")
        if "--pairs" in sys.argv:
            for ((f, a), (g, b)), why in forbidden.items():
                if why:
                    print(f"  left out: {f} {a} with {g} {b}: {why}")


if __name__ == "__main__":
    main()
