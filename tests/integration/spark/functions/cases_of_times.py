"""Calls of functions of dates and times, as `function_calls.py` reads them: name -> arguments."""

from __future__ import annotations

_OF_DATES = ["dt", "ts", "tn", "'2024-02-29'", "NULL", "date_from_unix_date(i)"]
_UNITS = [
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
]
_PARTS = [
    "year", "YEAROFWEEK", "qtr", "month", "week", "day", "dow", "dow_iso", "doy", "hour", "minute",
    "second",
]  # fmt: skip
_FORMATS = [
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSS", "dd/MM/yyyy", "MMM d, yyyy", "EEEE, d MMMM yy",
    "h:mm a", "hh:mm:ss.SSSSSS", "D", "DDD", "k:m:s", "KK''mm", "yyyyMMdd", "E", "y-M-d", "SSSSSSSSS",
    "LL LLL LLLL", "yyyy", "kk", "'o''clock' H''",
]  # fmt: skip

TIMES: dict[str, list[str]] = {
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday"), _OF_DATES),
    "weekofyear": _OF_DATES,
    **{name: ["ts", "tn", "dt", "'2024-02-29 12:34:56'"] for name in ("hour", "minute", "second")},
    "dayname": ["dt", "ts"],
    "monthname": ["dt", "ts"],
    "date_part": [
        *[f"'{part}', {column}" for part in _PARTS for column in ("ts", "tn", "dt")],
        *[f"'{part}', date_from_unix_date(i)" for part in _PARTS[:9]],
        *[f"'{part}', du" for part in ("day", "hour", "minute", "second")],
    ],
    "add_months": ["dt, n", "dt, 1", "ts, -13", "dt, 1200", "'2024-01-31', 1"],
    "date_add": ["dt, n", "ts, 1", "'2024-02-28', 2", "dt, t"],
    "date_sub": ["dt, n", "ts, 1", "dt, t"],
    "datediff": ["dt, dt2", "ts, dt", "ts, ts2", "dt, '2024-01-01'"],
    "last_day": ["dt", "ts", "'2023-02-10'"],
    "next_day": ["dt, 'Mon'", "dt, 'sunday'", "dt, 'TH'", "ts, 'fri'", "dt, NULL"],
    "months_between": [
        "ts, ts2", "dt, dt2", "ts, ts2, false", "ts, ts2, b", "'2024-02-29', '2023-02-28'", "tn, ts",
    ],
    "date_trunc": [
        *[f"'{unit}', {column}" for unit in _UNITS for column in ("ts", "dt")], "'MON', ts", "'nope', ts",
        "'DD', tn", "'yy', ts",
    ],
    "trunc": [
        *[f"date_from_unix_date(k), '{unit}'" for unit in ("year", "quarter", "MM", "week")],

        *[f"dt, '{unit}'" for unit in ("year", "quarter", "MM", "week", "day", "nope", "yy")],
        "ts, 'month'",
    ],
    "make_date": ["2024, n2, n2", "n2, 1, 1", "2024, 2, 29", "9999, 12, 31"],
    "unix_date": ["dt"],
    "date_from_unix_date": ["n", "k"],
    "unix_seconds": ["ts", "ts2"],
    "unix_millis": ["ts", "ts2"],
    "unix_micros": ["ts", "ts2"],
    "timestamp_seconds": ["n", "k", "e1", "dec", "round(dec2 / 1000, 3)", "f", "double('NaN')", "1.5"],
    "timestamp_millis": ["n", "k", "1230219000123"],
    "timestamp_micros": ["n", "k", "1230219000123123"],
    "timestamp_add": [
        *[f"'{unit}', n, {column}" for unit in _UNITS for column in ("ts", "tn")], "'DAYOFYEAR', 2, ts",
        "'month', n, dt", "'hour', 5, ts",
    ],
    "timestamp_diff": [
        *[f"'{unit}', ts, ts2" for unit in _UNITS], "'month', dt, dt2", "'day', tn, ts", "'year', dt, ts",
    ],
    "from_utc_timestamp": [f"ts, '{zone}'" for zone in (
        "Europe/Berlin", "+05:30", "UTC", "America/Los_Angeles", "UTC-3",
    )],
    "to_utc_timestamp": [f"ts, '{zone}'" for zone in (
        "Europe/Berlin", "+05:30", "UTC", "America/Los_Angeles", "GMT+2",
    )],
    "convert_timezone": [
        "'Europe/Berlin', tn", "'Europe/Berlin', 'America/New_York', tn", "'UTC', '+01:00', tn",
    ],
    "current_timezone": [""],
    "make_timestamp": [
        "2024, n2, n2, n2, n2, n2", "2024, 2, 29, 23, 59, 60", "2024, 2, 29, 23, 59, 59.999999",
        "2024, n2, 1, 0, 0, 1.5, 'Europe/Berlin'", "2024, 3, 31, 2, 30, 0, 'Europe/Berlin'",
        "2024, 1, 1, 0, 0, NULL", "2024, 1, 1, 0, 0, 0, NULL",
    ],
    "make_timestamp_ltz": ["2024, n2, n2, n2, n2, n2", "2024, n2, 1, 0, 0, 1.5, 'America/New_York'"],
    "make_timestamp_ntz": ["2024, n2, n2, n2, n2, n2", "2024, 2, 29, 23, 59, 60"],
    "make_dt_interval": ["", "n", "n, n2", "n, n2, k", "n, n2, k, 1.25", "0, 0, 0, dec"],
    "date_format": [
        *[f'ts, "{form}"' for form in _FORMATS], "dt, 'yyyy-MM'", "tn, 'HH:mm'", "ts, NULL", "ts, '--'",
        "'2024-02-29', 'EEE'",
    ],
    "from_unixtime": ["n", "k", "k, 'yyyy-MM-dd'", "n, 'HH:mm'", "k, NULL", "l", "l, 'yyyy-MM-dd'"],
    "to_date": [
        "dt", "ts", "tn", "'2024-02-29'", "date_format(dt, 'yyyy-MM-dd'), 'yyyy-MM-dd'",
        "date_format(dt, 'dd/MM/yyyy'), 'dd/MM/yyyy'", "'Feb 1, 2024', 'MMM d, yyyy'", "s, NULL",
    ],
    "to_timestamp": [
        "dt", "ts", "tn", "'2024-02-29 1:2:3'",
        "date_format(ts, 'yyyy-MM-dd HH:mm:ss'), 'yyyy-MM-dd HH:mm:ss'",
        "date_format(ts, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"), \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"",
        "'01:30 pm 5 March 2024', 'hh:mm a d MMMM yyyy'",
        "date_format(ts, 'yyyyMMddHHmmss'), 'yyyyMMddHHmmss'", "'12', 'HH'", "'2024-1-2', 'yyyy-M-d'",
    ],
    "to_timestamp_ltz": ["ts", "'2024-02-29 1:2:3'", "'29.02.2024', 'dd.MM.yyyy'"],
    "to_timestamp_ntz": ["tn", "'2024-02-29 1:2:3'", "'29.02.2024', 'dd.MM.yyyy'"],
    "unix_timestamp": [
        "ts", "dt", "'2024-02-29 01:02:03'", "'29.02.2024', 'dd.MM.yyyy'", "ts, 'yyyy'", "tn",
    ],
    "to_unix_timestamp": ["ts", "dt", "'2024-02-29 01:02:03'", "'29.02.2024', 'dd.MM.yyyy'"],
    "try_to_timestamp": [
        f"'{text}', '{form}'"
        for form, texts in {
            "yyyy-MM-dd": (
                "2024-02-30", "2024-02-29", "24-02-29", "2024-2-29", " 2024-02-29", "2024-02-29 ",
                "02024-02-29", "0000-01-01",
            ),
            "yyyy-M-d H:m": (
                "2024-1-2 3:4", "2024-01-02 03:04", "2024-13-01 0:0", "2024-1-2 24:0", "2024-001-2 3:4",
            ),
            "hh:mm a": ("12:00 AM", "12:30 pm", "00:10 am", "13:00 PM", "1:00 am"),
            "MMM yyyy": ("jan 2024", "JANUARY 2024", "Feb 2024", "xyz 2024"),
            "HH:mm:ss.SSS": ("01:02:03.5", "01:02:03.500", "01:02:03.5001", "01:02:03."),
            "MMMM d": ("March 31", "february 30", "may 1"),
        }.items()
        for text in texts
    ],
    "try_to_date": ["s", "nt", "'2024-02-30', 'yyyy-MM-dd'"],
    "try_make_timestamp": ["2024, n, n, n, n, n"],
}  # fmt: skip
