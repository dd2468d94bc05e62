"""Calls of functions of texts, as `function_calls.py` reads them: name -> arguments."""

from __future__ import annotations

_PATTERNS = [
    r"r'\d+'", "'[aeiou]'", "'^[a-z]+$'", r"r'(\w+) (\w+)'", "'a|b'", r"r'\s'", "'a.c'", "'(?i)hello'",
    r"r'[^\w\s]'", "'l{2}'", "'(a)(b)?'", r"r'\.'", "'ß'", r"r'\u2028'", "'.$'", "'o.*?l'", "'(?:ab)+c'",
    r"r'[\d,;:-]+'", "'x+'", "'😀'", "'[à-ý]'",
]  # fmt: skip
_MAYBE_EMPTY = ["'x*'", "''", "'^'", "'$'", "'(a|)'"]
_LIKES = [
    "s, '%a%'", "s, 'a%'", "s, '%c'", "s, '_'", "s, '%a_%'", r"s, r'%\%'", r"s, r'%\_%'", "s, ''", "s, '%'",
    "s, w", "w, 'a_'", "s, '100!%', '!'", "w, w2", "s, NULL", "s, '%\\n%'", "s, 'line_break'", "s, '%(%'",
    "s, '__'", r"s, r'back\\slash'",
]  # fmt: skip

TEXTS: dict[str, list[str]] = {
    "upper": ["s", "w"],
    "lower": ["s", "w"],
    "initcap": ["s", "w"],
    "soundex": ["s", "w", "'Ashcraft'", "'Tymczak'", "'Honeyman'", "''", "'123'"],
    "ascii": ["s", "w", "'😀'"],
    "chr": ["n", "l", "k", "65", "256", "321"],
    "translate": ["s, 'abc', 'xy'", "s, 'eaß', 'éäs'", "s, '', 'x'", "s, w, w2", "s, 'aab', '123'"],
    "mask": ["s", "s, 'U'", "s, 'U', 'l'", "s, 'U', 'l', 'd', 'o'", "s, NULL, 'l', NULL", "w"],
    "substring": [
        "s, 2, 3", "s, n", "s, -3, 2", "s, 0, 4", "s, n, n2", "bin, 2, 2", "s, -100, 99", "s, 3, -1",
        "s, 1, 0", "s, -3", "s, n, -1", "bin, n",
    ],
    "substr": ["s, 2"],
    "left": ["s, 3", "s, n", "bin, 2", "s, -1"],
    "right": ["s, 3", "s, n", "s, 0"],
    "overlay": ["s, 'XX', 3", "s, w, n2, 1", "s, w, n, n2", "s, '', 2, 3", "bin, bin2, 2, 1"],
    "substring_index": [
        "s, ',', 1", "s, ',', 2", "s, ',', -1", "s, 'a', n", "s, '', 1", "'aaaa', 'aa', 2",
        "'aaaa', 'aa', -2", "s, w, -1",
    ],
    "split_part": [
        "s, ',', 1", "s, ',', 3", "s, ',', -1", "s, 'a', n2", "s, '', 1", "s, w, 2", "s, '.', 1",
    ],
    "find_in_set": ["w, 'a,b,ab'", "w, s", "'', 'a,,b'", "'a,b', 'a,b'"],
    "elt": ["1, w, w2", "n2, w, w2, s, s2, 'x'", "2, bin, bin2", "NULL, 'a', 'b'"],
    "trim": ["s", "s, 'a '", "s, w", "s, ''", "s, 'ßS'"],
    "btrim": ["s", "s, 'a '", "s, w"],
    "ltrim": ["s", "s, 'a '", "s, w"],
    "rtrim": ["s", "s, 'a '", "s, w"],
    "lpad": [
        "s, 8", "s, 8, '*'", "s, n, 'ab'", "s, 3, ''", "w, 6, w2", "s, 0, 'x'", "s, -1, 'x'", "s, 12, 'ß😀'",
    ],
    "rpad": [
        "s, 8", "s, 8, '*'", "s, n, 'ab'", "s, 3, ''", "w, 6, w2", "s, 0, 'x'", "s, -1, 'x'", "s, 12, 'ß😀'",
    ],
    "repeat": ["w, 3", "s, n", "s, 0", "'ab', n"],
    "space": ["n", "3"],
    "length": ["s", "bin", "w", "'😀'"],
    "char_length": ["s"],
    "octet_length": ["s", "bin"],
    "bit_length": ["s", "bin"],
    "concat_ws": [
        "',', w, w2", "w, s, s2", "',', aw", "'-', w, aw, s", "','", "NULL, w", "',', n, w", "',', NULL, w",
    ],
    "contains": ["s, 'a'", "s, w", "s, ''", "bin, bin2", "s, NULL"],
    "startswith": ["s, 'a'", "s, w", "s, ''", "bin, bin2"],
    "endswith": ["s, 'c'", "s, w", "s, ''", "bin, bin2"],
    "instr": ["s, 'a'", "s, 'ß'", "s, w", "s, ''", "'日本語', '語'"],
    "locate": [
        "'a', s", "w, s", "'a', s, 2", "w, s, n", "'', s, 3", "'a', s, NULL", "'b', s, 0", "NULL, s, 1",
        "'語', s",
    ],
    "position": ["'a', s"],
    "like": _LIKES,
    "ilike": ["s, '%A%'", "s, 'STRASSE'", "s, '%É%'", "w, 'AB'", "s, w", "s, '%ΣΣ%'", "s, 'a!%', '!'"],
    "replace": ["s, 'a', 'bb'", "s, 'a'", "s, '', 'x'", "s, w, w2", "s, 'ß', 'ss'", "s, 'aa', 'a'"],
    "levenshtein": ["s, s2", "w, w2", "'kitten', 'sitting'", "s, ''", "s, s2, 5", "w, w2, 1", "w, w2, 0"],
    "encode": [
        "s, 'UTF-8'", "w, 'us-ascii'", "s, 'utf-16'", "s, 'utf-16le'", "s, 'UTF-32'", "w, 'iso-8859-1'",
        "'', 'utf-16'",
    ],
    "decode": [
        "encode(s, 'utf-8'), 'utf-8'", "encode(s, 'utf-16'), 'utf-16'", "encode(s, 'utf-32'), 'utf-32'",
        "bin, 'iso-8859-1'",
    ],
    "base64": ["bin", "s", "w", "encode(repeat('abc', 40), 'utf-8')"],
    "unbase64": ["base64(bin)", "base64(s)", "'QUI='", "'QU I'", "'QUJD!'", "''"],
    "url_encode": ["s", "w", "'a b&c=d~*-._'"],
    "url_decode": ["url_encode(s)", "w", "'a%20b+c'", "'%C3%9F'", "'%FF'"],
    "luhn_check": ["s", "nt", "'4111111111111111'", "''", "'0'"],
    "quote": ["s", "w"],
    "format_number": [
        "d, 2", "e1, 0", "n, 3", "l, 1", "dec, 1", "dec2, 3", "d, n", "u, 4", "double(2.5), 0", "f, 2",
        "k, -1", "t, 0", "big, 2",
    ],
    "format_string": [
        "'%s-%s', w, w2", "'%d|%5d|%-5d|%05d', n, n, n, n", "'%,d', l", "'%+d', n", "'%x %X', n, k",
        "'%.2f', e1", "'%f', d", "'%10.3f|', e1", "'%s %s', n, b", "'%5s|%-5s|', w, w", "'%%%n', w",
        "'%s', d", "'%s', NULL", "'no'", "'%.1s', w", "'%,.2f', d", "'%08.2f', e1", "'% d', n", "'%x', t",
        "'%5s', NULL",
    ],
    "rlike": [f"s, {pattern}" for pattern in [*_PATTERNS, *_MAYBE_EMPTY]],
    "regexp_count": [f"s, {pattern}" for pattern in _PATTERNS],
    "regexp_extract": [
        *[f"s, {pattern}, 0" for pattern in [*_PATTERNS, *_MAYBE_EMPTY]], r"s, r'(\w+) (\w+)'",
        r"s, r'(\w+) (\w+)', 2", "s, '(a)(b)?', 2",
    ],
    "regexp_extract_all": [
        *[f"s, {pattern}, 0" for pattern in _PATTERNS], r"s, r'(\w)(\w)', 2", "s, '(a)(b)?', 2",
        r"s, r'([a-c])'",
    ],
    "regexp_substr": [f"s, {pattern}" for pattern in [*_PATTERNS, *_MAYBE_EMPTY]],
    "regexp_instr": [f"s, {pattern}" for pattern in [*_PATTERNS, *_MAYBE_EMPTY]],
    "regexp_replace": [
        *[f"s, {pattern}, '<>'" for pattern in _PATTERNS], r"s, r'(\w+) (\w+)', '$2 $1'",
        r"s, r'(\w)(\d)?', '[$0$2]'", r"s, 'a', r'\$\\'", r"s, '(b)', '$12'",
    ],
    "split": [
        *[f"s, {pattern}" for pattern in _PATTERNS], "s, ','", "s, ',', 2", "s, '[,:]', 0", "s, '', 3",
        "s, ''", "s, 'a', n", "s, ',', 1", "s, ''",
    ],
}  # fmt: skip
