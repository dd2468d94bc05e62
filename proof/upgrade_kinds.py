"""The kinds of change between two versions of a program, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from proof import upgrade_versions as v
from proof.upgrade_versions import Version

Kind = Callable[[Version], None]


def _typed(state: str, of: Any, model: Callable[[Any], Any] | None = None, kind: str = "") -> Kind:
    def change(version: Version) -> None:
        before = version.states[state]
        default = before[2] if not kind or kind == before[0] else None
        version.states[state] = (kind or before[0], of, default)
        version.model.pop(state, None)
        if model is not None:
            version.model[state] = model

    return change


def _config(**settings: Any) -> Kind:
    named = {key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}
    return lambda version: version.config.update(named)


def _set(**attributes: Any) -> Kind:
    def change(version: Version) -> None:
        for name, value in attributes.items():
            setattr(version, name, value)

    return change


def _uid(which: str, allow: bool = False) -> Kind:
    def change(version: Version) -> None:
        version.uids[which] = f"{which}-renamed"
        if allow:
            version.allow = True

    return change


def _gone(allow: bool = False) -> Kind:
    def change(version: Version) -> None:
        del version.states["places"]
        if allow:
            version.allow = True

    return change


def _new(name: str) -> Kind:
    return lambda version: version.states.__setitem__(name, ("value", int, 5))


def _renamed(version: Version) -> None:
    version.states["spots"] = version.states.pop("places")


def _without(field: str) -> Callable[[Any], Any]:
    return lambda value: {key: each for key, each in value.items() if key != field}


OLDER: Final = "execution.sinks.older-snapshot"
CLAIM: Final = {"execution.state-recovery.claim-mode": "CLAIM"}


def _both(*kinds: Kind) -> Kind:
    def change(version: Version) -> None:
        for kind in kinds:
            kind(version)

    return change


def _older(choice: str) -> Kind:
    return lambda version: version.config.update({OLDER: choice})


def _claimed(version: Version) -> None:
    version.config.update(CLAIM)


KINDS: Final[dict[str, Kind]] = {
    "nothing": lambda _: None,
    "int to float": _typed("count", float),
    "int to str": _typed("count", str),
    "int to optional": _typed("count", int | None),
    "int to bytes": _typed("count", bytes),
    "field added": _typed("stats", v.Longer | None, lambda value: {**value, "more": 7}),
    "field without default": _typed("stats", v.Unfilled | None),
    "field removed": _typed("stats", v.Shorter | None, _without("word")),
    "field wider": _typed("stats", v.Wider | None),
    "field of another type": _typed("stats", v.Textual | None),
    "class renamed": _typed("stats", v.Renamed | None),
    "class to dict": _typed("stats", dict[str, int] | None),
    "optional to required": _typed("stats", v.Stats),
    "list wider": _typed("places", float),
    "list of another type": _typed("places", str),
    "list to value": _typed("places", int | None, kind="value"),
    "map values wider": _typed("seen", (str, float)),
    "map values other": _typed("seen", (str, bytes)),
    "map keys other": _typed("seen", (str | None, int)),
    "set loses what told apart": _typed("sides", set[v.OneSided] | None),
    "set elements grow": _typed("sides", set[v.Deeper] | None,
                                lambda found: [{**each, "depth": 3} for each in found]),
    "set to list": _typed("sides", list[v.Place] | None),
    "state gone": _gone(),
    "state left behind": _gone(allow=True),
    "state new": _new("extra"),
    "state with ttl": _both(_new("late"), _set(ttl={"late"})),
    "time to live given": _set(ttl={"count", "seen"}),
    "state renamed": _renamed,
    "keys of another type": _set(key=int),
    "keys of any type": _set(key=Any),
    "keys of a union": _set(key=int | str),
    "keyed uid": _uid("count"),
    "keyed uid left behind": _uid("count", allow=True),
    "source uid": _uid("in"),
    "source is a collection": _set(source="collection"),
    "source is files": _set(source="files"),
    "one reader": _set(readers=1),
    "sink uid": _uid("out"),
    "operator uid": _uid("wait"),
    "map inserted": _set(upper=True),
    "keyed operator gone": _set(keyed=False),
    "operator gone": _set(waits=False),
    "sink added": _set(second_sink=True),
    "operator added": _set(behind=True),
    "operator list wider": _set(list_type=float),
    "operator list other": _set(list_type=str),
    "operator list for all": _set(list_mode="union"),
    "operator list gone": _set(keeps_list=False),
    "parallelism 1": _set(parallelism=1),
    "parallelism 3": _set(parallelism=3),
    "more subtasks than groups": _both(_config(pipeline_max__parallelism=None), _set(parallelism=17)),
    "other key groups": _config(pipeline_max__parallelism=32),
    "fewer key groups": _config(pipeline_max__parallelism=8),
    "key groups not named": _config(pipeline_max__parallelism=None),
    "on rocksdb": _config(state_backend_type="rocksdb"),
    "on the heap": _config(state_backend_type="hashmap"),
    "sink elsewhere": _set(place="elsewhere"),
    "sink rolls": _set(sink={"roll_bytes": 200}),
    "committed since": _set(first={}),
    "committed, taken back": _both(_set(first={}), _older("take-back")),
    "committed, new line": _both(_set(first={}), _older("new-lineage")),
    "shorter buffers": _config(execution_buffer__timeout="1ms"),
    "unaligned": _config(execution_checkpointing_unaligned_enabled=True),
    "aligned": _config(execution_checkpointing_unaligned_enabled=None),
    "with a changelog": _config(state_changelog_enabled=True),
    "without a changelog": _config(state_changelog_enabled=None),
    "whole checkpoints": _config(execution_checkpointing_incremental=None),
    "claimed": _claimed,
    "claimed from elsewhere": _both(_claimed, _set(storage="elsewhere")),
    "claimed without checkpoints": _both(_claimed, _set(checkpoints=False)),
    "claimed by another before": _both(_set(first=CLAIM), _older("take-back")),
    "older": _set(older=True),
    "older, taken back": _both(_set(older=True), _older("take-back")),
    "older, new line": _both(_set(older=True), _older("new-lineage")),
    "older, claimed": _both(_set(older=True), _older("take-back"), _claimed),
    "sink in another format": _set(parquet=True),
    "sink refuses what exists": _set(sink={"if_exists": "refuse"}),
}  # fmt: skip
