"""Judges stored descriptions by what the program declares, and makes the readers of stored values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from headgate.api.declared.keyed_states import StateKind
from headgate.common.errors import StorageError, UsageError
from headgate.common.layered import MISSING
from headgate.common.plain_data import Description, mappings_in, text_in
from headgate.common.settings.options import IGNORE_UNCLAIMED_STATE
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.serde.evolution.judging_types import judge
from headgate.serde.evolution.older_shapes import Reader
from headgate.serde.evolution.undecodable import stored_description
from headgate.serde.serializer import TypeSerializer
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Incompatible, compare
from headgate.state.backend import StoredValue
from headgate.state.canonical.table_layout import stored_type
from headgate.state.state_names import is_stamps
from headgate.state.stored.blob_format import KEY_SERIALIZER, Header, Section
from headgate.state.targets import DeclaredSerializer, map_key_serializer, stored_reader
from headgate.state.targets import Target as Target


def readers_of(
    header: Header,
    targets: Mapping[str, Target],
    max_parallelism: int,
    has_entries: Callable[[Section], bool] = lambda section: bool(section.chunks),
) -> dict[str, Reader]:
    """Return section name -> function that decodes its batches of values, for sections with entries.
    `header`: of a blob; native files next to it are described there as well. `has_entries`: tells whether a
    section has any; without any it may be of any type. A serializer that the program gave may be
    reconfigured. UsageError: a type does not fit, `max_parallelism` is another, or a state with entries is
    not declared.
    """
    if header.max_parallelism != max_parallelism:
        raise UsageError(
            f"the checkpoint was taken with max parallelism {header.max_parallelism} and the program has "
            f"{max_parallelism}; it is part of the stored bytes, so set it to {header.max_parallelism}"
        )
    keys = compare(header.key_schema, KEY_SERIALIZER.describe())
    if isinstance(keys, Incompatible):
        raise UsageError(
            f"the keys of the checkpoint cannot be read by this program: {keys.why}; keys decide where state "
            "is, so they may not change"
        )
    readers = {}
    # Stamps last: an error names the state of the program.
    for section in sorted(header.sections, key=lambda section: is_stamps(section.name)):
        target = targets.get(section.name)
        if not has_entries(section):
            _follow(section, target)
            continue
        if target is None and is_stamps(section.name):
            continue
        if target is None:
            declared = ", ".join(repr(name) for name in targets if not is_stamps(name))
            raise UsageError(
                f"the checkpoint holds state {section.name!r}, which the program does not declare "
                f"(it declares {declared}); declare it, start without the checkpoint, or leave it "
                f"behind with --allow-non-restored-state ({IGNORE_UNCLAIMED_STATE.key}=true)"
            )
        readers[section.name] = value_reader(section, target)
    return readers


def value_reader(section: Section, target: Target) -> Reader:
    """Return a function that decodes batches of a section (bytes, count) into the declared type of `target`.
    It may reconfigure the target's serializer. UsageError, with the state's name: incompatible types.
    """
    stored, current = section.schema, target.schema
    declared = isinstance(target.serializer, DeclaredSerializer)
    if not declared and isinstance(compare(stored, current), AsIs):
        return target.serializer.decode_many
    try:
        with stored_description():
            if stored["kind"] != current["kind"]:
                raise UsageError(f"kind was {text_in(stored, 'kind')} and is {text_in(current, 'kind')}")
            if stored["kind"] == StateKind.MAP:
                _check_map_keys(mappings_in(stored, "of")[0], target.serializer)
            return stored_reader(stored_type(stored), target.serializer)
    except UsageError as error:
        raise UsageError(
            f"state {section.name!r} of the checkpoint cannot be read as the program declares it: {error}; "
            "declare the type as it was, or change it in a way that stored values can follow (see "
            "docs/state-evolution.md)"
        ) from None
    except StorageError as error:
        raise StorageError(f"state {section.name!r} of the checkpoint: {error}") from None


def value_verdict(stored: Description, target: Target) -> Compatibility:
    """Return how values of type `stored`, which :func:`value_reader` accepts, are read: as is, or changed."""
    serializer = target.serializer
    current = serializer.current if isinstance(serializer, DeclaredSerializer) else serializer
    return judge(stored_type(stored), current)


def _follow(section: Section, target: Target | None) -> None:
    # All subtasks write one format, whichever of them has entries; without any a type may change freely.
    if target is not None and isinstance(target.serializer, DeclaredSerializer):
        with suppress(UsageError):
            value_reader(section, target)


def _check_map_keys(stored: Description, current: TypeSerializer[Any]) -> None:
    key = map_key_serializer(current)
    if key is None:
        assert isinstance(current, FormSerializer)
        key = FormSerializer(current.form.inner[0])
    verdict = judge(stored, key)
    if isinstance(verdict, AfterMigration | Incompatible):
        why = verdict.why if isinstance(verdict, Incompatible) else "; ".join(verdict.changes)
        raise UsageError(f"the type of its keys changed ({why}), and keys may not change; only values may")


def stored_value(name: str, target: Target, value: Any) -> StoredValue | None:
    """Return a live value of state `name` encoded for a query, with its type; None if `value` is MISSING,
    that is, there is none. UsageError, with the state's name: the value is not of the declared type.
    """
    if value is MISSING:
        return None
    try:
        return StoredValue(target.schema, target.serializer.encode_checked([value]))
    except UsageError as error:
        raise UsageError(f"state {name!r} cannot be shown: {error}") from None


def value_of(name: str, stored: StoredValue, target: Target) -> Any:
    """Return the value that :func:`stored_value` encoded, read for `target`; UsageError: the type misfits."""
    return value_reader(Section(name, stored.schema, []), target)(stored.data, 1)[0]
