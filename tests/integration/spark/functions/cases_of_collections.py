"""Calls of functions of arrays, maps and structs, as `function_calls.py` reads them: name -> arguments."""

from __future__ import annotations

_ARRAYS = ["ai", "al", "ad", "aw", "adt", "adec"]
_PAIRS = ["ai, ai2", "ad, ad2", "aw, aw", "ai, al", "adt, adt", "adec, adec", "full, ai"]

COLLECTIONS: dict[str, list[str]] = {
    "array": ["n, n2", "i, l", "d, d2, e1", "w, w2", "n, NULL", "ai, ai2", "dt, dt2", "1, 2"],
    "array_repeat": ["n, 3", "w, n", "ai, 2", "1, 0"],
    "size": [*_ARRAYS, "aai", "m", "mi"],
    "cardinality": ["ai", "m"],
    "array_size": [*_ARRAYS, "aai"],
    "array_contains": [
        "ai, 1", "ai, n", "ad, d", "ad, double('NaN')", "ad, double(0)", "aw, w", "adt, dt", "ai, l",
        "al, n", "adec, dec",
    ],
    "array_position": ["ai, 1", "ai, n", "ad, double('NaN')", "ad, double(0)", "aw, w", "al, l"],
    "array_remove": ["ai, 1", "ai, n", "ad, double('NaN')", "ad, double(0)", "aw, w", "ad, d"],
    "array_max": _ARRAYS,
    "array_min": _ARRAYS,
    "sort_array": [*_ARRAYS, "ai, false", "ad, false", "aw, true"],
    "array_sort": _ARRAYS,
    "array_distinct": _ARRAYS,
    "array_compact": [*_ARRAYS, "aai"],
    "get": ["ai, 0", "ai, n", "aai, 1", "aw, -1", "ad, n2"],
    "element_at": [
        "m, 'a'", "m, w", "mi, n", "mi, 1", "array(n, n2), 1", "array(n, n2), -1", "m, NULL",
    ],
    "try_element_at": ["ai, 1", "ai, n2", "aw, -2", "aai, 2", "m, w", "ad, 100"],
    "array_union": _PAIRS,
    "array_intersect": _PAIRS,
    "array_except": _PAIRS,
    "arrays_overlap": _PAIRS,
    "concat": [
        "w, w2", "s, s2, w", "s, n", "bin, bin2", "ai, ai2", "ai, al", "aw, aw, aw", "", "w, NULL",
        "aai, aai", "d, b", "dt, ts",
    ],
    "reverse": ["s", "w", "ai", "aai", "ad", "n"],
    "flatten": ["aai", "array(ai, ai2)", "array(aw, aw)"],
    "array_join": ["aw, ','", "aw, w", "aw, ',', 'none'", "aw, ',', w", "aw, NULL"],
    "slice": ["ai, 2, 2", "ai, -2, 2", "ai, n2, n2", "aw, 1, 0", "aai, 1, 1", "ad, -9, 3", "ai, 9, 1"],
    "array_append": ["ai, 1", "ai, n", "ad, d", "aw, NULL", "ai, l", "aai, ai"],
    "array_prepend": ["ai, 1", "ai, n", "ad, d", "aw, NULL", "ai, l", "aai, ai"],
    "array_insert": [
        "ai, 1, 9", "ai, n2, n", "ai, -1, 9", "ai, -7, 9", "aw, 9, w", "aai, 2, ai", "ai, 2, NULL",
        "ai, -2, l",
    ],
    "sequence": ["1, n2", "n2, 1", "n, n2", "1, 9, n2", "k, k", "0, n2, 1", "l, l", "9, 1, -3", "5, 5, 0"],
    "map": ["'a', n, 'b', n2", "1, w", "coalesce(n2, 0), 1, coalesce(n2, 1) + 10, 2", "double(0), 1"],
    "map_from_arrays": [
        "array('a', 'b'), array(n, n2)", "array(coalesce(n2, 0)), array(w)", "array('x'), array(NULL)",
        "array('a'), array(ai)",
    ],
    "map_from_entries": ["ae"],
    "map_concat": ["m", "map('p', n), map('q', n2)", "map_from_entries(ae), map('zz', 1)"],
    "map_keys": ["m", "mi"],
    "map_values": ["m", "mi"],
    "map_entries": ["m", "mi"],
    "map_contains_key": ["m, 'a'", "m, w", "mi, n", "mi, 1"],
    "str_to_map": ["s, ';', '~'", "'a:1,b:2,c'", "'a=1&b=2', '&', '='", "'', ',', ':'", "w, ',', ':'"],
    "struct": ["n, w", "n + 1, w", "st.a, st.b, 1", "ai, m"],
    "named_struct": ["'x', n, 'y', w", "'only', NULL", "'a', ai, 'b', 1.5"],
    "arrays_zip": ["ai, aw", "ai, ai2, ad", "aw", "array(n), ai"],
}  # fmt: skip
