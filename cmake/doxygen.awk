# SPDX-License-Identifier: MIT
# Filters files of this repository for Doxygen (Doxyfile, FILTER_PATTERNS).
#
# Headers: the first comment of a header describes the file; its folder is a group. Members of protocols, as the `vjp`
# of operations or the `syntax` of options, are described once, here and at the protocol; members of plain structs by
# the comment of the struct. A member with a comment keeps it.
#
# Pages: headings become anchors, links to pages and headers lead to the site, and other links become names.

function protocol(names, text,   n, part, i) {
  n = split(names, part, " ")
  for (i = 1; i <= n; ++i) meaning[part[i]] = text
}

BEGIN {
  protocol("extents args kind_of form_of grad", "Part of every Expr.")
  protocol("differentiable shape_of checks vjp eval accumulates outputs optional_outputs sized_output columns received " \
           "edge repeated_by scratch needs_scratch domain_of output_extents output_kind apply takes_stacks parts receives " \
           "goes_on",
           "Part of an operation; see `operation`.")
  protocol("f vectorizable", "Part of a pointwise operation; see `pointwise`.")
  protocol("syntax meaning without standard several accepts",
           "What a kind of options says of itself; see `option_kind`.")
  protocol("initializer", "How the parameter starts.")
  protocol("losses", "Losses, [1, 1] each.")
  protocol("observed", "Selections that can be observed.")
  protocol("sees dense range", "Part of an AttentionMask.")
  protocol("element", "Element (row, column) of the leaf, which a Module fills.")
  protocol("model_dim head_dim heads kv_heads context_dim experts top_k shared_heads routed_heads routed_top_k " \
           "expert_heads split expert_capacity hidden_dim",
           "A size of the layer; see the page of layers.")
  protocol("own_heads own_experts", "What is here of a size of the layer: all, or this rank's share.")
  protocol("W_g W_noise W_q W_k W_v W_o W_s W_r W_h W_1 W_2 W_3 W_up W_gate W_down W_up_s W_gate_s W_down_s " \
           "W_head W_merge",
           "A parameter of the equations.")
  protocol("b_q b_k b_v b_o b_1 b_2 b_head b_merge b_s gain_q gain_k bias_q bias_k query_embedding temperature",
           "A parameter of the equations.")
  protocol("gate index chosen route", "Part of a RouterPolicy.")
  protocol("scalar host_memory wide", "Part of a BackendPolicy.")
  protocol("concurrency parallel_for", "Part of an Executor.")
  protocol("has option_of option_set O block base",
           "What the options of the layer say, or the block that it is made of.")
  protocol("at row unit_stride one_col aligned lazy_row loaded", "Part of a lowered tree: see contract/lowered_tree.hpp.")
  protocol("in_row", "One row of the operation, for programs whose rows are worked on one by one.")
  protocol("value", "The number, or the rule of the element.")
  protocol("of", "Its parameters and equations for the given sizes.")
  protocol("validate validates put gradient problem problem_without_outputs", "Part of the operation of attention.")
  protocol("holds text", "Part of a rule about extents.")
  protocol("cross gated per_sequence every_head is_dynamic left_out routes grouped all",
           "True, or the number, for the options that are given.")
  protocol("matrices linear sum product", "Part of `weights::policy`.")
  # For tables of pages: in Doxygen 1.9 even an escaped bar ends a cell, so another character replaces it.
  split("\\ \\\\ \" &quot; < &lt; > &gt; & &amp; # \\# * \\* _ \\_ @ \\@ % \\% | \xe2\x88\xa3", pair, " ")
  for (i = 1; i in pair; i += 2) entity[pair[i]] = pair[i + 1]
  "pwd -P" | getline root
}

FNR == 1 {
  page = FILENAME ~ /\.md$/
  equations = FILENAME ~ /\/(layer|router)\/[a-z_]+\.hpp$/
  # Members that the comment of a class describes.
  plain = FILENAME ~ /\/(contract|expr|program|count|core)\/[a-z_\/]+\.hpp$/
  device = FILENAME ~ /\/(emulated\.hpp|emulated_sm90\.hpp|sm80\.cuh|stream\.cuh|blas\.cuh)$/
  backend = FILENAME ~ /\/backend\/[a-z_]+\.hpp$/
  reading = 1 # the comment at the head of a header
  described = 0
  held = ""
  group = FILENAME
  if (!sub(/.*\/headmix\//, "", group) || !sub(/\/.*/, "", group)) group = ""
}

# ---- pages ----

function identifier(path) {
  gsub(/[^A-Za-z0-9]+/, "_", path)
  return "page" path
}
function slug(title) {
  title = tolower(title)
  gsub(/[^a-z0-9 -]/, "", title)
  gsub(/ /, "-", title)
  return title
}
# `path` relative to the folder of this page, from the repository's root.
function from_root(path,   folder) {
  folder = substr(FILENAME, length(root) + 2)
  if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
  while (sub(/^\.\.\//, "", path)) {
    if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
  }
  return folder == "" ? path : folder "/" path
}
function link(text, target,   path, anchor) {
  if (target ~ /^[a-z]+:/) return "[" text "](" target ")"
  anchor = target
  if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
  path = target
  sub(/#.*/, "", path)
  path = path == "" ? substr(FILENAME, length(root) + 2) : from_root(path)
  if (path ~ /\.svg$/) {
    sub(/.*\//, "", path)
    return "[" text "](" path ")"
  }
  if (path ~ /\.md$/) {
    if (anchor == "") return "[" text "](@ref " (path == "README.md" ? "index" : identifier(path)) ")"
    return "[" text "](@ref " identifier(path) "_" anchor ")"
  }
  if (path ~ /^include\/.*\.(hpp|cuh)$/ && path !~ /backend\/cpu\/|cuda\/(dispatch|kernel)\/|testing\/(conformance|emulator)\//) {
    sub(/^include\//, "", path)
    return "[" text "](@ref " path ")"
  }
  return text == path ? "`" text "`" : text " (`" path "`)"
}

# `text` as code. In Doxygen 1.9 a backslash before a quote or a bar ends text between backticks.
function quoted(text,   out, i, c) {
  gsub(/\\\|/, "|", text)
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    out = out (c in entity ? entity[c] : c)
  }
  return "<code>" out "</code>"
}

page && /^```/ { code = !code }
page && !code && /^#+ / {
  level = $1
  title = $0
  sub(/^#+ /, "", title)
  path = substr(FILENAME, length(root) + 2)
  if (level == "#") {
    print level " " title " {#" (path == "README.md" ? "mainpage" : identifier(path)) "}"
  } else {
    print level " " title " {#" identifier(path) "_" slug(title) "}"
  }
  next
}
page && !code {
  line = ""
  rest = $0
  while (/^\|/ && match(rest, /`"([^"`\\]|\\.)*"`/)) {
    line = line substr(rest, 1, RSTART - 1) quoted(substr(rest, RSTART + 1, RLENGTH - 2))
    rest = substr(rest, RSTART + RLENGTH)
  }
  rest = line rest
  line = ""
  while (match(rest, /\[[^][]*\]\([^)]*\)/)) {
    part = substr(rest, RSTART + 1, RLENGTH - 2)
    i = index(part, "](")
    line = line substr(rest, 1, RSTART - 1) link(substr(part, 1, i - 1), substr(part, i + 2))
    rest = substr(rest, RSTART + RLENGTH)
  }
  print line rest
  next
}
page { print; next }

# ---- headers ----

# Names in a comment are not HTML tags.
function escaped(text) {
  gsub(/[<>@\\]/, "\\\\&", text)
  return text
}
function described_line(text) {
  sub(/^\/\/ ?/, "", text)
  return text ~ /^  / ? "    " text : escaped(text) # indented text is code
}
reading && /^\/\/ SPDX/ { print "//"; next }
reading && /^#pragma once/ { print; next }
reading && /^\/\// {
  if (!described) printf "/** @file\n"
  described = 1
  text = described_line($0)
  if (text ~ /^    / && last !~ /^    / && last != "") printf "\n"
  last = text
  print text
  next
}
reading {
  reading = 0
  last = ""
  if (described) printf "*/ "
  if (group != "") printf "/** @addtogroup %s */ /** @{ */ ", group
  documented = 0
}

# The three strings of a kind of options as one declaration each.
/static constexpr char const \*syntax =/ {
  strings = $0
  while (strings !~ /;/ && (getline more) > 0) strings = strings more
  gsub(/, +\*meaning =/, "; /** What it does. */ static constexpr char const *meaning =", strings)
  gsub(/, +\*without =/, "; /** What holds without it. */ static constexpr char const *without =", strings)
  printf "/** How it is written. */ "
  $0 = strings
  documented = 1
}

# Several names of one type as one declaration each.
function alone(text, comment,   type) {
  match(text, / [a-z_0-9]+( = [^,;]*)?,/)
  type = substr(text, 1, RSTART)
  gsub(/, /, "; " comment type, text)
  return text
}

# The name that a line declares.
function declared(text,   name) {
  sub(/^ +/, "", text)
  gsub(/\[\[[a-z]+\]\] /, "", text)
  if (text ~ /^(using|struct|class|concept) /) {
    split(text, word, /[ <;:={(]+/)
    return word[2]
  }
  if (text ~ /^(return|if|for|while|else|case|throw|delete|#|})/) return ""
  gsub(/operator *[^a-zA-Z ]+\(/, "operator(", text)
  sub(/[({=;].*/, "", text)
  sub(/\[.*$/, "", text)
  sub(/ +$/, "", text)
  if (text ~ /^[A-Z][A-Za-z_0-9]*$/) return text # a constructor
  if (!match(text, /[ *&][A-Za-z_0-9]+$/)) return ""
  ++RSTART
  return substr(text, RSTART)
}
/^ *(template|requires) ?[<(]/ && !/[;{}]$/ {
  held = held $0 "\n"
  next
}
# The description of a declaration without a comment; nothing if it must have one.
function description(line, name,   member) {
  if (line ~ /\/\/\/</ || line ~ /^ *friend /) return ""
  if (line ~ /^ *(struct|class) [A-Za-z_0-9]+</) return "A case of the template."
  if (line ~ /^ *struct .* : (option_kind|policy|option::[a-z_]+) \{/) return "See `syntax` and `meaning` of the kind."
  if (line ~ /^ *struct .* : (pointwise|operation|reshape) \{/) return "The operation of the function of this name."
  if (line ~ /^struct (option::)?(no_|zero_)[a-z_]+ \{/) return "What holds without the option."
  if (last_name == name "_scratch") return "Its comment is that of " last_name "()."
  if (equations && name != "" && match(line, / \/\/ .*/)) return escaped(substr(line, RSTART + 4)) # beside it
  member = plain && line !~ /^ +return /
  if (member && line ~ /^ +[A-Za-z_0-9:<>,* ]+ [a-z_0-9]+( = [^(]*)?;/ && line !~ /^ +(using|static) /) {
    return "See the class."
  }
  if (name in meaning) return meaning[name]
  if (equations && line ~ /^ +(static constexpr auto|using) /) return "An equation, or a part of one: see the source."
  if (member && line ~ /^ +using [A-Za-z_0-9]+ =/ ||
      member && line ~ /^ +[A-Za-z_0-9:<>,* ]+ [A-Za-z_0-9, =\[\]{}.\-]+;/ && line !~ /^ +using / ||
      member && line ~ /^ +static constexpr (bool|int|Index|std::size_t|char const ?\*) ?[A-Za-z_0-9]+ =/) {
    return "See the class."
  }
  if (device && line ~ /^ ? ? ? ?[A-Za-z_[]/ && line ~ /^ / && name != "") {
    return "Part of the language of kernels: see backend/cuda/device.hpp."
  }
  if (backend && line ~ /^  (void|std::size_t|Index|auto|static|\[\[nodiscard\]\]) ?.*\(/) {
    return "A kernel: see archetype::backend."
  }
  return ""
}

{
  name = declared($0)
  add = documented ? "" : description($0, name)
  if (add != "") printf "/** %s */ ", add
  printf "%s", held
  several = "^ *[A-Za-z_][A-Za-z_0-9:<> ]* [a-z_0-9]+( = [^,;(]+)?(, [a-z_0-9]+( = [^,;(]+)?)+;"
  if ($0 !~ /^ *(using|return) / && match($0, several)) {
    line = substr($0, 1, RLENGTH)
    rest = substr($0, RLENGTH + 1)
    comment = add == "" ? "As the one before." : add
    if (match(rest, /\/\/\/< .*/)) {
      comment = escaped(substr(rest, RSTART + 5))
      printf "/** %s */ ", comment
      rest = ""
    }
    $0 = alone(line, "/** " comment " */ ") rest
  }
  print
  held = ""
  last_name = name
  documented = /^ *\/\/\// || /\*\/ *$/ || (documented && /^ *$/)
}
END {
  if (!page && group != "") print "/** @} */"
}
